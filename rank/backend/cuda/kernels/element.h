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
