/* The tiles of attention on tensor cores, and products of these. Included by mma_attention.h.
 *
 * As in fast_attention.h a block has a tile of OWN rows, and goes through the rows it needs as
 * *stream* tiles: queries over keys and values in forward and for their own gradients, keys over
 * queries for theirs. A warp has a strip of MMA_ROWS own rows, as fragments in its registers: only
 * stream tiles stay in shared memory. They are rounded to bfloat16 on their way there, after the
 * bias was added.
 *
 * An own row sees the stream rows of one range: a query its segment's keys up to itself, a key its
 * segment's queries from itself on. Both ends never fall from row to row.
 *
 * D is the head's width rounded up to 32 or 64. What is behind the width is zero. */
#ifndef RANK_BACKEND_CUDA_KERNELS_MMA_TILES_H
#define RANK_BACKEND_CUDA_KERNELS_MMA_TILES_H

#include "attention_rows.h"
#include "mma.h"

enum {
    WARPS = 8,
    THREADS = WARPS * WARP,
    OWN = WARPS * MMA_ROWS,
    STREAM = 64, /* rows of a stream tile */
    EIGHT = 8,   /* elements that a thread moves at once */
    HALVES = 2,  /* rows of a C that a lane has: g and g + 8 */
    GROUP = 16,  /* stream rows of two C side by side */
    GROUPS = STREAM / GROUP,
};

#define LOG2_E 0x1.715476p0f

template <int D> struct mma_shape {
    static constexpr int pitch = D + EIGHT; /* so that eight rows are in different banks */
    static constexpr int steps = D / MMA_DEPTH;
    static constexpr int tiles = D / MMA_COLUMNS;
    static constexpr int tile_elements = STREAM * pitch;
    static constexpr size_t shared_bytes = 2 * tile_elements * sizeof(__nv_bfloat16);
};

/* Rows of one head of an array in memory. */
template <typename E> struct array_rows {
    const E *at;       /* row 0 */
    const float *bias; /* of the head's columns; NULL: none */
    int stride;        /* elements from one row to the next */
    int width;         /* of the head */
};

/* Eight elements of type E, as they lie in memory. */
template <typename E> struct raw_eight {
    uint4 at[sizeof(E) / 2];
};

__device__ inline void widen(float *to, const raw_eight<__nv_bfloat16> &raw)
{
    const uint32_t pairs[4] = {raw.at[0].x, raw.at[0].y, raw.at[0].z, raw.at[0].w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        to[2 * i] = low_of(pairs[i]);
        to[2 * i + 1] = high_of(pairs[i]);
    }
}

__device__ inline void widen(float *to, const raw_eight<float> &raw)
{
#pragma unroll
    for (int i = 0; i < 2; i++) {
        to[4 * i] = __uint_as_float(raw.at[i].x);
        to[4 * i + 1] = __uint_as_float(raw.at[i].y);
        to[4 * i + 2] = __uint_as_float(raw.at[i].z);
        to[4 * i + 3] = __uint_as_float(raw.at[i].w);
    }
}

/* A thread's part of a tile of STREAM rows on its way to shared memory: always the same columns. */
template <int D, typename E> struct tile_part {
    static constexpr int across = D / EIGHT; /* threads along a row */
    static constexpr int rows = THREADS / across;
    static constexpr int count = STREAM / rows;
    raw_eight<E> at[count];

    __device__ static int column()
    {
        return (int)threadIdx.x % across * EIGHT;
    }

    /* Adds the bias, rounds, and puts the part into the tile. */
    __device__ void place(__nv_bfloat16 *tile, const array_rows<E> &from) const
    {
        raw_eight<float> raw_bias = {};
        float bias[EIGHT];
        if (from.bias != NULL && column() < from.width) {
            raw_bias = *reinterpret_cast<const raw_eight<float> *>(from.bias + column());
        }
        widen(bias, raw_bias);
#pragma unroll
        for (int i = 0; i < count; i++) {
            float value[EIGHT];
            widen(value, at[i]);
            uint4 pairs;
            pairs.x = pair_of(value[0] + bias[0], value[1] + bias[1]);
            pairs.y = pair_of(value[2] + bias[2], value[3] + bias[3]);
            pairs.z = pair_of(value[4] + bias[4], value[5] + bias[5]);
            pairs.w = pair_of(value[6] + bias[6], value[7] + bias[7]);
            const int row = (int)threadIdx.x / across + i * rows;
            *reinterpret_cast<uint4 *>(tile + row * mma_shape<D>::pitch + column()) = pairs;
        }
    }
};

/* Rows first … first + STREAM - 1; zeros from `end` on, and behind the width. */
template <int D, typename E>
__device__ inline tile_part<D, E> fetch(const array_rows<E> &from, int32_t first, int32_t end)
{
    typedef tile_part<D, E> part;
    part fetched;
#pragma unroll
    for (int i = 0; i < part::count; i++) {
        const int32_t row = first + (int32_t)threadIdx.x / part::across + i * part::rows;
        fetched.at[i] = {};
        if (row < end && part::column() < from.width) {
            fetched.at[i] = *reinterpret_cast<const raw_eight<E> *>(
                from.at + (int64_t)row * from.stride + part::column());
        }
    }
    return fetched;
}

/* The warp's strip of the own rows begin … begin + OWN - 1, by way of `tiles`, which has room for
 * them. All threads of the block call it. */
template <int D, typename E>
__device__ static void bring_strip(mma_a (&strip)[mma_shape<D>::steps], __nv_bfloat16 *tiles,
                                   const array_rows<E> &from, int32_t begin, int32_t end)
{
    static_assert(OWN == 2 * STREAM, "as many rows as two stream tiles");
    __syncthreads();
#pragma unroll
    for (int half = 0; half < 2; half++) {
        fetch<D>(from, begin + half * STREAM, end)
            .place(tiles + half * mma_shape<D>::tile_elements, from);
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < mma_shape<D>::steps; k++) {
        load_a(strip[k],
               tiles + threadIdx.x / WARP * MMA_ROWS * mma_shape<D>::pitch + k * MMA_DEPTH,
               mma_shape<D>::pitch);
    }
}

/* c (16, 16) = strip · streamᵀ, of the stream's 16 rows at `rows`. */
template <int D>
__device__ inline void products_with_rows(mma_c *c, const mma_a (&strip)[mma_shape<D>::steps],
                                          const __nv_bfloat16 *rows)
{
    c[0] = {{0.0f, 0.0f, 0.0f, 0.0f}};
    c[1] = {{0.0f, 0.0f, 0.0f, 0.0f}};
#pragma unroll
    for (int k = 0; k < mma_shape<D>::steps; k++) {
        mma_b2 b;
        load_b_by_columns(b, rows + k * MMA_DEPTH, mma_shape<D>::pitch);
        mma_two(c, strip[k], b);
    }
}

/* sums (16, D) += weights (16, 16) · the stream's 16 rows at `rows`. */
template <int D>
__device__ inline void add_weighted_rows(mma_c (&sums)[mma_shape<D>::tiles], const mma_a &weights,
                                         const __nv_bfloat16 *rows)
{
#pragma unroll
    for (int n = 0; n < mma_shape<D>::tiles; n += 2) {
        mma_b2 b;
        load_b_by_rows(b, rows + n * MMA_COLUMNS, mma_shape<D>::pitch);
        mma_two(sums + n, weights, b);
    }
}

template <int D> __device__ inline void clear(mma_c (&sums)[mma_shape<D>::tiles])
{
#pragma unroll
    for (int n = 0; n < mma_shape<D>::tiles; n++) {
        sums[n] = {{0.0f, 0.0f, 0.0f, 0.0f}};
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
