/* Trainings whose ranks share the tokens of each batch: the same bits over every transport, with shards of the
 * state, with activations computed again, with models that are cut, and in parts. */
#include <math.h>
#include <stdio.h>

#include "training.h"

static training_run one, two; /* large: they hold a program's output */

static void the_bits_are_the_same_however_it_runs(void **state)
{
    (void)state;
    static const char *const transports[] = {"tcp", "zmq", "shm", "shm"};
    static const char *const zero[] = {"0", "1", "2", "3"};
    training_expect(&one, &test_shared_directory, "shared", 0,
                    FLAGS("--ranks", "4", "--context-ranks", "2", "--layers", "2", "--lr", "1e-2",
                          "--transport", "shm"));
    for (size_t i = 0; i < 4; i++) {
        training_expect(&two, &test_shared_directory, "again", 0,
                        FLAGS("--ranks", "4", "--context-ranks", "2", "--layers", "2", "--lr",
                              "1e-2", "--transport", transports[i], "--zero", zero[i],
                              "--bucket-bytes", "20000", i % 2 == 0 ? "--recompute" : "--quiet"));
        training_assert_same_model(&one, &two);
    }
    training_expect(&two, &test_shared_directory, "bracketed", 0,
                    FLAGS("--ranks", "4", "--context-ranks", "2", "--layers", "2", "--lr", "1e-2",
                          "--timing", "bracketed"));
    training_assert_same_model(&one, &two);
}

/* Where the ranks are added up for each micro-batch, slots may be cut between them in any way. */
static void slots_may_be_cut_otherwise(void **state)
{
    (void)state;
    training_expect(&one, &test_shared_directory, "slots", 0,
                    FLAGS("--ranks", "2", "--context-ranks", "2", "--micro-batches", "4", "--lr",
                          "1e-2", "--zero", "2"));
    training_expect(&two, &test_shared_directory, "slots-cut", 0,
                    FLAGS("--ranks", "4", "--context-ranks", "2", "--micro-batches", "2", "--lr",
                          "1e-2", "--zero", "3"));
    training_assert_same_model(&one, &two);
}

/* Copies of the model may be cut into stages, and their layers between ranks. At the end of an epoch batches
 * have few tokens, or none. */
static void copies_may_be_cut(void **state)
{
    (void)state;
    static const struct {
        const char *ranks, *stages, *tensor, *pipeline, *more;
    } cuts[] = {{"8", "2", "1", "1f1b", "--quiet"},
                {"4", "1", "1", "gpipe", "--recompute"},
                {"8", "2", "1", "zb-h1", "--quiet"},
                {"16", "2", "2", "interleaved", "--recompute"}};
    char path[BASE_PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s", test_shared_path("few.jsonl"));
    test_shared_put("few.jsonl", "{\"text\":\"a b c\"}\n{\"text\":\"d e f\"}\n{\"text\":\"g\"}\n"
                                 "{\"text\":\"several words more\"}\n{\"text\":\"h\"}\n");
    for (size_t data = 0; data < 2; data++) {
        const char *const option = data == 0 ? "--lr" : "--data";
        const char *const value = data == 0 ? "1e-2" : path;
        training_expect(&one, &test_shared_directory, "copies", 0,
                        FLAGS("--ranks", "4", "--context-ranks", "2", "--micro-batches", "2",
                              "--layers", "4", "--heads", "4", option, value));
        for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
            training_expect(&two, &test_shared_directory, "cut", 0,
                            FLAGS("--mode", "pp-cpu", "--ranks", cuts[i].ranks, "--stages",
                                  cuts[i].stages, "--tensor", cuts[i].tensor, "--pipeline",
                                  cuts[i].pipeline, cuts[i].more, "--context-ranks", "2",
                                  "--micro-batches", "2", "--layers", "4", "--heads", "4", option,
                                  value));
            training_assert_same_file(&one, "model.safetensors", &two, "model.safetensors");
        }
    }
}

/* A checkpoint has the whole model, whatever part of it a rank takes. */
static void copies_of_a_checkpoint_may_be_cut(void **state)
{
    (void)state;
    char base[BASE_PATH_BYTES];
    training_expect(&one, &test_shared_directory, "whole", 0,
                    FLAGS("--ranks", "1", "--heads", "4"));
    (void)snprintf(base, sizeof base, "%s", one.out);
    training_expect(
        &one, &test_shared_directory, "copies", 0,
        FLAGS("--ranks", "2", "--context-ranks", "2", "--heads", "4", "--checkpoint", base));
    training_expect(&two, &test_shared_directory, "cut", 0,
                    FLAGS("--mode", "pp-cpu", "--ranks", "4", "--stages", "1", "--tensor", "2",
                          "--context-ranks", "2", "--heads", "4", "--checkpoint", base));
    training_assert_same_file(&one, "model.safetensors", &two, "model.safetensors");
}

static void a_training_in_parts_has_the_bits_of_the_whole(void **state)
{
    (void)state;
    static const char *const steps[] = {"2", "4", "6"};
    training_expect(
        &one, &test_shared_directory, "at-once", 0,
        FLAGS("--ranks", "4", "--context-ranks", "2", "--micro-batches", "2", "--lr", "1e-2"));
    for (size_t i = 0; i < 3; i++) {
        training_expect(&two, &test_shared_directory, "in-parts", 0,
                        FLAGS("--ranks", "4", "--context-ranks", "2", "--micro-batches", "2",
                              "--lr", "1e-2", "--steps", steps[i], "--save-every", "6",
                              "--resume"));
    }
    training_assert_same_model(&one, &two);
}

/* Ranks that share batches also share the held-out ones, whose loss is that of one rank. */
static void held_out_sentences_are_shared(void **state)
{
    (void)state;
    training_expect(&one, &test_shared_directory, "alone", 0,
                    FLAGS("--ranks", "1", "--eval-every", "3"));
    training_expect(&two, &test_shared_directory, "held-out", 0,
                    FLAGS("--ranks", "2", "--context-ranks", "2", "--eval-every", "3", "--eval"));
    assert_true(training_last(&one, "heldout_sentences") ==
                training_last(&two, "heldout_sentences"));
    assert_true(fabs(training_last(&one, "heldout_loss") - training_last(&two, "heldout_loss")) <
                1e-5);
    assert_true(fabs(training_last(&one, "loss_global") - training_last(&two, "loss_global")) <
                1e-5);
}

/* Of T tokens, C ranks, width W and L layers each rank exchanges 8 T/C W floats in a layer: q, k and v,
 * attention's output, and the gradients of both. */
static void the_record_has_the_bill(void **state)
{
    (void)state;
    enum { LAYERS = 3, BLOCK = 64, WIDTH = 32, RANKS = 2 };
    static char text[20000];
    char path[BASE_PATH_BYTES];
    for (size_t i = 0; i + 1 < sizeof text; i++) {
        text[i] = (char)("abcdef ghij\n"[i * i % 12]);
    }
    test_shared_put("text.txt", text);
    (void)snprintf(path, sizeof path, "%s", test_shared_path("text.txt"));
    training_expect(&one, &test_shared_directory, "bill", 0,
                    FLAGS("--ranks", "2", "--context-ranks", "2", "--layers", "3", "--data", path));
    json_t *manifest = training_manifest(&one);
    const json_t *training = json_object_get(manifest, "training");
    assert_int_equal(json_integer_value(json_object_get(training, "context_ranks")), RANKS);
    for (size_t i = 0; i < RANKS; i++) {
        const json_t *rank = json_array_get(json_object_get(manifest, "ranks"), i);
        const json_t *row = training_row(rank, "exchanges", "kind", "alltoall");
        assert_true(json_number_value(json_object_get(row, "calls")) == 4.0 * LAYERS);
        assert_true(json_number_value(json_object_get(row, "bytes")) ==
                    8.0 * BLOCK * WIDTH * LAYERS * 4);
    }
    assert_true(training_last(&one, "context_ms") > 0.0);
    assert_true(training_last(&one, "tokens") == BLOCK);
    json_decref(manifest);
}

static void a_killed_rank_is_named(void **state)
{
    (void)state;
    training_start(&one, &test_shared_directory, "killed",
                   FLAGS("--ranks", "4", "--context-ranks", "2", "--steps", "100000"));
    training_expect_killed(&one, 3);
}

static void what_cannot_be_shared_is_refused(void **state)
{
    (void)state;
    training_expect_refused(&one, FLAGS("--ranks", "3", "--context-ranks", "2"),
                            "--context-ranks 2 does not divide the number of ranks, 3");
    training_expect_refused(&one, FLAGS("--ranks", "3", "--context-ranks", "3"),
                            "--context-ranks 3 does not divide the model's heads, 2");
    training_expect_refused(
        &one, FLAGS("--mode", "pp-cpu", "--ranks", "3", "--stages", "1", "--context-ranks", "2"),
        "--context-ranks 2 does not divide the number of pipelines, 3");
    training_expect_refused(
        &one,
        FLAGS("--mode", "pp-cpu", "--ranks", "4", "--tensor", "2", "--stages", "1",
              "--context-ranks", "2"),
        "--context-ranks 2 times --tensor does not divide the model's heads, 2");
    training_expect_refused(
        &one, FLAGS("--mode", "pp-cpu", "--ranks", "8", "--layers", "2", "--context-ranks", "2"),
        "the stages of each pipeline, 4: each stage has a layer at least");
    training_expect(&two, &test_shared_directory, "base", 0, FLAGS("--ranks", "1"));
    training_expect_refused(&one,
                            FLAGS("--ranks", "4", "--checkpoint", two.out, "--context-ranks", "4"),
                            "4 ranks share the tokens of a batch");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bits_are_the_same_however_it_runs),
        cmocka_unit_test(slots_may_be_cut_otherwise),
        cmocka_unit_test(copies_may_be_cut),
        cmocka_unit_test(copies_of_a_checkpoint_may_be_cut),
        cmocka_unit_test(a_training_in_parts_has_the_bits_of_the_whole),
        cmocka_unit_test(held_out_sentences_are_shared),
        cmocka_unit_test(the_record_has_the_bill),
        cmocka_unit_test(a_killed_rank_is_named),
        cmocka_unit_test(what_cannot_be_shared_is_refused),
    };
    return cmocka_run_group_tests(tests, test_shared_directory_make, test_shared_directory_remove);
}
