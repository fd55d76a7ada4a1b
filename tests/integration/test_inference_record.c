/* The record of whole inference jobs: results.json, timings.jsonl, and what is not written over. */
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "inference.h"

/* Parts add up: a step is computing and exchanging, an exchange is transfer and waiting. */
static void assert_rank_adds_up(const json_t *rank)
{
    const double step_ms = inference_real(rank, "step_ms_per_token");
    const double reduce_ms = inference_real(rank, "all_reduce_ms_per_token");
    const double gather_ms = inference_real(rank, "gather_ms_per_token");
    const double slack_ms = 1e-5 * step_ms; /* six digits are written */
    assert_true(fabs(inference_real(rank, "compute_ms_per_token") + reduce_ms + gather_ms -
                     step_ms) < slack_ms);
    assert_true(fabs(inference_real(rank, "all_reduce_transfer_ms_per_token") +
                     inference_real(rank, "all_reduce_waiting_ms_per_token") - reduce_ms) <
                slack_ms);
    assert_true(fabs(inference_real(rank, "gather_transfer_ms_per_token") +
                     inference_real(rank, "gather_waiting_ms_per_token") - gather_ms) < slack_ms);
    assert_true(inference_real(rank, "ttft_ms") > 0 && inference_real(rank, "per_token_ms") > 0);
    assert_true(inference_real(rank, "max_rss_bytes") > 1e6);
}

/* Two ranks: what one has waited is what the other has held it up. */
static void each_rank_says_where_its_time_went(void **state)
{
    (void)state;
    double waited_ms[2];
    double held_up_ms[2];
    json_int_t slowest = 0;
    json_t *results = inference_measure("2", "waits", FLAGS(PROMPTS, "--ignore-eos"));
    json_t *lines = inference_timings("waits");
    const json_t *ranks = json_object_get(results, "ranks");
    assert_int_equal(json_array_size(ranks), 2);
    for (size_t r = 0; r < 2; r++) {
        const json_t *rank = json_array_get(ranks, r);
        assert_rank_adds_up(rank);
        waited_ms[r] = inference_real(rank, "all_reduce_waiting_ms_per_token") +
                       inference_real(rank, "gather_waiting_ms_per_token");
        held_up_ms[r] = inference_real(rank, "held_up_others_ms_per_token");
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
        held_up_us += inference_real(line, "held_up_us");
    }
    assert_int_equal(drawn, 36);
    assert_int_equal(named, slowest);
    assert_true(held_up_us / 1000 <= 36 * (held_up_ms[0] + held_up_ms[1]) * (1 + 1e-5));
    json_decref(lines);
    json_decref(results);
    /* alone nobody waits, and each step still has its line */
    results = inference_measure("1", "waits", FLAGS(PROMPTS));
    const json_t *alone = json_array_get(json_object_get(results, "ranks"), 0);
    assert_true(json_is_null(json_object_get(alone, "all_reduce_waiting_ms_per_token")));
    assert_int_equal(inference_real(alone, "all_reduces_per_token"), 0);
    lines = inference_timings("waits");
    assert_int_equal(json_array_size(lines), inference_real(alone, "steps"));
    json_array_foreach(lines, index, line)
    {
        assert_true(inference_real(line, "step_us") > 0);
        assert_true(json_is_null(json_object_get(line, "slowest_rank")));
    }
    json_decref(lines);
    json_decref(results);
}

/* Two layers: five all-reduces a step, each of a row of 64 floats for each token computed. */
static void libcoll_counts_what_a_token_costs(void **state)
{
    (void)state;
    json_t *results =
        inference_measure("2", "counted", FLAGS("--prompt", "he goed to school", "--ignore-eos"));
    const double layers = inference_real(json_object_get(results, "model"), "layers");
    const json_t *rank = json_array_get(json_object_get(results, "ranks"), 1);
    const double drawn = inference_real(rank, "tokens_drawn");
    const double computed = inference_real(rank, "tokens_computed");
    const double reduces = 1 + 2 * layers;
    assert_true(fabs(inference_real(rank, "all_reduces_per_token") - reduces) < 1e-4);
    /* in the last layer the prompt's other rows are not needed any more */
    const double rows = computed * (reduces - 2) + drawn * 2;
    const double bytes = rows * 64 * sizeof(float) / drawn;
    assert_true(fabs(inference_real(rank, "all_reduce_bytes_per_token") - bytes) < 1e-4 * bytes);
    json_decref(results);
}

/* And as many bytes of weights on each rank, to the byte. */
static void the_plan_counts_the_same_weights(void **state)
{
    (void)state;
    static test_program program;
    static const char *const weights[] = {"checkpoint", "int8", "int4"};
    static const char *const ranks[] = {"1", "2"};
    for (size_t i = 0; i < 6; i++) {
        const char *count = ranks[i % 2];
        json_t *results = inference_measure(
            count, "planned", FLAGS("--prompt", "he goed to school", "--weights", weights[i / 2]));
        test_program_start(&program,
                           FLAGS(LAUNCHER_PATH, "plan", "--decode", "--checkpoint",
                                 inference_model.out, "--tensor", count, "--ranks", count,
                                 "--precision", "float32", "--weights", weights[i / 2], "--json"),
                           NULL);
        assert_int_equal(test_program_wait(&program), 0);
        json_t *plan = json_loads(program.text[TEST_STDOUT], JSON_REJECT_DUPLICATES, NULL);
        const double planned = inference_real(json_object_get(plan, "memory"), "weights");
        size_t rank = 0;
        const json_t *row = NULL;
        json_array_foreach(json_object_get(results, "ranks"), rank, row)
        {
            assert_true(inference_real(row, "weight_bytes") == planned);
        }
        assert_int_equal(rank, i % 2 + 1);
        json_decref(plan);
        json_decref(results);
    }
}

/* What `launcher plan` says of the same model: as many all-reduces a token. */
static void the_plan_counts_the_same_exchanges(void **state)
{
    (void)state;
    static test_program program;
    json_t *results =
        inference_measure("2", "planned", FLAGS("--prompt", "he goed to school", "--ignore-eos"));
    const json_t *rank = json_array_get(json_object_get(results, "ranks"), 0);
    test_program_start(&program,
                       FLAGS(LAUNCHER_PATH, "plan", "--decode", "--checkpoint", inference_model.out,
                             "--tensor", "2", "--ranks", "2", "--batch", "1", "--json"),
                       NULL);
    assert_int_equal(test_program_wait(&program), 0);
    json_t *plan = json_loads(program.text[TEST_STDOUT], JSON_REJECT_DUPLICATES, NULL);
    const json_t *row = json_array_get(json_object_get(plan, "bill"), 0);
    assert_string_equal(json_string_value(json_object_get(row, "operation")), "all_reduce");
    assert_true(fabs(inference_real(row, "times") - inference_real(rank, "all_reduces_per_token")) <
                1e-4);
    const double width = inference_real(json_object_get(results, "model"), "width");
    assert_true(inference_real(row, "payload_bytes") == width * sizeof(float));
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
    assert_int_equal(inference_run(&two, "tp-cpu", "2", "loaded", FLAGS(PROMPTS)), 0);
    const char *text = two.text[TEST_STDERR];
    const char *first = strstr(text, "rank 0: weights ");
    const char *second = strstr(text, "rank 1: weights ");
    assert_non_null(first);
    assert_non_null(second);
    assert_has(first, " blocks of ");
    assert_sum(text, false);
    const double half = strtod(first + strlen("rank 0: weights "), NULL);
    assert_int_equal(inference_run(&one, "tp-cpu", "1", "loaded", FLAGS(PROMPTS)), 0);
    first = strstr(one.text[TEST_STDERR], "rank 0: weights ");
    assert_non_null(first);
    const double whole = strtod(first + strlen("rank 0: weights "), NULL);
    assert_true(half > 0.4 * whole && half < 0.7 * whole);
    assert_sum(one.text[TEST_STDERR], true);
    assert_int_equal(inference_run(&one, "tp-cpu", "1", "loaded", FLAGS(PROMPTS, "--quiet")), 0);
    assert_null(strstr(one.text[TEST_STDERR], "weights"));
}

static void a_training_keeps_its_manifest(void **state)
{
    (void)state;
    static test_program program;
    assert_int_equal(inference_run(&program, "tp-cpu", "2", "model", FLAGS(PROMPTS)), 1);
    assert_has(program.text[TEST_STDERR], "holds the record of a training");
    assert_int_equal(inference_run(&program, "tp-cpu", "2", "model", FLAGS(PROMPTS, "--dry-run")),
                     1);
    assert_has(program.text[TEST_STDERR], "holds the record of a training");
}

/* The first 40 held-out sentences, of which the trained model gets few right: each is asked about once,
 * whatever the ranks hold. */
static void ranks_of_one_model_evaluate_all_sentences(void **state)
{
    (void)state;
    static test_program program;
    static const char *const modes[][2] = {{"generate", "1"}, {"tp-cpu", "1"}, {"tp-cpu", "2"}};
    char heldout[BASE_PATH_BYTES];
    char first[BASE_PATH_BYTES + 64] = "";
    char text[40 * 64] = "";
    (void)snprintf(heldout, sizeof heldout, "%s/heldout.jsonl", test_shared_directory.path);
    for (int i = 0; i < 40; i++) {
        const size_t used = strlen(text);
        (void)snprintf(text + used, sizeof text - used,
                       "{\"wrong\":\"he goed %c\",\"right\":\"he went %c\"}\n", (char)(97 + i % 26),
                       (char)(97 + i % 26));
    }
    test_shared_put("heldout.jsonl", text);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        const char *const *flags = FLAGS("--eval", "--heldout", heldout, "--quiet");
        assert_int_equal(inference_run(&program, modes[i][0], modes[i][1], "evaluated", flags), 0);
        assert_has(program.text[TEST_STDOUT], "/40 ");
        if (i == 0) {
            (void)snprintf(first, sizeof first, "%s", program.text[TEST_STDOUT]);
        }
        assert_string_equal(program.text[TEST_STDOUT], first);
    }
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
        {"scaling-curve.svg", "mine", "has a scaling-curve.svg"},
        {"timings.jsonl", "{}\n", "holds the record of a training"},
        {"manifest.json", "{\"lab\":\"mine\"}", "holds the record of a training"},
        {"checkpoints/step-000000005/state", "", "holds the record of a training"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char name[32];
        char path[96];
        size_t text_bytes = 0;
        (void)snprintf(name, sizeof name, "kept-%zu", i);
        (void)snprintf(path, sizeof path, "%s/%s", name, cases[i].file);
        test_shared_put(path, cases[i].text);
        const int code =
            inference_run(&program, "tp-cpu", "1", name, FLAGS(PROMPTS, "--overwrite"));
        if (cases[i].expected == NULL) {
            assert_int_equal(code, 0);
            assert_int_equal(inference_run(&program, "tp-cpu", "1", name, FLAGS(PROMPTS)), 0);
            continue;
        }
        assert_int_equal(code, 1);
        assert_has(program.text[TEST_STDERR], cases[i].expected);
        free(test_file_read(test_shared_path(path), &text_bytes));
        assert_int_equal(text_bytes, strlen(cases[i].text));
    }
}

/* Another run has the directory: nothing is started, and nothing in it changes. */
static void a_directory_is_for_one_run_at_a_time(void **state)
{
    (void)state;
    static test_program program;
    char out[BASE_PATH_BYTES];
    base_error error;
    (void)snprintf(out, sizeof out, "%s", test_shared_path("taken"));
    assert_ok(base_mkdirs(out, &error), &error);
    const int fd = open(out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(inference_run(&program, "tp-cpu", "2", "taken", FLAGS(PROMPTS)), 1);
    assert_has(program.text[TEST_STDERR], "is being written by another run");
    assert_int_equal(close(fd), 0);
    assert_int_equal(rmdir(out), 0); /* it is empty */
    assert_int_equal(inference_run(&program, "tp-cpu", "2", "taken", FLAGS(PROMPTS)), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rank_says_where_its_time_went),
        cmocka_unit_test(libcoll_counts_what_a_token_costs),
        cmocka_unit_test(the_plan_counts_the_same_exchanges),
        cmocka_unit_test(the_plan_counts_the_same_weights),
        cmocka_unit_test(each_rank_says_what_it_has_loaded),
        cmocka_unit_test(a_training_keeps_its_manifest),
        cmocka_unit_test(ranks_of_one_model_evaluate_all_sentences),
        cmocka_unit_test(what_is_no_record_is_not_written_over),
        cmocka_unit_test(a_directory_is_for_one_run_at_a_time),
    };
    return cmocka_run_group_tests(tests, inference_make_model, test_shared_directory_remove);
}
