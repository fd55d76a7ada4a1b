/* Trainings with --optimizer muon: the same bits however many ranks share out the matrices and in parts, what the
 * record says of it, and where it is refused. */
#include <string.h>

#include "training.h"

static training_run one, two; /* large: they hold a program's output */

#define MUON  "--optimizer", "muon", "--lr", "1e-2"
#define SHAPE "--layers", "3", "--heads", "4", MUON

static void expect_same(const char *const *flags)
{
    training_expect(&two, &test_shared_directory, "other", 0, flags);
    training_assert_same_file(&one, "model.safetensors", &two, "model.safetensors");
}

static void ranks_change_no_bits(void **state)
{
    (void)state;
    training_expect(&one, &test_shared_directory, "whole", 0,
                    FLAGS("--ranks", "1", "--micro-batches", "4", SHAPE));
    expect_same(FLAGS("--ranks", "4", SHAPE));
    expect_same(
        FLAGS("--ranks", "2", "--micro-batches", "2", SHAPE, "--recompute", "--transport", "tcp"));
    expect_same(FLAGS("--mode", "pp-cpu", "--ranks", "3", "--micro-batches", "4", SHAPE));
    expect_same(
        FLAGS("--mode", "pp-cpu", "--ranks", "2", "--stages", "1", "--micro-batches", "2", SHAPE));
    training_expect(&one, &test_shared_directory, "experts", 0,
                    FLAGS("--ranks", "1", "--micro-batches", "4", "--experts", "4", SHAPE));
    expect_same(FLAGS("--ranks", "4", "--experts", "4", SHAPE));
    training_expect(&one, &test_shared_directory, "shared", 0,
                    FLAGS("--ranks", "4", "--context-ranks", "2", SHAPE));
    expect_same(FLAGS("--ranks", "4", "--context-ranks", "2", SHAPE, "--transport", "tcp"));
}

/* Each rank has parameters of its own, and updates all its matrices. */
static void local_steps_share_nothing_out(void **state)
{
    (void)state;
    training_expect(&one, &test_shared_directory, "rounds", 0,
                    FLAGS("--ranks", "2", SHAPE, "--local-steps", "3"));
    expect_same(FLAGS("--ranks", "2", SHAPE, "--local-steps", "3", "--transport", "tcp"));
}

static void a_training_in_parts_has_the_bits_of_the_whole(void **state)
{
    (void)state;
    training_expect(&one, &test_shared_directory, "at-once", 0, FLAGS("--ranks", "4", SHAPE));
    training_expect(&two, &test_shared_directory, "parts", 0,
                    FLAGS("--ranks", "2", "--micro-batches", "2", SHAPE, "--steps", "4",
                          "--save-every", "4", "--resume"));
    training_expect(
        &two, &test_shared_directory, "parts", 1,
        FLAGS("--ranks", "4", "--layers", "3", "--heads", "4", "--save-every", "6", "--resume"));
    assert_has(two.program.text[TEST_STDERR],
               "it was written with --optimizer muon, and this job has adamw");
    training_expect(&two, &test_shared_directory, "parts", 0,
                    FLAGS("--ranks", "4", SHAPE, "--save-every", "6", "--resume"));
    training_assert_same_file(&one, "model.safetensors", &two, "model.safetensors");
    training_expect(&two, &test_shared_directory, "parts", 0,
                    FLAGS("--ranks", "4", SHAPE, "--muon-momentum", "0.9", "--steps", "7",
                          "--save-every", "7", "--resume"));
    assert_has(two.program.text[TEST_STDERR], "--resume: --muon-momentum is 0.9 now, and was 0.95");
}

/* The optimizer and its momentum, and that the memory is what was planned. */
static void the_record_says_it(void **state)
{
    (void)state;
    training_expect(&one, &test_shared_directory, "said", 0, FLAGS("--ranks", "2", SHAPE));
    json_t *manifest = training_manifest(&one);
    const json_t *training = json_object_get(manifest, "training");
    assert_string_equal(json_string_value(json_object_get(training, "optimizer")), "Muon");
    assert_true(json_number_value(json_object_get(training, "muon_momentum")) == 0.95);
    assert_true(json_is_true(json_object_get(manifest, "byte_equivalent")));
    assert_has(json_string_value(json_object_get(manifest, "lesson_notes")), "of Muon and AdamW");
    json_decref(manifest);
    training_expect(&two, &test_shared_directory, "another", 0,
                    FLAGS("--ranks", "2", SHAPE, "--muon-momentum", "0.5"));
    size_t bytes[2];
    char *files[2] = {training_file(&one, "model.safetensors", &bytes[0]),
                      training_file(&two, "model.safetensors", &bytes[1])};
    assert_int_equal(bytes[0], bytes[1]);
    assert_memory_not_equal(files[0], files[1], bytes[0]);
    free(files[0]);
    free(files[1]);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    training_expect_refused(&one, FLAGS("--optimizer", "adam"), "--optimizer");
    training_expect_refused(&one, FLAGS("--muon-momentum", "0.9"),
                            "--muon-momentum goes with --optimizer muon");
    training_expect_refused(&one, FLAGS(MUON, "--muon-momentum", "1"), "--muon-momentum");
    training_expect_refused(&one, FLAGS(MUON, "--mode", "ddp-nccl"),
                            "--optimizer muon goes with modes that train on CPUs (ddp-cpu, pp-cpu) "
                            "and ranks that have whole matrices, not with ddp-nccl");
    training_expect_refused(&one,
                            FLAGS(MUON, "--mode", "pp-cpu", "--stages", "1", "--tensor", "2",
                                  "--heads", "4", "--micro-batches", "2"),
                            "not with --tensor");
    training_expect_refused(&one, FLAGS(MUON, "--zero", "1"), "not with --zero");
    training_expect_refused(&one, FLAGS(MUON, "--experts", "4", "--expert-ranks", "2"),
                            "not with --expert-ranks");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_change_no_bits),
        cmocka_unit_test(local_steps_share_nothing_out),
        cmocka_unit_test(a_training_in_parts_has_the_bits_of_the_whole),
        cmocka_unit_test(the_record_says_it),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, test_shared_directory_make, test_shared_directory_remove);
}
