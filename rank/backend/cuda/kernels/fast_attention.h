/* What the three kernels of attention in tiles share. Included by fast_attention.cu.
 *
 * A block has a tile of *own* rows in shared memory, and goes through the rows it needs as *stream*
 * tiles: queries over keys and values in forward and for their own gradients, keys over queries for
 * theirs. Tiles are of flat tokens, so that short segments share one. A warp has a strip of
 * STRIP_ROWS own rows. Its products are
 *   scores:     strip (STRIP_ROWS, STREAM) += own · streamᵀ over the width of the head,
 *   accumulate: sums (STRIP_ROWS, D) += strip · stream over the stream's rows.
 * A lane has rows `row(i)` and columns `column(j)` of the strip, and fours of columns of the sums.
 *
 * D is the head's width rounded up to 32, 64 or 128. What is behind the width is zero. */
#ifndef RANK_BACKEND_CUDA_KERNELS_FAST_ATTENTION_H
#define RANK_BACKEND_CUDA_KERNELS_FAST_ATTENTION_H

#include "attention_rows.h"

enum {
    STREAM = 32,     /* rows of a stream tile */
    STRIP_ROWS = 16, /* own rows of a warp */
    STRIP_PITCH = STREAM + FOUR,
    LANES_ACROSS = 8, /* lanes along a row of the strip */
    LANES_DOWN = WARP / LANES_ACROSS,
    EACH_DOWN = STRIP_ROWS / LANES_DOWN,
    EACH_ACROSS = STREAM / LANES_ACROSS,
};

template <int D> struct tile_shape {
    static constexpr int warps = D <= 64 ? 4 : 2;
    static constexpr int threads = warps * WARP;
    static constexpr int own = warps * STRIP_ROWS;
    static constexpr int pitch = D + FOUR; /* so that neighbouring rows are in other banks */
    static constexpr int fours = D / (LANES_ACROSS * FOUR); /* of the sums, of a lane */
    static constexpr int own_floats = own * pitch;
    static constexpr int stream_floats = STREAM * pitch;
    static constexpr int strip_floats = own * STRIP_PITCH;
};

/* Rows of one head of an array in memory. */
template <typename E> struct head_rows {
    const E *at;       /* row 0 */
    size_t stride;     /* elements from one row to the next */
    const float *bias; /* of the head's columns; NULL: none */
    float scale;
    size_t width; /* of the head */
};

/* tile (count, D) = (rows first … + bias) · scale; zeros for rows from `end` on. */
template <int D, bool VEC, typename E>
__device__ inline void bring_tile(float *tile, int count, const head_rows<E> &rows, size_t first,
                                  size_t end)
{
    constexpr int across = D / FOUR;
    for (int i = (int)threadIdx.x; i < count * across; i += tile_shape<D>::threads) {
        const size_t row = first + (size_t)(i / across);
        const size_t column = (size_t)(i % across) * FOUR;
        float4 value = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (row < end) {
            value = load_four<VEC>(rows.at + row * rows.stride, column, rows.width);
            if (rows.bias != NULL) {
                value = plus(value, load_four<VEC>(rows.bias, column, rows.width));
            }
            value = make_float4(value.x * rows.scale, value.y * rows.scale, value.z * rows.scale,
                                value.w * rows.scale);
        }
        *reinterpret_cast<float4 *>(tile + (i / across) * tile_shape<D>::pitch + column) = value;
    }
}

/* This lane's rows and columns. */
__device__ inline int strip_row(int i)
{
    return (int)(threadIdx.x % WARP) / LANES_ACROSS + i * LANES_DOWN;
}

__device__ inline int own_row(int i)
{
    return (int)(threadIdx.x / WARP) * STRIP_ROWS + strip_row(i);
}

__device__ inline int strip_column(int j)
{
    return (int)threadIdx.x % LANES_ACROSS + j * LANES_ACROSS;
}

__device__ inline size_t sum_column(int g)
{
    return (size_t)(((int)threadIdx.x % LANES_ACROSS + g * LANES_ACROSS) * FOUR);
}

__device__ inline float4 four_at(const float *shared)
{
    return *reinterpret_cast<const float4 *>(shared);
}

typedef float strip_values[EACH_DOWN][EACH_ACROSS];

template <int D>
__device__ inline void scores(strip_values &s, const float *own, const float *stream)
{
#pragma unroll
    for (int i = 0; i < EACH_DOWN * EACH_ACROSS; i++) {
        s[i / EACH_ACROSS][i % EACH_ACROSS] = 0.0f;
    }
#pragma unroll 4
    for (int d = 0; d < D; d += FOUR) {
        float4 a[EACH_DOWN];
#pragma unroll
        for (int i = 0; i < EACH_DOWN; i++) {
            a[i] = four_at(own + own_row(i) * tile_shape<D>::pitch + d);
        }
#pragma unroll
        for (int j = 0; j < EACH_ACROSS; j++) {
            const float4 b = four_at(stream + strip_column(j) * tile_shape<D>::pitch + d);
#pragma unroll
            for (int i = 0; i < EACH_DOWN; i++) {
                s[i][j] = fmaf(a[i].x, b.x, s[i][j]);
                s[i][j] = fmaf(a[i].y, b.y, s[i][j]);
                s[i][j] = fmaf(a[i].z, b.z, s[i][j]);
                s[i][j] = fmaf(a[i].w, b.w, s[i][j]);
            }
        }
    }
}

/* The sums of a strip, of a lane. */
template <int D> struct strip_sums {
    float4 at[EACH_DOWN][tile_shape<D>::fours];
    __device__ void clear()
    {
#pragma unroll
        for (int i = 0; i < EACH_DOWN; i++) {
#pragma unroll
            for (int g = 0; g < tile_shape<D>::fours; g++) {
                at[i][g] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            }
        }
    }
    __device__ void scale(int i, float factor)
    {
#pragma unroll
        for (int g = 0; g < tile_shape<D>::fours; g++) {
            at[i][g] = make_float4(at[i][g].x * factor, at[i][g].y * factor, at[i][g].z * factor,
                                   at[i][g].w * factor);
        }
    }
};

__device__ inline float4 add_scaled(float4 sum, float factor, float4 value)
{
    return make_float4(fmaf(factor, value.x, sum.x), fmaf(factor, value.y, sum.y),
                       fmaf(factor, value.z, sum.z), fmaf(factor, value.w, sum.w));
}

/* Puts the lane's values into its warp's strip, for the whole warp to read. */
__device__ inline void put_strip(float *strip, const strip_values &s)
{
    __syncwarp(); /* all have read what was there */
#pragma unroll
    for (int i = 0; i < EACH_DOWN; i++) {
#pragma unroll
        for (int j = 0; j < EACH_ACROSS; j++) {
            strip[strip_row(i) * STRIP_PITCH + strip_column(j)] = s[i][j];
        }
    }
    __syncwarp();
}

template <int D>
__device__ inline void accumulate(strip_sums<D> &sums, const float *strip, const float *stream)
{
#pragma unroll 2
    for (int t = 0; t < STREAM; t += FOUR) {
        float4 p[EACH_DOWN];
#pragma unroll
        for (int i = 0; i < EACH_DOWN; i++) {
            p[i] = four_at(strip + strip_row(i) * STRIP_PITCH + t);
        }
#pragma unroll
        for (int g = 0; g < tile_shape<D>::fours; g++) {
            const float *column = stream + t * tile_shape<D>::pitch + sum_column(g);
            const float4 v0 = four_at(column);
            const float4 v1 = four_at(column + tile_shape<D>::pitch);
            const float4 v2 = four_at(column + 2 * tile_shape<D>::pitch);
            const float4 v3 = four_at(column + 3 * tile_shape<D>::pitch);
#pragma unroll
            for (int i = 0; i < EACH_DOWN; i++) {
                sums.at[i][g] = add_scaled(sums.at[i][g], p[i].x, v0);
                sums.at[i][g] = add_scaled(sums.at[i][g], p[i].y, v1);
                sums.at[i][g] = add_scaled(sums.at[i][g], p[i].z, v2);
                sums.at[i][g] = add_scaled(sums.at[i][g], p[i].w, v3);
            }
        }
    }
}

/* Over the lanes that share a row. */
__device__ inline float sum_across(float value)
{
#pragma unroll
    for (int half = LANES_ACROSS / 2; half > 0; half /= 2) {
        value = value + __shfl_xor_sync(0xffffffffu, value, half);
    }
    return value;
}

__device__ inline float largest_across(float value)
{
#pragma unroll
    for (int half = LANES_ACROSS / 2; half > 0; half /= 2) {
        value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, half));
    }
    return value;
}

#endif
