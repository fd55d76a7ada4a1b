/* Elements of arrays whose type is an argument: float32 or bfloat16. Included by kernels.
 *
 * Kernels are templates over the type of such an array. They compute in float32: an element is
 * widened when it is read, and rounded once, to nearest even, when it is written. */
#ifndef RANK_BACKEND_CUDA_KERNELS_ELEMENT_H
#define RANK_BACKEND_CUDA_KERNELS_ELEMENT_H

#include <cuda_bf16.h>

#include "device.h"

__device__ inline float get(float element)
{
    return element;
}

__device__ inline float get(__nv_bfloat16 element)
{
    return __bfloat162float(element);
}

__device__ inline void put(float *element, float value)
{
    *element = value;
}

__device__ inline void put(__nv_bfloat16 *element, float value)
{
    *element = __float2bfloat16_rn(value);
}

/* Two values rounded to nearest even, `low` in the lower half. */
__device__ inline uint32_t pair_of(float low, float high)
{
#if defined(__CUDACC__)
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
#else
    return (uint32_t)__float2bfloat16_rn(low).bits | (uint32_t)__float2bfloat16_rn(high).bits << 16;
#endif
}

/* Runs a launch with `Element` as the C++ type of a rank_type. */
#define WITH_ELEMENT(type, ...)                                                                    \
    do {                                                                                           \
        if ((type) == RANK_BFLOAT16) {                                                             \
            typedef __nv_bfloat16 Element;                                                         \
            __VA_ARGS__;                                                                           \
        } else {                                                                                   \
            typedef float Element;                                                                 \
            __VA_ARGS__;                                                                           \
        }                                                                                          \
    } while (0)

#endif
