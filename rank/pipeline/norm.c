/* The norm of all stages' gradients, with the bits of one array's: fixed blocks of the whole model,
 * added up in their order. A block may lie on several stages. Called by run.c. */
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "pipeline/parts.h"
#include "ringfence/coll_error.h"

/* The sum up to a place in the model: of all whole blocks before it, and what it has of the next. */
typedef struct running_sum {
    double sum;
    uint64_t count; /* elements of an unfinished block */
    float values[RANK_NORM_BLOCK];
} running_sum;

static double block_sum(const rank_pipeline *pipeline, const float *values, size_t count)
{
    double sum = 0.0;
    pipeline->device.backend->sum_squares(
        pipeline->device.queue, &(rank_sum_squares){.values = values, .count = count, .sum = &sum});
    return sum;
}

/* Elements of this stage that end a block of the stages before. */
static size_t head_count(const rank_pipeline *pipeline)
{
    const size_t own = pipeline->held.count - pipeline_own_place(pipeline);
    const size_t before = pipeline_own_offset(pipeline) % RANK_NORM_BLOCK;
    return before > 0 ? base_min_size(own, RANK_NORM_BLOCK - before) : 0;
}

size_t pipeline_whole_blocks(const rank_pipeline *pipeline)
{
    const size_t own = pipeline->held.count - pipeline_own_place(pipeline);
    return (own - head_count(pipeline)) / RANK_NORM_BLOCK;
}

static void add_values(const rank_pipeline *pipeline, running_sum *running, const float *values,
                       size_t count)
{
    BASE_ASSERT(running->count + count <= RANK_NORM_BLOCK);
    if (count > 0) {
        memcpy(running->values + running->count, values, count * sizeof *values);
    }
    running->count += count;
    if (running->count == RANK_NORM_BLOCK) {
        running->sum += block_sum(pipeline, running->values, RANK_NORM_BLOCK);
        running->count = 0;
    }
}

/* Goes on with the sum over this stage's own range. */
static void add_own(const rank_pipeline *pipeline, running_sum *running)
{
    const float *own = pipeline->levels[0] + pipeline_own_place(pipeline);
    const size_t count = pipeline->held.count - pipeline_own_place(pipeline);
    const size_t head = head_count(pipeline);
    const size_t blocks = pipeline_whole_blocks(pipeline);
    const size_t done = head + blocks * RANK_NORM_BLOCK;
    add_values(pipeline, running, own, head);
    for (size_t i = 0; i < blocks; i++) {
        running->sum += pipeline->block_sums[i];
    }
    add_values(pipeline, running, own + done, count - done);
}

static base_status exchange(const rank_pipeline *pipeline, coll_kind kind, int peer,
                            running_sum *running, base_error *reterr)
{
    coll_error error;
    const coll_op_desc desc = {.size = sizeof(coll_op_desc),
                               .kind = kind,
                               .send = running,
                               .recv = running,
                               .count = sizeof *running,
                               .type = COLL_UINT8,
                               .root = peer};
    return coll_to_base(coll_run(pipeline->comm, &desc, &error), &error, reterr);
}

base_status pipeline_sum_squares(rank_pipeline *pipeline, double *sum, base_error *reterr)
{
    running_sum running = {.sum = 0.0};
    const float *blocks = pipeline->levels[0] + pipeline_own_place(pipeline) + head_count(pipeline);
    coll_error error;
    base_status status = BASE_OK;
    for (size_t i = 0; i < pipeline_whole_blocks(pipeline); i++) {
        pipeline->block_sums[i] =
            block_sum(pipeline, blocks + i * RANK_NORM_BLOCK, RANK_NORM_BLOCK);
    }
    if (!pipeline_is_first(pipeline)) {
        status = exchange(pipeline, COLL_RECEIVE, pipeline->stage - 1, &running, reterr);
    }
    if (status == BASE_OK) {
        add_own(pipeline, &running);
    }
    if (status == BASE_OK && !pipeline_is_last(pipeline)) {
        status = exchange(pipeline, COLL_SEND, pipeline->stage + 1, &running, reterr);
    }
    if (status == BASE_OK && running.count > 0) { /* the model's last block; others get its sum */
        running.sum += block_sum(pipeline, running.values, running.count);
    }
    *sum = running.sum;
    return status == BASE_OK ? coll_to_base(coll_broadcast(pipeline->comm, sum, 1, COLL_FLOAT64,
                                                           pipeline->schedule.stages - 1, &error),
                                            &error, reterr)
                             : status;
}
