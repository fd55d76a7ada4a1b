/* The record of a pipeline: what its stages reported, and the bubble. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record/timings.h"
#include "sample.h"
#include "support.h"

enum { STAGES = 2, STEPS = 4, MICRO_BATCHES = 4, NS_PER_MS = 1000000 };

/* Stage 0 computes 4 + 8 ms of a step, stage 1 8 + 12 ms. A forward takes 1 and 2 ms, a backward 2
 * and 3 ms. The first half of the steps is warm-up, and takes longer. */
static launch_step step_of(const sample *from, uint64_t step, int rank)
{
    launch_step made = sample_step(from, step, rank);
    const int64_t slow = step < STEPS / 2 ? 10 : 1;
    made.times.bytes_sent = 1000 * (uint64_t)(rank + 1);
    made.stage = (launch_stage_step){.forward_ns = slow * (rank == 0 ? 4 : 8) * NS_PER_MS,
                                     .backward_ns = slow * (rank == 0 ? 8 : 12) * NS_PER_MS,
                                     .neighbour_ns = slow * (13 - 8 * rank) * NS_PER_MS,
                                     .span_ns = slow * 25 * NS_PER_MS,
                                     .held = (uint64_t)(STAGES - rank)};
    made.times.allreduce_exposed_ns =
        (rank == 0 ? 1 : 3) * NS_PER_MS; /* stage 1 is there 2 ms before */
    made.times.allreduce_ns = made.times.allreduce_exposed_ns;
    return made;
}

static sample of;

static void write_record(const char *name)
{
    sample_make(&of, name, STAGES, STEPS);
    of.job.job.mode = PROTO_MODE_PP_CPU;
    of.job.model.layers = 3;
    of.job.train.micro_batches = MICRO_BATCHES;
    of.job.parallel.pipeline = PROTO_PIPELINE_1F1B;
    launch_record *record = sample_begin(&of, 0);
    for (uint64_t i = 0; i < STEPS; i++) {
        for (int r = 0; r < STAGES; r++) {
            const launch_step step = step_of(&of, i, r);
            sample_add(record, &step);
        }
    }
    sample_end(&of, record);
}

static void the_manifest_has_the_stages_and_the_bubble(void **state)
{
    (void)state;
    write_record("stages");
    json_t *manifest = sample_load(of.out, "manifest.json");
    const json_t *pipeline = json_object_get(manifest, "pipeline");
    const json_t *stages = json_object_get(pipeline, "stages");
    assert_string_equal(json_string_value(json_object_get(pipeline, "schedule")), "1f1b");
    assert_int_equal(json_array_size(stages), STAGES);
    /* both stages are there for 25 ms, and compute 12 + 20 of these 50 */
    sample_assert_near(sample_number(pipeline, "bubble_measured"), 1 - 32.0 / 50.0);
    /* the slower stage works without a gap behind the first forward of 1 ms, and before the last
     * backward of 2 ms */
    sample_assert_near(sample_number(pipeline, "bubble_played"), 1 - 32.0 / (2 * 23.0));
    sample_assert_near(sample_number(pipeline, "bubble_formula"), 1.0 / 5.0);
    static const double expected[STAGES][7] = {{0, 2, 12, 4, 8, 13, 1000},
                                               {2, 1, 20, 8, 12, 5, 2000}};
    static const char *const keys[] = {"first_layer", "layers",       "compute_ms", "forward_ms",
                                       "backward_ms", "neighbour_ms", "bytes_sent"};
    for (size_t s = 0; s < STAGES; s++) {
        const json_t *stage = json_array_get(stages, s);
        for (size_t k = 0; k < 7; k++) {
            sample_assert_near(sample_number(stage, keys[k]), expected[s][k]);
        }
        assert_true(sample_number(stage, "held") == (double)(STAGES - s));
    }
    const char *lesson = json_string_value(json_object_get(manifest, "lesson_notes"));
    assert_has(lesson, "2 stages trained in a pipeline by schedule 1f1b, with 4 "
                       "micro-batches. In a mean step the stages were idle for 36.0 %");
    /* the wait for a neighbour is a part of the step */
    const json_t *training = json_object_get(manifest, "training"); /* one pipeline adds up none */
    assert_true(json_is_null(json_object_get(training, "bucket_bytes")));
    const json_t *rank = json_array_get(json_object_get(manifest, "ranks"), 0);
    const json_t *parts = json_object_get(rank, "mean_step");
    assert_true(sample_number(parts, "waiting_ms") >= 13);
    json_decref(manifest);
}

static void each_line_has_the_stage(void **state)
{
    (void)state;
    write_record("lines");
    char *lines = sample_text(&of, "timings.jsonl");
    json_t *line = json_loads(lines, JSON_DISABLE_EOF_CHECK, NULL);
    assert_non_null(line);
    sample_assert_near(sample_number(line, "forward_ms"), 40);
    sample_assert_near(sample_number(line, "backward_ms"), 80);
    sample_assert_near(sample_number(line, "neighbour_ms"), 130);
    assert_true(sample_number(line, "held") == 2);
    assert_null(json_object_get(line, "part")); /* nothing is shared */
    assert_null(json_object_get(line, "tensor_ms"));
    json_decref(line);
    free(lines);
}

static void the_report_has_a_table_of_stages(void **state)
{
    (void)state;
    write_record("page");
    char *page = sample_text(&of, "report.html");
    assert_has(page, "<h2>The stages</h2>");
    assert_has(page, "Idle: 36.0 % of all");
    static const char waits[] = "<td class=\"n\">5.000 ms</td><td class=\"n\">2.000 ms</td>"
                                "<td class=\"n\">0.00 MB</td>"; /* of stage 1: 7 ms in all */
    assert_has(page, waits);
    assert_has(page, "waiting for other ranks: 7.000 ms");
    assert_has(page, ">Waiting for stages<");
    assert_has(page, "mean, with the exchange; ");
    assert_null(strstr(page, ">All-reduce</span>"));
    free(page);
}

/* The same times of two chunks on each stage: a pass of one takes 0.5 and 1 ms forward, 1 and 1.5 ms backward. */
static void chunks_are_played_too(void **state)
{
    (void)state;
    sample_make(&of, "chunks", STAGES, STEPS);
    of.job.job.mode = PROTO_MODE_PP_CPU;
    of.job.model.layers = 6;
    of.job.train.micro_batches = MICRO_BATCHES;
    of.job.parallel.pipeline = PROTO_PIPELINE_INTERLEAVED;
    launch_record *record = sample_begin(&of, 0);
    for (uint64_t i = 0; i < STEPS; i++) {
        for (int r = 0; r < STAGES; r++) {
            const launch_step step = step_of(&of, i, r);
            sample_add(record, &step);
        }
    }
    sample_end(&of, record);
    json_t *manifest = sample_load(of.out, "manifest.json");
    const json_t *pipeline = json_object_get(manifest, "pipeline");
    assert_string_equal(json_string_value(json_object_get(pipeline, "schedule")), "interleaved");
    assert_true(sample_number(pipeline, "chunks") == 2);
    sample_assert_near(sample_number(pipeline, "bubble_formula"), 1.0 / 9.0);
    /* the slower stage works without a gap behind the first forward of 0.5 ms, and before the last
     * backward of 1 ms */
    sample_assert_near(sample_number(pipeline, "bubble_played"), 1 - 32.0 / (2 * 21.5));
    static const double layers[STAGES][2][2] = {{{0, 2}, {4, 1}}, {{2, 2}, {5, 1}}};
    for (size_t s = 0; s < STAGES; s++) {
        const json_t *stage = json_array_get(json_object_get(pipeline, "stages"), s);
        assert_true(sample_number(stage, "layers") == 3);
        for (size_t c = 0; c < 2; c++) {
            const json_t *chunk = json_array_get(json_object_get(stage, "chunks"), c);
            assert_true(sample_number(chunk, "first_layer") == layers[s][c][0]);
            assert_true(sample_number(chunk, "layers") == layers[s][c][1]);
        }
    }
    assert_has(
        json_string_value(json_object_get(manifest, "lesson_notes")),
        "by schedule interleaved, with 4 micro-batches, in 2 chunks of layers on each stage.");
    json_decref(manifest);
    char *page = sample_text(&of, "report.html");
    assert_has(page, "of 4 micro-batches, in 2 chunks of layers on each stage.");
    assert_has(page, ">held, of a chunk</th>");
    free(page);
}

/* Two ranks share each stage, and there are two pipelines: stage 0 is of ranks 0, 1, 4 and 5. */
enum { RANKS = 8, TENSOR = 2 };

static void write_shared_record(const char *name)
{
    sample_make(&of, name, RANKS, STEPS);
    of.job.job.mode = PROTO_MODE_PP_CPU;
    of.job.parallel.stages = STAGES;
    of.job.parallel.tensor = TENSOR;
    of.job.train.micro_batches = MICRO_BATCHES;
    launch_record *record = sample_begin(&of, 0);
    for (uint64_t i = 0; i < STEPS; i++) {
        for (int r = 0; r < RANKS; r++) {
            const proto_place place = proto_job_place(&of.job, r);
            launch_step step = step_of(&of, i, place.stage);
            step.rank = r;
            step.stage_number = place.stage;
            step.times.tokens = place.stage == STAGES - 1 && place.part == 0 ? 500 : 0;
            step.stage.tensor_ns = (place.part == 0 ? 2 : 4) * NS_PER_MS;
            step.stage.forward_ns += (place.replica == 0 ? 1 : -1) * NS_PER_MS;
            step.stage.span_ns += (place.stage == 0 ? place.part : 100) * 2 * NS_PER_MS;
            sample_add(record, &step);
        }
    }
    sample_end(&of, record);
}

static void a_stages_figures_are_means_of_all_its_ranks(void **state)
{
    (void)state;
    write_shared_record("shared");
    json_t *manifest = sample_load(of.out, "manifest.json");
    const json_t *pipeline = json_object_get(manifest, "pipeline");
    const json_t *stages = json_object_get(pipeline, "stages");
    assert_true(sample_number(pipeline, "replicas") == 2);
    assert_true(sample_number(pipeline, "tensor") == TENSOR);
    assert_int_equal(json_array_size(stages), STAGES);
    static const double expected[STAGES][6] = {{0, 12, 4, 8, 13, 1000}, {2, 20, 8, 12, 5, 2000}};
    static const char *const keys[] = {"rank",        "compute_ms",   "forward_ms",
                                       "backward_ms", "neighbour_ms", "bytes_sent"};
    for (size_t s = 0; s < STAGES; s++) {
        const json_t *stage = json_array_get(stages, s);
        for (size_t k = 0; k < 6; k++) {
            sample_assert_near(sample_number(stage, keys[k]), expected[s][k]);
        }
        sample_assert_near(sample_number(stage, "tensor_ms"), 3);
    }
    /* the first stage's ranks are there for 25 and for 27 ms */
    sample_assert_near(sample_number(pipeline, "bubble_measured"), 1 - 32.0 / (2 * 26.0));
    sample_assert_near(sample_number(manifest, "tokens"), STEPS * 2 * 500);
    const json_t *training = json_object_get(manifest, "training"); /* pipelines add up gradients */
    assert_true(sample_number(training, "bucket_bytes") == 1 << 20);
    assert_string_equal(json_string_value(json_object_get(training, "timing")), "overlapped");
    const char *lesson = json_string_value(json_object_get(manifest, "lesson_notes"));
    assert_has(lesson, "There are 2 pipelines, and in each of them 2 stages trained");
    assert_has(lesson, "2 ranks share the layers of each stage, and their exchanges took 18.8 % of "
                       "forward and backward. There are");
    assert_has(lesson, "of waiting for other ranks");
    json_decref(manifest);
    char *page = sample_text(&of, "report.html");
    assert_has(page, "backward</th><th class=\"n\">exchanging</th>");
    assert_has(page, "<td class=\"n\">8.000 ms</td><td class=\"n\">3.000 ms</td>");
    assert_has(page, "; a row is the mean of that stage&rsquo;s ranks in all of them");
    assert_has(page, ">Waiting for ranks<");
    assert_has(page, "<title>exchanging in forward and backward: 4.000 ms");
    assert_has(page, ">of this, exchanging within the stage</th>");
    assert_has(page, "<dt>Exchanging in forward and backward</dt>");
    assert_has(page, "to the last bit, in all copies");
    assert_has(page, "with a part of some layers of the model");
    free(page);
}

/* Steps that other parts of the model, or other stages, have reported are not gone on with. */
static void lines_of_another_layout_are_not_read(void **state)
{
    static const struct {
        int stages, tensor;
        size_t steps;
    } cases[] = {{2, 2, STEPS}, {2, 0, 0}, {4, 2, 0}, {8, 0, 0}, {1, 2, 0}, {2, 4, 0}, {1, 8, 0}};
    char path[BASE_PATH_BYTES + 64];
    (void)state;
    write_shared_record("layouts");
    (void)snprintf(path, sizeof path, "%s/timings.jsonl", of.out);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        base_error error;
        launch_steps steps;
        of.job.parallel.stages = cases[i].stages;
        of.job.parallel.tensor = cases[i].tensor;
        assert_ok(launch_steps_init(&steps, RANKS, launch_steps_stages(&of.job),
                                    (int)proto_job_tensor(&of.job), &error),
                  &error);
        assert_ok(launch_timings_read(path, &steps, &error), &error);
        assert_int_equal(launch_steps_count(&steps), cases[i].steps);
        for (int r = 0; r < RANKS && cases[i].steps > 0; r++) {
            assert_true(steps.ranks[r].stages[0].tensor_ns == (r % 2 == 0 ? 2 : 4) * NS_PER_MS);
        }
        launch_steps_fini(&steps);
    }
}

/* The same times, of which weights take 1 ms of each backward: B takes 1 and 2 ms. The last stage works without a gap
 * behind the first forward of 1 ms, and both end with a W: 21 ms. The last stage's are the last ones, 5 ms behind stage 0. */
static void a_split_backward_is_played_too(void **state)
{
    (void)state;
    sample_make(&of, "split", STAGES, STEPS);
    of.job.job.mode = PROTO_MODE_PP_CPU;
    of.job.model.layers = 3;
    of.job.train.micro_batches = MICRO_BATCHES;
    of.job.parallel.pipeline = PROTO_PIPELINE_ZB_H1;
    launch_record *record = sample_begin(&of, 0);
    for (uint64_t i = 0; i < STEPS; i++) {
        for (int r = 0; r < STAGES; r++) {
            launch_step step = step_of(&of, i, r);
            step.stage.span_ns += r * 5 * NS_PER_MS;
            step.stage.weights_ns = MICRO_BATCHES * (i < STEPS / 2 ? 10 : 1) * NS_PER_MS;
            sample_add(record, &step);
        }
    }
    sample_end(&of, record);
    json_t *manifest = sample_load(of.out, "manifest.json");
    const json_t *pipeline = json_object_get(manifest, "pipeline");
    assert_string_equal(json_string_value(json_object_get(pipeline, "schedule")), "zb-h1");
    sample_assert_near(sample_number(pipeline, "bubble_formula"), 1.0 / 13.0);
    sample_assert_near(sample_number(pipeline, "bubble_measured"), 1 - 32.0 / 60.0);
    sample_assert_near(sample_number(pipeline, "bubble_played"), 1 - 32.0 / (2 * 21.0));
    const json_t *stage = json_array_get(json_object_get(pipeline, "stages"), 1);
    sample_assert_near(sample_number(stage, "backward_ms"), 12);
    sample_assert_near(sample_number(stage, "weights_ms"), 4);
    json_decref(manifest);
    char *report = sample_text(&of, "report.html");
    assert_has(report, "<th class=\"n\">of it weight gradients</th>");
    free(report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_manifest_has_the_stages_and_the_bubble),
        cmocka_unit_test(each_line_has_the_stage),
        cmocka_unit_test(the_report_has_a_table_of_stages),
        cmocka_unit_test(chunks_are_played_too),
        cmocka_unit_test(a_split_backward_is_played_too),
        cmocka_unit_test(a_stages_figures_are_means_of_all_its_ranks),
        cmocka_unit_test(lines_of_another_layout_are_not_read),
    };
    return cmocka_run_group_tests(tests, test_shared_directory_make, test_shared_directory_remove);
}
