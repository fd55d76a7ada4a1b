/* What an inference run's results become: figures, lesson, curve, report and manifest, from
 * made-up results whose answers are known. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "record/inference.h"
#include "record/inference_lesson.h"
#include "record/inference_report.h"
#include "sample.h"
#include "support.h"

/* Two ranks; the second holds up the first. One prompt, which means to be markup. An old record's, which
 * has no rounds. */
static const char made_up[] =
    "{\"world_size\":2,\"model\":{\"parameters\":2000000},"
    "\"prompts\":[{\"prompt\":\"<b>he</b>\",\"text\":\"he & she\",\"token_ids\":[1,2,3],"
    "\"ttft_ms\":5.0,\"per_token_ms\":{\"mean\":4.0,\"p50\":3.75,\"p95\":4.5}}],"
    "\"total\":{\"tokens\":3,\"per_token_ms\":4.0,\"tokens_per_s\":250.0},"
    "\"single\":{\"total\":{\"tokens\":3,\"per_token_ms\":6.0,\"tokens_per_s\":160.0},"
    "\"prompts\":[{\"ttft_ms\":7.0,\"per_token_ms\":{\"mean\":6.0},\"same_tokens\":true}]},"
    "\"replicas\":{\"total\":{\"tokens\":3,\"per_token_ms\":6.5,\"tokens_per_s\":300.0},"
    "\"prompts\":[{\"ttft_ms\":7.0}]},\"speedup\":1.5,\"baseline_null_because\":null,"
    "\"ranks\":[{\"step_ms_per_token\":4.0,\"compute_ms_per_token\":3.0,"
    "\"all_reduce_ms_per_token\":0.9,\"gather_ms_per_token\":0.1,"
    "\"all_reduce_transfer_ms_per_token\":0.3,\"all_reduce_waiting_ms_per_token\":0.6,"
    "\"gather_transfer_ms_per_token\":0.1,\"gather_waiting_ms_per_token\":0.0,"
    "\"held_up_others_ms_per_token\":0.0,\"slowest_in_steps\":0,\"steps\":3,\"tokens_drawn\":3,"
    "\"all_reduces_per_token\":5.0,\"all_reduce_bytes_per_token\":2560.0},"
    "{\"step_ms_per_token\":4.0,\"compute_ms_per_token\":3.6,"
    "\"all_reduce_ms_per_token\":0.3,\"gather_ms_per_token\":0.1,"
    "\"all_reduce_transfer_ms_per_token\":0.3,\"all_reduce_waiting_ms_per_token\":0.0,"
    "\"gather_transfer_ms_per_token\":0.1,\"gather_waiting_ms_per_token\":0.0,"
    "\"held_up_others_ms_per_token\":0.6,\"slowest_in_steps\":3,\"steps\":3,"
    "\"tokens_drawn\":3}],"
    "\"curve\":{\"ranks\":2,\"layers\":2,\"link\":{\"latency_us\":3.0,\"gb_per_s\":7.0},"
    "\"crossover_d_model\":512.0,\"predicted_crossover_d_model\":300.0,\"points\":["
    "{\"d_model\":64,\"predicted_single_ms\":1.0,\"predicted_tp_ms\":2.0,\"single_ms\":1.0,"
    "\"tp_ms\":2.0,\"null_because\":null},"
    "{\"d_model\":4096,\"predicted_single_ms\":9.0,\"predicted_tp_ms\":5.0,"
    "\"single_ms\":null,\"tp_ms\":null,\"null_because\":\"too <large>\"}]}}";

/* What a newer record also has: in the rounds one rank was faster than in the first. */
static const char rounds[] =
    "{\"rounds\":5,"
    "\"tp\":{\"per_token_ms\":2.0,\"per_token_ms_low\":1.9,\"per_token_ms_high\":2.5,"
    "\"tokens_per_s\":500.0,\"tokens_per_s_low\":400.0,\"tokens_per_s_high\":510.0},"
    "\"single\":{\"per_token_ms\":3.0,\"per_token_ms_low\":2.0,\"per_token_ms_high\":5.0,"
    "\"tokens_per_s\":320.0,\"tokens_per_s_low\":200.0,\"tokens_per_s_high\":500.0},"
    "\"replicas\":{\"per_token_ms\":3.1,\"per_token_ms_low\":3.0,\"per_token_ms_high\":3.2,"
    "\"tokens_per_s\":600.0,\"tokens_per_s_low\":590.0,\"tokens_per_s_high\":610.0}}";

static void read_made_up(launch_inference_figures *figures)
{
    json_t *results = json_loads(made_up, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(results);
    launch_inference_read(results, figures);
    json_decref(results);
}

/* The made-up results, with rounds. */
static json_t *results_with_rounds(void)
{
    json_t *results = json_loads(made_up, JSON_REJECT_DUPLICATES, NULL);
    json_t *comparison = json_loads(rounds, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(results);
    assert_non_null(comparison);
    assert_int_equal(json_object_set_new(results, "comparison", comparison), 0);
    return results;
}

static void read_with_rounds(launch_inference_figures *figures)
{
    json_t *results = results_with_rounds();
    launch_inference_read(results, figures);
    json_decref(results);
}

static bool near(double found, double expected)
{
    return fabs(found - expected) < 1e-9;
}

static void figures_are_read_and_averaged(void **state)
{
    (void)state;
    launch_inference_figures of;
    read_made_up(&of);
    assert_int_equal(of.rank_count, 2);
    assert_int_equal(of.slowest, 1);
    assert_true(near(of.mean.compute_ms, 3.3) && near(of.mean.reduce_waiting_ms, 0.3));
    assert_true(near(launch_inference_exchange_share(&of.mean), 0.7 / 4));
    assert_true(near(launch_inference_comm_compute(&of.mean), 0.7 / 3.3));
    assert_true(near(of.tp.ttft_ms, 5) && near(of.single.ttft_ms, 7));
    assert_true(isnan(of.mean.ttft_ms)); /* no rank says */
    assert_int_equal(of.curve.point_count, 2);
    assert_true(isnan(of.curve.points[1].single_ms));
}

static void medians_are_those_of_the_rounds(void **state)
{
    (void)state;
    launch_inference_figures of;
    read_made_up(&of);
    assert_int_equal(of.rounds, 0);
    assert_true(near(of.tp.per_token_ms.median, 4) && isnan(of.tp.per_token_ms.low));
    assert_true(near(of.replicas.tokens_per_s.median, 300));
    assert_true(isnan(launch_inference_apart(&of)));
    read_with_rounds(&of);
    assert_int_equal(of.rounds, 5);
    assert_true(near(of.tp.per_token_ms.median, 2) && near(of.tp.per_token_ms.low, 1.9));
    assert_true(near(of.tp.per_token_ms.high, 2.5) && near(of.single.per_token_ms.median, 3));
    assert_true(near(of.replicas.tokens_per_s.median, 600));
    assert_true(near(of.single.first_tokens_per_s, 160)); /* as the ranks' figures */
    assert_true(near(of.tp.ttft_ms, 5));
    assert_true(near(launch_inference_apart(&of), 2.5));
}

/* Of 2 layers 5 in a step, however many texts share it. */
static void all_reduces_are_counted_by_the_step(void **state)
{
    (void)state;
    static const struct {
        double drawn;
        double accepted; /* of drafts */
        const char *expected;
    } cases[] = {{3, (double)NAN, "5 all-reduces a step, for 1 text"}, /* an old record's */
                 {30, 0, "5 all-reduces a step, for 10 texts"},
                 {30, 15, "5 all-reduces a step, for 5 texts"},
                 {8, 0, "5 all-reduces a step, for 2.7 texts on average"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        launch_inference_figures of;
        base_buffer text = {0};
        read_made_up(&of);
        of.ranks[0].drawn = cases[i].drawn;
        of.ranks[0].accepted = cases[i].accepted;
        of.all_reduces = 15 / cases[i].drawn;
        launch_inference_put_reduces(&of, &text);
        assert_string_equal(text.data, cases[i].expected);
        base_buffer_fini(&text);
    }
}

static void assert_lines(const char *comparison, const char *expected)
{
    launch_inference_figures of;
    base_buffer lines = {0};
    json_t *results = results_with_rounds();
    if (comparison == NULL) {
        assert_int_equal(json_object_del(results, "comparison"), 0);
    } else if (comparison[0] != '\0') {
        assert_int_equal(json_object_del(results, "comparison"), 0);
        assert_int_equal(
            json_object_set_new(results, "baseline_null_because", json_string(comparison)), 0);
    }
    launch_inference_read(results, &of);
    launch_inference_lines(&of, results, &lines);
    json_decref(results);
    assert_string_equal(lines.data, expected);
    base_buffer_fini(&lines);
}

static void what_was_measured_has_a_line(void **state)
{
    (void)state;
    assert_lines("", "a token of a text: 2.00 ms on 2 ranks, 3.00 ms on one (1.50 x, 5 rounds); "
                     "replicas 600 tokens/s, together 500\nd_model 64: 0.50 x\n");
    assert_lines("no room", "nothing was compared: no room\nd_model 64: 0.50 x\n");
    assert_lines(NULL, "d_model 64: 0.50 x\n");
}

static void what_is_not_there_is_not_known(void **state)
{
    (void)state;
    launch_inference_figures of;
    json_t *empty = json_object();
    launch_inference_read(empty, &of);
    json_decref(empty);
    assert_int_equal(of.rank_count, 0);
    assert_int_equal(of.slowest, -1);
    assert_true(isnan(of.mean.step_ms) && isnan(of.speedup) &&
                isnan(of.single.per_token_ms.median));
    assert_int_equal(of.curve.point_count, 0);
}

static const launch_run_info quiet = {.cpus_allowed = 4, .load_before = 0.1, .steal_share = 0};

static void assert_lesson_on(const launch_run_info *info, const launch_inference_figures *of,
                             const char *suspect, const char *const *phrases)
{
    base_buffer text = {0};
    launch_inference_lesson(of, suspect, info, &text);
    for (size_t i = 0; phrases[i] != NULL; i++) {
        const bool unwanted = phrases[i][0] == '!';
        const bool found = strstr(text.data, phrases[i] + (unwanted ? 1 : 0)) != NULL;
        if (found == unwanted) {
            fail_msg("\"%s\": %s", phrases[i], text.data);
        }
    }
    base_buffer_fini(&text);
}

static void assert_lesson(const launch_inference_figures *of, const char *suspect,
                          const char *const *phrases)
{
    assert_lesson_on(&quiet, of, suspect, phrases);
}

#define PHRASES(...) ((const char *const[]){__VA_ARGS__, NULL})

static void the_lesson_says_why(void **state)
{
    (void)state;
    launch_inference_figures of;
    read_made_up(&of);
    /* alone 1000/160 = 6.25 ms a token, together 3.3 ms of computing and 0.7 of exchange */
    assert_lesson(&of, NULL,
                  PHRASES("1.50 times as fast", "6.25 ms on a token", "which saves 2.95 ms",
                          "the exchanges cost 0.7000 ms: less than is saved", "(17.5 %)",
                          "Rank 1 is the slowest in 3 of 3 steps", "level at d_model 512",
                          "the cost model says 300", "replicas are the better choice",
                          "each text comes sooner", "5 all-reduces a step, for 1 text", "!rounds",
                          "!first round", "!suspect", "!load", "!host"));
    of.speedup = 0.5;
    of.tp.per_token_ms.median = 12;
    of.mean.all_reduce_ms = 8;
    assert_lesson(&of, NULL,
                  PHRASES("2.00 times as slow", "more than is saved", "no text comes sooner"));
    of.speedup = 1.01;
    assert_lesson(&of, NULL, PHRASES("no difference that these figures can show"));
    of.speedup = (double)NAN;
    assert_lesson(&of, NULL, PHRASES("Without --baseline", "!times as"));
    const launch_run_info busy = {.cpus_allowed = 4, .load_before = 20, .steal_share = 0.1};
    assert_lesson_on(&busy, &of, NULL, PHRASES("load was 20.0, on 4 CPUs", "10.0 % of its CPU"));
    const launch_run_info unknown = {.load_before = (double)NAN, .steal_share = (double)NAN};
    assert_lesson_on(&unknown, &of, NULL, PHRASES("!load", "!host"));
    assert_lesson(&of, "was it one rank?", PHRASES("suspect: was it one rank?"));
}

/* What the ranks' figures are of is said, because the medians may differ from it. */
static void the_lesson_of_rounds_is_of_their_medians(void **state)
{
    (void)state;
    launch_inference_figures of;
    read_with_rounds(&of);
    assert_lesson(&of, NULL,
                  PHRASES("is 2.00 ms, on one rank alone 3.00 ms (medians of 5 rounds)",
                          "In the first round a rank alone spends 6.25 ms on a token",
                          "draw 600 tokens/s", "!Alone"));
}

static void a_curve_whose_rounds_overlap_has_no_side(void **state)
{
    (void)state;
    launch_inference_figures of;
    read_made_up(&of);
    of.curve.crossover_d_model = (double)NAN;
    launch_curve_point *point = &of.curve.points[0];
    point->single_ms_low = 0.9;
    point->single_ms_high = 1.2;
    point->tp_ms_low = 1.1;
    point->tp_ms_high = 2.2;
    assert_has(launch_curve_no_crossover(&of.curve), "do not show");
    point->tp_ms_low = 1.3;
    assert_null(strstr(launch_curve_no_crossover(&of.curve), "do not show"));
    point->tp_ms = 0.8;
    point->tp_ms_low = 0.7;
    point->tp_ms_high = 0.85;
    assert_null(strstr(launch_curve_no_crossover(&of.curve), "do not show"));
    point->tp_ms_high = 0.95;
    assert_has(launch_curve_no_crossover(&of.curve), "do not show");
}

static void a_curve_without_a_crossover_says_on_which_side_it_is(void **state)
{
    (void)state;
    launch_inference_figures of;
    read_made_up(&of);
    assert_null(launch_curve_no_crossover(&of.curve));
    of.curve.crossover_d_model = (double)NAN;
    assert_has(launch_curve_no_crossover(&of.curve), "above");
    of.curve.points[0].tp_ms = 0.5;
    assert_has(launch_curve_no_crossover(&of.curve), "below");
    of.curve.points[0].tp_ms = (double)NAN;
    assert_null(launch_curve_no_crossover(&of.curve));
}

static void the_curve_is_drawn_with_its_data(void **state)
{
    (void)state;
    launch_inference_figures of;
    base_buffer svg = {0};
    base_buffer data = {0};
    read_made_up(&of);
    chart_figure *figure = launch_curve_figure(&of.curve);
    assert_non_null(figure);
    chart_figure_svg(&svg, figure);
    chart_figure_data(&data, figure);
    assert_has(svg.data, "crossover: d_model 512");
    assert_has(svg.data, "one rank, measured: 1 at 64");
    assert_null(strstr(svg.data, "nan"));
    assert_has(data.data,
               "# one rank, predicted: d_model, ms for a token, low, high\n64 1 1 1\n4096 9 9 9\n");
    assert_has(data.data, "low, high\n64 1 1 1\n\n\n# all");
    assert_has(svg.data, ">64</text>");
    assert_has(svg.data, ">4096</text>");
    base_buffer_fini(&svg);
    base_buffer_fini(&data);
    free(figure);
}

typedef struct written {
    char *page;
    json_t *manifest;
} written;

/* Writes the record of such results, and reads it. */
static written write_record(const char *results, int exit_status)
{
    static proto_job job;
    static char program[] = "launcher";
    static char *argv[] = {program, NULL};
    base_error error;
    base_buffer lines = {0};
    void *page = NULL;
    size_t page_bytes = 0;
    test_shared_put("results.json", results);
    proto_job_defaults(&job);
    job.job.mode = PROTO_MODE_TP_CPU;
    (void)snprintf(job.output.directory, sizeof job.output.directory, "%s",
                   test_shared_directory.path);
    const launch_inference run = {.job = &job,
                                  .argc = 1,
                                  .argv = argv,
                                  .started_at = "2026-01-02T03:04:05.678Z",
                                  .load_before = 7,
                                  .job_seconds = 7200,
                                  .exit_status = exit_status,
                                  .message = exit_status == 0 ? "" : "rank 1 <died>"};
    assert_ok(launch_inference_write(&run, &lines, &error), &error);
    base_buffer_fini(&lines);
    assert_ok(base_file_read(test_shared_path("report.html"), 1 << 20, &page, &page_bytes, &error),
              &error);
    return (written){page, sample_load(test_shared_directory.path, "manifest.json")};
}

static void written_free(written record)
{
    json_decref(record.manifest);
    free(record.page);
}

static bool is_there(const char *name)
{
    return access(test_shared_path(name), F_OK) == 0;
}

static void the_record_is_whole(void **state)
{
    (void)state;
    const written record = write_record(made_up, 0);
    const char *page = record.page;
    const json_t *manifest = record.manifest;
    assert_true(sample_number(manifest, "crossover_d_model") == 512);
    assert_true(sample_number(manifest, "slowest_rank") == 1);
    assert_true(sample_number(manifest, "duration_hours") == 2);
    assert_true(sample_number(manifest, "load_average_before") == 7);
    assert_true(json_is_null(json_object_get(manifest, "cpu_steal_share"))); /* no begin */
    assert_has(page, "&lt;b&gt;he&lt;/b&gt;");
    assert_null(strstr(page, "<b>he</b>"));
    assert_has(page, "he &amp; she");
    assert_has(page, "too &lt;large&gt;");
    assert_has(page, "3 of 3 steps");
    assert_has(page, "class=\"pill good\"");
    const char *lesson = json_string_value(json_object_get(manifest, "lesson_notes"));
    assert_has(lesson, "A token of this model (2.00 M parameters) takes 2 ranks");
    assert_has(page, "A token of this model (2.00 M parameters) takes 2 ranks");
    assert_true(is_there("scaling-curve.svg") && is_there("scaling-curve.dat"));
    written_free(record);
}

/* The page shows the medians, with their rounds. */
static void a_record_with_rounds_has_their_medians(void **state)
{
    (void)state;
    json_t *results = results_with_rounds();
    char *text = json_dumps(results, 0);
    assert_non_null(text);
    const written record = write_record(text, 0);
    const char *page = record.page;
    const json_t *manifest = record.manifest;
    free(text);
    json_decref(results);
    assert_true(sample_number(manifest, "rounds") == 5);
    assert_true(sample_number(manifest, "tp_per_token_ms") == 2);
    assert_true(sample_number(manifest, "tp_per_token_ms_high") == 2.5);
    assert_true(sample_number(manifest, "single_gpu_per_token_ms_low") == 2);
    assert_true(sample_number(manifest, "replicas_tokens_per_s") == 600);
    assert_true(sample_number(manifest, "replicas_tokens_per_s_low") == 590);
    /* 5 ms in the slow rounds on one rank, 2 in the fast ones */
    assert_has(json_string_value(json_object_get(manifest, "suspect")), "slow rounds");
    assert_has(page, ">suspect, see below</span> (");
    assert_null(strstr(page, "Several texts")); /* one is drawn in a step */
    assert_has(page, "in 5 rounds");
    assert_has(page, "5 all-reduces a step, for 1 text");
    assert_has(page, "a token, mean");
    assert_has(page, "<th class=\"n\">p50</th>");
    assert_has(page, "3.75");
    assert_null(strstr(page, "all-reduces a token"));
    written_free(record);
}

/* Nothing of the curve of an older run stays, and what is not known is null. */
static void a_run_without_a_curve_has_none(void **state)
{
    (void)state;
    written_free(write_record(made_up, 0));
    test_shared_put("scaling-curve.png", "old");
    const written record = write_record("{\"prompts\":[],\"total\":{}}", 139);
    assert_false(is_there("scaling-curve.png") || is_there("scaling-curve.svg") ||
                 is_there("scaling-curve.dat"));
    assert_true(json_is_null(json_object_get(record.manifest, "crossover_d_model")));
    assert_true(json_is_null(json_object_get(record.manifest, "slowest_rank")));
    assert_has(record.page, "rank 1 &lt;died&gt;");
    assert_has(record.page, "ended with status 139");
    assert_null(strstr(record.page, "scales with the width"));
    written_free(record);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_are_read_and_averaged),
        cmocka_unit_test(medians_are_those_of_the_rounds),
        cmocka_unit_test(all_reduces_are_counted_by_the_step),
        cmocka_unit_test(what_was_measured_has_a_line),
        cmocka_unit_test(what_is_not_there_is_not_known),
        cmocka_unit_test(the_lesson_says_why),
        cmocka_unit_test(the_lesson_of_rounds_is_of_their_medians),
        cmocka_unit_test(a_curve_whose_rounds_overlap_has_no_side),
        cmocka_unit_test(a_curve_without_a_crossover_says_on_which_side_it_is),
        cmocka_unit_test(the_curve_is_drawn_with_its_data),
        cmocka_unit_test(the_record_is_whole),
        cmocka_unit_test(a_record_with_rounds_has_their_medians),
        cmocka_unit_test(a_run_without_a_curve_has_none),
    };
    return cmocka_run_group_tests(tests, test_shared_directory_make, test_shared_directory_remove);
}
