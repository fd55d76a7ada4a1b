/* A row of scores turned into exponentials, with a sum whose order no instruction set changes.
 * Included by the kernels of attention and of cross entropy, which are compiled once per instruction set.
 * `padded`: what is behind the scores, up to whole SOFTMAX_LANES, may be read and written. */
#ifndef RANK_BACKEND_CPU_SOFTMAX_H
#define RANK_BACKEND_CPU_SOFTMAX_H

#include <stdbool.h>

#include "backend/cpu/vec.h"

enum { SOFTMAX_LANES = VEC_SUM_LANES };

/* The largest of the first `count` scores. What is not a number is passed over. */
VEC_INLINE float softmax_largest(const float *scores, size_t count, const bool padded)
{
    vec largest = vec_set(scores[0]);
    for (size_t t = 0; t < count; t += VEC_LANES) {
        const size_t left = count - t;
        vec x = padded ? vec_get(scores + t) : vec_load(scores + t, left);
        if (left < VEC_LANES) {
            x = vec_select(vec_first_lanes(left), x, largest);
        }
        largest = vec_max(x, largest);
    }
    return vec_largest(largest);
}

/* The first `count` scores become exp(score - largest), and what is padded behind them zeros. Returns
 * their sum, which is one of SOFTMAX_LANES lanes (vec.h). */
VEC_INLINE float softmax_exponentials(float *scores, size_t count, float largest, const bool padded)
{
    vec sum[VEC_SUM_PARTS];
    vec_sum_begin(sum);
    for (size_t t = 0; t < count; t += SOFTMAX_LANES) {
        VEC_EACH_PART
        {
            float *at = scores + t + (size_t)v * VEC_LANES;
            const size_t left = vec_left(count, t, v);
            vec e = vec_exp((padded ? vec_get(at) : vec_load(at, left)) - largest);
            if (left < VEC_LANES) {
                e = vec_select(vec_first_lanes(left), e, vec_set(0.0f));
            }
            vec_store(at, e, padded ? VEC_LANES : left);
            sum[v] += e;
        }
    }
    return vec_sum_end(sum);
}

#endif
