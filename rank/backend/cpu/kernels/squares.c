/* The sum of squares of backend/squares.h: plain loops over integers and exact squares, which compilers
 * turn into vectors. Compiled once per instruction set; called through the backend. */
#include "kernels_isa.h"

enum { BLOCK = 2048 }; /* values whose sum fits into 64 bits */

_Static_assert((UINT64_MAX >> 52) >= BLOCK, "each is at most 2^52 ulps");

void KERNEL(largest)(const rank_largest *args)
{
    int32_t largest = *args->largest;
    for (size_t i = 0; i < args->count; i++) {
        int32_t bits;
        memcpy(&bits, args->values + i, sizeof bits);
        bits &= INT32_MAX;
        largest = bits > largest ? bits : largest;
    }
    *args->largest = largest;
}

/* In ulps. The magic number's own bits are taken off at the end: unsigned integers wrap. */
static uint64_t block_sum(const float *values, size_t count, double magic)
{
    uint64_t sum = 0;
    uint64_t magic_bits;
    memcpy(&magic_bits, &magic, sizeof magic_bits);
    for (size_t i = 0; i < count; i++) {
        const double x = (double)values[i];
        const double shifted = x * x + magic;
        uint64_t bits;
        memcpy(&bits, &shifted, sizeof bits);
        sum += bits;
    }
    return sum - count * magic_bits;
}

void KERNEL(add_squares)(const rank_add_squares *args)
{
    const double magic = rank_squares_magic(*args->largest);
    rank_squares sum = *args->sum;
    if (!rank_squares_finite(*args->largest)) {
        return;
    }
    for (size_t i = 0; i < args->count; i += BLOCK) {
        const size_t left = args->count - i;
        const uint64_t ulps = block_sum(args->values + i, left < BLOCK ? left : BLOCK, magic);
        sum.low += ulps & UINT32_MAX;
        sum.high += ulps >> 32;
    }
    sum.high += sum.low >> 32;
    sum.low &= UINT32_MAX;
    *args->sum = sum;
}
