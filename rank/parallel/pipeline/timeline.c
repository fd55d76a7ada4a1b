/* Plays a pipeline's schedule. Called by pipeline-simulate. */
#include "parallel/pipeline/timeline.h"

#include "base/assert.h"

typedef struct play {
    const rank_pipeline *pipeline;
    const rank_pipeline_costs *costs;
    rank_pipeline_span *spans;
    rank_pipeline_result *result;
    int tasks;
    int next[RANK_PIPELINE_STAGES_MAX]; /* each stage's first task that is not played yet */
} play;

/* Plays the next task of a stage; false: what it needs is not played yet. */
static bool advance(play *self, int stage)
{
    const rank_pipeline_costs *costs = self->costs;
    const int index = self->next[stage];
    rank_pipeline_span *span = &self->spans[(size_t)stage * (size_t)self->tasks + (size_t)index];
    const rank_pipeline_task task = rank_pipeline_task_at(self->pipeline, stage, index);
    rank_pipeline_task before;
    int from = stage;
    span->begin_ns = index == 0 ? 0 : span[-1].end_ns;
    if (rank_pipeline_needs(self->pipeline, stage, &task, &from, &before)) {
        const int place = rank_pipeline_index_of(self->pipeline, from, &before);
        if (place >= self->next[from]) {
            return false;
        }
        const rank_pipeline_span *done =
            &self->spans[(size_t)from * (size_t)self->tasks + (size_t)place];
        const int64_t arrives = done->end_ns + (from == stage ? 0 : costs->hop_ns);
        span->begin_ns = arrives > span->begin_ns ? arrives : span->begin_ns;
    }
    span->end_ns = span->begin_ns + (task.backward ? costs->backward_ns : costs->forward_ns);
    if (span->end_ns > self->result->step_ns) {
        self->result->step_ns = span->end_ns;
    }
    self->result->messages += from != stage;
    self->next[stage]++;
    return true;
}

void rank_pipeline_play(const rank_pipeline *pipeline, const rank_pipeline_costs *costs,
                        rank_pipeline_span *spans, rank_pipeline_result *result)
{
    play self = {.pipeline = pipeline,
                 .costs = costs,
                 .spans = spans,
                 .result = result,
                 .tasks = rank_pipeline_tasks(pipeline)};
    int left = pipeline->stages * self.tasks;
    *result = (rank_pipeline_result){0};
    while (left > 0) {
        const int before = left;
        for (int stage = 0; stage < pipeline->stages; stage++) {
            while (self.next[stage] < self.tasks && advance(&self, stage)) {
                left--;
            }
        }
        BASE_ASSERT(left < before); /* no schedule makes stages wait for each other for ever */
    }
    const int64_t busy_ns = self.tasks / 2 * (costs->forward_ns + costs->backward_ns);
    result->bubble = result->step_ns > 0 ? 1 - (double)busy_ns / (double)result->step_ns : 0;
}
