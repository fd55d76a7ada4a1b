/* The record of whole inference jobs: results.json, manifest.json, timings.jsonl, baselines. */
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "inference.h"
#include "record/inference.h"

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

static double real_at(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value)) {
        fail_msg("%s is no number", key);
    }
    return json_number_value(value);
}

/* Reads a file of JSON lines. */
static json_t *read_lines(const char *name, const char *file)
{
    char path[BASE_PATH_BYTES + 64];
    (void)snprintf(path, sizeof path, "%s/%s", test_directory_path(&test_shared_directory, name),
                   file);
    json_t *lines = json_array();
    FILE *stream = fopen(path, "re");
    assert_non_null(stream);
    for (json_t *line; (line = json_loadf(stream, JSON_DISABLE_EOF_CHECK, NULL)) != NULL;) {
        assert_int_equal(json_array_append_new(lines, line), 0);
    }
    (void)fclose(stream);
    return lines;
}

/* Asserts that the figure lies between the low and the high of its rounds. */
static void assert_median(const json_t *object, const char *key)
{
    char name[64];
    (void)snprintf(name, sizeof name, "%s_low", key);
    assert_true(real_at(object, name) > 0);
    assert_true(real_at(object, name) <= real_at(object, key));
    (void)snprintf(name, sizeof name, "%s_high", key);
    assert_true(real_at(object, name) >= real_at(object, key));
}

/* However many rounds there was time for, the speed-up is that of the medians. */
static void assert_comparison(const json_t *results)
{
    static const char *const sides[] = {"tp", "single", "replicas"};
    const json_t *comparison = json_object_get(results, "comparison");
    const double rounds = real_at(comparison, "rounds");
    assert_true(rounds >= 1 && rounds <= 50);
    for (size_t i = 0; i < sizeof sides / sizeof sides[0]; i++) {
        assert_median(json_object_get(comparison, sides[i]), "per_token_ms");
        assert_median(json_object_get(comparison, sides[i]), "tokens_per_s");
    }
    const double ours = real_at(json_object_get(comparison, "tp"), "per_token_ms");
    const double theirs = real_at(json_object_get(comparison, "single"), "per_token_ms");
    const double speedup = real_at(results, "speedup");
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
    json_t *results = inference_results(test_directory_path(&test_shared_directory, "baseline"));
    const json_t *total = json_object_get(results, "total");
    assert_int_equal(json_integer_value(json_object_get(total, "tokens")), 36);
    assert_phase(results, "single", 3, 36);
    assert_phase(results, "replicas", 3, 36);
    assert_comparison(results);
    const json_t *rank = json_array_get(json_object_get(results, "ranks"), 0);
    assert_int_equal(real_at(rank, "tokens_drawn"), 36); /* of the first round */
    json_t *lines = read_lines("baseline", "timings.jsonl");
    assert_int_equal(json_array_size(lines), real_at(rank, "steps"));
    json_decref(lines);
    json_decref(results);
    /* four ranks, of which one has no prompt of its own */
    free(inference_tokens("4", "baseline-4", FLAGS(DRAWN, "--baseline", "--ignore-eos")));
    results = inference_results(test_directory_path(&test_shared_directory, "baseline-4"));
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
        assert_true(real_at(manifest, ours) == real_at(json_object_get(comparison, side), theirs));
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
    char path[BASE_PATH_BYTES + 64];
    (void)snprintf(path, sizeof path, "%s/manifest.json",
                   test_directory_path(&test_shared_directory, name));
    json_t *manifest = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(manifest);
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (json_object_get(manifest, fields[i]) == NULL) {
            fail_msg("no %s", fields[i]);
        }
    }
    for (size_t i = 0; i < sizeof measured / sizeof measured[0]; i++) {
        assert_true(real_at(manifest, measured[i]) > 0);
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
    assert_non_null(strstr(json_string_value(json_object_get(manifest, "rerun")), "--baseline"));
    assert_non_null(
        strstr(json_string_value(json_object_get(manifest, "lesson_notes")), "all-reduces"));
    json_decref(manifest);
}

/* Parts add up: a step is computing and exchanging, an exchange is transfer and waiting. */
static void assert_rank_adds_up(const json_t *rank)
{
    const double step_ms = real_at(rank, "step_ms_per_token");
    const double reduce_ms = real_at(rank, "all_reduce_ms_per_token");
    const double gather_ms = real_at(rank, "gather_ms_per_token");
    const double slack_ms = 1e-5 * step_ms; /* six digits are written */
    assert_true(fabs(real_at(rank, "compute_ms_per_token") + reduce_ms + gather_ms - step_ms) <
                slack_ms);
    assert_true(fabs(real_at(rank, "all_reduce_transfer_ms_per_token") +
                     real_at(rank, "all_reduce_waiting_ms_per_token") - reduce_ms) < slack_ms);
    assert_true(fabs(real_at(rank, "gather_transfer_ms_per_token") +
                     real_at(rank, "gather_waiting_ms_per_token") - gather_ms) < slack_ms);
    assert_true(real_at(rank, "ttft_ms") > 0 && real_at(rank, "per_token_ms") > 0);
    assert_true(real_at(rank, "max_rss_bytes") > 1e6);
}

/* Two ranks: what one has waited is what the other has held it up. */
static void each_rank_says_where_its_time_went(void **state)
{
    (void)state;
    double waited_ms[2];
    double held_up_ms[2];
    json_int_t slowest = 0;
    free(inference_tokens("2", "waits", FLAGS(PROMPTS, "--ignore-eos")));
    json_t *results = inference_results(test_directory_path(&test_shared_directory, "waits"));
    json_t *lines = read_lines("waits", "timings.jsonl");
    const json_t *ranks = json_object_get(results, "ranks");
    assert_int_equal(json_array_size(ranks), 2);
    for (size_t r = 0; r < 2; r++) {
        const json_t *rank = json_array_get(ranks, r);
        assert_rank_adds_up(rank);
        waited_ms[r] = real_at(rank, "all_reduce_waiting_ms_per_token") +
                       real_at(rank, "gather_waiting_ms_per_token");
        held_up_ms[r] = real_at(rank, "held_up_others_ms_per_token");
        slowest += json_integer_value(json_object_get(rank, "slowest_in_steps"));
        assert_int_equal(json_integer_value(json_object_get(rank, "steps")),
                         json_array_size(lines));
    }
    assert_true(fabs(waited_ms[0] - held_up_ms[1]) < 1e-5 * (waited_ms[0] + 1e-6));
    assert_true(fabs(waited_ms[1] - held_up_ms[0]) < 1e-5 * (waited_ms[1] + 1e-6));
    size_t index = 0;
    json_t *line = NULL;
    json_int_t drawn = 0;
    json_int_t named = 0;
    double held_up_us = 0;
    json_array_foreach(lines, index, line)
    {
        assert_int_equal(json_integer_value(json_object_get(line, "step")), index);
        drawn += json_integer_value(json_object_get(line, "tokens_drawn"));
        named += json_is_integer(json_object_get(line, "slowest_rank"));
        held_up_us += real_at(line, "held_up_us");
    }
    assert_int_equal(drawn, 36);
    assert_int_equal(named, slowest);
    assert_true(held_up_us / 1000 <= 36 * (held_up_ms[0] + held_up_ms[1]) * (1 + 1e-5));
    json_decref(lines);
    json_decref(results);
    /* alone nobody waits, and each step still has its line */
    free(inference_tokens("1", "waits", FLAGS(PROMPTS)));
    results = inference_results(test_directory_path(&test_shared_directory, "waits"));
    const json_t *alone = json_array_get(json_object_get(results, "ranks"), 0);
    assert_true(json_is_null(json_object_get(alone, "all_reduce_waiting_ms_per_token")));
    assert_int_equal(real_at(alone, "all_reduces_per_token"), 0);
    lines = read_lines("waits", "timings.jsonl");
    assert_int_equal(json_array_size(lines), real_at(alone, "steps"));
    json_array_foreach(lines, index, line)
    {
        assert_true(real_at(line, "step_us") > 0);
        assert_true(json_is_null(json_object_get(line, "slowest_rank")));
    }
    json_decref(lines);
    json_decref(results);
}

/* Two layers: five all-reduces a step, each of a row of 64 floats for each token computed. */
static void libcoll_counts_what_a_token_costs(void **state)
{
    (void)state;
    free(inference_tokens("2", "counted", FLAGS("--prompt", "he goed to school", "--ignore-eos")));
    json_t *results = inference_results(test_directory_path(&test_shared_directory, "counted"));
    const double layers = real_at(json_object_get(results, "model"), "layers");
    const json_t *rank = json_array_get(json_object_get(results, "ranks"), 1);
    const double drawn = real_at(rank, "tokens_drawn");
    const double computed = real_at(rank, "tokens_computed");
    const double reduces = 1 + 2 * layers;
    assert_true(fabs(real_at(rank, "all_reduces_per_token") - reduces) < 1e-4);
    /* in the last layer the prompt's other rows are not needed any more */
    const double rows = computed * (reduces - 2) + drawn * 2;
    const double bytes = rows * 64 * sizeof(float) / drawn;
    assert_true(fabs(real_at(rank, "all_reduce_bytes_per_token") - bytes) < 1e-4 * bytes);
    json_decref(results);
}

/* What `launcher plan` says of the same model: as many all-reduces a token. */
static void the_plan_counts_the_same_exchanges(void **state)
{
    (void)state;
    static test_program program;
    free(inference_tokens("2", "planned", FLAGS("--prompt", "he goed to school", "--ignore-eos")));
    json_t *results = inference_results(test_directory_path(&test_shared_directory, "planned"));
    const json_t *rank = json_array_get(json_object_get(results, "ranks"), 0);
    test_program_start(&program,
                       (const char *const[]){LAUNCHER_PATH, "plan", "--decode", "--checkpoint",
                                             inference_model.out, "--tensor", "2", "--ranks", "2",
                                             "--batch", "1", "--json", NULL},
                       NULL);
    assert_int_equal(test_program_wait(&program), 0);
    json_t *plan = json_loads(program.text[TEST_STDOUT], JSON_REJECT_DUPLICATES, NULL);
    const json_t *row = json_array_get(json_object_get(plan, "bill"), 0);
    assert_string_equal(json_string_value(json_object_get(row, "operation")), "all_reduce");
    assert_true(fabs(real_at(row, "times") - real_at(rank, "all_reduces_per_token")) < 1e-4);
    const double width = real_at(json_object_get(results, "model"), "width");
    assert_true(real_at(row, "payload_bytes") == width * sizeof(float));
    json_decref(plan);
    json_decref(results);
}

/* The line that adds up the ranks' weights: it has what the file's tensors take for the model, and
 * its sum is right. One rank alone holds nothing twice. */
static void assert_sum(const char *text, bool alone)
{
    static const char together[] = "together: weights ";
    char path[BASE_PATH_BYTES + 32];
    double sum = 0;
    double of_model = 0;
    double on_every = 0;
    double padding = 0;
    uint64_t header = 0;
    struct stat about;
    const char *line = strstr(text, together);
    assert_non_null(line);
    /* The numbers are the launcher's own. NOLINTNEXTLINE(cert-err34-c) */
    assert_int_equal(sscanf(line + strlen(together),
                            "%lf MB = the model's %lf MB + %lf MB that are on every rank + "
                            "%lf MB of padding",
                            &sum, &of_model, &on_every, &padding),
                     4);
    (void)snprintf(path, sizeof path, "%s/model.safetensors", inference_model.out);
    FILE *weights = fopen(path, "rb");
    assert_non_null(weights);
    assert_int_equal(fread(&header, sizeof header, 1, weights), 1);
    assert_int_equal(fstat(fileno(weights), &about), 0);
    assert_int_equal(fclose(weights), 0);
    const double tensors = (double)about.st_size - sizeof header - (double)header;
    assert_true(fabs(of_model - tensors / 1e6) < 0.0051);
    assert_true(fabs(sum - of_model - on_every - padding) < 0.021);
    assert_int_equal(on_every == 0.0, alone);
}

/* One line for each rank. The halves of the weights are not twice the whole. */
static void each_rank_says_what_it_has_loaded(void **state)
{
    (void)state;
    static test_program two;
    static test_program one;
    const char *out = test_directory_path(&test_shared_directory, "loaded");
    assert_int_equal(inference_run(&two, "tp-cpu", "2", out, FLAGS(PROMPTS)), 0);
    const char *text = two.text[TEST_STDERR];
    const char *first = strstr(text, "rank 0: weights ");
    const char *second = strstr(text, "rank 1: weights ");
    assert_non_null(first);
    assert_non_null(second);
    assert_non_null(strstr(first, " blocks of "));
    assert_sum(text, false);
    const double half = strtod(first + strlen("rank 0: weights "), NULL);
    assert_int_equal(inference_run(&one, "tp-cpu", "1", out, FLAGS(PROMPTS)), 0);
    first = strstr(one.text[TEST_STDERR], "rank 0: weights ");
    assert_non_null(first);
    const double whole = strtod(first + strlen("rank 0: weights "), NULL);
    assert_true(half > 0.4 * whole && half < 0.7 * whole);
    assert_sum(one.text[TEST_STDERR], true);
    assert_int_equal(inference_run(&one, "tp-cpu", "1", out, FLAGS(PROMPTS, "--quiet")), 0);
    assert_null(strstr(one.text[TEST_STDERR], "weights"));
}

static void a_training_keeps_its_manifest(void **state)
{
    (void)state;
    static test_program program;
    assert_int_equal(inference_run(&program, "tp-cpu", "2", inference_model.out, FLAGS(PROMPTS)),
                     1);
    assert_non_null(strstr(program.text[TEST_STDERR], "holds the record of a training"));
}

/* The first 40 held-out sentences, of which the trained model gets few right: each is asked about once,
 * whatever the ranks hold. */
static void ranks_of_one_model_evaluate_all_sentences(void **state)
{
    (void)state;
    static test_program program;
    static const char *const modes[][2] = {{"generate", "1"}, {"tp-cpu", "1"}, {"tp-cpu", "2"}};
    char heldout[BASE_PATH_BYTES];
    char first[64] = "";
    base_error error;
    (void)snprintf(heldout, sizeof heldout, "%s",
                   test_directory_path(&test_shared_directory, "heldout.jsonl"));
    char text[40 * 64] = "";
    for (int i = 0; i < 40; i++) {
        const size_t used = strlen(text);
        (void)snprintf(text + used, sizeof text - used,
                       "{\"wrong\":\"he goed %c\",\"right\":\"he went %c\"}\n", (char)(97 + i % 26),
                       (char)(97 + i % 26));
    }
    assert_ok(base_file_write(heldout, text, strlen(text), &error), &error);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        assert_int_equal(inference_run(&program, modes[i][0], modes[i][1],
                                       test_directory_path(&test_shared_directory, "evaluated"),
                                       FLAGS("--eval", "--heldout", heldout, "--quiet")),
                         0);
        const char *found = strstr(program.text[TEST_STDOUT], "/40 ");
        if (found == NULL) {
            fail_msg("%s on %s: %s", modes[i][0], modes[i][1], program.text[TEST_STDOUT]);
        }
        if (i == 0) {
            (void)snprintf(first, sizeof first, "%s", program.text[TEST_STDOUT]);
        }
        assert_string_equal(program.text[TEST_STDOUT], first);
    }
}

static void put_file(const char *out, const char *name, const char *text)
{
    char path[BASE_PATH_BYTES + 32];
    base_error error;
    (void)snprintf(path, sizeof path, "%s/%s", out, name);
    assert_ok(base_mkdirs(out, &error), &error);
    assert_ok(base_file_write(path, text, strlen(text), &error), &error);
}

/* An older record is replaced, and so is one that a killed launcher has left. What is no record stays, and so
 * does a training that was killed. */
static void what_is_no_record_is_not_written_over(void **state)
{
    (void)state;
    static test_program program;
    static const struct {
        const char *file;
        const char *text;
        const char *expected; /* NULL: it runs */
    } cases[] = {
        {"mine.txt", "mine", NULL},
        {"serve.url", "http://127.0.0.1:1\n", NULL},
        {"results.json", "{\"total\":{}}", NULL},
        {"results.json", "{\"mine\":1}", "has a results.json that is no record's"},
        {"results.json", "mine", "has a results.json that is no record's"},
        {"report.html", "mine", "has a report.html"},
        {"plots.gp", "mine", "has a plots.gp"},
        {"timings.jsonl", "{}\n", "holds the record of a training"},
        {"manifest.json", "{\"lab\":\"mine\"}", "holds the record of a training"},
        {"checkpoints/step-000000005", "", "holds the record of a training"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char out[BASE_PATH_BYTES];
        char name[32];
        void *text = NULL;
        size_t text_bytes = 0;
        base_error error;
        (void)snprintf(name, sizeof name, "kept-%zu", i);
        (void)snprintf(out, sizeof out, "%s", test_directory_path(&test_shared_directory, name));
        if (strncmp(cases[i].file, "checkpoints", strlen("checkpoints")) == 0) {
            assert_ok(base_mkdirs(test_directory_path(&test_shared_directory, "kept-9/checkpoints"),
                                  &error),
                      &error);
        } else {
            put_file(out, cases[i].file, cases[i].text);
        }
        const int code = inference_run(&program, "tp-cpu", "1", out, FLAGS(PROMPTS, "--overwrite"));
        if (cases[i].expected == NULL) {
            assert_int_equal(code, 0);
            assert_int_equal(inference_run(&program, "tp-cpu", "1", out, FLAGS(PROMPTS)), 0);
            continue;
        }
        assert_int_equal(code, 1);
        if (strstr(program.text[TEST_STDERR], cases[i].expected) == NULL) {
            fail_msg("%s: %s", cases[i].file, program.text[TEST_STDERR]);
        }
        if (cases[i].text[0] != '\0') {
            char path[BASE_PATH_BYTES + 32];
            (void)snprintf(path, sizeof path, "%s/%s", out, cases[i].file);
            assert_ok(base_file_read(path, 100, &text, &text_bytes, &error), &error);
            assert_int_equal(text_bytes, strlen(cases[i].text));
            free(text);
        }
    }
}

/* Another run has the directory: nothing is started, and nothing in it changes. */
static void a_directory_is_for_one_run_at_a_time(void **state)
{
    (void)state;
    static test_program program;
    char out[BASE_PATH_BYTES];
    base_error error;
    (void)snprintf(out, sizeof out, "%s", test_directory_path(&test_shared_directory, "taken"));
    assert_ok(base_mkdirs(out, &error), &error);
    const int fd = open(out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(inference_run(&program, "tp-cpu", "2", out, FLAGS(PROMPTS)), 1);
    assert_non_null(strstr(program.text[TEST_STDERR], "is being written by another run"));
    assert_int_equal(close(fd), 0);
    assert_int_equal(rmdir(out), 0); /* it is empty */
    assert_int_equal(inference_run(&program, "tp-cpu", "2", out, FLAGS(PROMPTS)), 0);
}

static bool is_suspect(double speedup, double parameters, bool network)
{
    return launch_inference_suspect(&(launch_inference_claim){.speedup = speedup,
                                                              .parameters = parameters,
                                                              .ranks = 2,
                                                              .network = network,
                                                              .cache_bytes = 3e7,
                                                              .apart = (double)NAN}) != NULL;
}

static void impossible_speed_ups_are_suspect(void **state)
{
    (void)state;
    assert_false(is_suspect(1.9, 1e8, false));
    assert_true(is_suspect(2.1, 1e8, false));
    assert_false(is_suspect(2.1, 1e7, false)); /* a half fits the cache */
    assert_true(is_suspect(2.1, 1e6, false));  /* the whole did too */
    assert_true(is_suspect(1.1, 5e5, true));
    assert_false(is_suspect(0.9, 5e5, true));
    assert_false(is_suspect((double)NAN, 5e5, true));
}

static void rounds_that_are_far_apart_are_suspect(void **state)
{
    (void)state;
    launch_inference_claim claim = {
        .speedup = 1.5, .parameters = 1e8, .ranks = 2, .cache_bytes = 3e7, .apart = 1.9};
    assert_null(launch_inference_suspect(&claim));
    claim.apart = 2.1;
    assert_non_null(strstr(launch_inference_suspect(&claim), "slow rounds"));
}

/* The shipped comparison: ten prompts of a hundred tokens on each side. */
static void the_shipped_prompts_make_a_thousand_tokens(void **state)
{
    (void)state;
    free(inference_tokens(
        "2", "thousand",
        FLAGS("--prompts", PROMPTS_FILE, "--baseline", "--ignore-eos", "--max-new-tokens", "100")));
    json_t *results = inference_results(test_directory_path(&test_shared_directory, "thousand"));
    const json_t *total = json_object_get(results, "total");
    assert_int_equal(json_integer_value(json_object_get(total, "tokens")), 1000);
    assert_manifest("thousand", results);
    assert_phase(results, "single", 10, 1000);
    assert_phase(results, "replicas", 10, 1000);
    json_decref(results);
}

static bool has_file(const char *path)
{
    return access(test_directory_path(&test_shared_directory, path), F_OK) == 0;
}

/* Two widths are measured, the others predicted. A report and the curve's files are written. */
static void a_curve_has_what_was_measured(void **state)
{
    (void)state;
    size_t index = 0;
    json_t *point = NULL;
    free(inference_tokens("2", "curve", FLAGS(PROMPTS, "--curve", "64,128", "--no-plots")));
    json_t *results = inference_results(test_directory_path(&test_shared_directory, "curve"));
    const json_t *curve = json_object_get(results, "curve");
    assert_int_equal(json_array_size(json_object_get(curve, "points")), 5);
    json_array_foreach(json_object_get(curve, "points"), index, point)
    {
        const bool asked = real_at(point, "d_model") <= 128;
        assert_true(real_at(point, "predicted_single_ms") > 0);
        assert_true(real_at(point, "predicted_tp_ms") > 0);
        assert_true(real_at(point, "predicted_comm_fraction") > 0);
        assert_int_equal(json_is_null(json_object_get(point, "null_because")), asked);
        assert_int_equal(json_is_real(json_object_get(point, "single_ms")), asked);
        assert_int_equal(json_is_real(json_object_get(point, "tp_ms")), asked);
        assert_int_equal(real_at(point, "rounds") > 0, asked);
        if (asked) {
            assert_median(point, "single_ms");
            assert_median(point, "tp_ms");
        }
    }
    assert_true(real_at(json_object_get(curve, "link"), "latency_us") > 0);
    assert_true(has_file("curve/report.html") && has_file("curve/plots.gp"));
    assert_true(has_file("curve/scaling-curve.dat") && !has_file("curve/scaling-curve.png"));
    json_decref(results);
}

/* A comparison and a curve have a line each on stderr, unless it is to be quiet. */
static void what_was_measured_is_printed(void **state)
{
    (void)state;
    static test_program program;
    static const char compared[] = "launcher: a token of a text: ";
    const char *out = test_directory_path(&test_shared_directory, "printed");
    const char *const *flags = FLAGS(PROMPTS, "--baseline", "--curve", "64,128", "--no-plots");
    assert_int_equal(inference_run(&program, "tp-cpu", "2", out, flags), 0);
    const char *line = strstr(program.text[TEST_STDERR], compared);
    assert_non_null(line);
    assert_non_null(strstr(line, " ms on 2 ranks, "));
    assert_non_null(strstr(line, " tokens/s, together "));
    const char *curve = strstr(line, "launcher: d_model 64: ");
    assert_non_null(curve);
    assert_non_null(strstr(curve, " x, 128: "));
    assert_null(strstr(program.text[TEST_STDOUT], "a token of a text"));
    const char *const *quiet = FLAGS(PROMPTS, "--baseline", "--quiet");
    assert_int_equal(inference_run(&program, "tp-cpu", "2", out, quiet), 0);
    assert_null(strstr(program.text[TEST_STDERR], "launcher: "));
    assert_int_equal(inference_run(&program, "tp-cpu", "2", out, FLAGS(PROMPTS)), 0);
    assert_null(strstr(program.text[TEST_STDERR], "a token of a text"));
    assert_null(strstr(program.text[TEST_STDERR], "d_model"));
}

static double peak_of(const char *name, const char *const *flags)
{
    free(inference_tokens("2", name, flags));
    json_t *results = inference_results(test_directory_path(&test_shared_directory, name));
    const double peak =
        real_at(json_array_get(json_object_get(results, "ranks"), 0), "max_rss_bytes");
    json_decref(results);
    return peak;
}

/* A model of width 512 takes 27 MB; the trained one has less than one. */
static void memory_of_the_curve_is_not_the_models(void **state)
{
    (void)state;
    const double without = peak_of("peak", FLAGS(PROMPTS));
    const double with = peak_of("peak", FLAGS(PROMPTS, "--curve", "512", "--no-plots"));
    assert_true(with < without + 13e6);
    char path[BASE_PATH_BYTES + 64];
    (void)snprintf(path, sizeof path, "%s/manifest.json",
                   test_directory_path(&test_shared_directory, "peak"));
    json_t *manifest = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
    const json_t *peaks = json_object_get(manifest, "max_rss_bytes");
    assert_true(json_number_value(json_array_get(peaks, 0)) == with);
    json_decref(manifest);
}

static void a_curve_needs_widths_and_two_ranks(void **state)
{
    (void)state;
    static test_program program;
    static const char *const wrong[] = {"100", "0", "64,", ",64", "64;128", "-64", "16448"};
    const char *out = test_directory_path(&test_shared_directory, "never");
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(
            inference_run(&program, "tp-cpu", "2", out, FLAGS(PROMPTS, "--curve", wrong[i])), 2);
        assert_non_null(strstr(program.text[TEST_STDERR], "--curve"));
    }
    assert_int_equal(inference_run(&program, "tp-cpu", "1", out, FLAGS(PROMPTS, "--curve", "64")),
                     2);
    assert_non_null(strstr(program.text[TEST_STDERR], "--curve"));
    assert_int_equal(inference_run(&program, "generate", "2", out, FLAGS(PROMPTS, "--curve", "64")),
                     2);
    assert_non_null(strstr(program.text[TEST_STDERR], "--curve"));
}

static void a_baseline_needs_a_cut_model(void **state)
{
    (void)state;
    static test_program program;
    const char *out = test_directory_path(&test_shared_directory, "never");
    assert_int_equal(inference_run(&program, "tp-cpu", "1", out, FLAGS(PROMPTS, "--baseline")), 2);
    assert_non_null(strstr(program.text[TEST_STDERR], "--baseline"));
    assert_int_equal(inference_run(&program, "generate", "2", out, FLAGS(PROMPTS, "--baseline")),
                     2);
    assert_non_null(strstr(program.text[TEST_STDERR], "--baseline"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_baseline_is_one_rank_and_replicas),
        cmocka_unit_test(the_shipped_prompts_make_a_thousand_tokens),
        cmocka_unit_test(a_curve_has_what_was_measured),
        cmocka_unit_test(a_curve_needs_widths_and_two_ranks),
        cmocka_unit_test(a_baseline_needs_a_cut_model),
        cmocka_unit_test(each_rank_says_what_it_has_loaded),
        cmocka_unit_test(each_rank_says_where_its_time_went),
        cmocka_unit_test(libcoll_counts_what_a_token_costs),
        cmocka_unit_test(the_plan_counts_the_same_exchanges),
        cmocka_unit_test(a_training_keeps_its_manifest),
        cmocka_unit_test(ranks_of_one_model_evaluate_all_sentences),
        cmocka_unit_test(what_is_no_record_is_not_written_over),
        cmocka_unit_test(a_directory_is_for_one_run_at_a_time),
        cmocka_unit_test(impossible_speed_ups_are_suspect),
        cmocka_unit_test(rounds_that_are_far_apart_are_suspect),
        cmocka_unit_test(what_was_measured_is_printed),
        cmocka_unit_test(memory_of_the_curve_is_not_the_models),
    };
    return cmocka_run_group_tests(tests, inference_make_model, test_shared_directory_remove);
}
