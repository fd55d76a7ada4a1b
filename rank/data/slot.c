/* The order of a slot's sentences in one epoch, as a seeded shuffle. Called by data.c when an epoch
 * begins. */
#include "slot.h"

typedef struct split_mix {
    uint64_t state;
} split_mix;

static uint64_t next(split_mix *random)
{
    random->state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = random->state;
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* Uniform in 0 … bound-1, from the upper half of draw × bound; draws whose lower half would favour
 * some results are thrown away. */
static uint32_t below(split_mix *random, uint32_t bound)
{
    const uint32_t unfair = (uint32_t)(0 - bound) % bound;
    for (;;) {
        const uint64_t product = (next(random) >> 32) * bound;
        if ((uint32_t)product >= unfair) {
            return (uint32_t)(product >> 32);
        }
    }
}

void rank_slot_order(uint64_t seed, int slot, uint64_t epoch, uint32_t *order, uint32_t count)
{
    split_mix random = {.state = seed + (uint64_t)slot};
    random.state = next(&random) + epoch;
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
