/* The norm of gradients that ranks have parts of (backend/squares.h). Called by ddp_zero.c for shards,
 * and by pipeline/norm.c for stages. */
#include "parallel/ddp/norm.h"

#include "backend/squares.h"
#include "ringfence/coll_error.h"

_Static_assert(sizeof(rank_squares) == RANK_SQUARES_LIMBS * sizeof(uint64_t), "limbs alone");

base_status rank_norm_sum_squares(coll_comm *comm, const rank_device *device,
                                  const rank_norm_range *ranges, size_t range_count, double *sum,
                                  base_error *reterr)
{
    const rank_backend *backend = device->backend;
    int32_t largest = 0;
    rank_squares squares = {0};
    *sum = 0.0;
    for (size_t i = 0; i < range_count; i++) {
        backend->largest(device->queue,
                         &(rank_largest){ranges[i].values, ranges[i].count, &largest});
    }
    base_status status = (base_status)coll_all_reduce(comm, &largest, &largest, 1, COLL_INT32,
                                                      COLL_MAX, coll_error_of(reterr));
    if (status != BASE_OK) {
        return status;
    }
    for (size_t i = 0; i < range_count; i++) {
        backend->add_squares(device->queue, &(rank_add_squares){ranges[i].values, ranges[i].count,
                                                                &largest, &squares});
    }
    status = (base_status)coll_all_reduce(comm, &squares, &squares, RANK_SQUARES_LIMBS, COLL_UINT64,
                                          COLL_SUM, coll_error_of(reterr));
    if (status == BASE_OK) {
        *sum = rank_squares_value(&squares, largest);
    }
    return status;
}
