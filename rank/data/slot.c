/* The order of a slot's sentences in one epoch, as a seeded shuffle. Called by data.c when an epoch
 * begins. */
#include "slot.h"

#include "base/splitmix.h"

/* Uniform in 0 … bound-1, from the upper half of draw × bound. Draws whose lower half would favour
 * some results are rejected. */
static uint32_t below(uint64_t *random, uint32_t bound)
{
    const uint32_t unfair = (uint32_t)(0 - bound) % bound;
    for (;;) {
        const uint64_t product = (base_splitmix_next(random) >> 32) * bound;
        if ((uint32_t)product >= unfair) {
            return (uint32_t)(product >> 32);
        }
    }
}

void rank_slot_order(uint64_t seed, int slot, uint64_t epoch, uint32_t *order, uint32_t count)
{
    uint64_t random = seed + (uint64_t)slot;
    random = base_splitmix_next(&random) + epoch;
    for (uint32_t i = 0; i < count; i++) {
        order[i] = i;
    }
    for (uint32_t i = count; i > 1; i--) {
        const uint32_t other = below(&random, i);
        const uint32_t kept = order[i - 1];
        order[i - 1] = order[other];
        order[other] = kept;
    }
}
