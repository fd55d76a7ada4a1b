/* Forward alone of any number of batches through the stages, for their losses. Called by train/stage.c. */
#include "base/assert.h"
#include "pipeline/parts.h"

/* Puts a batch into its place. All chunks have the rows of the first one. */
static base_status place_rows(const rank_pipeline *pipeline, const proto_pipeline_task *task,
                              const rank_pipeline_evaluation *of, base_error *reterr)
{
    pipeline_place *place = pipeline_place_of(&pipeline->chunks[task->chunk], task->micro_batch);
    rank_batch batch;
    if (task->chunk > 0) {
        place->saved.rows = pipeline_place_of(&pipeline->chunks[0], task->micro_batch)->saved.rows;
        return BASE_OK;
    }
    const base_status status = of->batch(of->user, task->micro_batch, &batch, reterr);
    return status == BASE_OK ? rank_rows_place(&place->saved, &batch, NULL, reterr) : status;
}

static base_status forward(rank_pipeline *pipeline, const proto_pipeline_task *task,
                           const rank_pipeline_evaluation *of, base_error *reterr)
{
    const pipeline_chunk *chunk = &pipeline->chunks[task->chunk];
    pipeline_place *place = pipeline_place_of(chunk, task->micro_batch);
    const bool last = pipeline_chunk_is_last(pipeline, chunk);
    base_status status = place_rows(pipeline, task, of, reterr);
    if (status == BASE_OK) {
        status = pipeline_forward(pipeline, chunk, place, last, reterr);
    }
    if (status == BASE_OK && last && pipeline->part == 0) { /* the others have the same */
        const rank_result result = {.loss_sum = *place->saved.loss,
                                    .target_count = (int64_t)place->saved.rows.target_count};
        of->loss(of->user, task->micro_batch, &result);
    }
    return status;
}

base_status rank_pipeline_evaluate(rank_pipeline *pipeline, const float *params,
                                   const rank_pipeline_evaluation *evaluation, base_error *reterr)
{
    const proto_pipeline *schedule = &pipeline->schedule;
    base_status status = BASE_OK;
    /* the rows of all batches that are between two chunks */
    BASE_ASSERT(schedule->chunks == 1 || pipeline->chunks[0].place_count >= schedule->stages);
    pipeline->params = params;
    for (int i = 0; status == BASE_OK && i < evaluation->batches * schedule->chunks; i++) {
        const proto_pipeline_task task =
            proto_pipeline_forward_at(schedule, evaluation->batches, i);
        status = forward(pipeline, &task, evaluation, reterr);
    }
    if (status == BASE_OK) {
        status = pipeline_wait_for_sends(pipeline, reterr);
    }
    return pipeline_say_where(pipeline, status, reterr);
}
