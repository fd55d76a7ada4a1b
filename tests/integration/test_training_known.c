/* Whole jobs whose result is known in advance. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "training.h"

static training_run one, two; /* large: they hold a program's output */

static const char *write_data(const char *name, const char *text)
{
    base_error error;
    const char *path = test_shared_path(name);
    assert_ok(base_file_write(path, text, strlen(text), &error), &error);
    return path;
}

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

static bool same_parameters(const training_run *a, const training_run *b)
{
    size_t sizes[2];
    void *state_a = training_file(a, "state-rank-1.safetensors", &sizes[0]);
    void *state_b = training_file(b, "state-rank-1.safetensors", &sizes[1]);
    assert_int_equal(sizes[0], sizes[1]);
    const bool same = memcmp(state_a, state_b, sizes[0]) == 0;
    free(state_a);
    free(state_b);
    return same;
}

/* With a learning rate of 0, a job ends with its first parameters. */
static void a_job_starts_from_its_seed_alone(void **state)
{
    (void)state;
    const char *data = write_data("other.jsonl", "{\"text\":\"one two\"}\n{\"text\":\"three\"}\n");
    training_expect(&one, &test_shared_directory, "start", 0, FLAGS("--lr", "0", "--steps", "1"));
    training_expect(&two, &test_shared_directory, "start-data", 0,
                    FLAGS("--lr", "0", "--steps", "3", "--data", data));
    assert_true(same_parameters(&one, &two));
    training_expect(&two, &test_shared_directory, "start-seed", 0,
                    FLAGS("--lr", "0", "--steps", "1", "--seed", "35001"));
    assert_false(same_parameters(&one, &two));
    training_expect(&two, &test_shared_directory, "moved", 0,
                    FLAGS("--lr", "1e-3", "--steps", "1"));
    assert_false(same_parameters(&one, &two));
}

/* AdamW's constants stay doubles up to the kernels. As a float this beta2 is 1, and the first
 * update would divide 0 by 0. */
static void a_beta_near_one_trains(void **state)
{
    (void)state;
    training_expect(&one, &test_shared_directory, "beta", 0,
                    FLAGS("--beta2", "0.999999999", "--lr", "3e-3"));
    json_t *manifest = training_manifest(&one);
    assert_true(number(manifest, "loss_last") < number(manifest, "loss_first") - 0.1);
    json_decref(manifest);
}

/* Each update multiplies the weights by 1 - 100 × 100, so they overflow within ten steps. */
static void a_diverging_learning_rate_ends_the_job(void **state)
{
    (void)state;
    training_expect(&one, &test_shared_directory, "diverge", 1,
                    FLAGS("--lr", "100", "--weight-decay", "100", "--steps", "30"));
    assert_has(one.program.text[TEST_STDERR], "the loss is not finite any more");
    json_t *manifest = training_manifest(&one);
    assert_int_equal(json_integer_value(json_object_get(manifest, "exit_status")), 1);
    assert_true(number(manifest, "steps") < 20.0);
    json_decref(manifest);
}

/* Every step exchanges the same gradients, and evaluating is no part of a step. */
static void assert_steps_send_the_same(const training_run *run, size_t rows)
{
    json_t *timings = training_timings(run->out);
    json_int_t first = 0;
    size_t i = 0;
    const json_t *row = NULL;
    json_array_foreach(timings, i, row)
    {
        const json_int_t sent = json_integer_value(json_object_get(row, "bytes_sent"));
        first = i == 0 ? sent : first;
        assert_true(first > 0);
        assert_int_equal(sent, first);
    }
    assert_int_equal(i, rows);
    json_decref(timings);
}

/* Learns four corrections by heart. Then answers those, and three that it cannot know. */
static void accuracy_is_exact(void **state)
{
    (void)state;
#define LEARNT                                                                                     \
    "{\"wrong\":\"he goed home\",\"right\":\"he went home\"}\n"                                    \
    "{\"wrong\":\"i has it\",\"right\":\"i have it\"}\n"                                           \
    "{\"wrong\":\"they was late\",\"right\":\"they were late\"}\n"                                 \
    "{\"wrong\":\"we is here\",\"right\":\"we are here\"}\n"
    const char *data = write_data("learn.jsonl", LEARNT);
    const char *heldout =
        write_data("ask.jsonl", LEARNT "{\"wrong\":\"he goed home\",\"right\":\"he goes home\"}\n"
                                       "{\"wrong\":\"i has it\",\"right\":\"i have it.\"}\n"
                                       "{\"wrong\":\"we is here\",\"right\":\"we are her\"}\n");
    training_expect(&one, &test_shared_directory, "eval", 0,
                    FLAGS("--data", data, "--heldout", heldout, "--eval-every", "75", "--lr",
                          "1e-2", "--steps", "150"));
    json_t *manifest = training_manifest(&one);
    const json_t *eval = json_object_get(manifest, "eval");
    assert_true(number(manifest, "loss_last") < 0.05); /* by heart */
    assert_int_equal(json_integer_value(json_object_get(eval, "sentences")), 7);
    assert_int_equal(json_integer_value(json_object_get(eval, "correct")), 4);
    assert_true(number(eval, "exact_match") > 0.5714 && number(eval, "exact_match") < 0.5715);
    const json_t *curve = json_object_get(manifest, "eval_curve");
    assert_int_equal(json_array_size(curve), 2); /* the last after the last step: as at the end */
    const json_t *last = json_array_get(curve, 1);
    assert_int_equal(json_integer_value(json_object_get(last, "step")), 149);
    assert_int_equal(json_integer_value(json_object_get(last, "sentences")), 7);
    assert_int_equal(json_integer_value(json_object_get(last, "correct")), 4);
    assert_true(number(eval, "loss") > 0.0);
    assert_true(number(eval, "loss") == number(last, "heldout_loss"));
    assert_has(one.program.text[TEST_STDERR], "  exact match 4/7\n");
    assert_true(number(last, "heldout_loss") > number(manifest, "loss_last"));
    json_decref(manifest);
    assert_steps_send_the_same(&one, (size_t)2 * 150);
    /* evaluating changes nothing of the training */
    training_expect(&two, &test_shared_directory, "no-eval", 0,
                    FLAGS("--data", data, "--lr", "1e-2", "--steps", "150"));
    training_assert_same_file(&one, "state-rank-0.safetensors", &two, "state-rank-0.safetensors");
}

/* The learning rate of each step, as the schedule has it. */
static void a_linear_schedule_ends_at_its_minimum(void **state)
{
    (void)state;
    static const double rates[] = {5e-4, 1e-3, 1e-3, 7e-4, 4e-4, 1e-4};
    size_t i = 0;
    const json_t *step = NULL;
    training_expect(&one, &test_shared_directory, "linear", 0,
                    FLAGS("--ranks", "1", "--schedule", "linear", "--lr", "1e-3", "--lr-min",
                          "1e-4", "--warmup", "2", "--steps", "6"));
    json_t *timings = training_timings(one.out);
    assert_int_equal(json_array_size(timings), sizeof rates / sizeof rates[0]);
    json_array_foreach(timings, i, step)
    {
        assert_true(fabs(number(step, "learning_rate") - rates[i]) < 1e-12);
    }
    json_decref(timings);
}

/* The loss of a model, without training it: one step with a learning rate of 0 leaves all bits. */
static void a_model_is_measured_without_training(void **state)
{
    (void)state;
    char model[BASE_PATH_BYTES];
    const char *text = write_data("measured.txt", "the ring turns, and the ranks go round in it\n");
    training_expect(&one, &test_shared_directory, "measured", 0,
                    FLAGS("--data", text, "--heldout", text, "--eval", "--lr", "1e-2"));
    (void)snprintf(model, sizeof model, "%s", one.out);
    training_expect(&two, &test_shared_directory, "measured-again", 0,
                    FLAGS("--ranks", "1", "--checkpoint", model, "--steps", "1", "--lr", "0",
                          "--data", text, "--heldout", text, "--eval"));
    training_assert_same_file(&one, "model.safetensors", &two, "model.safetensors");
    json_t *trained = training_manifest(&one);
    json_t *measured = training_manifest(&two);
    assert_true(fabs(number(json_object_get(trained, "eval"), "loss") -
                     number(json_object_get(measured, "eval"), "loss")) < 1e-6);
    json_decref(trained);
    json_decref(measured);
}

/* A flag that says another shape than the checkpoint's is named, and no other. */
static void a_flag_that_changes_a_shape_is_named(void **state)
{
    (void)state;
    char model[BASE_PATH_BYTES];
    training_expect(&one, &test_shared_directory, "shape", 0, FLAGS("--steps", "1"));
    (void)snprintf(model, sizeof model, "%s", one.out);
    training_expect_refused(&two, FLAGS("--checkpoint", model, "--context", "32"),
                            "error: --context 32 where the checkpoint's model has 64: it cannot "
                            "be changed, leave it out\n");
    training_expect_refused(&two, FLAGS("--checkpoint", model, "--layers", "2", "--heads", "4"),
                            "error: --layers 2 where the checkpoint's model has 1, --heads 4 "
                            "where the checkpoint's model has 2: ");
}

/* Another tokenizer than the checkpoint's is used with a warning, and not one with fewer tokens. */
static void another_tokenizer_is_named(void **state)
{
    (void)state;
    enum { BYTES_MAX = 1 << 20 };
    char model[BASE_PATH_BYTES];
    char own[BASE_PATH_BYTES + 32];
    char warning[2 * BASE_PATH_BYTES + 128];
    base_error error;
    size_t text_bytes = 0;
    training_expect(&one, &test_shared_directory, "words", 0, FLAGS("--steps", "1"));
    (void)snprintf(model, sizeof model, "%s", one.out);
    (void)snprintf(own, sizeof own, "%s/tokenizer.json", model);
    void *text = test_file_read(own, &text_bytes);
    const char *same = test_shared_path("same.json");
    assert_ok(base_file_write(same, text, text_bytes, &error), &error);
    training_expect(&two, &test_shared_directory, "words-same", 0,
                    FLAGS("--steps", "1", "--checkpoint", model, "--tokenizer", same));
    assert_null(strstr(two.program.text[TEST_STDERR], "tokenizer"));
    char *spaced = malloc(text_bytes + 1);
    assert_non_null(spaced);
    memcpy(spaced, text, text_bytes);
    spaced[text_bytes] = '\n';
    const char *other = test_shared_path("other.json");
    assert_ok(base_file_write(other, spaced, text_bytes + 1, &error), &error);
    training_expect(&two, &test_shared_directory, "words-other", 0,
                    FLAGS("--steps", "1", "--checkpoint", model, "--tokenizer", other));
    (void)snprintf(warning, sizeof warning,
                   "launcher: warning: --tokenizer: %s is another file than the checkpoint's %s: ",
                   other, own);
    assert_has(two.program.text[TEST_STDERR], warning);
    const char *few = write_data("few.json", "{\"model\":{\"vocab\":{\"a\":0,\"b\":1}}}");
    training_expect_refused(&two, FLAGS("--checkpoint", model, "--tokenizer", few),
                            "few.json has 2 tokens, and the checkpoint's ");
    free(spaced);
    free(text);
}

/* A job that no host has the memory for ends before it takes any. */
static void what_has_no_room_is_refused(void **state)
{
    (void)state;
    training_expect(&one, &test_shared_directory, "no-room", 1,
                    FLAGS("--width", "16384", "--layers", "512", "--heads", "128"));
    assert_has(one.program.text[TEST_STDERR], " GB of this host's memory, and ");
    assert_has(one.program.text[TEST_STDERR],
               "a smaller --context or --batch, --recompute and --zero take less");
    assert_int_not_equal(access(one.out, F_OK), 0);
    training_expect(&one, &test_shared_directory, "no-room", 1,
                    FLAGS("--mode", "pp-cpu", "--width", "16384", "--layers", "512", "--heads",
                          "128", "--micro-batches", "4"));
    assert_has(one.program.text[TEST_STDERR], " GB of this host's memory, and ");
    assert_has(one.program.text[TEST_STDERR], "--recompute and --pipeline 1f1b take less");
    assert_int_not_equal(access(one.out, F_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_starts_from_its_seed_alone),
        cmocka_unit_test(a_beta_near_one_trains),
        cmocka_unit_test(a_diverging_learning_rate_ends_the_job),
        cmocka_unit_test(accuracy_is_exact),
        cmocka_unit_test(a_linear_schedule_ends_at_its_minimum),
        cmocka_unit_test(a_model_is_measured_without_training),
        cmocka_unit_test(a_flag_that_changes_a_shape_is_named),
        cmocka_unit_test(another_tokenizer_is_named),
        cmocka_unit_test(what_has_no_room_is_refused),
    };
    return cmocka_run_group_tests(tests, test_shared_directory_make, test_shared_directory_remove);
}
