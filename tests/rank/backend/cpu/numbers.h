/* Numbers for the tests of packed matrices and their products. */
#ifndef TEST_NUMBERS_H
#define TEST_NUMBERS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "backend/operations.h"

static inline void fill(float *values, size_t count, uint32_t seed)
{
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = (float)(int32_t)seed * 0x1p-31f;
    }
}

/* The upper half of a float. */
static inline rank_bfloat16 upper(float value)
{
    uint32_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    return (rank_bfloat16)(bits >> 16);
}

static inline float widened(rank_bfloat16 half)
{
    const uint32_t bits = (uint32_t)half << 16;
    float value = 0.0f;
    memcpy(&value, &bits, sizeof value);
    return value;
}

#endif
