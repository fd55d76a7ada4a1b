/* The memory of messages that stages send to each other: arenas, in which the receiver of a long message can read
 * it without the sender's help. Called by make.c. */
#include "base/bytes.h"
#include "pipeline/parts.h"
#include "ringfence/coll_error.h"

enum { CUT_FLOATS = 1024 }; /* a page */

static size_t rounded(size_t floats)
{
    return (floats + CUT_FLOATS - 1) / CUT_FLOATS * CUT_FLOATS;
}

static base_status open_sent(const rank_pipeline *pipeline, coll_comm *comm, size_t floats,
                             pipeline_sent *made, base_error *reterr)
{
    const size_t size_bytes = floats * sizeof(float);
    const base_status status =
        (base_status)coll_arena_create(comm, size_bytes, &made->arena, coll_error_of(reterr));
    return status == BASE_OK
               ? pipeline->device.backend->adopt(pipeline->device.queue,
                                                 coll_arena_data(made->arena), size_bytes, reterr)
               : status;
}

static void close_sent(const rank_pipeline *pipeline, pipeline_sent *made)
{
    if (made->arena != NULL) {
        pipeline->device.backend->disown(pipeline->device.queue, coll_arena_data(made->arena));
        coll_arena_destroy(made->arena);
    }
}

/* The places of the stage that has most: arenas are equally long, and take memory where they are used. */
static size_t most_places(const proto_pipeline *schedule)
{
    size_t most = 0;
    for (int stage = 0; stage < schedule->stages; stage++) {
        size_t places = 0;
        for (int chunk = 0; chunk < schedule->chunks; chunk++) {
            places += (size_t)proto_pipeline_held_of(schedule, stage, chunk);
        }
        most = base_max_size(most, places);
    }
    return most;
}

/* The same on every stage: what the first and the last one both hold. */
static size_t tied_floats(const rank_pipeline *pipeline)
{
    return pipeline_held_of(pipeline, &pipeline->config, 0).tied_count;
}

base_status pipeline_make_sent(rank_pipeline *pipeline, base_error *reterr)
{
    const size_t stream = rounded(pipeline->shape.token_count_max * (size_t)pipeline->config.width);
    const size_t streams = most_places(&pipeline->schedule) * stream;
    const size_t tied = (size_t)pipeline->schedule.stages * rounded(tied_floats(pipeline));
    if (pipeline->schedule.stages == 1) {
        return BASE_OK;
    }
    base_status status =
        open_sent(pipeline, pipeline->forward, streams, &pipeline->sent.forward, reterr);
    if (status == BASE_OK) {
        status = open_sent(pipeline, pipeline->backward, streams, &pipeline->sent.backward, reterr);
    }
    if (status == BASE_OK && tied > 0) {
        status = open_sent(pipeline, pipeline->comm, tied, &pipeline->sent.tied, reterr);
    }
    return status == BASE_OK ? BASE_OK : base_error_prepend(reterr, status, "memory for messages");
}

float *pipeline_cut_sent(pipeline_sent *sent, size_t floats)
{
    float *at = (float *)coll_arena_data(sent->arena) + sent->used;
    sent->used += rounded(floats);
    return at;
}

void pipeline_free_sent(rank_pipeline *pipeline)
{
    close_sent(pipeline, &pipeline->sent.forward);
    close_sent(pipeline, &pipeline->sent.backward);
    close_sent(pipeline, &pipeline->sent.tied);
}
