/* Sums up the steps of a pipeline, and writes what it finds. Called by manifest.c, report.c and
 * lesson.c. */
#include "record/stages.h"

#include <math.h>
#include <stdlib.h>

#include "base/assert.h"
#include "pipeline/timeline.h"

static const double MS_PER_NS = 1e-6;

static proto_pipeline pipeline_of(const proto_job *job)
{
    return (proto_pipeline){.kind = job->parallel.pipeline,
                            .stages = (int)job->job.world_size,
                            .chunks = 1,
                            .micro_batches = (int)job->train.micro_batches};
}

static void share_layers(const proto_job *job, launch_stages *stages)
{
    const proto_pipeline_model model = {.layers = job->model.layers,
                                        .width = job->model.width,
                                        .vocab_size = job->model.vocab_size,
                                        .context = job->model.context};
    int64_t first = 0;
    for (int s = 0; s < stages->count; s++) {
        stages->stages[s].first_layer = first;
        stages->stages[s].layers = proto_pipeline_layers(&model, stages->count, s);
        first += stages->stages[s].layers;
    }
}

/* A stage's means over the measured steps. Adds what it computed to *busy_ms. */
static void sum_up(const launch_run *run, int rank, launch_stage_figures *figures, double *busy_ms)
{
    const launch_summary *summary = run->summary;
    const double steps = (double)(summary->steps_done - summary->measured_first);
    for (size_t i = 0; i < summary->steps_done; i++) {
        const launch_stage_step *step = &run->steps->ranks[rank].steps[i].stage;
        figures->held = step->held > figures->held ? step->held : figures->held;
        if (i >= summary->measured_first) {
            figures->forward_ms += (double)step->forward_ns * MS_PER_NS / steps;
            figures->backward_ms += (double)step->backward_ns * MS_PER_NS / steps;
            figures->neighbour_ms += (double)step->neighbour_ns * MS_PER_NS / steps;
            figures->bytes_sent += (double)run->steps->ranks[rank].steps[i].bytes_sent / steps;
        }
    }
    *busy_ms += figures->forward_ms + figures->backward_ms;
}

static double span_ms(const launch_run *run)
{
    const launch_summary *summary = run->summary;
    double sum_ms = 0;
    for (size_t i = summary->measured_first; i < summary->steps_done; i++) {
        sum_ms += (double)run->steps->ranks[0].steps[i].stage.span_ns * MS_PER_NS;
    }
    return sum_ms / (double)(summary->steps_done - summary->measured_first);
}

/* The bubble of the schedule if every micro-batch takes its stage's mean times. */
static base_status play(const launch_run *run, launch_stages *stages, base_error *reterr)
{
    const proto_pipeline pipeline = pipeline_of(run->job);
    int64_t forward_ns[PROTO_PIPELINE_STAGES_MAX];
    int64_t backward_ns[PROTO_PIPELINE_STAGES_MAX];
    launch_pipeline_run played;
    for (int s = 0; s < stages->count; s++) {
        const launch_stage_figures *stage = &stages->stages[s];
        forward_ns[s] = llround(stage->forward_ms / MS_PER_NS / pipeline.micro_batches);
        backward_ns[s] = llround(stage->backward_ms / MS_PER_NS / pipeline.micro_batches);
    }
    const base_status status = launch_pipeline_run_make(
        &pipeline, &(launch_pipeline_costs){.forward_ns = forward_ns, .backward_ns = backward_ns},
        &played, reterr);
    stages->bubble_played = status == BASE_OK ? played.result.bubble : NAN;
    launch_pipeline_run_fini(&played);
    return status;
}

base_status launch_stages_measure(const launch_run *run, launch_stages *stages, base_error *reterr)
{
    const proto_pipeline pipeline = pipeline_of(run->job);
    double busy_ms = 0;
    BASE_ASSERT(proto_mode_get(run->job->job.mode)->pipelined);
    *stages = (launch_stages){.count = pipeline.stages,
                              .bubble_measured = NAN,
                              .bubble_played = NAN,
                              .bubble_formula = proto_pipeline_bubble(&pipeline)};
    share_layers(run->job, stages);
    if (run->summary->steps_done == 0) {
        return BASE_OK;
    }
    for (int s = 0; s < stages->count; s++) {
        sum_up(run, s, &stages->stages[s], &busy_ms);
    }
    const double whole_ms = span_ms(run) * stages->count;
    /* figures come from other processes: one that lies does not make a share below 0 */
    stages->bubble_measured = whole_ms > 0 ? fmax(0, 1 - busy_ms / whole_ms) : NAN;
    return play(run, stages, reterr);
}

static json_t *make_real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *make_stage(const launch_stage_figures *stage, int rank)
{
    return json_pack("{s:i, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:I}", "rank", rank, "first_layer",
                     (json_int_t)stage->first_layer, "layers", (json_int_t)stage->layers,
                     "compute_ms", make_real(stage->forward_ms + stage->backward_ms), "forward_ms",
                     make_real(stage->forward_ms), "backward_ms", make_real(stage->backward_ms),
                     "neighbour_ms", make_real(stage->neighbour_ms), "bytes_sent",
                     make_real(stage->bytes_sent), "held", (json_int_t)stage->held);
}

json_t *launch_stages_json(const launch_run *run)
{
    launch_stages stages;
    if (!proto_mode_get(run->job->job.mode)->pipelined) {
        return json_null();
    }
    json_t *rows = json_array();
    if (launch_stages_measure(run, &stages, NULL) != BASE_OK) {
        json_decref(rows);
        return NULL;
    }
    for (int s = 0; s < stages.count; s++) {
        if (json_array_append_new(rows, make_stage(&stages.stages[s], s)) != 0) {
            json_decref(rows);
            return NULL;
        }
    }
    return json_pack("{s:s, s:i, s:o, s:o, s:o, s:o}", "schedule",
                     proto_pipeline_name((int)run->job->parallel.pipeline), "micro_batches",
                     (int)run->job->train.micro_batches, "bubble_measured",
                     make_real(stages.bubble_measured), "bubble_played",
                     make_real(stages.bubble_played), "bubble_formula",
                     make_real(stages.bubble_formula), "stages", rows);
}

/* Whether there is anything to say of stages, and then their figures. */
static bool has_stages(const launch_run *run, launch_stages *stages, launch_text *text)
{
    if (!proto_mode_get(run->job->job.mode)->pipelined || run->summary->steps_done == 0) {
        return false;
    }
    const bool measured = launch_stages_measure(run, stages, NULL) == BASE_OK;
    text->failed = text->failed || !measured;
    return measured;
}

void launch_stages_report(const launch_run *run, launch_text *text)
{
    launch_stages stages;
    if (!has_stages(run, &stages, text)) {
        return;
    }
    launch_text_printf(
        text,
        "<section><h2>The stages</h2><p class=\"hintline\">The mean step by schedule %s, of %d "
        "micro-batches. Idle: %.1f %% of all stages' time; the schedule with these times, if "
        "messages took none, has %.1f %%; with equal stages %.1f %%. At the step&rsquo;s end the "
        "stages exchange the gradient of the tied matrix, the norm and the losses; both waits of a "
        "stage together are its &ldquo;waiting for other ranks&rdquo; above.</p>"
        "<div class=\"scroll wide\"><table><thead><tr><th class=\"n\">stage</th>"
        "<th class=\"n\">layers</th><th class=\"n\">forward</th><th class=\"n\">backward</th>"
        "<th class=\"n\">waiting for a neighbour</th>"
        "<th class=\"n\">waiting at the step&rsquo;s end</th><th class=\"n\">sent</th>"
        "<th class=\"n\">micro-batches held</th></tr></thead><tbody>\n",
        proto_pipeline_name((int)run->job->parallel.pipeline), (int)run->job->train.micro_batches,
        100 * stages.bubble_measured, 100 * stages.bubble_played, 100 * stages.bubble_formula);
    for (int s = 0; s < stages.count; s++) {
        const launch_stage_figures *stage = &stages.stages[s];
        const double waiting_ms = run->summary->ranks[s].part_ms[LAUNCH_PART_WAITING];
        launch_text_printf(text,
                           "<tr><td class=\"n\">%d</td><td class=\"n\">%d</td>"
                           "<td class=\"n\">%.3f ms</td><td class=\"n\">%.3f ms</td>"
                           "<td class=\"n\">%.3f ms</td><td class=\"n\">%.3f ms</td>"
                           "<td class=\"n\">%.2f MB</td>"
                           "<td class=\"n\">%d</td></tr>\n",
                           s, (int)stage->layers, stage->forward_ms, stage->backward_ms,
                           stage->neighbour_ms, fmax(0, waiting_ms - stage->neighbour_ms),
                           stage->bytes_sent / 1e6, (int)stage->held);
    }
    launch_text_put(text, "</tbody></table></div></section>\n");
}

void launch_stages_lesson(const launch_run *run, launch_text *text)
{
    launch_stages stages;
    if (!has_stages(run, &stages, text)) {
        return;
    }
    launch_text_printf(
        text,
        "%d stage%s trained in a pipeline by schedule %s, with %d micro-batch%s. In "
        "a mean step the stages were idle for %.1f %% of forward and backward, which "
        "is the bubble. The schedule with the stages' own times has %.1f %%, and with "
        "equal stages %.1f %%.",
        stages.count, stages.count == 1 ? "" : "s",
        proto_pipeline_name((int)run->job->parallel.pipeline), (int)run->job->train.micro_batches,
        run->job->train.micro_batches == 1 ? "" : "es", 100 * stages.bubble_measured,
        100 * stages.bubble_played, 100 * stages.bubble_formula);
    if (stages.bubble_measured > stages.bubble_played) {
        launch_text_put(text, " The rest is messages, micro-batches of unequal length, and cores "
                              "that other work had.");
    }
    if (stages.count > 1) {
        launch_text_put(text, " More micro-batches make the bubble shorter.");
    }
}
