/* The tiles of attention on tensor cores, and products of these. Included by mma_attention.h.
 *
 * As in fast_attention.h a block has a tile of OWN rows, and goes through the rows it needs as
 * *stream* tiles: queries over keys and values in forward and for their own gradients, keys over
 * queries for theirs. A warp has a strip of own rows, as fragments in its registers: only stream
 * tiles stay in shared memory. What a warp loads from there it multiplies with DOWN tiles of its
 * strip, because shared memory is slower than tensor cores.
 *
 * The stream is bfloat16 without biases, so that asynchronous copies bring it, a tile ahead.
 *
 * An own row sees the stream rows of one range: a query its segment's keys up to itself, a key its
 * segment's queries from itself on. Both ends never fall from row to row.
 *
 * D is the head's width rounded up to 32 or 64. What is behind the width is zero. */
#ifndef RANK_BACKEND_CUDA_KERNELS_MMA_TILES_H
#define RANK_BACKEND_CUDA_KERNELS_MMA_TILES_H

#include "async_copy.h"
#include "attention_rows.h"
#include "mma.h"

enum {
    WARPS = 4,
    THREADS = WARPS * WARP,
    DOWN = 2, /* tiles of MMA_ROWS in a strip, one below the other */
    STRIP = DOWN * MMA_ROWS,
    OWN = WARPS * STRIP,
    STREAM = 64,               /* rows of a stream tile */
    STAGES = 2,                /* of stream tiles: one is computed on, one is on its way */
    EIGHT = 8,                 /* elements that a thread moves at once */
    HALVES = 2,                /* rows of a C that a lane has: g and g + 8 */
    ROWS_EACH = DOWN * HALVES, /* rows of the strip that a lane has */
    GROUP = 16,                /* stream rows of two C side by side */
};

#define LOG2_E 0x1.715476p0f

template <int D> struct mma_shape {
    static constexpr int pitch = D + EIGHT; /* so that eight rows are in different banks */
    static constexpr int steps = D / MMA_DEPTH;
    static constexpr int tiles = D / MMA_COLUMNS;
    static constexpr int tile_elements = STREAM * pitch;
    static constexpr int stage_elements = 2 * tile_elements;
    static constexpr size_t shared_bytes = STAGES * stage_elements * sizeof(__nv_bfloat16);
};

/* A strip (STRIP, D) as a factor. */
template <int D> struct strip_factor {
    mma_a at[DOWN][mma_shape<D>::steps];
};

/* Sums (STRIP, D). */
template <int D> struct strip_sums {
    mma_c at[DOWN][mma_shape<D>::tiles];

    __device__ void clear()
    {
#pragma unroll
        for (int i = 0; i < DOWN * mma_shape<D>::tiles; i++) {
            at[i / mma_shape<D>::tiles][i % mma_shape<D>::tiles] = {{0.0f, 0.0f, 0.0f, 0.0f}};
        }
    }
};

/* Products (STRIP, COLUMNS) of the strip with rows of the stream. */
template <int COLUMNS> struct strip_scores {
    static constexpr int tiles = COLUMNS / MMA_COLUMNS;
    mma_c at[DOWN][tiles];
};

/* Row i of the lane's rows of its strip, and of a C's elements the lane's first in that row. */
__device__ inline int strip_row(int i)
{
    return i / HALVES * MMA_ROWS + mma_row(i % HALVES * 2);
}

/* Rows of one head of an array in memory. */
template <typename E> struct array_rows {
    E *at;             /* row 0 */
    const float *bias; /* of the head's columns; NULL: none */
    int stride;        /* elements from one row to the next */
    int width;         /* of the head */
};

/* Eight elements of type E, as they lie in memory. */
template <typename E> struct raw_eight {
    uint4 at[sizeof(E) / 2];
};

__device__ inline void widen(float *to, const raw_eight<const __nv_bfloat16> &raw)
{
    const uint32_t pairs[4] = {raw.at[0].x, raw.at[0].y, raw.at[0].z, raw.at[0].w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        to[2 * i] = low_of(pairs[i]);
        to[2 * i + 1] = high_of(pairs[i]);
    }
}

__device__ inline void widen(float *to, const raw_eight<const float> &raw)
{
#pragma unroll
    for (int i = 0; i < 2; i++) {
        to[4 * i] = __uint_as_float(raw.at[i].x);
        to[4 * i + 1] = __uint_as_float(raw.at[i].y);
        to[4 * i + 2] = __uint_as_float(raw.at[i].z);
        to[4 * i + 3] = __uint_as_float(raw.at[i].w);
    }
}

/* Which elements of a tile of STREAM rows a thread moves: always the same columns. */
template <int D> struct tile_part {
    static constexpr int across = D / EIGHT; /* threads along a row */
    static constexpr int rows = THREADS / across;
    static constexpr int count = STREAM / rows;

    __device__ static int column()
    {
        return (int)threadIdx.x % across * EIGHT;
    }

    __device__ static int row(int i)
    {
        return (int)threadIdx.x / across + i * rows;
    }

    __device__ static __nv_bfloat16 *place(__nv_bfloat16 *tile, int i)
    {
        return tile + row(i) * mma_shape<D>::pitch + column();
    }
};

/* Begins to copy rows first … first + STREAM - 1; zeros from `end` on, and behind the width. */
template <int D>
__device__ inline void begin_tile(__nv_bfloat16 *tile, const array_rows<const __nv_bfloat16> &from,
                                  int32_t first, int32_t end)
{
    typedef tile_part<D> part;
    const __nv_bfloat16 *at =
        from.at + (int64_t)(first + part::row(0)) * from.stride + part::column();
#pragma unroll
    for (int i = 0; i < part::count; i++) {
        const bool there = first + part::row(i) < end && part::column() < from.width;
        copy_async<16>(part::place(tile, i), at + i * part::rows * from.stride, there);
    }
}

/* Both tiles of a stage. */
template <int D>
__device__ inline void
begin_stage(__nv_bfloat16 *stage, const array_rows<const __nv_bfloat16> &left,
            const array_rows<const __nv_bfloat16> &right, int32_t first, int32_t end)
{
    begin_tile<D>(stage, left, first, end);
    begin_tile<D>(stage + mma_shape<D>::tile_elements, right, first, end);
}

template <typename T> __device__ inline void swap_places(T *&now, T *&next)
{
    T *was = now;
    now = next;
    next = was;
}

/* Brings the same rows at once, with the bias, and rounded. `keep` gets them too, if it has rows. */
template <int D, typename E>
__device__ inline void bring_tile(__nv_bfloat16 *tile, const array_rows<E> &from, int32_t first,
                                  int32_t end, const array_rows<__nv_bfloat16> &keep)
{
    typedef tile_part<D> part;
    const bool inside = part::column() < from.width;
    raw_eight<E> raw[part::count] = {};
    raw_eight<const float> raw_bias = {};
    float bias[EIGHT];
#pragma unroll
    for (int i = 0; i < part::count; i++) {
        if (inside && first + part::row(i) < end) {
            raw[i] = *reinterpret_cast<const raw_eight<E> *>(
                from.at + (int64_t)(first + part::row(i)) * from.stride + part::column());
        }
    }
    if (inside && from.bias != NULL) {
        raw_bias = *reinterpret_cast<const raw_eight<const float> *>(from.bias + part::column());
    }
    widen(bias, raw_bias);
#pragma unroll
    for (int i = 0; i < part::count; i++) {
        float value[EIGHT];
        widen(value, raw[i]);
        uint4 pairs;
        pairs.x = pair_of(value[0] + bias[0], value[1] + bias[1]);
        pairs.y = pair_of(value[2] + bias[2], value[3] + bias[3]);
        pairs.z = pair_of(value[4] + bias[4], value[5] + bias[5]);
        pairs.w = pair_of(value[6] + bias[6], value[7] + bias[7]);
        *reinterpret_cast<uint4 *>(part::place(tile, i)) = pairs;
        if (keep.at != NULL && inside && first + part::row(i) < end) {
            *reinterpret_cast<uint4 *>(keep.at + (int64_t)(first + part::row(i)) * keep.stride +
                                       part::column()) = pairs;
        }
    }
}

/* The warp's strip of the own rows begin … begin + OWN - 1, by way of `stage`, which has room for
 * them. All threads of the block call it. */
template <int D, typename E>
__device__ static void bring_strip(strip_factor<D> &strip, __nv_bfloat16 *stage,
                                   const array_rows<E> &from, int32_t begin, int32_t end,
                                   const array_rows<__nv_bfloat16> &keep = {})
{
    static_assert(OWN == 2 * STREAM, "as many rows as two stream tiles");
    const __nv_bfloat16 *rows = stage + threadIdx.x / WARP * STRIP * mma_shape<D>::pitch;
    __syncthreads();
#pragma unroll
    for (int half = 0; half < 2; half++) {
        bring_tile<D>(stage + half * mma_shape<D>::tile_elements, from, begin + half * STREAM, end,
                      keep);
    }
    __syncthreads();
#pragma unroll
    for (int d = 0; d < DOWN; d++) {
#pragma unroll
        for (int k = 0; k < mma_shape<D>::steps; k++) {
            load_a(strip.at[d][k], rows + d * MMA_ROWS * mma_shape<D>::pitch + k * MMA_DEPTH,
                   mma_shape<D>::pitch);
        }
    }
}

/* Columns 8n … 8n + 15 of scores = strip · streamᵀ, of the stream's 16 rows at `rows`. */
template <int D, int COLUMNS>
__device__ inline void products_with_rows(strip_scores<COLUMNS> &scores, int n,
                                          const strip_factor<D> &strip, const __nv_bfloat16 *rows)
{
#pragma unroll
    for (int d = 0; d < DOWN; d++) {
        scores.at[d][n] = {{0.0f, 0.0f, 0.0f, 0.0f}};
        scores.at[d][n + 1] = {{0.0f, 0.0f, 0.0f, 0.0f}};
    }
#pragma unroll
    for (int k = 0; k < mma_shape<D>::steps; k++) {
        mma_b2 b;
        load_b_by_columns(b, rows + k * MMA_DEPTH, mma_shape<D>::pitch);
#pragma unroll
        for (int d = 0; d < DOWN; d++) {
            mma_two(scores.at[d] + n, strip.at[d][k], b);
        }
    }
}

/* sums += columns 8n … 8n + 15 of weights, rounded · the stream's 16 rows at `rows`. */
template <int D, int COLUMNS>
__device__ inline void add_weighted_rows(strip_sums<D> &sums, const strip_scores<COLUMNS> &weights,
                                         int n, const __nv_bfloat16 *rows)
{
    mma_a a[DOWN];
#pragma unroll
    for (int d = 0; d < DOWN; d++) {
        a[d] = rounded_tiles(weights.at[d][n], weights.at[d][n + 1]);
    }
#pragma unroll
    for (int c = 0; c < mma_shape<D>::tiles; c += 2) {
        mma_b2 b;
        load_b_by_rows(b, rows + c * MMA_COLUMNS, mma_shape<D>::pitch);
#pragma unroll
        for (int d = 0; d < DOWN; d++) {
            mma_two(sums.at[d] + c, a[d], b);
        }
    }
}

/* Over the four lanes that have parts of a row of C. */
__device__ inline float sum_of_quad(float value)
{
    value = value + __shfl_xor_sync(0xffffffffu, value, 1);
    return value + __shfl_xor_sync(0xffffffffu, value, 2);
}

__device__ inline float largest_of_quad(float value)
{
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 1));
    return fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 2));
}

#endif
