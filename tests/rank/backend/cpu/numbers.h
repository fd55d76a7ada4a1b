/* Numbers for the tests of packed matrices and their products. */
#ifndef TEST_NUMBERS_H
#define TEST_NUMBERS_H

#include <stdint.h>
#include <string.h>

#include "backend/operations.h"

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
