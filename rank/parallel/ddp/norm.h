/* The norm of gradients that ranks have parts of. */
#ifndef RANK_PARALLEL_DDP_NORM_H
#define RANK_PARALLEL_DDP_NORM_H

#include <stddef.h>

#include "backend/backend.h"
#include "coll/coll.h"

/* Values in the device's memory that this rank counts. No other rank counts the same element. */
typedef struct rank_norm_range {
    const float *values;
    size_t count; /* may be 0 */
} rank_norm_range;

/* The sum of squares of all ranks' ranges, on every rank. It has the bits of backend.h's sum_squares
 * over all of these values, whichever rank has which. Collective over comm: two all-reduces of a few
 * bytes. On the CPU. */
BASE_MUST_CHECK base_status rank_norm_sum_squares(coll_comm *comm, const rank_device *device,
                                                  const rank_norm_range *ranges, size_t range_count,
                                                  double *sum, base_error *reterr);

#endif
