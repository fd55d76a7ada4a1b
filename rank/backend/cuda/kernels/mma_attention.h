/* What forward and backward of attention on tensor cores share: where a block is in a call, which
 * rows its warps see, and how their results are written. */
#ifndef RANK_BACKEND_CUDA_KERNELS_MMA_ATTENTION_H
#define RANK_BACKEND_CUDA_KERNELS_MMA_ATTENTION_H

#include "mma_tiles.h"

struct row_range {
    int32_t low; /* the first stream row */
    int32_t high;
};

/* A block's place in a call, its own rows, and what of the stream its warp's strip needs. */
struct own_rows {
    attention_scratch scratch;
    int32_t token; /* of row 0 */
    int head;
    int width; /* of the head */
    int32_t begin;
    int32_t end;
    int32_t strip;    /* the first row of the warp's strip */
    row_range stream; /* of the whole block */
    row_range some;   /* of the strip: what any row sees */
    row_range all;    /* … what each row sees */
    float scale;      /* of scores */
};

__device__ inline int32_t lesser(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

template <bool KEYS> __device__ inline row_range range_of(const own_rows &own, int32_t row)
{
    if (row >= own.end) {
        return {0, 0};
    }
    const row_bounds bounds = own.scratch.bounds[row];
    return KEYS ? row_range{row, bounds.end} : row_range{bounds.begin, row + 1};
}

/* Blocks are tiles by heads. Those of a tile's heads are neighbours: they read the same rows. */
template <bool KEYS>
__device__ inline own_rows rows_of_block(const rank_attention &args, unsigned block)
{
    own_rows own;
    own.scratch = scratch_of(args);
    own.token = *own.scratch.first;
    own.head = (int)(block % (unsigned)args.heads);
    own.width = (int)((unsigned)args.width / (unsigned)args.heads);
    own.scale = 1.0f / sqrtf((float)own.width);
    own.begin = (int32_t)(block / (unsigned)args.heads) * OWN;
    own.end = lesser(own.begin + OWN, (int32_t)args.rows);
    own.strip = own.begin + same_in_warp((int32_t)threadIdx.x / WARP) * STRIP;
    own.stream = {range_of<KEYS>(own, own.begin).low, range_of<KEYS>(own, own.end - 1).high};
    const row_range first = range_of<KEYS>(own, own.strip);
    const row_range last = range_of<KEYS>(own, lesser(own.strip + STRIP, own.end) - 1);
    own.some = {same_in_warp(first.low), same_in_warp(own.strip < own.end ? last.high : 0)};
    own.all = {same_in_warp(last.low), same_in_warp(first.high)};
    return own;
}

/* Whether any row of the strip sees any of the stream's rows k … k + count - 1; the same for the
 * whole warp. */
__device__ inline bool needs(const own_rows &own, int32_t k, int32_t count)
{
    return k < own.some.high && k + count > own.some.low;
}

/* Whether each row sees them all, so that nothing is masked. */
__device__ inline bool sees_all(const own_rows &own, int32_t k, int32_t count)
{
    return k >= own.all.low && k + count <= own.all.high;
}

/* Where row 0 is in an array with rows of `stride` elements. */
__device__ inline size_t place_of(const own_rows &own, size_t stride)
{
    return (size_t)own.token * stride + (size_t)(own.head * own.width);
}

/* part: 0 queries, with their bias, 1 keys, 2 values. */
__device__ inline array_rows<const __nv_bfloat16> rows_of_qkv(const rank_attention &args,
                                                              const own_rows &own, int part)
{
    return {(const __nv_bfloat16 *)args.qkv + place_of(own, 3 * args.width) +
                (size_t)part * args.width,
            part == 0 ? args.bias + own.head * own.width : NULL, 3 * (int)args.width, own.width};
}

/* The row of statistics, in (T, H). */
__device__ inline size_t statistic(const rank_attention &args, const own_rows &own, int32_t row)
{
    return (size_t)(own.token + row) * args.heads + (size_t)own.head;
}

/* Two neighbouring columns of a part's bias, from the head's `column` on; zeros behind the width. */
struct bias_pair {
    float left;
    float right;
};

__device__ inline bias_pair bias_of(const rank_attention &args, const own_rows &own, int part,
                                    int column)
{
    const float *bias = args.bias + (size_t)part * args.width + own.head * own.width + column;
    return column < own.width ? bias_pair{bias[0], bias[1]} : bias_pair{0.0f, 0.0f};
}

/* The lane's pair of a strip's elements in row i (as strip_row has it), columns 8n + 2t and the next. */
template <int D> __device__ inline uint32_t pair_at(const strip_factor<D> &strip, int i, int n)
{
    return strip.at[i / HALVES][n / 2].at[n % 2 * 2 + i % HALVES];
}

/* What the keys' bias adds to a query's scores: the same for all keys, so that it does not change the
 * softmax, and streams of keys are without it. */
template <int D>
__device__ inline void products_with_key_bias(float (&products)[ROWS_EACH],
                                              const rank_attention &args, const own_rows &own,
                                              const strip_factor<D> &query)
{
#pragma unroll
    for (int i = 0; i < ROWS_EACH; i++) {
        products[i] = 0.0f;
    }
#pragma unroll
    for (int n = 0; n < mma_shape<D>::tiles; n++) {
        const bias_pair bias = bias_of(args, own, 1, n * MMA_COLUMNS + mma_column(0));
#pragma unroll
        for (int i = 0; i < ROWS_EACH; i++) {
            const uint32_t q = pair_at(query, i, n);
            products[i] = fmaf(low_of(q), bias.left, fmaf(high_of(q), bias.right, products[i]));
        }
    }
#pragma unroll
    for (int i = 0; i < ROWS_EACH; i++) {
        products[i] = sum_of_quad(products[i]);
    }
}

/* Scores of stream rows from k on that an own row does not see become -INFINITY. */
template <bool KEYS, int COLUMNS>
__device__ inline void mask_scores(strip_scores<COLUMNS> &s, const own_rows &own, int32_t k)
{
#pragma unroll
    for (int i = 0; i < ROWS_EACH; i++) {
        const row_range sees = range_of<KEYS>(own, own.strip + strip_row(i));
#pragma unroll
        for (int n = 0; n < 2 * s.tiles; n++) {
            const int32_t row = k + n / 2 * MMA_COLUMNS + mma_column(n % 2);
            float &score = s.at[i / HALVES][n / 2].at[i % HALVES * 2 + n % 2];
            score = row >= sees.low && row < sees.high ? score : -INFINITY;
        }
    }
}

static inline unsigned blocks_of(const rank_attention *args)
{
    return (unsigned)((args->rows + OWN - 1) / OWN * args->heads);
}

#endif
