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

template <bool KEYS>
__device__ inline own_rows rows_of_tile(const rank_attention &args, unsigned tile)
{
    own_rows own;
    own.scratch = scratch_of(args);
    own.token = *own.scratch.first;
    own.head = (int)blockIdx.y;
    own.width = (int)((unsigned)args.width / (unsigned)args.heads);
    own.scale = 1.0f / sqrtf((float)own.width);
    own.begin = (int32_t)tile * OWN;
    own.end = lesser(own.begin + OWN, (int32_t)args.rows);
    own.strip = own.begin + (int32_t)(threadIdx.x / WARP) * MMA_ROWS;
    own.stream = {range_of<KEYS>(own, own.begin).low, range_of<KEYS>(own, own.end - 1).high};
    const row_range first = range_of<KEYS>(own, own.strip);
    const row_range last = range_of<KEYS>(own, lesser(own.strip + MMA_ROWS, own.end) - 1);
    own.some = {first.low, own.strip < own.end ? last.high : 0};
    own.all = {last.low, first.high};
    return own;
}

/* Whether any row of the strip sees any of the stream's rows k … k + STREAM - 1; the same for the
 * whole warp. */
__device__ inline bool needs(const own_rows &own, int32_t k)
{
    return k < own.some.high && k + STREAM > own.some.low;
}

/* Whether each row sees them all, so that nothing is masked. */
__device__ inline bool sees_all(const own_rows &own, int32_t k)
{
    return k >= own.all.low && k + STREAM <= own.all.high;
}

/* Where row 0 is in an array with rows of `stride` elements. */
__device__ inline size_t place_of(const own_rows &own, size_t stride)
{
    return (size_t)own.token * stride + (size_t)(own.head * own.width);
}

/* part: 0 queries, 1 keys, 2 values. */
__device__ inline array_rows<__nv_bfloat16> rows_of_qkv(const rank_attention &args,
                                                        const own_rows &own, int part)
{
    const size_t column = (size_t)part * args.width;
    return {(const __nv_bfloat16 *)args.qkv + place_of(own, 3 * args.width) + column,
            args.bias + column + own.head * own.width, 3 * (int)args.width, own.width};
}

/* The row of statistics, in (T, H). */
__device__ inline size_t statistic(const rank_attention &args, const own_rows &own, int32_t row)
{
    return (size_t)(own.token + row) * args.heads + (size_t)own.head;
}

/* Writes the strip's rows of sums · scale of each half, as rows of a head. */
template <int D>
__device__ inline void write_strip(__nv_bfloat16 *to, int stride, const own_rows &own,
                                   const mma_c (&sums)[mma_shape<D>::tiles],
                                   const float (&scale)[HALVES])
{
#pragma unroll
    for (int half = 0; half < HALVES; half++) {
        const int32_t row = own.strip + mma_row(2 * half);
#pragma unroll
        for (int n = 0; n < mma_shape<D>::tiles; n++) {
            const int column = n * MMA_COLUMNS + mma_column(0);
            if (row < own.end && column < own.width) {
                *reinterpret_cast<uint32_t *>(to + (int64_t)row * stride + column) = pair_of(
                    sums[n].at[2 * half] * scale[half], sums[n].at[2 * half + 1] * scale[half]);
            }
        }
    }
}

/* Scores of stream rows from k on that an own row does not see become -INFINITY. */
template <bool KEYS, int TILES>
__device__ inline void mask_scores(mma_c (&s)[TILES], const own_rows &own, int32_t k)
{
    const row_range range[HALVES] = {range_of<KEYS>(own, own.strip + mma_row(0)),
                                     range_of<KEYS>(own, own.strip + mma_row(2))};
#pragma unroll
    for (int i = 0; i < TILES * 4; i++) {
        const int32_t row = k + i / 4 * MMA_COLUMNS + mma_column(i % 4);
        const row_range &sees = range[i % 4 / 2];
        float &score = s[i / 4].at[i % 4];
        score = row >= sees.low && row < sees.high ? score : -INFINITY;
    }
}

static inline unsigned tiles_of_rows(const rank_attention *args)
{
    return (unsigned)((args->rows + OWN - 1) / OWN);
}

#endif
