/* The parameters of all ranks: the same at the beginning, and compared at the end. Called by
 * ddp_make.c and train/finish.c. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "coll/backend.h"
#include "parallel/ddp/ddp_parts.h"
#include "ringfence/coll_error.h"

/* What the all-reduces' queue does from now on comes after all that is enqueued to compute. */
static void reduce_after_compute(const rank_ddp *ddp)
{
    const rank_backend *backend = ddp->device.backend;
    if (rank_ddp_on_device(ddp)) {
        backend->after(ddp->reduces, backend->mark(ddp->device.queue));
    }
}

static coll_status broadcast_slice(const rank_ddp *ddp, coll_comm *comm, float *at, size_t count,
                                   coll_error *error)
{
    coll_op *op = NULL;
    const coll_op_desc desc = {
        .size = sizeof(coll_op_desc),
        .kind = COLL_BROADCAST,
        .send = at,
        .recv = at,
        .count = count,
        .type = COLL_FLOAT32,
        .stream = rank_ddp_stream(ddp),
    };
    coll_status status = coll_op_create(comm, &desc, &op, error);
    if (status == COLL_OK) {
        reduce_after_compute(ddp);
        status = coll_op_start(op, error);
    }
    if (status == COLL_OK) {
        status = coll_op_wait(op, error);
    }
    coll_op_destroy(op);
    return status;
}

/* In slices, since making an operation on a GPU takes as much memory as it moves. */
base_status rank_ddp_broadcast(const rank_ddp *ddp, coll_comm *comm, float *at, size_t count,
                               base_error *reterr)
{
    const size_t most = RANK_DDP_SLICE_BYTES / sizeof *at;
    coll_status status = COLL_OK;
    for (size_t first = 0; status == COLL_OK && first < count; first += most) {
        const size_t left = count - first;
        status = broadcast_slice(ddp, comm, at + first, left < most ? left : most,
                                 coll_error_of(reterr));
    }
    return (base_status)status;
}

/* The rank of the job that is this one in comm. */
static int job_rank(const rank_ddp *ddp, const coll_comm *comm, int rank)
{
    const int apart = coll_comm_size(ddp->comm) / coll_comm_size(comm);
    return rank * apart + coll_comm_rank(ddp->comm) % apart;
}

base_status rank_ddp_check_same(rank_ddp *ddp, const rank_ddp_values *values, base_error *reterr)
{
    const int size = coll_comm_size(values->comm);
    const rank_device *device = &ddp->device;
    uint8_t *mine = ddp->found->digest;
    uint8_t *all = malloc((size_t)size * RANK_DIGEST_BYTES);
    if (all == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for digests");
    }
    device->backend->digest(device->queue,
                            &(rank_digest){.at = values->at,
                                           .size_bytes = values->count * sizeof *values->at,
                                           .digest = mine});
    base_status status = device->backend->sync(device->queue, reterr);
    if (status == BASE_OK) {
        status = (base_status)coll_all_gather(values->comm, mine, all, RANK_DIGEST_BYTES,
                                              COLL_UINT8, coll_error_of(reterr));
    }
    for (int rank = 1; status == BASE_OK && rank < size; rank++) {
        if (memcmp(all, all + (size_t)rank * RANK_DIGEST_BYTES, RANK_DIGEST_BYTES) != 0) {
            status = base_fail(reterr, BASE_ERR_MISMATCH,
                               "the initial %s of rank %d differ from rank %d's", values->what,
                               job_rank(ddp, values->comm, rank), job_rank(ddp, values->comm, 0));
        }
    }
    free(all);
    return status;
}

base_status rank_ddp_share(rank_ddp *ddp, float *values, size_t count, const char *what,
                           base_error *reterr)
{
    base_status status = BASE_OK;
    for (size_t at = 0; status == BASE_OK && at < count;) {
        const rank_ddp_stretch stretch = rank_ddp_stretch_of(&ddp->apart, ddp->comm, at);
        const size_t end = base_min_size(stretch.end, count);
        status = rank_ddp_broadcast(ddp, stretch.comm, values + at, end - at, reterr);
        if (status == BASE_OK) {
            status = rank_ddp_check_same(
                ddp, &(rank_ddp_values){stretch.comm, values + at, end - at, what}, reterr);
        }
        at = end;
    }
    ddp->busy_ns = coll_device_busy_ns(ddp->comm); /* the broadcast is of no step */
    return status == BASE_OK ? BASE_OK : base_error_prepend(reterr, status, "sharing the %s", what);
}

base_status rank_ddp_compare(rank_ddp *ddp, const float *params, bool *byte_equal,
                             double *max_abs_difference, base_error *reterr)
{
    /* The sums are not needed any more, so their memory can take rank 0's parameters. */
    const rank_device *device = &ddp->device;
    float *reference = ddp->levels[0];
    const size_t most = rank_ddp_shards_gradients(ddp) ? RANK_DDP_SLICE_BYTES / sizeof *reference
                                                       : ddp->param_count;
    base_status status = BASE_OK;
    *byte_equal = true;
    *max_abs_difference = 0.0;
    for (size_t first = 0, count = 0; status == BASE_OK && first < ddp->param_count;
         first += count) {
        const rank_ddp_stretch stretch = rank_ddp_stretch_of(&ddp->apart, ddp->comm, first);
        count = base_min_size(most, base_min_size(stretch.end, ddp->param_count) - first);
        if (coll_comm_rank(stretch.comm) == 0) {
            device->backend->copy(device->queue, reference, params + first, count * sizeof *params);
        }
        status = rank_ddp_broadcast(ddp, stretch.comm, reference, count, reterr);
        if (status != BASE_OK) {
            return base_error_prepend(reterr, status, "comparing the parameters");
        }
        device->backend->difference(device->queue,
                                    &(rank_difference){.a = params + first,
                                                       .b = reference,
                                                       .count = count,
                                                       .equal = &ddp->found->equal,
                                                       .largest = &ddp->found->largest_difference});
        status = device->backend->sync(device->queue, reterr);
        *byte_equal = *byte_equal && ddp->found->equal;
        if (!isnan(*max_abs_difference) &&
            !(ddp->found->largest_difference <= *max_abs_difference)) {
            *max_abs_difference = ddp->found->largest_difference;
        }
    }
    return status;
}
