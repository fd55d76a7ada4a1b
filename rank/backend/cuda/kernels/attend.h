/* The attention of one query row of one head, by one block. Included by kernels.
 *
 * It is the chain of operations that the CPU's attention_cached.c describes, so training and
 * decoding have the CPU's bits. Scores are made in pieces of ATTEND_PIECE tokens, which stay in
 * shared memory. If there are more tokens, scores are made once more after the largest is known:
 * that needs no memory that grows with the length, and changes no bit. */
#ifndef RANK_BACKEND_CUDA_KERNELS_ATTEND_H
#define RANK_BACKEND_CUDA_KERNELS_ATTEND_H

#include "element.h"
#include "kernels.h"

enum {
    ATTEND_THREADS = 128,
    ATTEND_PIECE = 1024,                                /* tokens; a multiple of ROW_LANES */
    ATTEND_EACH = CUDA_HEAD_WIDTH_MAX / ATTEND_THREADS, /* elements of a head for one thread */
};

/* A block's shared memory. */
struct attend_shared {
    float query[CUDA_HEAD_WIDTH_MAX];
    float dout[CUDA_HEAD_WIDTH_MAX]; /* for backward */
    float scores[ATTEND_PIECE];
    float grads[ATTEND_PIECE]; /* for backward */
    float threads[ATTEND_THREADS];
    float lanes[ROW_LANES];
};

/* The largest of the threads' values, for all of them. */
__device__ inline float attend_largest(attend_shared *shared, float mine)
{
    shared->threads[threadIdx.x] = mine;
    __syncthreads();
    for (unsigned half = ATTEND_THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            shared->threads[threadIdx.x] =
                larger_of(shared->threads[threadIdx.x + half], shared->threads[threadIdx.x]);
        }
        __syncthreads();
    }
    const float largest = shared->threads[0];
    __syncthreads();
    return largest;
}

/* The sum of the lanes that the first ROW_LANES threads have, for all threads. */
__device__ inline float attend_sum(attend_shared *shared, float lane)
{
    if (threadIdx.x < ROW_LANES) {
        shared->lanes[threadIdx.x] = lane;
    }
    __syncthreads();
    const float sum = sum_of_array(shared->lanes);
    __syncthreads();
    return sum;
}

/* The scores of tokens first … first + count, to shared->scores. Returns the largest of the
 * thread's own and `largest`. */
template <typename Sequence>
__device__ inline float attend_scores(attend_shared *shared, const Sequence &sequence, size_t first,
                                      size_t count, float largest)
{
    for (size_t t = threadIdx.x; t < count; t += ATTEND_THREADS) {
        float score = 0.0f;
        for (size_t d = 0; d < sequence.width; d++) {
            score = fmaf(shared->query[d], sequence.key(first + t, d), score);
        }
        shared->scores[t] = score;
        largest = larger_of(score, largest);
    }
    return largest;
}

/* What a row's softmax was made with. */
struct attend_result {
    float largest;
    float inverse; /* 1 / the sum of the exponentials */
};

/* out (width) = the softmax of the scores of `count` tokens, times their values. The query stands
 * in shared->query, and the threads have met since. Sequence has width, key(t, d) and value(t, d).
 */
template <typename Sequence, typename Element>
__device__ inline attend_result attend_row(attend_shared *shared, const Sequence &sequence,
                                           size_t count, Element *out)
{
    const bool one_piece = count <= ATTEND_PIECE;
    attend_result result;
    float mine = -INFINITY;
    for (size_t first = 0; first < count; first += ATTEND_PIECE) {
        const size_t here = count - first < ATTEND_PIECE ? count - first : (size_t)ATTEND_PIECE;
        mine = attend_scores(shared, sequence, first, here, mine);
    }
    result.largest = attend_largest(shared, mine);
    float lane = 0.0f;
    float sum[ATTEND_EACH] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (size_t first = 0; first < count; first += ATTEND_PIECE) {
        const size_t here = count - first < ATTEND_PIECE ? count - first : (size_t)ATTEND_PIECE;
        if (!one_piece) { /* a thread meets only scores that it has made itself */
            (void)attend_scores(shared, sequence, first, here, mine);
        }
        for (size_t t = threadIdx.x; t < here; t += ATTEND_THREADS) {
            shared->scores[t] = exponential(shared->scores[t] - result.largest);
        }
        __syncthreads();
        for (size_t t = threadIdx.x; threadIdx.x < ROW_LANES && t < here; t += ROW_LANES) {
            lane = lane + shared->scores[t];
        }
#pragma unroll
        for (int e = 0; e < ATTEND_EACH; e++) {
            const size_t d = threadIdx.x + (size_t)e * ATTEND_THREADS;
            for (size_t t = 0; d < sequence.width && t < here; t++) {
                sum[e] = fmaf(shared->scores[t], sequence.value(first + t, d), sum[e]);
            }
        }
        __syncthreads();
    }
    result.inverse = 1.0f / attend_sum(shared, lane);
#pragma unroll
    for (int e = 0; e < ATTEND_EACH; e++) {
        const size_t d = threadIdx.x + (size_t)e * ATTEND_THREADS;
        if (d < sequence.width) {
            put(out + d, sum[e] * result.inverse);
        }
    }
    return result;
}

#endif
