/* A row of scores turned into exponentials, with a sum whose order no instruction set changes.
 * Included by the attention kernels only, which are compiled once per instruction set. */
#ifndef RANK_BACKEND_CPU_SOFTMAX_H
#define RANK_BACKEND_CPU_SOFTMAX_H

#include "backend/cpu/vec.h"

enum { SOFTMAX_LANES = VEC_SUM_LANES };

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

/* The first `count` scores become exp(score - largest), those behind them up to whole
 * SOFTMAX_LANES zeros. Returns 1 / their sum, which is one of SOFTMAX_LANES lanes (vec.h). */
VEC_INLINE float softmax_exponentials(float *scores, size_t count, float largest)
{
    vec sum[VEC_SUM_PARTS];
    vec_sum_begin(sum);
    for (size_t t = 0; t < count; t += SOFTMAX_LANES) {
        VEC_EACH_PART
        {
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
    return 1.0f / vec_sum_end(sum);
}

VEC_INLINE float softmax_row(float *scores, size_t count)
{
    return softmax_exponentials(scores, count, softmax_largest(scores, count));
}

#endif
