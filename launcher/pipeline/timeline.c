/* Plays a pipeline's schedule. Called by pipeline-simulate and launcher plan. */
#include "pipeline/timeline.h"

#include <stdlib.h>

#include "base/assert.h"

typedef struct play {
    const proto_pipeline *pipeline;
    const launch_pipeline_costs *costs;
    launch_pipeline_span *spans;
    launch_pipeline_result *result;
    int tasks;
    int64_t busy_ns;                     /* of all stages together */
    int next[PROTO_PIPELINE_STAGES_MAX]; /* each stage's first task that is not played yet */
} play;

static int64_t duration_ns(const play *self, int stage, const proto_pipeline_task *task)
{
    const launch_pipeline_part *part =
        &self->costs->parts[task->chunk * self->pipeline->stages + stage];
    const int64_t weights_ns = proto_pipeline_splits(self->pipeline) ? part->weights_ns : 0;
    return task->pass == PROTO_PIPELINE_FORWARD    ? part->forward_ns
           : task->pass == PROTO_PIPELINE_BACKWARD ? part->backward_ns - weights_ns
                                                   : weights_ns;
}

/* Plays the next task of a stage; false: what it needs is not played yet. */
static bool advance(play *self, int stage)
{
    const launch_pipeline_costs *costs = self->costs;
    const int index = self->next[stage];
    launch_pipeline_span *span = &self->spans[(size_t)stage * (size_t)self->tasks + (size_t)index];
    const proto_pipeline_task task = proto_pipeline_task_at(self->pipeline, stage, index);
    proto_pipeline_task before;
    int from = stage;
    span->begin_ns = index == 0 ? 0 : span[-1].end_ns;
    if (proto_pipeline_needs(self->pipeline, stage, &task, &from, &before)) {
        const int place = proto_pipeline_index_of(self->pipeline, from, &before);
        if (place >= self->next[from]) {
            return false;
        }
        const launch_pipeline_span *done =
            &self->spans[(size_t)from * (size_t)self->tasks + (size_t)place];
        const int64_t arrives = done->end_ns + (from == stage ? 0 : costs->hop_ns);
        span->begin_ns = arrives > span->begin_ns ? arrives : span->begin_ns;
    }
    if (task.pass == PROTO_PIPELINE_BACKWARD && stage == 0 && task.chunk == 0) {
        span->begin_ns += costs->tied_ns;
    }
    const int64_t took_ns = duration_ns(self, stage, &task);
    span->end_ns = span->begin_ns + took_ns;
    self->busy_ns += took_ns;
    if (span->end_ns > self->result->step_ns) {
        self->result->step_ns = span->end_ns;
    }
    self->result->messages += from != stage;
    self->next[stage]++;
    return true;
}

void launch_pipeline_play(const proto_pipeline *pipeline, const launch_pipeline_costs *costs,
                          launch_pipeline_span *spans, launch_pipeline_result *result)
{
    play self = {.pipeline = pipeline,
                 .costs = costs,
                 .spans = spans,
                 .result = result,
                 .tasks = proto_pipeline_tasks(pipeline)};
    int left = pipeline->stages * self.tasks;
    *result = (launch_pipeline_result){0};
    while (left > 0) {
        const int before = left;
        for (int stage = 0; stage < pipeline->stages; stage++) {
            while (self.next[stage] < self.tasks && advance(&self, stage)) {
                left--;
            }
        }
        BASE_ASSERT(left < before); /* no schedule makes stages wait for each other for ever */
    }
    const double whole_ns = (double)result->step_ns * pipeline->stages;
    result->bubble = whole_ns > 0 ? 1 - (double)self.busy_ns / whole_ns : 0;
}

base_status launch_pipeline_run_make(const proto_pipeline *pipeline,
                                     const launch_pipeline_costs *costs, launch_pipeline_run *run,
                                     base_error *reterr)
{
    *run = (launch_pipeline_run){.pipeline = *pipeline};
    const base_status status = proto_pipeline_check(pipeline, reterr);
    if (status != BASE_OK) {
        return status;
    }
    const size_t spans = (size_t)pipeline->stages * (size_t)proto_pipeline_tasks(pipeline);
    if (spans > LAUNCH_PIPELINE_SPANS_MAX) {
        return base_fail(reterr, BASE_ERR_LIMIT,
                         "%s: %d stages and %d micro-batches make more than %d tasks",
                         proto_pipeline_name((int)pipeline->kind), pipeline->stages,
                         pipeline->micro_batches, LAUNCH_PIPELINE_SPANS_MAX);
    }
    run->spans = calloc(spans, sizeof *run->spans);
    if (run->spans == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the step's tasks");
    }
    launch_pipeline_play(pipeline, costs, run->spans, &run->result);
    return BASE_OK;
}

void launch_pipeline_run_fini(launch_pipeline_run *run)
{
    free(run->spans);
    run->spans = NULL;
}
