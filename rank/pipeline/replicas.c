/* What several pipelines exchange: each trains on slots of its own, and all have the same parameters. Called by
 * run.c, params.c and train/. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "pipeline/parts.h"
#include "ringfence/coll_error.h"

static base_status make_arena(rank_pipeline *pipeline, base_error *reterr)
{
    const rank_device *device = &pipeline->device;
    const size_t size_bytes = pipeline->held.count * sizeof(float);
    base_status status = (base_status)coll_arena_create(pipeline->replicas, size_bytes,
                                                        &pipeline->arena, coll_error_of(reterr));
    if (status == BASE_OK) {
        pipeline->levels[0] = coll_arena_data(pipeline->arena);
        status = device->backend->adopt(device->queue, pipeline->levels[0], size_bytes, reterr);
    }
    return status == BASE_OK ? BASE_OK : base_error_prepend(reterr, status, "memory for gradients");
}

base_status pipeline_make_sums(rank_pipeline *pipeline, base_error *reterr)
{
    pipeline_sums *sums = &pipeline->sums;
    if (pipeline->replicas == NULL) {
        return BASE_OK;
    }
    /* no more buckets than that, and one for each layer */
    const size_t least = pipeline->held.count / RANK_DDP_BUCKETS_MAX + 1;
    pipeline->bucket_elements = base_max_size(pipeline->bucket_elements, least);
    /* what is before and behind the layers, and each of them, may end with a smaller bucket */
    sums->capacity = pipeline->held.count / pipeline->bucket_elements + 2;
    for (int i = 0; i < pipeline->schedule.chunks; i++) {
        const rank_shape *shape = &pipeline->chunks[i].run.shape;
        sums->capacity += (size_t)(shape->end_layer - shape->first_layer);
    }
    sums->all = calloc(sums->capacity, sizeof *sums->all);
    return sums->all != NULL
               ? make_arena(pipeline, reterr)
               : base_fail(reterr, BASE_ERR_MEMORY, "no memory for the sums of gradients");
}

void pipeline_free_sums(rank_pipeline *pipeline)
{
    for (size_t i = 0; i < pipeline->sums.made; i++) {
        coll_op_destroy(pipeline->sums.all[i].op);
    }
    free(pipeline->sums.all);
    if (pipeline->arena != NULL) {
        pipeline->device.backend->disown(pipeline->device.queue, pipeline->levels[0]);
    }
    coll_arena_destroy(pipeline->arena);
}

static coll_status start_bucket(rank_pipeline *pipeline, size_t place, size_t count,
                                coll_error *reterr)
{
    pipeline_sums *sums = &pipeline->sums;
    pipeline_sum *next = &sums->all[sums->started];
    coll_status status = COLL_OK;
    BASE_ASSERT(sums->started < sums->capacity);
    if (sums->started == sums->made) {
        float *at = pipeline->levels[0] + place;
        const coll_op_desc desc = {.size = sizeof desc,
                                   .kind = COLL_ALL_REDUCE,
                                   .send = at,
                                   .recv = at,
                                   .count = count,
                                   .type = COLL_FLOAT32,
                                   .reduce = COLL_SUM,
                                   .algorithm = pipeline->algorithm};
        *next = (pipeline_sum){.place = place, .count = count};
        status = coll_op_create(pipeline->replicas, &desc, &next->op, reterr);
        sums->made += status == COLL_OK ? 1 : 0;
    }
    if (status != COLL_OK) {
        return status;
    }
    BASE_ASSERT(next->place == place); /* backward goes the same way in every step */
    BASE_ASSERT(next->count == count);
    sums->started++;
    next->begun_ns = rank_trace_begin(pipeline->trace);
    return coll_op_start(next->op, reterr);
}

/* The oldest bucket under way is seen to be done. */
static void count_done(rank_pipeline *pipeline)
{
    const size_t index = pipeline->sums.done++;
    const pipeline_sum *done = &pipeline->sums.all[index];
    rank_trace_add(pipeline->trace,
                   (rank_trace_span){.kind = RANK_TRACE_REDUCE,
                                     .of = RANK_TRACE_EXCHANGE,
                                     .begin_ns = done->begun_ns,
                                     .index = (int32_t)index,
                                     .bytes = done->count * sizeof(float),
                                     .detail = (uint8_t)(1 + coll_op_algorithm(done->op))});
}

/* Moves on what is under way, and finds out which buckets are done, in order. */
static coll_status move_on(rank_pipeline *pipeline, coll_error *reterr)
{
    const pipeline_sums *sums = &pipeline->sums;
    bool done = true;
    while (done && sums->done < sums->started) {
        const coll_status status = coll_op_test(sums->all[sums->done].op, &done, reterr);
        if (status != COLL_OK) {
            return status;
        }
        if (done) {
            count_done(pipeline);
        }
    }
    return coll_context_progress(pipeline->context, reterr);
}

static coll_status start(rank_pipeline *pipeline, size_t place, size_t count, coll_error *reterr)
{
    coll_status status = COLL_OK;
    for (size_t done = 0; status == COLL_OK && done < count; done += pipeline->bucket_elements) {
        status = start_bucket(pipeline, place + done,
                              base_min_size(pipeline->bucket_elements, count - done), reterr);
    }
    return status == COLL_OK ? move_on(pipeline, reterr) : status;
}

void pipeline_start_sums(rank_pipeline *pipeline, size_t place, size_t count)
{
    pipeline_sums *sums = &pipeline->sums;
    const int64_t begun_ns = base_now_ns();
    if (sums->failed == BASE_OK) {
        sums->failed = (base_status)start(pipeline, place, count, coll_error_of(&sums->error));
    }
    sums->ns += base_now_ns() - begun_ns;
    rank_trace_add(pipeline->trace,
                   (rank_trace_span){.kind = RANK_TRACE_CALLS, .begin_ns = begun_ns, .index = -1});
}

base_status pipeline_wait_for_sums(rank_pipeline *pipeline, base_error *reterr)
{
    const pipeline_sums *sums = &pipeline->sums;
    base_status status = sums->failed;
    size_t count = 0;
    if (status != BASE_OK && reterr != NULL) {
        *reterr = sums->error;
    }
    for (size_t i = 0; status == BASE_OK && i < sums->started; i++) {
        const bool waits = i == sums->done; /* else it was seen to be done before */
        const int64_t begun_ns = rank_trace_begin(pipeline->trace);
        status = (base_status)coll_op_wait(sums->all[i].op, coll_error_of(reterr));
        count += sums->all[i].count;
        if (waits) {
            count_done(pipeline);
            rank_trace_add(pipeline->trace, (rank_trace_span){.kind = RANK_TRACE_REDUCE,
                                                              .begin_ns = begun_ns,
                                                              .index = (int32_t)i});
        }
    }
    BASE_ASSERT(status != BASE_OK || pipeline->replicas == NULL ||
                count == pipeline->held.count - pipeline_own_place(pipeline));
    return status;
}

base_status rank_pipeline_sum_loss(const rank_pipeline *pipeline, double *loss, base_error *reterr)
{
    if (pipeline->replicas == NULL || !pipeline_is_last(pipeline)) {
        return BASE_OK;
    }
    const base_status status = (base_status)coll_all_reduce(
        pipeline->replicas, loss, loss, 1, COLL_FLOAT64, COLL_SUM, coll_error_of(reterr));
    *loss = pipeline->replica == 0 ? *loss : 0.0;
    return status;
}

static base_status broadcast(const rank_pipeline *pipeline, void *values, size_t count,
                             coll_type type, base_error *reterr)
{
    return (base_status)coll_broadcast(pipeline->replicas, values, count, type, 0,
                                       coll_error_of(reterr));
}

base_status pipeline_give_replicas(const rank_pipeline *pipeline, float *params,
                                   uint8_t digest[RANK_DIGEST_BYTES], base_error *reterr)
{
    const rank_device *device = &pipeline->device;
    const size_t count = pipeline->held.count;
    uint8_t mine[RANK_DIGEST_BYTES];
    uint8_t digests[2][RANK_DIGEST_BYTES]; /* of the whole model, and of this stage's part */
    if (pipeline->replicas == NULL) {
        return BASE_OK;
    }
    base_status status = broadcast(pipeline, params, count, COLL_FLOAT32, reterr);
    if (status != BASE_OK) {
        return status;
    }
    device->backend->digest(
        device->queue,
        &(rank_digest){.at = params, .size_bytes = count * sizeof *params, .digest = mine});
    memcpy(digests[0], digest, sizeof mine);
    memcpy(digests[1], mine, sizeof mine);
    status = broadcast(pipeline, digests, sizeof digests, COLL_UINT8, reterr);
    memcpy(digest, digests[0], sizeof mine);
    return status != BASE_OK || memcmp(digests[1], mine, sizeof mine) == 0
               ? status
               : base_fail(reterr, BASE_ERR_MISMATCH,
                           "rank %d of pipeline %d has received other values than the first "
                           "pipeline has",
                           coll_comm_rank(pipeline->copy), pipeline->replica);
}

base_status rank_pipeline_compare(rank_pipeline *pipeline, const float *params, bool *byte_equal,
                                  double *max_abs_difference, base_error *reterr)
{
    const rank_device *device = &pipeline->device;
    const size_t count = pipeline->held.count;
    float *reference = pipeline->levels[0];
    *byte_equal = true;
    *max_abs_difference = 0.0;
    if (pipeline->replicas == NULL) {
        return BASE_OK;
    }
    device->backend->copy(device->queue, reference, params, count * sizeof *params);
    const base_status status = broadcast(pipeline, reference, count, COLL_FLOAT32, reterr);
    if (status == BASE_OK) {
        device->backend->difference(device->queue,
                                    &(rank_difference){.a = params,
                                                       .b = reference,
                                                       .count = count,
                                                       .equal = byte_equal,
                                                       .largest = max_abs_difference});
    }
    return status == BASE_OK ? device->backend->sync(device->queue, reterr)
                             : base_error_prepend(reterr, status, "comparing the parameters");
}
