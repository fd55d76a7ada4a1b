/* Trainings with --optimizer muon of which each rank has parts of the matrices: with --zero, and in
 * pipelines with --tensor. The bits of one rank, checkpoints that fit all, the memory and the
 * exchanges that were planned, and the end with a killed rank. And adapters, whose matrices are
 * small. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "training.h"

static training_run one, two; /* large: they hold a program's output */

#define MUON  "--optimizer", "muon", "--lr", "1e-2", "--clip", "0.5"
#define SHAPE "--layers", "3", "--heads", "4", MUON
#define PARTS "--mode", "pp-cpu", SHAPE

static void expect_same(const char *const *flags)
{
    training_expect(&two, &test_shared_directory, "other", 0, flags);
    training_assert_same_model(&one, &two);
}

/* Of every stage and number of ranks, over every transport, with buckets of several sizes. */
static void shards_change_no_bits(void **state)
{
    (void)state;
    static const char *const stages[] = {"1", "2", "3"};
    static const char *const ranks[] = {"1", "2", "4"};
    static const char *const micro_batches[] = {"4", "2", "1"};
    static const char *const transports[] = {"shm", "tcp", "zmq"};
    static const char *const buckets[] = {"4096", "100000", "10000000"};
    training_expect(&one, &test_shared_directory, "whole", 0,
                    FLAGS("--ranks", "1", "--micro-batches", "4", SHAPE));
    expect_same(FLAGS("--ranks", "4", SHAPE));
    for (size_t i = 0; i < 9; i++) {
        expect_same(FLAGS("--ranks", ranks[i % 3], "--micro-batches", micro_batches[i % 3], SHAPE,
                          "--zero", stages[i / 3], "--transport", transports[(i + i / 3) % 3],
                          "--bucket-bytes", buckets[(i + 2 * (i / 3)) % 3],
                          i % 2 > 0 ? "--recompute" : "--no-scaling"));
    }
    expect_same(FLAGS("--ranks", "2", "--micro-batches", "2", SHAPE, "--zero", "1", "--timing",
                      "bracketed"));
    training_expect(&one, &test_shared_directory, "shared", 0,
                    FLAGS("--ranks", "4", "--context-ranks", "2", SHAPE));
    expect_same(FLAGS("--ranks", "4", "--context-ranks", "2", SHAPE, "--zero", "3"));
}

/* Of an expert the copies share the matrices, of all else all ranks. */
static void experts_change_no_bits(void **state)
{
    (void)state;
    static const char *const expert_ranks[] = {"1", "2", "4"};
    training_expect(&one, &test_shared_directory, "experts", 0,
                    FLAGS("--ranks", "1", "--micro-batches", "4", "--experts", "4", SHAPE));
    for (size_t i = 0; i < 3; i++) {
        expect_same(FLAGS("--ranks", "4", "--experts", "4", SHAPE, "--zero", "1", "--expert-ranks",
                          expert_ranks[i], "--bucket-bytes", "100000"));
    }
    expect_same(FLAGS("--ranks", "4", "--experts", "4", SHAPE, "--zero", "3"));
    expect_same(FLAGS("--mode", "pp-cpu", "--ranks", "2", "--stages", "1", "--tensor", "2",
                      "--micro-batches", "4", "--experts", "4", SHAPE));
}

static void tensor_ranks_change_no_bits(void **state)
{
    (void)state;
    training_expect(&one, &test_shared_directory, "uncut", 0,
                    FLAGS("--ranks", "1", "--micro-batches", "4", SHAPE));
    expect_same(FLAGS(PARTS, "--ranks", "4", "--stages", "1", "--tensor", "4", "--micro-batches",
                      "4", "--transport", "tcp"));
    expect_same(FLAGS(PARTS, "--ranks", "6", "--stages", "3", "--tensor", "2", "--micro-batches",
                      "4", "--recompute"));
    expect_same(FLAGS(PARTS, "--ranks", "8", "--stages", "2", "--tensor", "2", "--micro-batches",
                      "2", "--pipeline", "1f1b"));
}

/* A training in parts, of all layouts, ends with the bits and the moments of the whole. */
static void checkpoints_fit_all(void **state)
{
    (void)state;
    static const char *const moments[] = {"exp_avg", "exp_avg_sq"};
    static const struct {
        const char *ranks, *micro_batches, *zero, *tensor;
    } parts[] = {{"4", "1", "1", NULL}, {"2", "4", NULL, "2"}, {"2", "2", "3", NULL},
                 {"4", "1", "0", NULL}, {"4", "2", NULL, "2"}, {"2", "2", "2", NULL}};
    char name[96];
    training_expect(&one, &test_shared_directory, "at-once", 0,
                    FLAGS("--ranks", "4", SHAPE, "--save-every", "6"));
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const char steps[] = {(char)('1' + i), '\0'};
        const bool cut = parts[i].tensor != NULL;
        training_expect(&two, &test_shared_directory, "in-parts", 0,
                        FLAGS("--ranks", parts[i].ranks, "--micro-batches", parts[i].micro_batches,
                              SHAPE, "--steps", steps, "--save-every", "6", "--resume", "--mode",
                              cut ? "pp-cpu" : "ddp-cpu", cut ? "--tensor" : "--zero",
                              cut ? parts[i].tensor : parts[i].zero, cut ? "--stages" : "--trace",
                              "1"));
    }
    training_assert_same_model(&one, &two);
    for (size_t i = 0; i < sizeof moments / sizeof moments[0]; i++) {
        (void)snprintf(name, sizeof name, "checkpoints/step-000000006/%s.safetensors", moments[i]);
        training_assert_same_file(&one, name, &two, name);
    }
}

/* Adapters are matrices as others. */
static void adapters_change_no_bits(void **state)
{
    (void)state;
    static const char *const adapter = "adapter_model.safetensors";
    static training_run base;
    training_expect(&base, &test_shared_directory, "adapted", 0,
                    FLAGS("--ranks", "1", "--steps", "1"));
#define LORA MUON, "--checkpoint", base.out, "--lora", "2", "--lora-targets", "all-linear"
    training_expect(&one, &test_shared_directory, "adapters", 0,
                    FLAGS("--ranks", "1", "--micro-batches", "4", LORA));
    training_expect(&two, &test_shared_directory, "other-adapters", 0, FLAGS("--ranks", "4", LORA));
    training_assert_same_file(&one, adapter, &two, adapter);
    training_expect(
        &two, &test_shared_directory, "other-adapters", 0,
        FLAGS("--ranks", "2", "--micro-batches", "2", LORA, "--zero", "1", "--recompute"));
    training_assert_same_file(&one, adapter, &two, adapter);
    training_expect(&two, &test_shared_directory, "adapters-in-parts", 0,
                    FLAGS("--ranks", "4", LORA, "--zero", "1", "--steps", "3", "--save-every", "3",
                          "--resume"));
    training_expect(
        &two, &test_shared_directory, "adapters-in-parts", 0,
        FLAGS("--ranks", "2", "--micro-batches", "2", LORA, "--save-every", "6", "--resume"));
    training_assert_same_file(&one, adapter, &two, adapter);
#undef LORA
}

static double real_of(const json_t *row, const char *key)
{
    return json_number_value(json_object_get(row, key));
}

static json_t *plan_of(const training_run *run, const char *ranks, const char *zero)
{
    static test_program program;
    test_program_start(&program,
                       FLAGS(LAUNCHER_PATH, "plan", "--checkpoint", run->out, "--data", ranks,
                             "--tensor", "1", "--pipeline", "1", "--batch", "2", "--global-batch",
                             "8", "--context", "64", "--precision", "float32", "--optimizer",
                             "muon", "--zero", zero, "--json"),
                       NULL);
    assert_int_equal(test_program_wait(&program), 0);
    json_t *plan = json_loads(program.text[TEST_STDOUT], JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(plan);
    return plan;
}

/* Each rank has what it has planned, and the one with most what `launcher plan` says, to the byte: its
 * part of all parameters' moments, and the room of a matrix; all together exchange all matrices'
 * parts, there and back. */
static void the_record_has_what_was_planned(void **state)
{
    (void)state;
    enum { RANKS = 4 };
    static const char *const stages[] = {"1", "2", "3"};
    for (size_t stage = 0; stage < 3; stage++) {
        double most = 0;
        double exchanged = 0;
        training_expect(&one, &test_shared_directory, "planned", 0,
                        FLAGS("--ranks", "4", "--steps", "2", SHAPE, "--width", "128", "--zero",
                              stages[stage]));
        json_t *plan = plan_of(&one, "4", stages[stage]);
        json_t *manifest = training_manifest(&one);
        const json_t *matrices = training_row(plan, "bill", "what", "matrices");
        const double each = real_of(json_object_get(plan, "memory"), "optimizer");
        assert_string_equal(json_string_value(json_object_get(matrices, "operation")),
                            "all_to_all");
        for (size_t i = 0; i < RANKS; i++) {
            const json_t *rank = json_array_get(json_object_get(manifest, "ranks"), i);
            const json_t *moments = training_row(rank, "state", "purpose", "moments");
            const json_t *rounds = training_row(rank, "exchanges", "kind", "alltoall");
            const double held = real_of(moments, "allocated_bytes");
            assert_true(real_of(moments, "planned_bytes") == held);
            assert_true(real_of(rounds, "calls") == real_of(matrices, "times"));
            most = held > most ? held : most;
            exchanged += real_of(rounds, "bytes");
        }
        assert_true(most == each);
        assert_true(exchanged ==
                    RANKS * real_of(matrices, "times") * real_of(matrices, "payload_bytes"));
        json_decref(manifest);
        json_decref(plan);
    }
}

static void a_killed_rank_is_named(void **state)
{
    (void)state;
    training_start(&one, &test_shared_directory, "killed",
                   FLAGS("--ranks", "4", SHAPE, "--zero", "3", "--steps", "1000000"));
    training_expect_killed(&one, 3);
    training_start(
        &one, &test_shared_directory, "killed-parts",
        FLAGS(PARTS, "--ranks", "2", "--stages", "1", "--tensor", "2", "--steps", "1000000"));
    training_expect_killed(&one, 1);
}

/* It goes on from a checkpoint, with shards of the momentum that are in it. */
static void a_killed_training_goes_on(void **state)
{
    (void)state;
    const char *steps = TEST_HAS_ASAN ? "60" : "200";
    training_expect(&one, &test_shared_directory, "quiet", 0,
                    FLAGS("--ranks", "2", MUON, "--zero", "2", "--steps", steps));
    training_gate_at(20);
    training_start(&two, &test_shared_directory, "again",
                   FLAGS("--ranks", "2", MUON, "--zero", "2", "--steps", steps, "--save-every",
                         "10", "--max-restarts", "2", "--resume", "--keep", "100"));
    training_gate_at(0);
    training_wait_checkpoint(&two, 20);
    assert_int_equal(kill(training_rank_pid(&two, 1), SIGKILL), 0);
    training_open_gate(&two);
    assert_int_equal(test_program_wait(&two.program), 0);
    test_program_assert_no_children();
    assert_has(two.program.text[TEST_STDERR], "starting again: attempt 2 of at most 3");
    training_assert_same_model(&one, &two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shards_change_no_bits),
        cmocka_unit_test(experts_change_no_bits),
        cmocka_unit_test(tensor_ranks_change_no_bits),
        cmocka_unit_test(checkpoints_fit_all),
        cmocka_unit_test(adapters_change_no_bits),
        cmocka_unit_test(the_record_has_what_was_planned),
        cmocka_unit_test(a_killed_rank_is_named),
        cmocka_unit_test(a_killed_training_goes_on),
    };
    return cmocka_run_group_tests(tests, test_shared_directory_make, test_shared_directory_remove);
}
