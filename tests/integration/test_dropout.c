/* Trainings with --dropout: the same bits on all layouts and in parts, what it leaves alone, what the record
 * says of it, and where it is refused. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "training.h"

static training_run one, two; /* large: they hold a program's output */

#define SHAPE "--layers", "3", "--heads", "4", "--lr", "1e-2", "--dropout", "0.2"

static void expect_same(const char *const *flags)
{
    training_expect(&two, &test_shared_directory, "other", 0, flags);
    training_assert_same_file(&one, "model.safetensors", &two, "model.safetensors");
}

/* Fails if both have the same parameters. */
static void expect_different(const char *const *flags)
{
    training_expect(&two, &test_shared_directory, "different", 0, flags);
    training_assert_other_file(&one, &two, "model.safetensors");
}

static void layouts_draw_the_same_masks(void **state)
{
    (void)state;
    training_expect(&one, &test_shared_directory, "whole", 0,
                    FLAGS("--ranks", "1", "--micro-batches", "4", SHAPE));
    expect_same(FLAGS("--ranks", "4", SHAPE));
    expect_same(FLAGS("--ranks", "2", "--micro-batches", "2", SHAPE, "--recompute", "--zero", "1"));
    expect_same(FLAGS("--ranks", "4", SHAPE, "--zero", "3"));
    expect_same(FLAGS("--ranks", "2", "--micro-batches", "2", SHAPE, "--zero", "2"));
    expect_same(FLAGS("--mode", "pp-cpu", "--ranks", "3", "--micro-batches", "4", SHAPE,
                      "--pipeline", "1f1b"));
    expect_same(FLAGS("--mode", "pp-cpu", "--ranks", "3", "--micro-batches", "4", SHAPE,
                      "--pipeline", "zb-h1"));
    expect_same(FLAGS("--mode", "pp-cpu", "--ranks", "4", "--stages", "1", "--tensor", "4",
                      "--micro-batches", "4", SHAPE));
    expect_same(FLAGS("--mode", "pp-cpu", "--ranks", "8", "--stages", "2", "--tensor", "2",
                      "--micro-batches", "2", SHAPE, "--recompute"));
    expect_different(FLAGS("--ranks", "4", SHAPE, "--seed", "35001"));
    expect_different(FLAGS("--ranks", "4", "--layers", "3", "--heads", "4", "--lr", "1e-2"));
}

static double loss_of_a_step(const char *name, const char *const *flags)
{
    training_expect(&two, &test_shared_directory, name, 0, flags);
    json_t *rows = training_timings(two.out);
    const double loss = json_number_value(json_object_get(json_array_get(rows, 0), "loss_global"));
    json_decref(rows);
    assert_true(loss > 1.0);
    return loss;
}

/* Ranks that share the tokens have another order of sums, which is theirs alone. The masks are those of ranks that
 * do not. */
static void context_ranks_draw_the_same_masks(void **state)
{
    (void)state;
    training_expect(&one, &test_shared_directory, "shared", 0,
                    FLAGS("--ranks", "4", "--context-ranks", "2", "--micro-batches", "2", SHAPE));
    expect_same(FLAGS("--ranks", "4", "--context-ranks", "2", "--micro-batches", "2", SHAPE,
                      "--recompute", "--transport", "tcp"));
    expect_same(FLAGS("--mode", "pp-cpu", "--ranks", "8", "--context-ranks", "2", "--stages", "2",
                      "--micro-batches", "2", SHAPE, "--pipeline", "zb-h1"));
    const double whole = loss_of_a_step("whole-step", FLAGS("--ranks", "2", "--steps", "1", SHAPE));
    const double cut = loss_of_a_step(
        "cut-step", FLAGS("--ranks", "4", "--steps", "1", "--context-ranks", "2", SHAPE));
    const double other = loss_of_a_step(
        "other-step", FLAGS("--ranks", "2", "--steps", "1", SHAPE, "--dropout", "0.21"));
    assert_true(fabs(cut - whole) < 1e-6 * whole);
    assert_true(fabs(other - whole) > 1e-6 * whole);
}

static void expert_ranks_draw_the_same_masks(void **state)
{
    (void)state;
    training_expect(&one, &test_shared_directory, "experts", 0,
                    FLAGS("--ranks", "4", "--experts", "4", SHAPE));
    expect_same(FLAGS("--ranks", "4", "--experts", "4", SHAPE, "--expert-ranks", "2"));
    expect_same(FLAGS("--ranks", "2", "--micro-batches", "2", "--experts", "4", SHAPE,
                      "--expert-ranks", "2", "--recompute"));
}

static void local_steps_and_adapters_draw_masks(void **state)
{
    (void)state;
    char base[BASE_PATH_BYTES];
    training_expect(&one, &test_shared_directory, "rounds", 0,
                    FLAGS("--ranks", "2", SHAPE, "--local-steps", "3"));
    expect_same(
        FLAGS("--ranks", "2", SHAPE, "--local-steps", "3", "--transport", "tcp", "--recompute"));
    training_expect(&one, &test_shared_directory, "base", 0,
                    FLAGS("--ranks", "1", "--heads", "4", "--dropout", "0.2"));
    (void)snprintf(base, sizeof base, "%s", one.out);
    training_expect(&one, &test_shared_directory, "adapted", 0,
                    FLAGS("--ranks", "1", "--micro-batches", "2", "--heads", "4", "--checkpoint",
                          base, "--lora", "4", "--dropout", "0.2", "--lr", "1e-2"));
    training_expect(&two, &test_shared_directory, "adapted-by-two", 0,
                    FLAGS("--ranks", "2", "--heads", "4", "--checkpoint", base, "--lora", "4",
                          "--dropout", "0.2", "--lr", "1e-2"));
    training_assert_same_file(&one, "adapter_model.safetensors", &two, "adapter_model.safetensors");
    training_expect(
        &two, &test_shared_directory, "adapted-without", 0,
        FLAGS("--ranks", "2", "--heads", "4", "--checkpoint", base, "--lora", "4", "--lr", "1e-2"));
    training_assert_other_file(&one, &two, "adapter_model.safetensors");
}

/* Masks are of the step's number, which goes on. Another P is named, as another learning rate is. */
static void a_training_in_parts_has_the_bits_of_the_whole(void **state)
{
    (void)state;
    training_expect(&one, &test_shared_directory, "at-once", 0, FLAGS("--ranks", "4", SHAPE));
    training_expect(&two, &test_shared_directory, "parts", 0,
                    FLAGS("--ranks", "2", "--micro-batches", "2", SHAPE, "--steps", "4",
                          "--save-every", "4", "--resume"));
    training_expect(&two, &test_shared_directory, "parts", 0,
                    FLAGS("--ranks", "4", SHAPE, "--save-every", "6", "--resume"));
    training_assert_same_file(&one, "model.safetensors", &two, "model.safetensors");
    assert_null(strstr(two.program.text[TEST_STDERR], "--dropout"));
    training_expect(&two, &test_shared_directory, "parts", 0,
                    FLAGS("--ranks", "4", "--layers", "3", "--heads", "4", "--lr", "1e-2",
                          "--steps", "7", "--save-every", "7", "--resume"));
    assert_has(two.program.text[TEST_STDERR], "--resume: --dropout is 0 now, and was 0.2");
}

/* Loss of a model that does not learn: with dropout in training, and without. */
static double heldout_loss(const char *name, const char *rate)
{
    training_expect(
        &one, &test_shared_directory, name, 0,
        FLAGS("--ranks", "2", "--lr", "0", "--steps", "2", "--eval", "--dropout", rate));
    json_t *manifest = training_manifest(&one);
    const double loss =
        json_number_value(json_object_get(json_object_get(manifest, "eval"), "loss"));
    json_decref(manifest);
    assert_true(loss > 1.0);
    return loss;
}

static void evaluating_drops_nothing(void **state)
{
    (void)state;
    assert_true(heldout_loss("evaluated", "0.5") == heldout_loss("evaluated-without", "0"));
}

/* Of a checkpoint that says one, training takes none by itself. */
static void record_and_model_say_it(void **state)
{
    (void)state;
    static const char *const keys[] = {"resid_pdrop", "embd_pdrop"};
    char base[BASE_PATH_BYTES];
    training_expect(&one, &test_shared_directory, "said", 0,
                    FLAGS("--ranks", "1", "--dropout", "0.1"));
    (void)snprintf(base, sizeof base, "%s", one.out);
    training_expect(&two, &test_shared_directory, "not-said", 0,
                    FLAGS("--ranks", "1", "--checkpoint", base));
    json_t *const manifests[] = {training_manifest(&one), training_manifest(&two)};
    json_t *const models[] = {training_json(&one, "config.json"),
                              training_json(&two, "config.json")};
    for (size_t i = 0; i < 2; i++) {
        const double rate = i == 0 ? 0.1 : 0.0;
        const json_t *training = json_object_get(manifests[i], "training");
        assert_true(json_number_value(json_object_get(training, "dropout")) == rate);
        for (size_t k = 0; k < 2; k++) {
            assert_true(json_number_value(json_object_get(models[i], keys[k])) == rate);
        }
        assert_true(json_number_value(json_object_get(models[i], "attn_pdrop")) == 0.0);
    }
    for (size_t i = 0; i < 2; i++) {
        json_decref(manifests[i]);
        json_decref(models[i]);
    }
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    training_expect_refused(&one, FLAGS("--dropout", "1"),
                            "--dropout: 1: must be a number from 0 and below 1");
    training_expect_refused(&one, FLAGS("--dropout", "-0.5"),
                            "must be a number from 0 and below 1");
    training_expect_refused(&one, FLAGS("--dropout", "nan"), "--dropout");
    training_expect_refused(&one, FLAGS("--mode", "ddp-nccl", "--dropout", "0.1"),
                            "--dropout 0.1 goes with modes that train on CPUs (ddp-cpu, pp-cpu), "
                            "not with ddp-nccl");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts_draw_the_same_masks),
        cmocka_unit_test(context_ranks_draw_the_same_masks),
        cmocka_unit_test(expert_ranks_draw_the_same_masks),
        cmocka_unit_test(local_steps_and_adapters_draw_masks),
        cmocka_unit_test(a_training_in_parts_has_the_bits_of_the_whole),
        cmocka_unit_test(evaluating_drops_nothing),
        cmocka_unit_test(record_and_model_say_it),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, test_shared_directory_make, test_shared_directory_remove);
}
