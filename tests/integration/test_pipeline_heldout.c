/* Held-out loss of whole jobs of --mode pp-cpu: that of data-parallel ranks with the same slots, to the last bit. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "training.h"

static training_run one, two; /* large: they hold a program's output */

#define STEPS "6" /* as training.c has it */
#define SHAPE "--layers", "8", "--heads", "4", "--lr", "1e-2"
#define EVERY "--eval-every", "2", "--keep-best", "--save-every", STEPS

/* So many pairs, of two to four words. */
static const char *pairs_path(int count)
{
    static const char *const nouns[] = {"cat", "dog", "school", "child", "house", "garden", "bird"};
    static char path[BASE_PATH_BYTES];
    char text[64 * 128] = "";
    char name[32];
    size_t used = 0;
    for (int i = 0; i < count; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "{\"wrong\":\"%s see%s %s\",\"right\":\"%s saw %s\"}\n",
                                 nouns[i % 7], i % 3 == 0 ? " the" : "", nouns[i / 7 % 7],
                                 nouns[i % 7], nouns[i / 7 % 7]);
    }
    (void)snprintf(name, sizeof name, "%d.jsonl", count);
    test_shared_put(name, text);
    (void)snprintf(path, sizeof path, "%s", test_shared_path(name));
    return path;
}

/* The lowest held-out loss, in the digits of a double: the record has nine. */
static double best_loss(const training_run *run)
{
    json_t *state = training_json(run, "checkpoints/step-00000000" STEPS "/training.json");
    const json_t *loss = json_object_get(json_object_get(state, "best"), "loss");
    assert_true(json_is_real(loss));
    const double best = json_real_value(loss);
    json_decref(state);
    return best;
}

/* Fails unless the curves are those of `one`, but for what is corrected, which no stage can find. */
static void compare_curves(const json_t *wanted, const json_t *found)
{
    size_t i = 0;
    json_t *point = NULL;
    assert_int_equal(json_array_size(found), 3);
    json_array_foreach(found, i, point)
    {
        json_t *due = json_deep_copy(json_array_get(wanted, i));
        assert_true(json_is_integer(json_object_get(due, "correct")));
        assert_int_equal(json_object_set_new(due, "correct", json_null()), 0);
        assert_int_equal(json_object_set_new(due, "exact_match", json_null()), 0);
        if (!json_equal(due, point)) {
            fail_msg("%s and not %s", json_dumps(point, 0), json_dumps(due, 0));
        }
        json_decref(due);
    }
}

/* At the end all ranks have the whole model, and correct sentences as well. */
static void expect_same(const char *heldout, const char *const *layout)
{
    static int number;
    char name[32];
    const char *flags[TRAINING_FLAGS_MAX] = {SHAPE,   EVERY,    "--heldout",
                                             heldout, "--mode", "pp-cpu"};
    size_t count = 0;
    while (flags[count] != NULL) {
        count++;
    }
    for (size_t i = 0; layout[i] != NULL; i++) {
        assert_true(count + 1 < TRAINING_FLAGS_MAX);
        flags[count++] = layout[i];
    }
    (void)snprintf(name, sizeof name, "stages-%d", number++);
    training_expect(&two, &test_shared_directory, name, 0, flags);
    json_t *wanted = training_manifest(&one);
    json_t *found = training_manifest(&two);
    compare_curves(json_object_get(wanted, "eval_curve"), json_object_get(found, "eval_curve"));
    assert_true(json_is_integer(json_object_get(json_object_get(found, "eval"), "correct")));
    assert_true(json_equal(json_object_get(wanted, "eval"), json_object_get(found, "eval")));
    assert_true(json_equal(json_object_get(wanted, "best"), json_object_get(found, "best")));
    assert_true(best_loss(&one) == best_loss(&two));
    training_assert_same_file(&one, "model.safetensors", &two, "model.safetensors");
    assert_has(two.program.text[TEST_STDERR],
               "[rank 0] warning: --eval-every: where ranks share layers only the held-out loss ");
    json_decref(wanted);
    json_decref(found);
}

/* Batches that no number of stages divides, fewer than there are stages, and slots without any. */
static void any_number_of_batches_has_the_loss_of_one_rank(void **state)
{
    (void)state;
    static const int counts[] = {1, 3, 17, 40};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        const char *heldout = pairs_path(counts[i]);
        training_expect(
            &one, &test_shared_directory, "whole", 0,
            FLAGS("--ranks", "1", "--micro-batches", "4", SHAPE, EVERY, "--heldout", heldout));
        expect_same(heldout, FLAGS("--ranks", "3", "--micro-batches", "4", "--pipeline",
                                   i % 2 == 0 ? "1f1b" : "gpipe"));
        expect_same(heldout, FLAGS("--ranks", "4", "--micro-batches", "4", "--pipeline",
                                   "interleaved", "--transport", i % 2 == 0 ? "tcp" : "shm"));
        expect_same(heldout, FLAGS("--ranks", "2", "--micro-batches", "4", "--pipeline",
                                   "interleaved", "--chunks", i % 2 == 0 ? "3" : "4"));
    }
}

static void all_layouts_have_the_loss_of_one_rank(void **state)
{
    (void)state;
    const char *heldout = pairs_path(29);
    training_expect(
        &one, &test_shared_directory, "replicas", 0,
        FLAGS("--ranks", "2", "--micro-batches", "2", SHAPE, EVERY, "--heldout", heldout));
    expect_same(heldout, FLAGS("--ranks", "1", "--micro-batches", "4"));
    expect_same(heldout, FLAGS("--ranks", "2", "--tensor", "2", "--micro-batches", "4"));
    expect_same(heldout, FLAGS("--ranks", "4", "--stages", "2", "--micro-batches", "2",
                               "--transport", "zmq", "--recompute"));
    expect_same(heldout, FLAGS("--ranks", "6", "--stages", "3", "--micro-batches", "2"));
    expect_same(heldout, FLAGS("--ranks", "8", "--stages", "2", "--tensor", "2", "--micro-batches",
                               "2", "--pipeline", "interleaved"));
    training_expect(&one, &test_shared_directory, "shared", 0,
                    FLAGS("--ranks", "4", "--context-ranks", "2", "--micro-batches", "2", SHAPE,
                          EVERY, "--heldout", heldout));
    expect_same(heldout, FLAGS("--ranks", "8", "--stages", "2", "--context-ranks", "2",
                               "--micro-batches", "2", "--pipeline", "1f1b"));
    expect_same(heldout, FLAGS("--ranks", "8", "--stages", "1", "--context-ranks", "2", "--tensor",
                               "2", "--micro-batches", "2"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_batches_has_the_loss_of_one_rank),
        cmocka_unit_test(all_layouts_have_the_loss_of_one_rank),
    };
    return cmocka_run_group_tests(tests, test_shared_directory_make, test_shared_directory_remove);
}
