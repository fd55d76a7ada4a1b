/* Moves parameters between rank 0, which has all of them at the beginning and at the end, and the
 * stages. Called by train/prepare.c and train/finish.c. */
#include <stdlib.h>
#include <string.h>

#include "pipeline/parts.h"
#include "ringfence/coll_error.h"

/* The ranges of the whole model that a stage holds: before the hole, and behind it. */
typedef struct held_ranges {
    size_t offset[2];
    size_t count[2];
} held_ranges;

static held_ranges ranges_of(const rank_held *held)
{
    return (held_ranges){.offset = {0, held->hole_begin + held->hole_count},
                         .count = {held->hole_begin, held->count - held->hole_begin}};
}

static void take_digest(const rank_pipeline *pipeline, const float *values, size_t count,
                        uint8_t digest[RANK_DIGEST_BYTES])
{
    const rank_device *device = &pipeline->device;
    device->backend->digest(
        device->queue,
        &(rank_digest){.at = values, .size_bytes = count * sizeof *values, .digest = digest});
}

enum { DIGEST_FLOATS = RANK_DIGEST_BYTES / sizeof(float) }; /* as messages of a stage are counted */

/* Sends a stage its part, and then the part's digest. */
static base_status send_part(rank_pipeline *pipeline, int stage, const float *part, size_t count,
                             base_error *reterr)
{
    float message[DIGEST_FLOATS];
    uint8_t digest[RANK_DIGEST_BYTES];
    take_digest(pipeline, part, count, digest);
    memcpy(message, digest, sizeof digest);
    const base_status status = pipeline_send(pipeline, stage, part, count, reterr);
    return status == BASE_OK ? pipeline_send(pipeline, stage, message, DIGEST_FLOATS, reterr)
                             : status;
}

static base_status receive_part(rank_pipeline *pipeline, float *part, base_error *reterr)
{
    float message[DIGEST_FLOATS];
    uint8_t digest[RANK_DIGEST_BYTES];
    base_status status = pipeline_receive(pipeline, 0, part, pipeline->held.count, reterr);
    if (status == BASE_OK) {
        status = pipeline_receive(pipeline, 0, message, DIGEST_FLOATS, reterr);
    }
    if (status == BASE_OK) {
        take_digest(pipeline, part, pipeline->held.count, digest);
        if (memcmp(digest, message, sizeof digest) != 0) {
            status = base_fail(reterr, BASE_ERR_MISMATCH,
                               "this stage has received other values than rank 0 has sent");
        }
    }
    return status;
}

/* Among the stages of the first pipeline. */
static base_status scatter(rank_pipeline *pipeline, const float *whole, float *params,
                           uint8_t digest[RANK_DIGEST_BYTES], base_error *reterr)
{
    coll_error error;
    base_status status = BASE_OK;
    if (!pipeline_is_first(pipeline)) {
        status = receive_part(pipeline, params, reterr);
    } else {
        memcpy(params, whole, pipeline->held.count * sizeof *params);
        take_digest(pipeline, whole, rank_model_param_count(&pipeline->config), digest);
    }
    for (int stage = 1; pipeline_is_first(pipeline) && stage < pipeline->schedule.stages; stage++) {
        rank_held held;
        pipeline_held_of(pipeline, stage, &held);
        const held_ranges ranges = ranges_of(&held);
        float *packed = malloc(held.count * sizeof *packed);
        if (packed == NULL) {
            return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the parameters of a stage");
        }
        memcpy(packed, whole + ranges.offset[0], ranges.count[0] * sizeof *packed);
        memcpy(packed + ranges.count[0], whole + ranges.offset[1],
               ranges.count[1] * sizeof *packed);
        status = send_part(pipeline, stage, packed, held.count, reterr);
        free(packed);
        if (status != BASE_OK) {
            break;
        }
    }
    return status == BASE_OK
               ? coll_to_base(coll_broadcast(pipeline->comm, digest, RANK_DIGEST_BYTES, COLL_UINT8,
                                             0, &error),
                              &error, reterr)
               : status;
}

base_status rank_pipeline_scatter(rank_pipeline *pipeline, const float *whole, float *params,
                                  uint8_t digest[RANK_DIGEST_BYTES], base_error *reterr)
{
    base_status status =
        pipeline->replica == 0 ? scatter(pipeline, whole, params, digest, reterr) : BASE_OK;
    if (status == BASE_OK) {
        status = pipeline_give_replicas(pipeline, params, digest, reterr);
    }
    return status == BASE_OK ? BASE_OK
                             : base_error_prepend(reterr, status, "sharing the parameters");
}

/* On rank 0: takes a stage's parameters, and compares its copy of the tied matrix. */
static base_status take_stage(rank_pipeline *pipeline, int stage, float *whole, bool *byte_equal,
                              double *max_abs_difference, base_error *reterr)
{
    const rank_device *device = &pipeline->device;
    rank_held held;
    pipeline_held_of(pipeline, stage, &held);
    const held_ranges ranges = ranges_of(&held);
    float *packed = malloc(held.count * sizeof *packed);
    if (packed == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the parameters of a stage");
    }
    const base_status status = pipeline_receive(pipeline, stage, packed, held.count, reterr);
    if (status == BASE_OK) {
        memcpy(whole + ranges.offset[1], packed + ranges.count[0],
               ranges.count[1] * sizeof *packed);
    }
    if (status == BASE_OK && held.tied_count > 0) {
        device->backend->difference(device->queue,
                                    &(rank_difference){.a = packed,
                                                       .b = whole,
                                                       .count = held.tied_count,
                                                       .equal = byte_equal,
                                                       .largest = max_abs_difference});
    }
    free(packed);
    return status;
}

base_status rank_pipeline_gather(rank_pipeline *pipeline, const float *params, float *whole,
                                 bool *byte_equal, double *max_abs_difference, base_error *reterr)
{
    base_status status = BASE_OK;
    *byte_equal = true;
    *max_abs_difference = 0.0;
    if (pipeline->replica > 0) {
        return BASE_OK;
    }
    if (!pipeline_is_first(pipeline)) {
        status = pipeline_send(pipeline, 0, params, pipeline->held.count, reterr);
    } else {
        memcpy(whole, params, pipeline->held.count * sizeof *params);
    }
    for (int stage = 1;
         status == BASE_OK && pipeline_is_first(pipeline) && stage < pipeline->schedule.stages;
         stage++) {
        status = take_stage(pipeline, stage, whole, byte_equal, max_abs_difference, reterr);
    }
    return status == BASE_OK ? BASE_OK
                             : base_error_prepend(reterr, status, "collecting the parameters");
}
