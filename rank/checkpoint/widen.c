/* Makes float32 of a checkpoint's numbers, and bfloat16 of float32. Called by safetensors.c, weights.c
 * and match.c. */
#include "checkpoint/widen.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

static float from_bits(uint32_t bits)
{
    float value = 0.0f;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* bfloat16 is a float32 without its lower half. */
static float widen_bfloat16(uint16_t bits)
{
    return from_bits((uint32_t)bits << 16);
}

/* A half has 5 bits of exponent, with a bias of 15 where float32 has 127: so its bits, moved into
 * float32's places, are too small by a factor of 2^112. That holds for subnormal ones, too. */
static float widen_half(uint16_t bits)
{
    const uint32_t sign = (uint32_t)(bits & 0x8000) << 16;
    const uint32_t rest = (uint32_t)(bits & 0x7fff) << 13;
    if ((bits & 0x7c00) == 0x7c00) {
        return from_bits(sign | 0x7f800000 | rest); /* infinite, or no number */
    }
    return from_bits(sign | rest) * 0x1p112f;
}

bool rank_widen_knows(const base_safetensor *tensor)
{
    return strcmp(tensor->dtype, "F32") == 0 || strcmp(tensor->dtype, "BF16") == 0 ||
           strcmp(tensor->dtype, "F16") == 0;
}

void rank_widen(const base_safetensor *tensor, const void *from, size_t count, float *to)
{
    const char *next = from;
    if (strcmp(tensor->dtype, "F32") == 0) {
        memmove(to, from, count * sizeof *to);
        return;
    }
    const bool half = strcmp(tensor->dtype, "F16") == 0;
    for (size_t i = 0; i < count; i++) {
        uint16_t bits = 0;
        memcpy(&bits, next + i * sizeof bits, sizeof bits);
        to[i] = half ? widen_half(bits) : widen_bfloat16(bits);
    }
}

/* Ones in all of the exponent carry into the sign's place. */
static uint32_t carry_of(const float *value)
{
    uint32_t bits = 0;
    memcpy(&bits, value, sizeof bits);
    return (bits & 0x7f800000) + 0x00800000;
}

bool rank_all_finite(const float *values, size_t count)
{
    enum { LANES = 16 }; /* this many at once become vector instructions */
    uint32_t carries[LANES] = {0};
    size_t i = 0;
    for (; count - i >= LANES; i += LANES) {
        for (size_t lane = 0; lane < LANES; lane++) {
            carries[lane] |= carry_of(values + i + lane);
        }
    }
    for (; i < count; i++) {
        carries[0] |= carry_of(values + i);
    }
    for (int lane = 1; lane < LANES; lane++) {
        carries[0] |= carries[lane];
    }
    return (carries[0] & 0x80000000) == 0;
}

void rank_narrow(const float *from, size_t count, rank_bfloat16 *to)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = 0;
        memcpy(&bits, &from[i], sizeof bits);
        const uint32_t nearest = bits + 0x7fff + (bits >> 16 & 1);
        to[i] = (rank_bfloat16)((isnan(from[i]) ? bits | 0x400000 : nearest) >> 16);
    }
}
