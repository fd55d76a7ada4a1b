/* What an inference run's results become: figures, lesson, curve, report and manifest, from
 * made-up results whose answers are known. */
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "record/inference.h"
#include "record/inference_lesson.h"
#include "record/inference_report.h"
#include "support.h"

/* Two ranks; the second holds up the first. One prompt, which means to be markup. */
static const char made_up[] =
    "{\"world_size\":2,\"model\":{\"parameters\":2000000},"
    "\"prompts\":[{\"prompt\":\"<b>he</b>\",\"text\":\"he & she\",\"token_ids\":[1,2,3],"
    "\"ttft_ms\":5.0,\"per_token_ms\":{\"mean\":4.0,\"p50\":4.0,\"p95\":4.5}}],"
    "\"total\":{\"tokens\":3,\"per_token_ms\":4.0,\"tokens_per_s\":250.0},"
    "\"single\":{\"total\":{\"tokens\":3,\"per_token_ms\":6.0,\"tokens_per_s\":160.0},"
    "\"prompts\":[{\"ttft_ms\":7.0,\"per_token_ms\":{\"mean\":6.0},\"same_tokens\":true}]},"
    "\"replicas\":{\"total\":{\"tokens\":3,\"per_token_ms\":6.5,\"tokens_per_s\":300.0},"
    "\"prompts\":[{\"ttft_ms\":7.0}]},\"speedup\":1.5,\"baseline_null_because\":null,"
    "\"ranks\":[{\"step_ms_per_token\":4.0,\"compute_ms_per_token\":3.0,"
    "\"all_reduce_ms_per_token\":0.9,\"gather_ms_per_token\":0.1,"
    "\"all_reduce_transfer_ms_per_token\":0.3,\"all_reduce_waiting_ms_per_token\":0.6,"
    "\"gather_transfer_ms_per_token\":0.1,\"gather_waiting_ms_per_token\":0.0,"
    "\"held_up_others_ms_per_token\":0.0,\"slowest_in_steps\":0,\"steps\":3,"
    "\"all_reduces_per_token\":5.0,\"all_reduce_bytes_per_token\":2560.0},"
    "{\"step_ms_per_token\":4.0,\"compute_ms_per_token\":3.6,"
    "\"all_reduce_ms_per_token\":0.3,\"gather_ms_per_token\":0.1,"
    "\"all_reduce_transfer_ms_per_token\":0.3,\"all_reduce_waiting_ms_per_token\":0.0,"
    "\"gather_transfer_ms_per_token\":0.1,\"gather_waiting_ms_per_token\":0.0,"
    "\"held_up_others_ms_per_token\":0.6,\"slowest_in_steps\":3,\"steps\":3}],"
    "\"curve\":{\"ranks\":2,\"layers\":2,\"link\":{\"latency_us\":3.0,\"gb_per_s\":7.0},"
    "\"crossover_d_model\":512.0,\"predicted_crossover_d_model\":300.0,\"points\":["
    "{\"d_model\":64,\"predicted_single_ms\":1.0,\"predicted_tp_ms\":2.0,\"single_ms\":1.0,"
    "\"tp_ms\":2.0,\"null_because\":null},"
    "{\"d_model\":4096,\"predicted_single_ms\":9.0,\"predicted_tp_ms\":5.0,"
    "\"single_ms\":null,\"tp_ms\":null,\"null_because\":\"too <large>\"}]}}";

static test_directory place;

static int make_place(void **state)
{
    (void)state;
    test_directory_make(&place);
    return 0;
}

static int remove_place(void **state)
{
    (void)state;
    test_directory_remove(&place);
    return 0;
}

static void read_made_up(launch_inference_figures *figures)
{
    json_t *results = json_loads(made_up, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(results);
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

static void what_is_not_there_is_not_known(void **state)
{
    (void)state;
    launch_inference_figures of;
    json_t *empty = json_object();
    launch_inference_read(empty, &of);
    json_decref(empty);
    assert_int_equal(of.rank_count, 0);
    assert_int_equal(of.slowest, -1);
    assert_true(isnan(of.mean.step_ms) && isnan(of.speedup) && isnan(of.single.per_token_ms));
    assert_int_equal(of.curve.point_count, 0);
}

static const launch_run_info quiet = {.cpus_allowed = 4, .load_before = 0.1, .steal_share = 0};

static void assert_lesson_on(const launch_run_info *info, const launch_inference_figures *of,
                             const char *suspect, const char *const *phrases)
{
    launch_text text = {0};
    launch_inference_lesson(of, suspect, info, &text);
    for (size_t i = 0; phrases[i] != NULL; i++) {
        const bool unwanted = phrases[i][0] == '!';
        const bool found = strstr(text.data, phrases[i] + (unwanted ? 1 : 0)) != NULL;
        if (found == unwanted) {
            fail_msg("\"%s\": %s", phrases[i], text.data);
        }
    }
    launch_text_fini(&text);
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
                          "each text comes sooner", "!suspect", "!load", "!host"));
    of.speedup = 0.5;
    of.tp.per_token_ms = 12;
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

static void a_curve_without_a_crossover_says_on_which_side_it_is(void **state)
{
    (void)state;
    launch_inference_figures of;
    read_made_up(&of);
    assert_null(launch_curve_no_crossover(&of.curve));
    of.curve.crossover_d_model = (double)NAN;
    assert_non_null(strstr(launch_curve_no_crossover(&of.curve), "above"));
    of.curve.points[0].tp_ms = 0.5;
    assert_non_null(strstr(launch_curve_no_crossover(&of.curve), "below"));
    of.curve.points[0].tp_ms = (double)NAN;
    assert_null(launch_curve_no_crossover(&of.curve));
}

static void the_curve_is_drawn_twice_from_the_same_figures(void **state)
{
    (void)state;
    launch_inference_figures of;
    launch_text svg = {0};
    launch_text data = {0};
    launch_text script = {0};
    read_made_up(&of);
    launch_figure *figure = launch_curve_figure(&of.curve);
    assert_non_null(figure);
    launch_figure_svg(&svg, figure);
    launch_figure_data(&data, figure);
    launch_figure_script(&script, figure, "cpu", "c.dat", "c.png");
    assert_non_null(strstr(svg.data, "crossover: d_model 512"));
    assert_non_null(strstr(svg.data, "one rank, measured: 1 at 64"));
    assert_null(strstr(svg.data, "nan"));
    assert_non_null(strstr(
        data.data,
        "# one rank, predicted: d_model, ms for a token, low, high\n64 1 1 1\n4096 9 9 9\n"));
    assert_non_null(strstr(data.data, "low, high\n64 1 1 1\n\n\n# all"));
    assert_non_null(strstr(script.data, "set arrow from 512"));
    assert_non_null(strstr(script.data, "set xtics ('64' 64, '4096' 4096)\nset logscale x"));
    assert_non_null(strstr(script.data, "'c.dat' index 3 using 1:2 with linespoints"));
    launch_text_fini(&svg);
    launch_text_fini(&data);
    launch_text_fini(&script);
    free(figure);
}

static char *read_text(const char *name)
{
    void *text = NULL;
    size_t size_bytes = 0;
    base_error error;
    assert_ok(
        base_file_read(test_directory_path(&place, name), 1 << 20, &text, &size_bytes, &error),
        &error);
    return text;
}

static void write_results(const char *text)
{
    base_error error;
    assert_ok(
        base_file_write(test_directory_path(&place, "results.json"), text, strlen(text), &error),
        &error);
}

static void write_record(proto_job *job, int exit_status)
{
    static char program[] = "launcher";
    static char *argv[] = {program, NULL};
    base_error error;
    launch_text notes = {0};
    proto_job_defaults(job);
    job->job.mode = PROTO_MODE_TP_CPU;
    (void)snprintf(job->output.directory, sizeof job->output.directory, "%s",
                   test_directory_path(&place, ""));
    const launch_inference run = {.job = job,
                                  .argc = 1,
                                  .argv = argv,
                                  .started_at = "2026-01-02T03:04:05.678Z",
                                  .load_before = 7,
                                  .job_seconds = 7200,
                                  .exit_status = exit_status,
                                  .message = exit_status == 0 ? "" : "rank 1 <died>"};
    assert_ok(launch_inference_write(&run, &notes, &error), &error);
    assert_null(notes.data);
}

static void the_record_is_whole(void **state)
{
    (void)state;
    static proto_job job;
    write_results(made_up);
    write_record(&job, 0);
    char *page = read_text("report.html");
    char *manifest_text = read_text("manifest.json");
    json_t *manifest = json_loads(manifest_text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(manifest);
    assert_true(json_real_value(json_object_get(manifest, "crossover_d_model")) == 512);
    assert_int_equal(json_integer_value(json_object_get(manifest, "slowest_rank")), 1);
    assert_true(json_real_value(json_object_get(manifest, "duration_hours")) == 2);
    assert_true(json_real_value(json_object_get(manifest, "load_average_before")) == 7);
    assert_true(json_is_null(json_object_get(manifest, "cpu_steal_share"))); /* no begin */
    assert_non_null(strstr(page, "&lt;b&gt;he&lt;/b&gt;"));
    assert_null(strstr(page, "<b>he</b>"));
    assert_non_null(strstr(page, "he &amp; she"));
    assert_non_null(strstr(page, "too &lt;large&gt;"));
    assert_non_null(strstr(page, "3 of 3 steps"));
    assert_non_null(strstr(page, "class=\"pill good\""));
    const char *lesson = json_string_value(json_object_get(manifest, "lesson_notes"));
    assert_non_null(strstr(lesson, "A token of this model (2.00 M parameters) takes 2 ranks"));
    assert_non_null(strstr(page, "A token of this model (2.00 M parameters) takes 2 ranks"));
    assert_int_equal(access(test_directory_path(&place, "plots.gp"), F_OK), 0);
    assert_int_equal(access(test_directory_path(&place, "scaling-curve.dat"), F_OK), 0);
    json_decref(manifest);
    free(manifest_text);
    free(page);
}

/* Nothing of the curve of an older run stays, and what is not known is null. */
static void a_run_without_a_curve_has_none(void **state)
{
    (void)state;
    static proto_job job;
    base_error error;
    const char *picture = test_directory_path(&place, "scaling-curve.png");
    write_results(made_up);
    write_record(&job, 0);
    assert_ok(base_file_write(picture, "old", 3, &error), &error);
    write_results("{\"prompts\":[],\"total\":{}}");
    write_record(&job, 139);
    char *page = read_text("report.html");
    char *manifest = read_text("manifest.json");
    assert_int_not_equal(access(test_directory_path(&place, "scaling-curve.png"), F_OK), 0);
    assert_int_not_equal(access(test_directory_path(&place, "plots.gp"), F_OK), 0);
    assert_non_null(strstr(manifest, "\"crossover_d_model\": null"));
    assert_non_null(strstr(manifest, "\"slowest_rank\": null"));
    assert_non_null(strstr(page, "rank 1 &lt;died&gt;"));
    assert_non_null(strstr(page, "ended with status 139"));
    assert_null(strstr(page, "scales with the width"));
    free(manifest);
    free(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_are_read_and_averaged),
        cmocka_unit_test(what_is_not_there_is_not_known),
        cmocka_unit_test(the_lesson_says_why),
        cmocka_unit_test(a_curve_without_a_crossover_says_on_which_side_it_is),
        cmocka_unit_test(the_curve_is_drawn_twice_from_the_same_figures),
        cmocka_unit_test_setup_teardown(the_record_is_whole, make_place, remove_place),
        cmocka_unit_test_setup_teardown(a_run_without_a_curve_has_none, make_place, remove_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
