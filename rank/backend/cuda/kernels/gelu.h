/* The logistic function that GELU is made of, as the backend `cuda` has it: by the multiprocessor's
 * own exponential and reciprocal, to about 2^-20. Included by kernels. */
#ifndef RANK_BACKEND_CUDA_KERNELS_GELU_H
#define RANK_BACKEND_CUDA_KERNELS_GELU_H

#include "device.h"

#define TWO_ROOT_2_PI 1.5957691216057308f /* 2·sqrt(2/pi) */
#define CUBIC         0.044715f

/* GELU is x · gate(x). The logistic function of 2u: see the CPU's gelu.c. */
__device__ inline float gate(float x)
{
    const float two_u = x * fmaf(TWO_ROOT_2_PI * CUBIC, x * x, TWO_ROOT_2_PI);
    return quick_quotient(1.0f, 1.0f + quick_exponential(-two_u));
}

#endif
