/* The part of bfloat16 that the kernels use, declared for the emulator. Results are those of the
 * toolkit's: rounding to nearest even, and one NaN. */
#ifndef EMULATE_CUDA_BF16_H
#define EMULATE_CUDA_BF16_H

#include <cstring>

struct __nv_bfloat16 {
    unsigned short bits;
};

static inline float __bfloat162float(__nv_bfloat16 x)
{
    const unsigned wide = (unsigned)x.bits << 16;
    float value;
    std::memcpy(&value, &wide, sizeof value);
    return value;
}

static inline __nv_bfloat16 __float2bfloat16_rn(float x)
{
    unsigned bits;
    std::memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return {0x7fff};
    }
    bits += 0x7fffu + ((bits >> 16) & 1u); /* half of the last place, less one where it is even */
    return {(unsigned short)(bits >> 16)};
}

#endif
