/* Whole jobs whose stages are shared by tensor-parallel ranks: replicas × stages × tensor. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    training_assert_same_file(&one, "state-rank-0.safetensors", &two, "state-rank-0.safetensors");
    training_assert_same_file(&one, "model.safetensors", &two, "model.safetensors");
    json_t *manifest = training_manifest(&two);
    assert_true(json_is_true(json_object_get(manifest, "byte_equivalent")));
    json_decref(manifest);
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
    const char *data = test_directory_path(&test_shared_directory, "two.jsonl");
    assert_ok(base_file_write(data, text, sizeof text - 1, &error), &error);
    training_expect(&one, &test_shared_directory, "few", 0,
                    FLAGS("--ranks", "1", "--layers", "2", "--micro-batches", "4", "--data", data,
                          "--clip", "0.05"));
    expect_same((layout){"4", "2", "2", "4"}, FLAGS("--layers", "2", "--data", data));
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
        training_expect(&one, &test_shared_directory, "refused", 2,
                        FLAGS("--mode", "pp-cpu", more[0], more[1], more[2], more[3], more[4],
                              more[4] != NULL ? more[5] : NULL));
        const char *err = one.program.text[TEST_STDERR];
        assert_has(err, cases[i].says);
        assert_ptr_equal(strchr(err, '\n'), err + strlen(err) - 1); /* one line */
        assert_int_not_equal(access(one.out, F_OK), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts_train_the_bits_of_one_rank),
        cmocka_unit_test(many_ranks_share_a_stage),
        cmocka_unit_test(empty_batches_pass_through),
        cmocka_unit_test(what_cannot_be_shared_is_refused),
    };
    return cmocka_run_group_tests(tests, test_shared_directory_make, test_shared_directory_remove);
}
