/* Bytes of a device's memory by use: what a job will need (a plan), or what its queues have. The
 * sums are those of the allocations themselves, so a plan can be compared with what was asked for.
 *
 * Memory of RANK_MEMORY_HOST is not the device's, and is never counted. Pure. */
#ifndef RANK_BACKEND_MEMORY_USE_H
#define RANK_BACKEND_MEMORY_USE_H

#include "backend/backend.h"

enum { RANK_MEMORY_TEXT_BYTES = 256 };

/* The plugin has these too, and nothing else of rank/backend: so they are inline. */
static inline const char *rank_memory_name(rank_memory kind)
{
    static const char *const names[RANK_MEMORY_KINDS] = {
        [RANK_MEMORY_WEIGHTS] = "weights",
        [RANK_MEMORY_OPTIMIZER] = "optimizer",
        [RANK_MEMORY_ACTIVATIONS] = "activations",
        [RANK_MEMORY_WORK] = "work",
        [RANK_MEMORY_CACHE] = "cache",
        [RANK_MEMORY_EXCHANGED] = "exchanged",
        [RANK_MEMORY_QUEUES] = "queues",
        [RANK_MEMORY_HOST] = "host",
    };
    return names[kind];
}

uint64_t rank_memory_total(const rank_memory_use *use);

/* Whether the device has room for what is about to be allocated, and for what collectives take. BASE_ERR_MEMORY: it has not; the
 * message has the breakdown. `what` needs it: "training". A CPU always has. */
BASE_MUST_CHECK base_status rank_memory_check(const rank_device *device, const char *what,
                                              const rank_memory_use *needed,
                                              uint64_t collectives_bytes, base_error *reterr);

#endif
