/* Sums up the steps of a pipeline, and writes what it finds. Called by manifest.c, report.c and
 * lesson.c. */
#include "record/stages.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "pipeline/timeline.h"
#include "proto/pipeline.h"
#include "record/sheet.h"
#include "record/stats.h"

static const double MS_PER_NS = 1e-6;

enum { CHUNKS_TEXT_BYTES = 64 };

/* One stage in a mean step: the mean of its ranks, in all pipelines. */
typedef struct launch_stage_figures {
    int64_t layers;     /* of all chunks */
    double forward_ms;  /* of all micro-batches */
    double backward_ms; /* the same */
    double weights_ms;  /* in backward: the gradients of weights, if they are a pass of their own */
    double span_ms;     /* from the first pass's begin to the last one's end */
    double tensor_ms;   /* in both: exchanging with other ranks of the stage */
    double neighbour_ms; /* waiting for messages of other stages */
    double waiting_ms;   /* that, and waiting at the step's end */
    double bytes_sent;
    uint64_t
        held; /* micro-batches in chunks whose activations it kept at once, at most, in any step */
} launch_stage_figures;

/* A chunk of a stage. */
typedef struct launch_chunk_layers {
    int64_t first;
    int64_t count;
} launch_chunk_layers;

typedef struct launch_stages {
    proto_pipeline pipeline;
    int count;
    launch_stage_figures stages[PROTO_PIPELINE_STAGES_MAX];
    launch_chunk_layers chunks[PROTO_PIPELINE_PARTS_MAX]; /* chunk · stages + stage */
    /* Shares of stages × time in which a stage does not compute, from 0 to 1. */
    double bubble_measured; /* from stage 0's first forward to the last pass; NaN: no step */
    double bubble_played;   /* the schedule with the measured times, and messages that take none */
    double bubble_formula;  /* of stages that take equally long */
} launch_stages;

static void share_layers(const proto_job *job, launch_stages *stages)
{
    const proto_pipeline_model model = {.layers = job->model.layers,
                                        .width = job->model.width,
                                        .vocab_size = job->model.vocab_size,
                                        .context = job->model.context};
    const int all = stages->count * stages->pipeline.chunks;
    int64_t first = 0;
    for (int i = 0; i < all; i++) {
        const int64_t layers = proto_pipeline_layers(&model, all, i);
        stages->chunks[i] = (launch_chunk_layers){first, layers};
        stages->stages[i % stages->count].layers += layers;
        first += layers;
    }
}

/* Adds a rank's share of its stage's means over the measured steps. */
static void sum_up(const launch_run *run, int rank, launch_stage_figures *figures)
{
    const launch_summary *summary = run->summary;
    const double ranks = (double)(proto_job_copies(run->job) * proto_job_tensor(run->job));
    const double steps = (double)(summary->steps_done - summary->measured_first) * ranks;
    figures->waiting_ms += summary->ranks[rank].part_ms[LAUNCH_PART_WAITING] / ranks;
    for (size_t i = 0; i < summary->steps_done; i++) {
        const launch_stage_step *step = &run->steps->ranks[rank].stages[i];
        figures->held = step->held > figures->held ? step->held : figures->held;
        if (i >= summary->measured_first) {
            figures->forward_ms += (double)step->forward_ns * MS_PER_NS / steps;
            figures->backward_ms += (double)step->backward_ns * MS_PER_NS / steps;
            figures->weights_ms += (double)step->weights_ns * MS_PER_NS / steps;
            figures->span_ms += (double)step->span_ns * MS_PER_NS / steps;
            figures->tensor_ms += (double)step->tensor_ns * MS_PER_NS / steps;
            figures->neighbour_ms += (double)step->neighbour_ns * MS_PER_NS / steps;
            figures->bytes_sent += (double)run->steps->ranks[rank].times[i].bytes_sent / steps;
        }
    }
}

/* From stage 0's first forward to the end of the last stage that works: stage 0, but where W comes behind its last backward. */
static double span_ms(const launch_stages *stages)
{
    double longest_ms = stages->stages[0].span_ms;
    for (int s = 1; proto_pipeline_splits(&stages->pipeline) && s < stages->count; s++) {
        longest_ms = fmax(longest_ms, stages->stages[s].span_ms);
    }
    return longest_ms;
}

/* The bubble of the schedule if every micro-batch takes its stage's mean times, and each chunk equally long. */
static bool play(launch_stages *stages)
{
    const proto_pipeline *pipeline = &stages->pipeline;
    const double passes = (double)pipeline->micro_batches * pipeline->chunks;
    launch_pipeline_part parts[PROTO_PIPELINE_PARTS_MAX];
    launch_pipeline_run played;
    for (int i = 0; i < stages->count * pipeline->chunks; i++) {
        const launch_stage_figures *stage = &stages->stages[i % stages->count];
        parts[i] =
            (launch_pipeline_part){.forward_ns = llround(stage->forward_ms / MS_PER_NS / passes),
                                   .backward_ns = llround(stage->backward_ms / MS_PER_NS / passes),
                                   .weights_ns = llround(stage->weights_ms / MS_PER_NS / passes)};
    }
    const bool made = launch_pipeline_run_make(pipeline, &(launch_pipeline_costs){.parts = parts},
                                               &played, NULL) == BASE_OK;
    stages->bubble_played = made ? played.result.bubble : NAN;
    launch_pipeline_run_fini(&played);
    return made;
}

/* False: no memory. */
static bool measure(const launch_run *run, launch_stages *stages)
{
    const proto_pipeline pipeline = proto_job_pipeline(run->job);
    double busy_ms = 0;
    *stages = (launch_stages){.pipeline = pipeline,
                              .count = pipeline.stages,
                              .bubble_measured = NAN,
                              .bubble_played = NAN,
                              .bubble_formula = proto_pipeline_bubble(&pipeline)};
    share_layers(run->job, stages);
    if (run->summary->steps_done == 0) {
        return true;
    }
    for (int rank = 0; rank < (int)run->job->job.world_size; rank++) {
        sum_up(run, rank, &stages->stages[proto_job_place(run->job, rank).stage]);
    }
    for (int s = 0; s < stages->count; s++) {
        busy_ms += stages->stages[s].forward_ms + stages->stages[s].backward_ms;
    }
    const double whole_ms = span_ms(stages) * stages->count;
    /* figures come from other processes: one that lies does not make a share below 0 */
    stages->bubble_measured = whole_ms > 0 ? fmax(0, 1 - busy_ms / whole_ms) : NAN;
    return play(stages);
}

static void put_chunks(launch_sheet *row, const launch_stages *stages, int number)
{
    json_t *chunks = json_array();
    for (int i = number; i < stages->count * stages->pipeline.chunks; i += stages->count) {
        launch_sheet chunk = sheet_make();
        sheet_int(&chunk, "first_layer", (uint64_t)stages->chunks[i].first);
        sheet_int(&chunk, "layers", (uint64_t)stages->chunks[i].count);
        sheet_row(row, chunks, chunk);
    }
    sheet_put(row, "chunks", chunks);
}

static launch_sheet make_stage(const launch_stages *stages, int number, int tensor)
{
    const launch_stage_figures *stage = &stages->stages[number];
    launch_sheet row = sheet_make();
    sheet_int(&row, "rank", (uint64_t)number * (uint64_t)tensor); /* the first of them */
    sheet_int(&row, "first_layer", (uint64_t)stages->chunks[number].first);
    sheet_int(&row, "layers", (uint64_t)stage->layers);
    if (stages->pipeline.chunks > 1) {
        put_chunks(&row, stages, number);
    }
    sheet_real(&row, "compute_ms", stage->forward_ms + stage->backward_ms);
    sheet_real(&row, "forward_ms", stage->forward_ms);
    sheet_real(&row, "backward_ms", stage->backward_ms);
    if (proto_pipeline_splits(&stages->pipeline)) {
        sheet_real(&row, "weights_ms", stage->weights_ms);
    }
    if (tensor > 1) {
        sheet_real(&row, "tensor_ms", stage->tensor_ms);
    }
    sheet_real(&row, "neighbour_ms", stage->neighbour_ms);
    sheet_real(&row, "bytes_sent", stage->bytes_sent);
    sheet_int(&row, "held", stage->held);
    return row;
}

json_t *launch_stages_json(const launch_run *run)
{
    launch_stages stages;
    if (!proto_mode_get(run->job->job.mode)->pipelined) {
        return json_null();
    }
    launch_sheet sheet = sheet_make();
    json_t *rows = json_array();
    sheet.failed = !measure(run, &stages) || sheet.failed;
    for (int s = 0; s < stages.count; s++) {
        sheet_row(&sheet, rows, make_stage(&stages, s, (int)proto_job_tensor(run->job)));
    }
    sheet_string(&sheet, "schedule", proto_pipeline_name((int)stages.pipeline.kind));
    sheet_int(&sheet, "chunks", (uint64_t)stages.pipeline.chunks);
    sheet_int(&sheet, "replicas", (uint64_t)proto_job_copies(run->job));
    sheet_int(&sheet, "tensor", (uint64_t)proto_job_tensor(run->job));
    sheet_int(&sheet, "micro_batches", (uint64_t)run->job->train.micro_batches);
    sheet_real(&sheet, "bubble_measured", stages.bubble_measured);
    sheet_real(&sheet, "bubble_played", stages.bubble_played);
    sheet_real(&sheet, "bubble_formula", stages.bubble_formula);
    sheet_put(&sheet, "stages", rows);
    return sheet_take(sheet);
}

/* Whether there is anything to say of stages, and then their figures. */
static bool has_stages(const launch_run *run, launch_stages *stages, base_buffer *text)
{
    if (!proto_mode_get(run->job->job.mode)->pipelined || run->summary->steps_done == 0) {
        return false;
    }
    const bool measured = measure(run, stages);
    text->failed = text->failed || !measured;
    return measured;
}

/* What the rows of the table are means of. */
static const char *rows_are(const launch_run *run)
{
    const bool several = proto_job_copies(run->job) > 1;
    if (proto_job_tensor(run->job) > 1) {
        return several ? " in each pipeline; a row is the mean of that stage&rsquo;s ranks in all "
                         "of them"
                       : "; a row is the mean of that stage&rsquo;s ranks";
    }
    return several ? " in each pipeline; a row is the mean of that stage in all of them" : "";
}

/* Columns that a table of stages may have. */
typedef struct stage_columns {
    bool weights;
    bool exchanging;
} stage_columns;

static void put_stage(base_buffer *text, const launch_stage_figures *stage, int number,
                      stage_columns columns)
{
    base_buffer_printf(text,
                       "<tr><td class=\"n\">%d</td><td class=\"n\">%d</td>"
                       "<td class=\"n\">%.3f ms</td><td class=\"n\">%.3f ms</td>",
                       number, (int)stage->layers, stage->forward_ms, stage->backward_ms);
    if (columns.weights) {
        base_buffer_printf(text, "<td class=\"n\">%.3f ms</td>", stage->weights_ms);
    }
    if (columns.exchanging) {
        base_buffer_printf(text, "<td class=\"n\">%.3f ms</td>", stage->tensor_ms);
    }
    base_buffer_printf(text,
                       "<td class=\"n\">%.3f ms</td><td class=\"n\">%.3f ms</td>"
                       "<td class=\"n\">%.2f MB</td>"
                       "<td class=\"n\">%d</td></tr>\n",
                       stage->neighbour_ms, fmax(0, stage->waiting_ms - stage->neighbour_ms),
                       stage->bytes_sent / 1e6, (int)stage->held);
}

/* ", in 2 chunks of layers on each stage": nothing if there is one. */
static void describe_chunks(const launch_stages *stages, char *text, size_t size_bytes)
{
    text[0] = '\0';
    if (stages->pipeline.chunks > 1) {
        (void)snprintf(text, size_bytes, ", in %d chunks of layers on each stage",
                       stages->pipeline.chunks);
    }
}

void launch_stages_report(const launch_run *run, base_buffer *text)
{
    launch_stages stages;
    char chunks[CHUNKS_TEXT_BYTES];
    if (!has_stages(run, &stages, text)) {
        return;
    }
    const bool shared = proto_job_tensor(run->job) > 1;
    const bool splits = proto_pipeline_splits(&stages.pipeline);
    describe_chunks(&stages, chunks, sizeof chunks);
    base_buffer_printf(
        text,
        "<section><h2>The stages</h2><p class=\"hintline\">The mean step by schedule %s, of %d "
        "micro-batches%s%s. Idle: %.1f %% of all stages' time; the schedule with these times, if "
        "messages took none, has %.1f %%; with equal stages %.1f %%. At the step&rsquo;s end the "
        "stages exchange the gradient of the tied matrix%s, the norm and the losses. A stage waits "
        "for its neighbours and at this end; both together are its &ldquo;waiting for other "
        "ranks&rdquo; above.%s</p>"
        "<div class=\"scroll wide\"><table><thead><tr><th class=\"n\">stage</th>"
        "<th class=\"n\">layers</th><th class=\"n\">forward</th><th class=\"n\">backward</th>%s%s"
        "<th class=\"n\">waiting for a neighbour</th>"
        "<th class=\"n\">waiting at the end</th><th class=\"n\">sent</th>"
        "<th class=\"n\">held%s</th></tr></thead><tbody>\n",
        proto_pipeline_name((int)stages.pipeline.kind), stages.pipeline.micro_batches, chunks,
        rows_are(run), 100 * stages.bubble_measured, 100 * stages.bubble_played,
        100 * stages.bubble_formula,
        proto_job_copies(run->job) > 1 ? ", the gradients of all pipelines" : "",
        shared ? " Forward and backward include exchanging with the ranks that share the stage."
               : "",
        splits ? "<th class=\"n\">of it weight gradients</th>" : "",
        shared ? "<th class=\"n\">exchanging</th>" : "",
        stages.pipeline.chunks > 1 ? ", of a chunk" : "");
    for (int s = 0; s < stages.count; s++) {
        put_stage(text, &stages.stages[s], s, (stage_columns){splits, shared});
    }
    base_buffer_put(text, "</tbody></table></div></section>\n");
}

/* How much of computing is exchanging, where ranks share a stage's layers. */
static void put_tensor_lesson(const launch_run *run, const launch_stages *stages, base_buffer *text)
{
    const int ranks = (int)proto_job_tensor(run->job);
    double busy_ms = 0;
    double tensor_ms = 0;
    if (ranks == 1) {
        return;
    }
    for (int s = 0; s < stages->count; s++) {
        busy_ms += stages->stages[s].forward_ms + stages->stages[s].backward_ms;
        tensor_ms += stages->stages[s].tensor_ms;
    }
    base_buffer_printf(text,
                       "%d ranks share the layers of %s, and their exchanges took %.1f %% of "
                       "forward and backward. ",
                       ranks, stages->count == 1 ? "the stage" : "each stage",
                       launch_share_percent(tensor_ms, busy_ms));
}

void launch_stages_lesson(const launch_run *run, base_buffer *text)
{
    launch_stages stages;
    char chunks[CHUNKS_TEXT_BYTES];
    if (!has_stages(run, &stages, text)) {
        return;
    }
    describe_chunks(&stages, chunks, sizeof chunks);
    put_tensor_lesson(run, &stages, text);
    if (proto_job_copies(run->job) > 1) {
        base_buffer_printf(text, "There are %d pipelines, and in each of them ",
                           (int)proto_job_copies(run->job));
    }
    base_buffer_printf(
        text,
        "%d stage%s trained in a pipeline by schedule %s, with %d micro-batch%s%s. In "
        "a mean step the stages were idle for %.1f %% of the time from the first forward to the "
        "last backward, which is the bubble. The schedule with the stages' own times has %.1f %%, "
        "and with "
        "equal stages %.1f %%.",
        stages.count, stages.count == 1 ? "" : "s", proto_pipeline_name((int)stages.pipeline.kind),
        stages.pipeline.micro_batches, stages.pipeline.micro_batches == 1 ? "" : "es", chunks,
        100 * stages.bubble_measured, 100 * stages.bubble_played, 100 * stages.bubble_formula);
    if (stages.bubble_measured > stages.bubble_played) {
        base_buffer_put(text, " The rest is messages, micro-batches of unequal length, and cores "
                              "that other work had.");
    }
    if (stages.count > 1) {
        base_buffer_put(text, " More micro-batches make the bubble shorter.");
    }
}
