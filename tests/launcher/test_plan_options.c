/* `launcher plan`, from its command line to its JSON, text and drawing. */
#include "cli/plan_options.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/exitcode.h"
#include "cli/cli.h"
#include "support.h"

enum { ARGS_MAX = 32, TEXT_BYTES = 1 << 16 };

#define WORDS(...) ((const char *const[]){"launcher", "plan", __VA_ARGS__ __VA_OPT__(, ) NULL})

static char directory[] = "/tmp/plan-XXXXXX";

static const char *path_of(const char *name)
{
    static char path[64];
    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

/* Runs the command; what it prints is in `text`. */
static int run(const char *const *given, char text[TEXT_BYTES])
{
    static char copies[ARGS_MAX][256];
    char *arguments[ARGS_MAX + 1] = {0};
    int count = 0;
    for (; given[count] != NULL && count < ARGS_MAX; count++) {
        (void)snprintf(copies[count], sizeof copies[0], "%s", given[count]);
        arguments[count] = copies[count];
    }
    (void)fflush(stdout);
    const int kept = dup(STDOUT_FILENO);
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_true(dup2(fileno(file), STDOUT_FILENO) >= 0);
    const int exit_status = launch_cli(count, arguments, NULL);
    (void)fflush(stdout);
    assert_true(dup2(kept, STDOUT_FILENO) >= 0);
    (void)close(kept);
    rewind(file);
    text[fread(text, 1, TEXT_BYTES - 1, file)] = '\0';
    (void)fclose(file);
    return exit_status;
}

static void json_has_the_same_figures_as_the_estimate(void **state)
{
    (void)state;
    static char text[TEXT_BYTES];
    assert_int_equal(
        run(WORDS("--model", "gpt2", "--ranks", "4", "--data", "2", "--pipeline", "2",
                  "--global-batch", "64", "--price", "2.00", "--steps", "1000", "--json"),
            text),
        BASE_EXIT_DONE);
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(json);
    int64_t parameters = 0;
    int data = 0;
    int tensor = 0;
    double bubble = 0;
    double step_s = 0;
    const char *cost = NULL;
    assert_int_equal(json_unpack(json, "{s:{s:I}, s:{s:i, s:i}, s:{s:f}, s:{s:f}, s:s}", "model",
                                 "parameters", &parameters, "layout", "data", &data, "tensor",
                                 &tensor, "pipeline", "bubble_of_equal_stages", &bubble, "step",
                                 "step_s", &step_s, "cost_usd", &cost),
                     0);
    assert_int_equal(parameters, 124439808);
    assert_int_equal(data, 2);
    assert_int_equal(tensor, 1);
    assert_true(fabs(bubble - 1.0 / 9) < 1e-12);
    /* 4 ranks for whole seconds at 2 dollars an hour, rounded up */
    const double micro = ceil(4 * ceil(1000 * step_s) * 2e6 / 3600);
    assert_true(fabs(strtod(cost, NULL) * 1e6 - micro) < 0.5);
    json_decref(json);
}

static void unknown_prices_are_unknown(void **state)
{
    (void)state;
    static char text[TEXT_BYTES];
    assert_int_equal(run(WORDS("--steps", "10", "--json"), text), BASE_EXIT_DONE);
    assert_non_null(strstr(text, "\"cost_usd\": null"));
    assert_int_equal(run(WORDS("--steps", "10"), text), BASE_EXIT_DONE);
    assert_non_null(strstr(text, "not known without --price"));
    assert_int_equal(run(WORDS("--steps", "1000000", "--price", "900000"), text), BASE_EXIT_DONE);
    assert_non_null(strstr(text, "beyond what the budget can count"));
}

static void what_does_not_fit_ends_with_1(void **state)
{
    (void)state;
    static char text[TEXT_BYTES];
    assert_int_equal(run(WORDS("--ranks", "1", "--memory", "10"), text), BASE_EXIT_ERROR);
    assert_non_null(strstr(text, "does not fit"));
    assert_int_equal(run(WORDS("--ranks", "1", "--memory", "1000"), text), BASE_EXIT_DONE);
    assert_null(strstr(text, "does not fit"));
}

static void own_figures_replace_the_devices(void **state)
{
    (void)state;
    static launch_plan_options options;
    base_error error;
    char *arguments[] = {(char[]){"plan"},       (char[]){"--link=5,100"},
                         (char[]){"--tflops=7"}, (char[]){"--precision=float32"},
                         (char[]){"--layers=6"}, (char[]){"--ranks-per-host=2"}};
    assert_ok(launch_plan_options_parse(6, arguments, &options, &error), &error);
    const launch_device *device = &options.ask.device;
    assert_true(fabs(device->inside.latency_s - 5e-6) < 1e-15);
    assert_true(device->inside.bandwidth_bytes_per_s == 100e9);
    assert_true(device->flops[PROTO_PRECISION_FLOAT32] == 7e12);
    assert_int_equal(device->host_ranks, 2);
    assert_int_equal(options.ask.model.layers, 6);
    assert_int_equal(options.ask.model.width, 1600);
}

static void a_checkpoint_gives_its_shape(void **state)
{
    (void)state;
    static char text[TEXT_BYTES];
    FILE *file = fopen(path_of("config.json"), "w");
    assert_non_null(file);
    (void)fputs("{\"vocab_size\": 100, \"n_embd\": 64, \"n_layer\": 3, \"n_head\": 2, "
                "\"n_positions\": 32}",
                file);
    (void)fclose(file);
    assert_int_equal(run(WORDS("--checkpoint", directory), text), BASE_EXIT_DONE);
    assert_non_null(strstr(text, "3 layers, width 64, 2 heads, vocabulary 100, context 32"));
    file = fopen(path_of("config.json"), "w");
    assert_non_null(file);
    (void)fputs("{\"vocab_size\": 100, \"n_embd\": 64, \"n_layer\": 40000000000, \"n_head\": 2, "
                "\"n_positions\": 32}",
                file);
    (void)fclose(file);
    assert_int_equal(run(WORDS("--checkpoint", directory), text), BASE_EXIT_USAGE);
    (void)unlink(path_of("config.json"));
    assert_int_equal(run(WORDS("--checkpoint", directory), text), BASE_EXIT_USAGE);
}

static int count_of(const char *text, const char *words)
{
    int count = 0;
    for (const char *at = strstr(text, words); at != NULL; at = strstr(at + 1, words)) {
        count++;
    }
    return count;
}

static void the_drawing_has_every_task(void **state)
{
    (void)state;
    static char text[TEXT_BYTES];
    assert_int_equal(run(WORDS("--ranks", "4", "--pipeline", "4", "--global-batch", "32",
                               "--picture", path_of("plan.svg")),
                         text),
                     BASE_EXIT_DONE);
    assert_non_null(strstr(text, "stage 3"));
    FILE *file = fopen(path_of("plan.svg"), "r");
    assert_non_null(file);
    text[fread(text, 1, TEXT_BYTES - 1, file)] = '\0';
    (void)fclose(file);
    assert_int_equal(count_of(text, ", forward of micro-batch"), 4 * 8);
    assert_int_equal(count_of(text, ", backward of micro-batch"), 4 * 8);
    assert_non_null(strstr(text, "</svg>"));
    (void)unlink(path_of("plan.svg"));
    assert_int_equal(
        run(WORDS("--ranks", "1", "--pipeline", "1", "--picture", path_of("plan.svg")), text),
        BASE_EXIT_USAGE);
    assert_int_not_equal(access(path_of("plan.svg"), F_OK), 0);
}

static void wrong_words_are_refused(void **state)
{
    (void)state;
    static char text[TEXT_BYTES];
    assert_int_equal(run(WORDS("now"), text), BASE_EXIT_USAGE);
    assert_int_equal(run(WORDS("--model", "gpt5"), text), BASE_EXIT_USAGE);
    assert_int_equal(run(WORDS("--link", "10"), text), BASE_EXIT_USAGE);
    assert_int_equal(run(WORDS("--link", "10,0"), text), BASE_EXIT_USAGE);
    assert_int_equal(run(WORDS("--heads", "7"), text), BASE_EXIT_USAGE);
    assert_int_equal(run(WORDS("--link", ",450"), text), BASE_EXIT_USAGE);
    assert_int_equal(run(WORDS("--chunks", "2"), text), BASE_EXIT_USAGE);
    assert_int_equal(run(WORDS("--schedule", "interleaved", "--chunks", "1"), text),
                     BASE_EXIT_USAGE);
    assert_int_equal(run(WORDS("--price", "1"), text), BASE_EXIT_USAGE);
    assert_int_equal(run(WORDS("--batch", "3"), text), BASE_EXIT_USAGE);
    assert_int_equal(
        run(WORDS("--data", "1048576", "--tensor", "1048576", "--pipeline", "1"), text),
        BASE_EXIT_USAGE);
    assert_int_equal(run(WORDS("--ranks", "1048576"), text), BASE_EXIT_USAGE);
    assert_int_equal(run(WORDS("--efficiency", "0"), text), BASE_EXIT_USAGE);
    assert_int_equal(run(WORDS("--ranks", "7", "--data", "2"), text), BASE_EXIT_USAGE);
    assert_int_equal(run(WORDS("--help"), text), BASE_EXIT_DONE);
    assert_non_null(strstr(text, "--global-batch N"));
}

static int setup(void **state)
{
    (void)state;
    return mkdtemp(directory) == NULL;
}

static int teardown(void **state)
{
    (void)state;
    return rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_has_the_same_figures_as_the_estimate),
        cmocka_unit_test(unknown_prices_are_unknown),
        cmocka_unit_test(what_does_not_fit_ends_with_1),
        cmocka_unit_test(own_figures_replace_the_devices),
        cmocka_unit_test(a_checkpoint_gives_its_shape),
        cmocka_unit_test(the_drawing_has_every_task),
        cmocka_unit_test(wrong_words_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
