/* gelu(x) = x/2 · (1 + tanh(u)) with u = sqrt(2/pi)·(x + 0.044715·x³), computed as
 * x / (1 + exp(-2u)): the same function, one exponential, no cancellation for negative x. Included by the
 * kernels that have it, which are compiled once per instruction set. */
#ifndef RANK_BACKEND_CPU_GELU_H
#define RANK_BACKEND_CPU_GELU_H

#include "backend/cpu/vec.h"

#define TWO_ROOT_2_PI 1.5957691216057308f /* 2·sqrt(2/pi) */
#define CUBIC         0.044715f

/* The logistic function of 2u. */
VEC_INLINE vec gelu_gate(vec x)
{
    const vec two_u = x * (TWO_ROOT_2_PI + (TWO_ROOT_2_PI * CUBIC) * (x * x));
    return 1.0f / (1.0f + vec_exp(-two_u));
}

/* The derivative of gelu at x, whose gate is s. */
VEC_INLINE vec gelu_slope(vec x, vec s)
{
    const vec two_u_slope = TWO_ROOT_2_PI + (3.0f * TWO_ROOT_2_PI * CUBIC) * (x * x);
    return s + x * s * (1.0f - s) * two_u_slope;
}

#endif
