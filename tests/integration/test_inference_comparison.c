/* What --baseline and --curve measure in whole inference jobs, and how results.json, manifest.json and the
 * launcher's last lines have it. */
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inference.h"

static void assert_phase(const json_t *results, const char *name, size_t prompts, json_int_t tokens)
{
    const json_t *phase = json_object_get(results, name);
    const json_t *total = json_object_get(phase, "total");
    size_t index = 0;
    json_t *prompt = NULL;
    assert_int_equal(json_integer_value(json_object_get(total, "tokens")), tokens);
    assert_true(json_real_value(json_object_get(total, "seconds")) > 0);
    assert_true(json_real_value(json_object_get(total, "per_token_ms")) > 0);
    assert_int_equal(json_array_size(json_object_get(phase, "prompts")), prompts);
    json_array_foreach(json_object_get(phase, "prompts"), index, prompt)
    {
        assert_true(json_real_value(json_object_get(prompt, "ttft_ms")) > 0);
        assert_true(json_is_true(json_object_get(prompt, "same_tokens")));
    }
}

/* Asserts that the figure lies between the low and the high of its rounds. */
static void assert_median(const json_t *object, const char *key)
{
    char name[64];
    (void)snprintf(name, sizeof name, "%s_low", key);
    assert_true(inference_real(object, name) > 0);
    assert_true(inference_real(object, name) <= inference_real(object, key));
    (void)snprintf(name, sizeof name, "%s_high", key);
    assert_true(inference_real(object, name) >= inference_real(object, key));
}

/* However many rounds there was time for, the speed-up is that of the medians. */
static void assert_comparison(const json_t *results)
{
    static const char *const sides[] = {"tp", "single", "replicas"};
    const json_t *comparison = json_object_get(results, "comparison");
    const double rounds = inference_real(comparison, "rounds");
    assert_true(rounds >= 1 && rounds <= 50);
    for (size_t i = 0; i < sizeof sides / sizeof sides[0]; i++) {
        assert_median(json_object_get(comparison, sides[i]), "per_token_ms");
        assert_median(json_object_get(comparison, sides[i]), "tokens_per_s");
    }
    const double ours = inference_real(json_object_get(comparison, "tp"), "per_token_ms");
    const double theirs = inference_real(json_object_get(comparison, "single"), "per_token_ms");
    const double speedup = inference_real(results, "speedup");
    assert_true(fabs(speedup - theirs / ours) < 1e-3 * speedup);
    assert_true(json_is_null(json_object_get(results, "baseline_null_because")));
}

/* Each side draws the same tokens, and as many: three prompts of twelve. Rounds change nothing of what
 * the first has drawn. */
static void a_baseline_is_one_rank_and_replicas(void **state)
{
    (void)state;
    char *plain = inference_tokens("2", "plain", FLAGS(DRAWN, "--ignore-eos"));
    char *compared = inference_tokens("2", "baseline", FLAGS(DRAWN, "--baseline", "--ignore-eos"));
    assert_string_equal(compared, plain);
    free(plain);
    free(compared);
    json_t *results = inference_results("baseline");
    const json_t *total = json_object_get(results, "total");
    assert_int_equal(json_integer_value(json_object_get(total, "tokens")), 36);
    assert_phase(results, "single", 3, 36);
    assert_phase(results, "replicas", 3, 36);
    assert_comparison(results);
    const json_t *rank = json_array_get(json_object_get(results, "ranks"), 0);
    assert_int_equal(inference_real(rank, "tokens_drawn"), 36); /* of the first round */
    json_t *lines = inference_timings("baseline");
    assert_int_equal(json_array_size(lines), inference_real(rank, "steps"));
    json_decref(lines);
    json_decref(results);
    /* four ranks, of which one has no prompt of its own */
    results = inference_measure("4", "baseline-4", FLAGS(DRAWN, "--baseline", "--ignore-eos"));
    assert_phase(results, "replicas", 3, 36);
    assert_comparison(results);
    json_decref(results);
}

/* The manifest has the side's median, with low and high. */
static void assert_same(const json_t *manifest, const char *name, const json_t *comparison,
                        const char *side, const char *key)
{
    static const char *const ends[] = {"", "_low", "_high"};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        char ours[64];
        char theirs[64];
        (void)snprintf(ours, sizeof ours, "%s%s", name, ends[i]);
        (void)snprintf(theirs, sizeof theirs, "%s%s", key, ends[i]);
        assert_true(inference_real(manifest, ours) ==
                    inference_real(json_object_get(comparison, side), theirs));
    }
}

/* The manifest has every field of the lab, and the figures of the results. */
static void assert_manifest(const char *name, const json_t *results)
{
    static const char *const fields[] = {"seed",
                                         "lab",
                                         "vendor",
                                         "instance_type",
                                         "nvlink_present",
                                         "instance_id",
                                         "start_ts",
                                         "end_ts",
                                         "duration_hours",
                                         "estimated_cost_usd",
                                         "actual_cost_usd",
                                         "terminated_screenshot",
                                         "single_gpu_per_token_ms",
                                         "tp_per_token_ms",
                                         "speedup",
                                         "lesson_notes",
                                         "crossover_d_model",
                                         "suspect",
                                         "compute_ms_per_token",
                                         "slowest_rank_steps",
                                         "slowest_rank_held_up_others_ms_per_token",
                                         "rerun"};
    static const char *const measured[] = {
        "all_reduce_ms_per_token",         "all_reduce_transfer_ms_per_token",
        "all_reduce_waiting_ms_per_token", "all_reduces_per_token",
        "all_reduce_bytes_per_token",      "comm_compute_ratio"};
    json_t *manifest = inference_file(name, "manifest.json");
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (json_object_get(manifest, fields[i]) == NULL) {
            fail_msg("no %s", fields[i]);
        }
    }
    for (size_t i = 0; i < sizeof measured / sizeof measured[0]; i++) {
        assert_true(inference_real(manifest, measured[i]) > 0);
    }
    assert_true(json_is_integer(json_object_get(manifest, "slowest_rank")));
    assert_int_equal(json_integer_value(json_object_get(manifest, "seed")), 35200);
    assert_string_equal(json_string_value(json_object_get(manifest, "vendor")), "local");
    assert_true(json_is_null(json_object_get(manifest, "instance_type")));
    assert_true(json_is_null(json_object_get(manifest, "crossover_d_model")));
    assert_true(
        json_equal(json_object_get(manifest, "speedup"), json_object_get(results, "speedup")));
    const json_t *comparison = json_object_get(results, "comparison");
    assert_true(
        json_equal(json_object_get(manifest, "rounds"), json_object_get(comparison, "rounds")));
    assert_same(manifest, "tp_per_token_ms", comparison, "tp", "per_token_ms");
    assert_same(manifest, "single_gpu_per_token_ms", comparison, "single", "per_token_ms");
    assert_same(manifest, "tp_tokens_per_s", comparison, "tp", "tokens_per_s");
    assert_same(manifest, "replicas_tokens_per_s", comparison, "replicas", "tokens_per_s");
    assert_true(json_real_value(json_object_get(manifest, "actual_cost_usd")) == 0);
    assert_int_equal(json_array_size(json_object_get(manifest, "max_rss_bytes")), 2);
    assert_has(json_string_value(json_object_get(manifest, "rerun")), "--baseline");
    assert_has(json_string_value(json_object_get(manifest, "lesson_notes")), "all-reduces");
    json_decref(manifest);
}

/* The shipped comparison: ten prompts of a hundred tokens on each side. */
static void the_shipped_prompts_make_a_thousand_tokens(void **state)
{
    (void)state;
    json_t *results = inference_measure(
        "2", "thousand",
        FLAGS("--prompts", PROMPTS_FILE, "--baseline", "--ignore-eos", "--max-new-tokens", "100"));
    const json_t *total = json_object_get(results, "total");
    assert_int_equal(json_integer_value(json_object_get(total, "tokens")), 1000);
    assert_manifest("thousand", results);
    assert_phase(results, "single", 10, 1000);
    assert_phase(results, "replicas", 10, 1000);
    json_decref(results);
}

/* A comparison and a curve have a line each on stderr. */
static void assert_lines(const test_program *program)
{
    const char *line = strstr(program->text[TEST_STDERR], "launcher: a token of a text: ");
    assert_non_null(line);
    assert_has(line, " ms on 2 ranks, ");
    assert_has(line, " tokens/s, together ");
    const char *curve = strstr(line, "launcher: d_model 64: ");
    assert_non_null(curve);
    assert_has(curve, " x, 128: ");
    assert_null(strstr(program->text[TEST_STDOUT], "a token of a text"));
}

/* The curve's models have matrices of the job's type. Of width 128 there are 2 layers of 12 matrices of 128 x 128 and an
 * embedding of 512 words, and 160 positions, norms and biases beside them. */
static void assert_weights_of_128(const json_t *results, double matrix_bytes)
{
    const double width = 128;
    const double matrices = 2 * 12 * width * width + 512 * width;
    const double others = 160 * width + 2 * 13 * width + 2 * width;
    const json_t *points = json_object_get(json_object_get(results, "curve"), "points");
    const json_t *point = json_array_get(points, 1);
    assert_true(inference_real(point, "d_model") == width);
    assert_true(inference_real(point, "parameters") == matrices + others);
    assert_true(inference_real(point, "weight_bytes") == matrices * matrix_bytes + others * 4);
    assert_true(inference_real(point, "tp_ms") > 0);
}

/* Two widths are measured, the others predicted. A report and the curve's files are written, and lines
 * printed. */
static void a_curve_has_what_was_measured(void **state)
{
    (void)state;
    size_t index = 0;
    json_t *point = NULL;
    static test_program program;
    const char *const *flags = FLAGS(PROMPTS, "--baseline", "--curve", "64,128");
    static test_program dry;
    assert_int_equal(inference_run(&dry, "tp-cpu", "2", "curve",
                                   FLAGS(PROMPTS, "--baseline", "--curve", "64,128", "--dry-run")),
                     0);
    assert_int_equal(inference_run(&program, "tp-cpu", "2", "curve", flags), 0);
    training_assert_files(&dry, test_shared_path("curve"));
    assert_lines(&program);
    json_t *results = inference_results("curve");
    const json_t *curve = json_object_get(results, "curve");
    assert_int_equal(json_array_size(json_object_get(curve, "points")), 5);
    json_array_foreach(json_object_get(curve, "points"), index, point)
    {
        const bool asked = inference_real(point, "d_model") <= 128;
        assert_true(inference_real(point, "predicted_single_ms") > 0);
        assert_true(inference_real(point, "predicted_tp_ms") > 0);
        assert_true(inference_real(point, "predicted_comm_fraction") > 0);
        assert_int_equal(json_is_null(json_object_get(point, "null_because")), asked);
        assert_int_equal(json_is_real(json_object_get(point, "single_ms")), asked);
        assert_int_equal(json_is_real(json_object_get(point, "tp_ms")), asked);
        assert_int_equal(inference_real(point, "rounds") > 0, asked);
        if (asked) {
            assert_median(point, "single_ms");
            assert_median(point, "tp_ms");
        }
    }
    assert_true(inference_real(json_object_get(curve, "link"), "latency_us") > 0);
    assert_weights_of_128(results, 4);
    json_decref(results);
}

/* The same of 8 bits. */
static void a_curve_is_of_the_jobs_weights(void **state)
{
    (void)state;
    json_t *results =
        inference_measure("2", "curve-type", FLAGS(PROMPTS, "--weights", "int8", "--curve", "128"));
    assert_weights_of_128(results, 34.0 / 32);
    json_decref(results);
}

/* It is not printed if it is to be quiet, or nothing was measured. */
static void nothing_else_is_printed(void **state)
{
    (void)state;
    static test_program program;
    const char *const *quiet = FLAGS(PROMPTS, "--baseline", "--quiet");
    assert_int_equal(inference_run(&program, "tp-cpu", "2", "printed", quiet), 0);
    assert_null(strstr(program.text[TEST_STDERR], "launcher: "));
    assert_int_equal(inference_run(&program, "tp-cpu", "2", "printed", FLAGS(PROMPTS)), 0);
    assert_null(strstr(program.text[TEST_STDERR], "a token of a text"));
    assert_null(strstr(program.text[TEST_STDERR], "d_model"));
}

#ifndef __SANITIZE_ADDRESS__ /* which keeps freed memory, so that peaks under it say nothing of ours */
static double peak_of(const char *name, const char *const *flags)
{
    json_t *results = inference_measure("2", name, flags);
    const double peak =
        inference_real(json_array_get(json_object_get(results, "ranks"), 0), "max_rss_bytes");
    json_decref(results);
    return peak;
}

/* A model of width 512 takes 27 MB; the trained one has less than one. */
static void memory_of_the_curve_is_not_the_models(void **state)
{
    (void)state;
    const double without = peak_of("peak", FLAGS(PROMPTS));
    const double with = peak_of("peak", FLAGS(PROMPTS, "--curve", "512"));
    assert_true(with < without + 13e6);
    json_t *manifest = inference_file("peak", "manifest.json");
    const json_t *peaks = json_object_get(manifest, "max_rss_bytes");
    assert_true(json_number_value(json_array_get(peaks, 0)) == with);
    json_decref(manifest);
}
#endif

/* What each needs is said in one line, and nothing runs. */
static void curves_and_baselines_need_a_cut_model(void **state)
{
    (void)state;
    static test_program program;
    static const char *const wrong[][4] = {
        {"2", "tp-cpu", "--curve", "100"},    {"2", "tp-cpu", "--curve", "0"},
        {"2", "tp-cpu", "--curve", "64,"},    {"2", "tp-cpu", "--curve", ",64"},
        {"2", "tp-cpu", "--curve", "64;128"}, {"2", "tp-cpu", "--curve", "-64"},
        {"2", "tp-cpu", "--curve", "16448"},  {"1", "tp-cpu", "--curve", "64"},
        {"2", "generate", "--curve", "64"},   {"1", "tp-cpu", "--baseline", NULL},
        {"2", "generate", "--baseline", NULL}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const char *const *flags = FLAGS(PROMPTS, wrong[i][2], wrong[i][3]);
        assert_int_equal(inference_run(&program, wrong[i][1], wrong[i][0], "never", flags), 2);
        assert_has(program.text[TEST_STDERR], wrong[i][2]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_baseline_is_one_rank_and_replicas),
        cmocka_unit_test(the_shipped_prompts_make_a_thousand_tokens),
        cmocka_unit_test(a_curve_has_what_was_measured),
        cmocka_unit_test(a_curve_is_of_the_jobs_weights),
        cmocka_unit_test(nothing_else_is_printed),
#ifndef __SANITIZE_ADDRESS__
        cmocka_unit_test(memory_of_the_curve_is_not_the_models),
#endif
        cmocka_unit_test(curves_and_baselines_need_a_cut_model),
    };
    return cmocka_run_group_tests(tests, inference_make_model, test_shared_directory_remove);
}
