/* Whole jobs whose stages are shared by tensor-parallel ranks: replicas × stages × tensor. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "training.h"

static training_run one, two; /* large: they hold a program's output */

typedef struct layout {
    const char *ranks;
    const char *stages;
    const char *tensor;
    const char *micro_batches; /* of a replica */
} layout;

/* Trains in the layout, and compares the model with that of `one`. --clip is far below the norm, so that the
 * norm's bits matter. */
static void expect_same(layout of, const char *const *more)
{
    static int number;
    const char *flags[TRAINING_FLAGS_MAX] = {
        "--mode",   "pp-cpu",  "--ranks",         of.ranks,         "--stages", of.stages,
        "--tensor", of.tensor, "--micro-batches", of.micro_batches, "--clip",   "0.05"};
    char name[64];
    for (size_t i = 0; more[i] != NULL; i++) {
        flags[12 + i] = more[i];
    }
    (void)snprintf(name, sizeof name, "layout-%d", number++);
    training_expect(&two, &test_shared_directory, name, 0, flags);
    training_assert_same_model(&one, &two);
    training_assert_equivalent(&two);
}

static void layouts_train_the_bits_of_one_rank(void **state)
{
    (void)state;
    static const layout layouts[] = {
        {"2", "1", "2", "4"}, {"4", "1", "4", "4"}, {"4", "2", "2", "4"}, {"8", "2", "2", "2"}};
    static const char *const transports[] = {"shm", "tcp", "zmq", "shm"};
    training_expect(&one, &test_shared_directory, "whole", 0,
                    FLAGS("--ranks", "1", "--layers", "3", "--heads", "4", "--micro-batches", "4",
                          "--clip", "0.05"));
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        expect_same(layouts[i], FLAGS("--layers", "3", "--heads", "4", "--pipeline",
                                      i % 2 == 0 ? "1f1b" : "gpipe", "--transport", transports[i]));
    }
    expect_same((layout){"4", "2", "1", "2"},
                FLAGS("--layers", "3", "--heads", "4", "--bucket-bytes", "5000"));
    expect_same((layout){"8", "2", "2", "2"},
                FLAGS("--layers", "3", "--heads", "4", "--pipeline", "zb-h1"));
}

/* Chunks that do not follow each other: on one pipeline and on several, whose stages ranks share. */
static void interleaved_layouts_train_the_bits_of_one_rank(void **state)
{
    (void)state;
#define SHAPE "--layers", "8", "--heads", "4"
    static const struct {
        layout of;
        const char *chunks;
        const char *transport;
        const char *more;
    } cases[] = {
        {{"2", "2", "1", "4"}, "4", "shm", NULL}, {{"2", "2", "1", "4"}, "3", "tcp", "--recompute"},
        {{"4", "4", "1", "4"}, "2", "zmq", NULL}, {{"4", "2", "1", "2"}, "0", "tcp", NULL},
        {{"8", "2", "2", "2"}, "3", "shm", NULL},
    };
    training_expect(&one, &test_shared_directory, "chunks", 0,
                    FLAGS("--ranks", "1", SHAPE, "--micro-batches", "4", "--clip", "0.05"));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        expect_same(cases[i].of,
                    FLAGS(SHAPE, "--pipeline", "interleaved", "--chunks", cases[i].chunks,
                          "--transport", cases[i].transport, cases[i].more));
    }
    expect_same((layout){"1", "1", "1", "4"}, FLAGS(SHAPE, "--pipeline", "interleaved"));
    /* micro-batches that are no power of two, in three stages */
    training_expect(&one, &test_shared_directory, "six", 0,
                    FLAGS("--ranks", "1", SHAPE, "--micro-batches", "6", "--clip", "0.05"));
    expect_same((layout){"3", "3", "1", "6"}, FLAGS(SHAPE, "--pipeline", "interleaved"));
#undef SHAPE
}

/* Eight heads of 4 in a stage that eight ranks share, in micro-batches that are no power of two. */
static void many_ranks_share_a_stage(void **state)
{
    (void)state;
    training_expect(
        &one, &test_shared_directory, "heads", 0,
        FLAGS("--ranks", "1", "--heads", "8", "--micro-batches", "3", "--clip", "0.05"));
    expect_same((layout){"8", "1", "8", "3"}, FLAGS("--heads", "8"));
}

/* Some slots have no sentence: nothing is exchanged for them. */
static void empty_batches_pass_through(void **state)
{
    (void)state;
    static const char text[] = "{\"text\":\"one two three\"}\n{\"text\":\"four five six\"}\n";
    base_error error;
    const char *data = test_shared_path("two.jsonl");
    assert_ok(base_file_write(data, text, sizeof text - 1, &error), &error);
    training_expect(&one, &test_shared_directory, "few", 0,
                    FLAGS("--ranks", "1", "--layers", "4", "--micro-batches", "4", "--data", data,
                          "--clip", "0.05"));
    expect_same((layout){"4", "2", "2", "4"}, FLAGS("--layers", "4", "--data", data));
    expect_same((layout){"2", "2", "1", "4"},
                FLAGS("--layers", "4", "--data", data, "--pipeline", "interleaved"));
}

/* Trains as `one` did, on replicas that compute activations again. */
static void expect_same_of_replicas(const char *name, const char *const *flags)
{
    training_expect(&two, &test_shared_directory, name, 0, flags);
    training_assert_same_file(&one, "model.safetensors", &two, "model.safetensors");
    json_t *manifest = training_manifest(&two);
    const json_t *about = json_object_get(manifest, "training");
    assert_true(json_is_true(json_object_get(about, "recompute")));
    assert_true(json_is_true(json_object_get(manifest, "byte_equivalent")));
    json_decref(manifest);
}

static void recompute_changes_no_bits(void **state)
{
    (void)state;
#define SHAPE "--layers", "3", "--heads", "4"
    training_expect(&one, &test_shared_directory, "kept", 0,
                    FLAGS("--ranks", "1", SHAPE, "--micro-batches", "4", "--clip", "0.05"));
    expect_same_of_replicas("again", FLAGS("--ranks", "2", SHAPE, "--micro-batches", "2", "--clip",
                                           "0.05", "--recompute"));
    expect_same_of_replicas("again-zero", FLAGS("--ranks", "2", SHAPE, "--micro-batches", "2",
                                                "--clip", "0.05", "--recompute", "--zero", "1"));
    expect_same((layout){"3", "3", "1", "4"}, FLAGS(SHAPE, "--pipeline", "1f1b", "--recompute"));
    expect_same((layout){"2", "1", "2", "4"}, FLAGS(SHAPE, "--recompute"));
    expect_same((layout){"8", "2", "2", "2"}, FLAGS(SHAPE, "--pipeline", "gpipe", "--recompute"));
#undef SHAPE
}

/* The most memory that rank 0 had. */
static double peak_of(const char *name, const char *flag)
{
    training_expect(&one, &test_shared_directory, name, 0,
                    FLAGS("--ranks", "1", "--layers", "8", "--width", "128", "--batch", "16",
                          "--steps", "2", flag));
    json_t *manifest = training_manifest(&one);
    const json_t *rank = json_array_get(json_object_get(manifest, "ranks"), 0);
    const double peak = json_number_value(json_object_get(rank, "max_rss_bytes"));
    json_decref(manifest);
    assert_true(peak > 0);
    return peak;
}

/* Of 8 blocks, the rest of 7 is not held: 41 MB of 1024 tokens. */
static void recompute_holds_less(void **state)
{
    (void)state;
    const double rest = 7 * 1024 * (11.0 * 128 + 2 * 2 + 4) * sizeof(float);
    const double kept = peak_of("peak-kept", NULL);
    const double again = peak_of("peak-again", "--recompute");
    if (again > kept - rest / 2) {
        fail_msg("%.0f bytes with --recompute, and %.0f without", again, kept);
    }
}

/* Each rank has a share of the sentences, and for these all parameters. Their number is no multiple of 4. */
static void evaluating_sees_the_whole_model(void **state)
{
    (void)state;
    static const char text[] = "{\"wrong\":\"he goed\",\"right\":\"he went\"}\n"
                               "{\"wrong\":\"i has\",\"right\":\"i have\"}\n"
                               "{\"wrong\":\"she do\",\"right\":\"she does\"}\n"
                               "{\"wrong\":\"we is\",\"right\":\"we are\"}\n"
                               "{\"wrong\":\"it be\",\"right\":\"it is\"}\n";
    base_error error;
    const char *heldout = test_shared_path("heldout.jsonl");
    assert_ok(base_file_write(heldout, text, sizeof text - 1, &error), &error);
    training_expect(&one, &test_shared_directory, "evaluated", 0,
                    FLAGS("--ranks", "1", "--layers", "4", "--micro-batches", "4", "--eval",
                          "--heldout", heldout, "--clip", "0.05"));
    expect_same((layout){"4", "2", "2", "4"}, FLAGS("--layers", "4", "--pipeline", "interleaved",
                                                    "--eval", "--heldout", heldout));
    json_t *whole = training_manifest(&one);
    json_t *parts = training_manifest(&two);
    json_t *wanted = json_object_get(whole, "eval");
    json_t *found = json_object_get(parts, "eval");
    assert_int_equal(json_integer_value(json_object_get(found, "sentences")), 5);
    assert_true(json_number_value(json_object_get(wanted, "loss")) > 0.0);
    assert_true(json_equal(wanted, found));
    json_decref(whole);
    json_decref(parts);
}

static void what_cannot_be_shared_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *flags[6];
        const char *says;
    } cases[] = {
        {{"--ranks", "3", "--tensor", "3"}, "--tensor 3: must be 1, 2, 4, 8 or 16"},
        {{"--ranks", "8", "--tensor", "8"}, "cannot be cut between 8 ranks; it can between 1, 2"},
        {{"--ranks", "3", "--tensor", "2"}, "--tensor 2 does not divide --ranks 3"},
        {{"--ranks", "4", "--tensor", "2", "--stages", "3"}, "does not divide --ranks 4"},
        {{"--mode", "ddp-cpu", "--tensor", "2"}, "--tensor 2 goes with mode pp-cpu"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *const *more = cases[i].flags;
        training_expect_refused(&one,
                                FLAGS("--mode", "pp-cpu", more[0], more[1], more[2], more[3],
                                      more[4], more[4] != NULL ? more[5] : NULL),
                                cases[i].says);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts_train_the_bits_of_one_rank),
        cmocka_unit_test(interleaved_layouts_train_the_bits_of_one_rank),
        cmocka_unit_test(many_ranks_share_a_stage),
        cmocka_unit_test(empty_batches_pass_through),
        cmocka_unit_test(recompute_changes_no_bits),
        cmocka_unit_test(recompute_holds_less),
        cmocka_unit_test(evaluating_sees_the_whole_model),
        cmocka_unit_test(what_cannot_be_shared_is_refused),
    };
    return cmocka_run_group_tests(tests, test_shared_directory_make, test_shared_directory_remove);
}
