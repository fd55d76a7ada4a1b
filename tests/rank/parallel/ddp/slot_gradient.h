/* The gradients of slots: numbers whose magnitudes are so far apart that every order of addition has its own bits. */
#ifndef TEST_SLOT_GRADIENT_H
#define TEST_SLOT_GRADIENT_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "base/splitmix.h"

/* salt: a step, say. */
static inline float slot_gradient(int slot, int salt, size_t index)
{
    const uint64_t bits = base_splitmix_mix((uint64_t)slot << 40 ^ (uint64_t)salt << 32 ^ index);
    return ldexpf((float)(bits >> 40) / 16777216.0F - 0.5F, (int)(bits & 31) - 16);
}

/* The sum over slots first … first + count, in the canonical order: neighbours pair up, and the odd one waits. */
static inline float slot_gradient_sum(int first, int count, int salt, size_t index)
{
    int left = 1;
    if (count == 1) {
        return slot_gradient(first, salt, index);
    }
    while (left * 2 < count) {
        left *= 2;
    }
    return slot_gradient_sum(first, left, salt, index) +
           slot_gradient_sum(first + left, count - left, salt, index);
}

#endif
