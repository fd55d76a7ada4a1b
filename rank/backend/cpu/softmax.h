/* A row of scores turned into exponentials, with a sum whose order no instruction set changes.
 * Included by the attention kernels only, which are compiled once per instruction set. */
#ifndef RANK_BACKEND_CPU_SOFTMAX_H
#define RANK_BACKEND_CPU_SOFTMAX_H

#include "backend/cpu/vec.h"

enum {
    SOFTMAX_LANES = 16, /* of the sum, on every instruction set */
    SOFTMAX_VECTORS = SOFTMAX_LANES / VEC_LANES,
};

/* The largest of the first `count` scores. What is not a number is passed over. */
VEC_INLINE float softmax_largest(const float *scores, size_t count)
{
    vec largest = vec_set(scores[0]);
    for (size_t t = 0; t < count; t += VEC_LANES) {
        vec x = vec_get(scores + t);
        if (t + VEC_LANES > count) {
            x = vec_select(vec_first_lanes(count - t), x, largest);
        }
        largest = vec_max(x, largest);
    }
    return vec_largest(largest);
}

/* The first `count` scores become exp(score - the largest), those behind them up to whole
 * SOFTMAX_LANES zeros. Returns 1 / their sum: lane i of SOFTMAX_LANES adds those at i, i +
 * SOFTMAX_LANES, … in their order, from 0; then lanes are added by halves, i and i + 8 first. */
VEC_INLINE float softmax_row(float *scores, size_t count)
{
    const float largest = softmax_largest(scores, count);
    vec sum[SOFTMAX_VECTORS];
    for (int v = 0; v < SOFTMAX_VECTORS; v++) {
        sum[v] = vec_set(0.0f);
    }
    for (size_t t = 0; t < count; t += SOFTMAX_LANES) {
#pragma GCC unroll 4
        for (int v = 0; v < SOFTMAX_VECTORS; v++) {
            const size_t first = t + (size_t)v * VEC_LANES;
            vec e = vec_exp(vec_get(scores + first) - largest);
            if (first + VEC_LANES > count) {
                e = vec_select(vec_first_lanes(first < count ? count - first : 0), e,
                               vec_set(0.0f));
            }
            vec_put(scores + first, e);
            sum[v] += e;
        }
    }
    for (int half = SOFTMAX_VECTORS / 2; half > 0; half /= 2) {
        for (int v = 0; v < half; v++) {
            sum[v] += sum[v + half];
        }
    }
    return 1.0f / vec_sum(sum[0]);
}

#endif
