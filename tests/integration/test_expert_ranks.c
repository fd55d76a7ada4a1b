/* Trainings whose ranks share out the experts of a model: the bits of ranks that have all of them, over every
 * transport, in parts, at the end of an epoch, and however rows are spread. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "training.h"

static training_run one, two; /* large: they hold a program's output */

/* What all ranks report of each step: its losses, the norm of its gradients, and how rows were spread. */
static json_t *reported(const training_run *run)
{
    static const char *const keys[] = {"loss_global", "router_loss", "grad_norm", "busiest_expert"};
    size_t at = 0;
    const json_t *row = NULL;
    json_t *all = json_array();
    json_t *rows = training_timings(run->out);
    json_array_foreach(rows, at, row)
    {
        const bool first = json_integer_value(json_object_get(row, "rank")) == 0;
        for (size_t i = 0; first && i < sizeof keys / sizeof keys[0]; i++) {
            assert_true(json_is_number(json_object_get(row, keys[i])));
            assert_int_equal(json_array_append(all, json_object_get(row, keys[i])), 0);
        }
    }
    json_decref(rows);
    return all;
}

static void expect_same(void)
{
    training_assert_same_model(&one, &two);
    json_t *steps[] = {reported(&one), reported(&two)};
    assert_true(json_array_size(steps[0]) > 0);
    assert_true(json_equal(steps[0], steps[1]));
    json_decref(steps[0]);
    json_decref(steps[1]);
}

/* Of four slots. */
typedef struct layout {
    const char *ranks;
    const char *micro_batches;
    const char *expert_ranks;
    const char *transport;
    const char *zero;
    const char *more;
} layout;

static const layout layouts[] = {
    {"4", "1", "1", "shm", "0", "--quiet"},     {"4", "1", "2", "shm", "1", "--quiet"},
    {"4", "1", "4", "shm", "0", "--recompute"}, {"2", "2", "2", "shm", "1", "--recompute"},
    {"4", "1", "2", "tcp", "0", "--recompute"}, {"4", "1", "4", "tcp", "1", "--quiet"},
    {"2", "2", "2", "tcp", "0", "--quiet"},     {"4", "1", "2", "zmq", "1", "--quiet"},
};
enum { LAYOUTS = sizeof layouts / sizeof layouts[0] };

static void the_bits_are_those_of_ranks_with_all_experts(void **state)
{
    (void)state;
    training_expect(&one, &test_shared_directory, "one", 0,
                    FLAGS("--ranks", "1", "--micro-batches", "4", "--experts", "4", "--layers", "2",
                          "--lr", "1e-2"));
    for (size_t i = 0; i < LAYOUTS; i++) {
        const layout *of = &layouts[i];
        training_expect(&two, &test_shared_directory, "shared", 0,
                        FLAGS("--ranks", of->ranks, "--micro-batches", of->micro_batches,
                              "--expert-ranks", of->expert_ranks, "--transport", of->transport,
                              of->more, "--zero", of->zero, "--experts", "4", "--layers", "2",
                              "--lr", "1e-2", "--bucket-bytes", i % 2 == 0 ? "20000" : "1048576"));
        expect_same();
    }
}

/* There are fewer sentences than slots: ranks have batches of few tokens, or of none. */
static void an_epoch_may_end(void **state)
{
    (void)state;
    char path[BASE_PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s", test_shared_path("few.jsonl"));
    test_shared_put("few.jsonl", "{\"text\":\"a b c\"}\n{\"text\":\"d e f\"}\n{\"text\":\"g\"}\n"
                                 "{\"text\":\"several words more\"}\n{\"text\":\"h\"}\n");
    training_expect(&one, &test_shared_directory, "few", 0,
                    FLAGS("--ranks", "1", "--micro-batches", "8", "--experts", "4", "--layers", "2",
                          "--lr", "1e-2", "--data", path));
    for (size_t i = 1; i < 4; i++) {
        const layout *of = &layouts[i];
        training_expect(&two, &test_shared_directory, "few-shared", 0,
                        FLAGS("--ranks", of->ranks, "--micro-batches",
                              strcmp(of->ranks, "4") == 0 ? "2" : "4", "--expert-ranks",
                              of->expert_ranks, of->more, "--zero", of->zero, "--experts", "4",
                              "--layers", "2", "--lr", "1e-2", "--data", path));
        expect_same();
    }
}

/* A checkpoint has the whole model: any layout goes on with that of any other. */
static void a_training_in_parts_has_the_bits_of_the_whole(void **state)
{
    (void)state;
    static const char *const steps[] = {"2", "4", "6", "8"};
    static const size_t parts[] = {1, 0, 3, 2};
    training_expect(
        &one, &test_shared_directory, "at-once", 0,
        FLAGS("--ranks", "4", "--experts", "4", "--lr", "1e-2", "--steps", "8", "--eval"));
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const layout *of = &layouts[parts[i]];
        training_expect(&two, &test_shared_directory, "in-parts", 0,
                        FLAGS("--ranks", of->ranks, "--micro-batches", of->micro_batches,
                              "--expert-ranks", of->expert_ranks, "--zero", of->zero, "--experts",
                              "4", "--lr", "1e-2", "--steps", steps[i], "--save-every", "2",
                              "--resume", i == 3 ? "--eval" : "--quiet"));
    }
    training_assert_same_model(&one, &two);
    json_t *manifests[] = {training_manifest(&one), training_manifest(&two)};
    json_t *evaluated = json_object_get(manifests[0], "eval");
    assert_true(json_number_value(json_object_get(evaluated, "loss")) > 0.0);
    assert_true(json_equal(evaluated, json_object_get(manifests[1], "eval")));
    json_decref(manifests[0]);
    json_decref(manifests[1]);
}

/* Loss and accuracy after each second step, of rank 0's lines, and what the manifest says of them. */
static json_t *evaluated(const training_run *run)
{
    json_t *manifest = training_manifest(run);
    json_t *all = json_pack("[O, O]", json_object_get(manifest, "eval_curve"),
                            json_object_get(manifest, "eval"));
    assert_non_null(all);
    assert_int_equal(json_array_size(json_array_get(all, 0)), 2);
    json_decref(manifest);
    return all;
}

/* Evaluating with expert ranks, on every transport, finds what ranks with all experts find. */
static void expect_evaluations(const char *data, const char *heldout)
{
    training_expect(&one, &test_shared_directory, "eval", 0,
                    FLAGS("--ranks", "4", "--experts", "4", "--layers", "2", "--lr", "1e-2",
                          "--steps", "4", "--eval-every", "2", "--data", data, "--heldout",
                          heldout));
    json_t *expected = evaluated(&one);
    assert_true(json_number_value(json_object_get(json_array_get(expected, 1), "loss")) > 0.0);
    for (size_t i = 1; i < LAYOUTS; i++) {
        const layout *of = &layouts[i];
        if (strcmp(of->ranks, "4") != 0) {
            continue; /* fewer ranks have other shares of the held-out file */
        }
        training_expect(&two, &test_shared_directory, "eval-shared", 0,
                        FLAGS("--ranks", "4", "--expert-ranks", of->expert_ranks, "--transport",
                              of->transport, of->more, "--zero", of->zero, "--experts", "4",
                              "--layers", "2", "--lr", "1e-2", "--steps", "4", "--eval-every", "2",
                              "--data", data, "--heldout", heldout));
        json_t *found = evaluated(&two);
        assert_true(json_equal(expected, found));
        expect_same();
        json_decref(found);
    }
    json_decref(expected);
}

/* A rank with fewer batches, or none, computes for the others. */
static void evaluations_are_those_of_ranks_with_all_experts(void **state)
{
    (void)state;
    static const char *const names[] = {"pairs.jsonl", "held.jsonl", "held.txt"};
    static char path[3][BASE_PATH_BYTES];
    char text[4000];
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(path[i], sizeof path[i], "%s", test_shared_path(names[i]));
    }
    test_shared_put(names[0], "{\"wrong\":\"he goed\",\"right\":\"he went\"}\n"
                              "{\"wrong\":\"a b\",\"right\":\"a c\"}\n"
                              "{\"wrong\":\"d e f\",\"right\":\"d\"}\n"
                              "{\"wrong\":\"g\",\"right\":\"h\"}\n");
    test_shared_put(names[1], "{\"wrong\":\"he goed\",\"right\":\"he went\"}\n");
    expect_evaluations(path[0], path[1]); /* of one rank */
    for (size_t i = 0; i + 1 < sizeof text; i++) {
        text[i] = (char)("abcdef ghij\n"[i * i % 12]);
    }
    text[sizeof text - 1] = '\0';
    test_shared_put(names[2], text);
    expect_evaluations(path[2],
                       path[2]); /* windows: nothing is decoded, and no rank gets the whole model */
}

/* Sets the routers of a model to zero: each token's logits are equal, and the first experts are chosen. */
static void level_routers(const training_run *run)
{
    size_t size = 0;
    char path[BASE_PATH_BYTES + 32];
    const char *name = NULL;
    json_t *tensor = NULL;
    int found = 0;
    base_error error;
    char *file = training_file(run, "model.safetensors", &size);
    uint64_t header_bytes = 0;
    memcpy(&header_bytes, file, sizeof header_bytes);
    json_t *header = json_loadb(file + sizeof header_bytes, header_bytes, 0, NULL);
    json_object_foreach(header, name, tensor)
    {
        if (strstr(name, "block_sparse_moe.gate") != NULL) {
            const json_t *ends = json_object_get(tensor, "data_offsets");
            const size_t first = (size_t)json_integer_value(json_array_get(ends, 0));
            const size_t end = (size_t)json_integer_value(json_array_get(ends, 1));
            memset(file + sizeof header_bytes + header_bytes + first, 0, end - first);
            found++;
        }
    }
    assert_true(found > 0);
    (void)snprintf(path, sizeof path, "%s/model.safetensors", run->out);
    assert_ok(base_file_write(path, file, size, &error), &error);
    json_decref(header);
    free(file);
}

/* Two experts get all tokens, and the others none: so does a rank. */
static void rows_may_all_go_to_one_rank(void **state)
{
    (void)state;
    char level[BASE_PATH_BYTES];
    training_expect(&one, &test_shared_directory, "level", 0,
                    FLAGS("--ranks", "1", "--experts", "4", "--steps", "1"));
    level_routers(&one);
    (void)snprintf(level, sizeof level, "%s", one.out);
    training_expect(&one, &test_shared_directory, "uneven", 0,
                    FLAGS("--ranks", "4", "--checkpoint", level, "--steps", "1"));
    for (size_t i = 1; i < LAYOUTS; i++) {
        const layout *of = &layouts[i];
        training_expect(&two, &test_shared_directory, "uneven-shared", 0,
                        FLAGS("--ranks", of->ranks, "--micro-batches", of->micro_batches,
                              "--expert-ranks", of->expert_ranks, "--transport", of->transport,
                              of->more, "--zero", of->zero, "--checkpoint", level, "--steps", "1"));
        expect_same();
    }
    json_t *manifest = training_manifest(&two);
    const json_t *experts = json_object_get(manifest, "experts");
    const json_t *layer = json_array_get(json_object_get(experts, "loads"), 0);
    assert_true(json_number_value(json_object_get(experts, "busiest_last")) == 2.0);
    assert_true(json_number_value(json_object_get(experts, "busiest_rank")) >= 2.0);
    for (size_t e = 0; e < 4; e++) {
        assert_true(json_number_value(json_array_get(layer, e)) == (e < 2 ? 0.5 : 0.0));
    }
    json_decref(manifest);
}

/* A value of a rank's list in the manifest. */
static double of_rank(const json_t *rank, const char *list, const char *name, const char *key)
{
    const char *named = strcmp(list, "state") == 0 ? "purpose" : "kind";
    return json_number_value(json_object_get(training_row(rank, list, named, name), key));
}

enum {
    BILL_LAYERS = 3,
    BILL_TOKENS = 128, /* of a rank */
    BILL_WIDTH = 32,
    BILL_EXPERTS = 4,
    BILL_RANKS = 2,
    EXPERT_PARAMS = 3 * BILL_WIDTH * 2 * BILL_WIDTH,
};

/* Every token goes to every expert here, so that a rank sends (N - 1) / N of its rows, and gets as many: rows and
 * results in forward, with a number more for each both ways in backward; and the counts. */
static void check_bill(const json_t *rank, double held_params)
{
    const double rows = (double)BILL_TOKENS * BILL_EXPERTS / BILL_RANKS;
    const double counts = (double)BILL_EXPERTS / BILL_RANKS;
    const double bytes = BILL_LAYERS * 4.0 * (rows * (4 * BILL_WIDTH + 2) + counts);
    const double experts = (double)BILL_LAYERS * EXPERT_PARAMS * BILL_EXPERTS / BILL_RANKS;
    enum { LOSSES = 5 * 8, NORM = 4 };
    assert_true(of_rank(rank, "exchanges", "alltoall", "calls") == 7.0 * BILL_LAYERS);
    assert_true(of_rank(rank, "exchanges", "alltoall", "bytes") == bytes);
    const double sums = training_last(&two, "bytes_sent") - bytes - 4 * (held_params - experts);
    assert_true(sums > LOSSES + NORM);
    assert_true(sums < 1000); /* the norm's parts, losses and counts */
}

static void the_record_has_the_bill(void **state)
{
    (void)state;
    static char text[20000];
    char path[BASE_PATH_BYTES];
    for (size_t i = 0; i + 1 < sizeof text; i++) {
        text[i] = (char)("abcdef ghij\n"[i * i % 12]);
    }
    test_shared_put("text.txt", text);
    (void)snprintf(path, sizeof path, "%s", test_shared_path("text.txt"));
    training_expect(&one, &test_shared_directory, "alone", 0,
                    FLAGS("--ranks", "2", "--experts", "4", "--experts-per-token", "4", "--layers",
                          "3", "--data", path));
    training_expect(&two, &test_shared_directory, "bill", 0,
                    FLAGS("--ranks", "2", "--experts", "4", "--experts-per-token", "4", "--layers",
                          "3", "--data", path, "--expert-ranks", "2"));
    json_t *manifests[] = {training_manifest(&one), training_manifest(&two)};
    const json_t *training = json_object_get(manifests[1], "training");
    assert_int_equal(json_integer_value(json_object_get(training, "expert_ranks")), BILL_RANKS);
    for (size_t i = 0; i < BILL_RANKS; i++) {
        const json_t *rank = json_array_get(json_object_get(manifests[1], "ranks"), i);
        const json_t *whole = json_array_get(json_object_get(manifests[0], "ranks"), i);
        const double all = of_rank(whole, "state", "parameters", "allocated_bytes");
        const double held = of_rank(rank, "state", "parameters", "allocated_bytes");
        /* half of the experts are elsewhere: their parameters, gradients, moments */
        assert_true(held == all - 4.0 * BILL_LAYERS * EXPERT_PARAMS * BILL_EXPERTS / 2);
        assert_true(of_rank(rank, "state", "arena", "allocated_bytes") == held);
        assert_true(of_rank(rank, "state", "moments", "allocated_bytes") == 2 * held);
        assert_true(of_rank(rank, "state", "parameters", "planned_bytes") == held);
        check_bill(rank, held / 4);
    }
    assert_true(training_last(&two, "tokens") == BILL_TOKENS);
    assert_true(training_last(&two, "expert_ms") > 0.0);
    assert_true(training_last(&two, "expert_rows") == BILL_LAYERS * BILL_TOKENS * BILL_EXPERTS);
    assert_true(training_last(&two, "busiest_expert") == 1.0);
    assert_true(isnan(training_last(&one, "expert_ms")));
    assert_true(isnan(training_last(&one, "expert_rows")));
    json_decref(manifests[0]);
    json_decref(manifests[1]);
}

/* With --zero 1 each moment is on one rank: of what all have between all, and of experts between their copies. */
static void moments_are_sharded(void **state)
{
    (void)state;
    double held = 0.0;
    training_expect(&one, &test_shared_directory, "unsharded", 0,
                    FLAGS("--ranks", "4", "--experts", "4", "--layers", "3"));
    training_expect(&two, &test_shared_directory, "sharded", 0,
                    FLAGS("--ranks", "4", "--experts", "4", "--layers", "3", "--expert-ranks", "2",
                          "--zero", "1", "--bucket-bytes", "20000"));
    json_t *manifests[] = {training_manifest(&one), training_manifest(&two)};
    const json_t *whole = json_array_get(json_object_get(manifests[0], "ranks"), 0);
    for (size_t i = 0; i < 4; i++) {
        const json_t *rank = json_array_get(json_object_get(manifests[1], "ranks"), i);
        const double mine = of_rank(rank, "state", "moments", "allocated_bytes");
        assert_true(mine > 0.0);
        assert_true(of_rank(rank, "state", "moments", "planned_bytes") == mine);
        held += mine;
    }
    assert_true(held == of_rank(whole, "state", "moments", "allocated_bytes"));
    json_decref(manifests[0]);
    json_decref(manifests[1]);
}

/* The model is small, and its batches are not: memory is of rows, of which those of experts are a part. */
static void rows_without_room_are_refused(void **state)
{
    (void)state;
    enum { TEXT_BYTES = 3 << 20 };
    char path[BASE_PATH_BYTES];
    char *text = malloc(TEXT_BYTES);
    assert_non_null(text);
    for (size_t i = 0; i + 1 < TEXT_BYTES; i++) {
        text[i] = (char)("abcdef ghij\n"[i * i % 12]);
    }
    text[TEXT_BYTES - 1] = '\0';
    test_shared_put("large.txt", text);
    free(text);
    (void)snprintf(path, sizeof path, "%s", test_shared_path("large.txt"));
    training_expect(&one, &test_shared_directory, "no-room", 1,
                    FLAGS("--ranks", "2", "--experts", "2", "--expert-ranks", "2", "--layers",
                          "512", "--width", "128", "--context", "4096", "--batch", "256", "--data",
                          path));
    assert_has(one.program.text[TEST_STDERR], " GB of this host's memory, and ");
    assert_has(one.program.text[TEST_STDERR], "--recompute and more --expert-ranks take less");
    assert_int_not_equal(access(one.out, F_OK), 0);
}

static void a_killed_rank_is_named(void **state)
{
    (void)state;
    training_start(
        &one, &test_shared_directory, "killed",
        FLAGS("--ranks", "4", "--experts", "4", "--expert-ranks", "2", "--steps", "100000"));
    training_expect_killed(&one, 3);
}

static void what_does_not_go_together_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *flags[4];
        const char *says;
    } cases[] = {
        {{"--ranks", "3", "--expert-ranks", "2"},
         "--expert-ranks 2 does not divide the number of ranks, 3"},
        {{"--ranks", "3", "--expert-ranks", "3"}, "--expert-ranks 3 is no power of two"},
        {{"--ranks", "8", "--expert-ranks", "8"}, "--expert-ranks 8 does not divide --experts 4"},
        {{"--zero", "2", "--expert-ranks", "2"},
         "--expert-ranks 2 does not go with --zero 2 and 3"},
        {{"--context-ranks", "2", "--expert-ranks", "2"},
         "--expert-ranks 2 does not go with --context-ranks"},
        {{"--local-steps", "3", "--expert-ranks", "2"},
         "--expert-ranks 2 does not go with --local-steps"},
        {{"--timing", "bracketed", "--expert-ranks", "2"},
         "--expert-ranks 2 does not go with --timing bracketed"},
        {{"--mode", "pp-cpu", "--expert-ranks", "2"},
         "--expert-ranks 2 goes with mode ddp-cpu, not with pp-cpu"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *const *of = cases[i].flags;
        training_expect_refused(
            &one,
            FLAGS("--ranks", "2", "--experts", "4", "--layers", "2", of[0], of[1], of[2], of[3]),
            cases[i].says);
    }
    training_expect_refused(&one, FLAGS("--ranks", "2", "--expert-ranks", "2"),
                            "--expert-ranks 2 goes with --experts");
    training_expect_refused(
        &one,
        FLAGS("--ranks", "6", "--experts", "4", "--expert-ranks", "2", "--micro-batches", "2"),
        "the number of ranks is no power of two, 6");
    training_expect(&two, &test_shared_directory, "plain", 0, FLAGS("--ranks", "1"));
    training_expect_refused(&one,
                            FLAGS("--ranks", "2", "--checkpoint", two.out, "--expert-ranks", "2"),
                            "--expert-ranks 2: the model has no experts");
    training_expect_refused(
        &one, FLAGS("--ranks", "2", "--checkpoint", two.out, "--lora", "2", "--expert-ranks", "2"),
        "--expert-ranks 2 does not go with --lora");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bits_are_those_of_ranks_with_all_experts),
        cmocka_unit_test(an_epoch_may_end),
        cmocka_unit_test(a_training_in_parts_has_the_bits_of_the_whole),
        cmocka_unit_test(evaluations_are_those_of_ranks_with_all_experts),
        cmocka_unit_test(rows_may_all_go_to_one_rank),
        cmocka_unit_test(the_record_has_the_bill),
        cmocka_unit_test(moments_are_sharded),
        cmocka_unit_test(rows_without_room_are_refused),
        cmocka_unit_test(a_killed_rank_is_named),
        cmocka_unit_test(what_does_not_go_together_is_refused),
    };
    return cmocka_run_group_tests(tests, test_shared_directory_make, test_shared_directory_remove);
}
