/* Whole jobs against PyTorch: 2 ranks × 2 micro-batches, 2 to 5 steps with a warm-up of 2, a
 * cosine, weight decay, a clip that acts in the first three steps only, an epoch's end, slots that
 * run out before it, and a sentence that is too long. tests/oracle/make_job_fixture.py has the same
 * job.
 *
 * The reference is float64. Losses and norms come from timings.jsonl, which has 9 digits.
 * Parameters are compared in units of the learning rate:
 * a step moves one by at most about as much. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "difference.h"
#include "fixture.h"
#include "rank/checkpoint.h"
#include "training.h"

#define ARGUMENTS(...) (FLAGS(LAUNCHER_PATH, __VA_ARGS__))

enum { RANKS = 2, WARMUP = 2, STEPS = 5, STRIDE = 7 };

static const double TOLERANCE = 1e-6;        /* of losses, norms and rates, relative */
static const double PARAMS_TOLERANCE = 1e-4; /* of LEARNING_RATE */
static const double LEARNING_RATE = 1e-2;

static rank_model_config model = {
    .vocab_size = 512, .width = 16, .layers = 2, .heads = 2, .context = 24};

static training_run run; /* large: it holds a program's output */

static int begin(void **state)
{
    (void)state;
    model.family = rank_family_default();
    test_directory_make(&test_shared_directory);
    return 0;
}

static void launch(const char *const *arguments)
{
    test_program_start(&run.program, arguments, FLAGS());
    if (test_program_wait(&run.program) != 0) {
        fail_msg("%s%s", run.program.text[TEST_STDOUT], run.program.text[TEST_STDERR]);
    }
    test_program_assert_no_children();
}

/* AdamW's epsilon has no flag: it is changed in JOB.json. One that is large against the default
 * lets the size of gradients show, which AdamW divides out otherwise. */
static void set_epsilon(const char *path, const char *value)
{
    static const char key[] = "\"epsilon\":";
    char changed[8192];
    size_t size_bytes = 0;
    base_error error;
    void *data = test_file_read(path, &size_bytes);
    char *text = data;
    const char *at = memmem(text, size_bytes, key, sizeof key - 1);
    assert_non_null(at);
    at += sizeof key - 1;
    const char *rest = memchr(at, ',', size_bytes - (size_t)(at - text));
    assert_non_null(rest);
    const int length = snprintf(changed, sizeof changed, "%.*s%s%.*s", (int)(at - text), text,
                                value, (int)(text + size_bytes - rest), rest);
    assert_in_range(length, 1, sizeof changed - 1);
    assert_ok(base_file_write(path, changed, (size_t)length, &error), &error);
    free(text);
}

static void run_job(int steps)
{
    static const char data[] = FIXTURE_DIRECTORY "/job.jsonl";
    static const char tokenizer[] = FIXTURE_DIRECTORY "/tokenizer.json";
    char count[16];
    char job[BASE_PATH_BYTES];
    (void)snprintf(count, sizeof count, "%d", steps);
    (void)snprintf(job, sizeof job, "%s", test_shared_path("JOB.json"));
    (void)snprintf(run.out, sizeof run.out, "%s/steps-%d", test_shared_directory.path, steps);
    launch(ARGUMENTS("--write-job", job, "--out", run.out, "--steps", count, "--data", data,
                     "--tokenizer", tokenizer, "--ranks", "2", "--micro-batches", "2",
                     "--bucket-bytes", "5000", "--width", "16", "--layers", "2", "--heads", "2",
                     "--context", "24", "--batch", "2", "--seed", "11", "--lr", "1e-2", "--lr-min",
                     "1e-3", "--schedule", "cosine", "--warmup", "2", "--weight-decay", "0.3",
                     "--beta1", "0.8", "--beta2", "0.97", "--clip", "1"));
    set_epsilon(job, "0.001");
    launch(ARGUMENTS("--job", job, "--no-scaling", "--no-bind"));
}

static void check_close(const char *what, int step, double got, double expected, double tolerance)
{
    if (!(fabs(got - expected) <= tolerance * fabs(expected))) {
        fail_msg("%s of step %d: %.9g, PyTorch has %.9g", what, step, got, expected);
    }
}

/* One line of timings.jsonl. */
static void check_step(const fixture *file, int steps, const json_t *line)
{
    size_t count = 0;
    const int step = (int)json_integer_value(json_object_get(line, "step"));
    const int rank = (int)json_integer_value(json_object_get(line, "rank"));
    assert_in_range(step, 0, steps - 1);
    assert_in_range(rank, 0, RANKS - 1);
    float *loss = fixture_get(file, &count, "%d.%d.loss", steps, step);
    float *tokens = fixture_get(file, &count, "%d.%d.tokens", steps, step);
    float *global = fixture_get(file, &count, "%d.%d.global", steps, step);
    const struct {
        const char *name;
        double expected;
        double tolerance;
    } fields[] = {
        {"loss", (double)loss[rank], TOLERANCE},
        {"tokens", (double)tokens[rank], 0.0},
        {"loss_global", (double)global[0], TOLERANCE},
        {"grad_norm", (double)global[1], TOLERANCE},
        {"learning_rate", (double)global[2], TOLERANCE},
        {"epoch", (double)global[3], 0.0},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        const json_t *value = json_object_get(line, fields[i].name);
        check_close(fields[i].name, step, json_number_value(value), fields[i].expected,
                    fields[i].tolerance);
    }
    free(loss);
    free(tokens);
    free(global);
}

static void check_timings(const fixture *file, int steps)
{
    size_t i = 0;
    const json_t *step = NULL;
    json_t *timings = training_timings(run.out);
    json_array_foreach(timings, i, step)
    {
        check_step(file, steps, step);
    }
    assert_int_equal(i, steps * RANKS);
    json_decref(timings);
}

static void check_params(const fixture *file, int steps)
{
    char path[BASE_PATH_BYTES + 32];
    base_error error;
    size_t count = 0;
    const size_t stride = steps == STEPS ? 1 : STRIDE;
    const size_t param_count = rank_model_param_count(&model);
    float *expected = fixture_get(file, &count, "%d.params", steps);
    float *got = malloc(param_count * sizeof *got);
    assert_non_null(got);
    assert_int_equal(count, (param_count + stride - 1) / stride);
    (void)snprintf(path, sizeof path, "%s/model.safetensors", run.out);
    assert_ok(rank_safetensors_read(path, &model, got, &error), &error);
    const double worst = test_worst_difference(got, expected, count, stride);
    if (!(worst <= PARAMS_TOLERANCE * LEARNING_RATE)) {
        fail_msg("parameters after %d steps: off by %g", steps, worst);
    }
    free(got);
    free(expected);
}

static void five_steps_are_pytorchs(void **state)
{
    (void)state;
    fixture file;
    fixture_open(&file, "job.fixture");
    for (int steps = WARMUP; steps <= STEPS; steps++) {
        run_job(steps);
        check_timings(&file, steps);
        check_params(&file, steps);
    }
    fixture_close(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(five_steps_are_pytorchs),
    };
    return cmocka_run_group_tests(tests, begin, test_shared_directory_remove);
}
