/* What several pipelines exchange: each trains on slots of its own, and all have the same parameters. Called by
 * run.c, params.c and train/. */
#include <string.h>

#include "pipeline/parts.h"
#include "ringfence/coll_error.h"

static base_status all_reduce(const rank_pipeline *pipeline, void *values, size_t count,
                              coll_type type, base_error *reterr)
{
    coll_error error;
    const coll_op_desc desc = {.size = sizeof(coll_op_desc),
                               .kind = COLL_ALL_REDUCE,
                               .send = values,
                               .recv = values,
                               .count = count,
                               .type = type,
                               .reduce = COLL_SUM,
                               .algorithm = pipeline->algorithm};
    return coll_to_base(coll_run(pipeline->replicas, &desc, &error), &error, reterr);
}

base_status pipeline_add_replicas(rank_pipeline *pipeline, base_error *reterr)
{
    const size_t from = pipeline_own_place(pipeline); /* the tied gradient is the first stage's */
    return pipeline->replicas != NULL
               ? all_reduce(pipeline, pipeline->levels[0] + from, pipeline->held.count - from,
                            COLL_FLOAT32, reterr)
               : BASE_OK;
}

base_status rank_pipeline_sum_loss(const rank_pipeline *pipeline, double *loss, base_error *reterr)
{
    if (pipeline->replicas == NULL || !pipeline_is_last(pipeline)) {
        return BASE_OK;
    }
    const base_status status = all_reduce(pipeline, loss, 1, COLL_FLOAT64, reterr);
    *loss = pipeline->replica == 0 ? *loss : 0.0;
    return status;
}

static base_status broadcast(const rank_pipeline *pipeline, void *values, size_t count,
                             coll_type type, base_error *reterr)
{
    coll_error error;
    return coll_to_base(coll_broadcast(pipeline->replicas, values, count, type, 0, &error), &error,
                        reterr);
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
