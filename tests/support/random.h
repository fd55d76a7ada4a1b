/* Random numbers, the same on every machine: base/splitmix.h, of which any number is a state. */
#ifndef TEST_RANDOM_H
#define TEST_RANDOM_H

#include <stddef.h>
#include <stdint.h>

#include "base/splitmix.h"

static inline uint32_t test_random(uint64_t *state)
{
    return (uint32_t)(base_splitmix_next(state) >> 32);
}

/* In 0 .. below - 1. */
static inline uint32_t test_random_below(uint64_t *state, uint32_t below)
{
    return (uint32_t)((uint64_t)test_random(state) * below >> 32);
}

static inline void test_random_bytes(void *to, size_t size_bytes, uint64_t seed)
{
    for (size_t i = 0; i < size_bytes; i++) {
        ((uint8_t *)to)[i] = (uint8_t)test_random(&seed);
    }
}

/* In -limit .. limit. */
static inline void test_random_floats(float *to, size_t count, float limit, uint64_t seed)
{
    for (size_t i = 0; i < count; i++) {
        to[i] = limit * 0x1p-31f * (float)(int32_t)test_random(&seed);
    }
}

#endif
