/* What the kernels of attention in tiles share. Included by fast_attention_place.h.
 *
 * A block has a tile of *own* rows in shared memory, and goes through the rows it needs as *stream*
 * tiles: queries over keys and values in forward and for their own gradients, keys over queries for
 * theirs. Tiles are of flat tokens, so that short segments share one. A warp has a strip of own
 * rows. Its products are
 *   scores:     strip (rows, STREAM) += own · streamᵀ over the width of the head,
 *   accumulate: sums (rows, D) += strip · stream over the stream's rows.
 * A lane has rows `row(i)` and columns `column(j)` of the strip, and fours of columns of the sums.
 *
 * D is the head's width rounded up to 32, 64 or 128. What is behind the width is zero. ROWS is the
 * height of a strip. Stream tiles begin at multiples of STREAM, and what a row does not see adds
 * zeros to its sums, so a row has the same bits with strips of any height. */
#ifndef RANK_BACKEND_CUDA_KERNELS_FAST_ATTENTION_H
#define RANK_BACKEND_CUDA_KERNELS_FAST_ATTENTION_H

#include "attention_rows.h"

enum {
    STREAM = 32,              /* rows of a stream tile */
    STRIP_PITCH = STREAM + 8, /* so that a warp's values go to different banks */
    LANES_ACROSS = 8,         /* lanes along a row of the strip */
    LANES_DOWN = WARP / LANES_ACROSS,
    EACH_ACROSS = STREAM / LANES_ACROSS,
    TALL = 16,       /* rows of a strip */
    LOW = 8,         /* the same, where there would be few tiles else */
    BATCH_FOURS = 4, /* that a thread fetches at once, of one array */
};

template <int D, int ROWS> struct tile_shape {
    static constexpr int width = D;
    static constexpr int rows = ROWS; /* own rows of a warp */
    static constexpr int warps = D <= 64 ? 4 : 2;
    static constexpr int threads = warps * WARP;
    static constexpr int own = warps * ROWS;
    static constexpr int pitch = D + FOUR;  /* so that neighbouring rows are in other banks */
    static constexpr int across = D / FOUR; /* fours of a row */
    static constexpr int fours = D / (LANES_ACROSS * FOUR); /* of the sums, of a lane */
    static constexpr int each_down = ROWS / LANES_DOWN;
    static constexpr int own_floats = own * pitch;
    static constexpr int stream_floats = STREAM * pitch;
    static constexpr int strip_floats = own * STRIP_PITCH;
    static constexpr int batch_max = BATCH_FOURS * threads / across; /* rows */
    static constexpr int own_batch = own < batch_max ? own : batch_max;
    static constexpr int stream_batch = STREAM < batch_max ? STREAM : batch_max;
    /* Whether stream tiles are fetched while those before them are worked on. Strips are low where
     * there are few tiles; else other blocks work meanwhile, and registers are better left to them. */
    static constexpr bool ahead = ROWS == LOW;
    static_assert(!ahead || stream_batch == STREAM, "a stream tile is one batch");
    typedef float values[each_down][EACH_ACROSS]; /* of a strip, of a lane */
};

/* Rows of one head of an array in memory. */
template <typename E> struct head_rows {
    const E *at;       /* row 0 */
    size_t stride;     /* elements from one row to the next */
    const float *bias; /* of the head's columns; NULL: none */
    float scale;
    size_t width; /* of the head */
};

/* Moves BATCH rows to a tile in shared memory, by way of registers: tile rows part … = (rows first …
 * + bias) · scale. Rows from `end` on count as zeros, so they have the bias: nobody sees them. A
 * thread has one four of columns, and rows in strides. All its loads are under way together. */
template <typename S, int BATCH, bool VEC, typename E> struct row_reader {
    static constexpr int each = BATCH * S::across / S::threads;
    static constexpr int step = S::threads / S::across;
    head_rows<E> rows;
    float *tile;
    float4 bias;
    float4 at[each];

    __device__ row_reader(const head_rows<E> &from, float *to) : rows(from), tile(to)
    {
        bias = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (rows.bias != NULL) {
            bias = load_four<VEC>(rows.bias, column(), rows.width);
        }
    }
    __device__ static size_t column()
    {
        return threadIdx.x % S::across * FOUR;
    }
    __device__ static int row(int i) /* of the batch */
    {
        return (int)(threadIdx.x / S::across) + i * step;
    }
    __device__ void fetch(int first, int end)
    {
#pragma unroll
        for (int i = 0; i < each; i++) {
            at[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (first + row(i) < end) {
                const E *from = rows.at + (size_t)(first + row(i)) * rows.stride;
                at[i] = load_four<VEC>(from, column(), rows.width);
            }
        }
    }
    __device__ void put(int part)
    {
#pragma unroll
        for (int i = 0; i < each; i++) {
            const float4 value = plus(at[i], bias);
            *reinterpret_cast<float4 *>(tile + (part + row(i)) * S::pitch + column()) =
                make_float4(value.x * rows.scale, value.y * rows.scale, value.z * rows.scale,
                            value.w * rows.scale);
        }
    }
};

/* Fetches `count` rows and puts them. */
template <int COUNT, int BATCH, typename Reader>
__device__ inline void bring_tile(Reader &reader, int first, int end)
{
#pragma unroll 1
    for (int part = 0; part < COUNT; part += BATCH) {
        reader.fetch(first + part, end);
        reader.put(part);
    }
}

/* Two stream tiles, whose first rows are `first`. Those that were fetched ahead are put only. */
template <typename S, typename A, typename B>
__device__ inline void put_streams(A &a, B &b, int first, int end)
{
    if (S::stream_batch < STREAM) {
        bring_tile<STREAM, S::stream_batch>(a, first, end);
        bring_tile<STREAM, S::stream_batch>(b, first, end);
        return;
    }
    if (!S::ahead) {
        a.fetch(first, end);
        b.fetch(first, end);
    }
    a.put(0);
    b.put(0);
}

template <typename S, typename A, typename B>
__device__ inline void fetch_ahead(A &a, B &b, int first, int end)
{
    if (S::ahead) {
        a.fetch(first, end);
        b.fetch(first, end);
    }
}

/* This lane's place across and down its strip. The bits of both alternate, so that of any two lanes
 * whose numbers differ in bit 0 (bit 1) alone, both read the same four of own (stream) rows. Shared
 * memory then serves half a warp at once, where it would take a quarter. */
__device__ inline int lane_across(void)
{
    return (int)((threadIdx.x & 1) | (threadIdx.x >> 1 & 6));
}

__device__ inline int lane_down(void)
{
    return (int)((threadIdx.x >> 1 & 1) | (threadIdx.x >> 3 & 2));
}

/* This lane's rows and columns. */
__device__ inline int strip_row(int i)
{
    return lane_down() + i * LANES_DOWN;
}

template <typename S> __device__ inline int own_row(int i)
{
    return (int)(threadIdx.x / WARP) * S::rows + strip_row(i);
}

__device__ inline int strip_column(int j)
{
    return lane_across() + j * LANES_ACROSS;
}

__device__ inline size_t sum_column(int g)
{
    return (size_t)((lane_across() + g * LANES_ACROSS) * FOUR);
}

__device__ inline float4 four_at(const float *shared)
{
    return *reinterpret_cast<const float4 *>(shared);
}

template <typename S>
__device__ inline void scores(typename S::values &s, const float *own, const float *stream)
{
#pragma unroll
    for (int i = 0; i < S::each_down * EACH_ACROSS; i++) {
        s[i / EACH_ACROSS][i % EACH_ACROSS] = 0.0f;
    }
#pragma unroll 4
    for (int d = 0; d < S::width; d += FOUR) {
        float4 a[S::each_down];
#pragma unroll
        for (int i = 0; i < S::each_down; i++) {
            a[i] = four_at(own + own_row<S>(i) * S::pitch + d);
        }
#pragma unroll
        for (int j = 0; j < EACH_ACROSS; j++) {
            const float4 b = four_at(stream + strip_column(j) * S::pitch + d);
#pragma unroll
            for (int i = 0; i < S::each_down; i++) {
                s[i][j] = fmaf(a[i].x, b.x, s[i][j]);
                s[i][j] = fmaf(a[i].y, b.y, s[i][j]);
                s[i][j] = fmaf(a[i].z, b.z, s[i][j]);
                s[i][j] = fmaf(a[i].w, b.w, s[i][j]);
            }
        }
    }
}

/* The sums of a strip, of a lane. */
template <typename S> struct strip_sums {
    float4 at[S::each_down][S::fours];
    __device__ void clear()
    {
#pragma unroll
        for (int i = 0; i < S::each_down; i++) {
#pragma unroll
            for (int g = 0; g < S::fours; g++) {
                at[i][g] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            }
        }
    }
    __device__ void scale(int i, float factor)
    {
#pragma unroll
        for (int g = 0; g < S::fours; g++) {
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
template <typename S> __device__ inline void put_strip(float *strip, const typename S::values &s)
{
    __syncwarp(); /* all have read what was there */
#pragma unroll
    for (int i = 0; i < S::each_down; i++) {
#pragma unroll
        for (int j = 0; j < EACH_ACROSS; j++) {
            strip[strip_row(i) * STRIP_PITCH + strip_column(j)] = s[i][j];
        }
    }
    __syncwarp();
}

template <typename S>
__device__ inline void accumulate(strip_sums<S> &sums, const float *strip, const float *stream)
{
#pragma unroll 2
    for (int t = 0; t < STREAM; t += FOUR) {
        float4 p[S::each_down];
#pragma unroll
        for (int i = 0; i < S::each_down; i++) {
            p[i] = four_at(strip + strip_row(i) * STRIP_PITCH + t);
        }
#pragma unroll
        for (int g = 0; g < S::fours; g++) {
            const float *column = stream + t * S::pitch + sum_column(g);
            const float4 v0 = four_at(column);
            const float4 v1 = four_at(column + S::pitch);
            const float4 v2 = four_at(column + 2 * S::pitch);
            const float4 v3 = four_at(column + 3 * S::pitch);
#pragma unroll
            for (int i = 0; i < S::each_down; i++) {
                sums.at[i][g] = add_scaled(sums.at[i][g], p[i].x, v0);
                sums.at[i][g] = add_scaled(sums.at[i][g], p[i].y, v1);
                sums.at[i][g] = add_scaled(sums.at[i][g], p[i].z, v2);
                sums.at[i][g] = add_scaled(sums.at[i][g], p[i].w, v3);
            }
        }
    }
}

/* Over the lanes that share a row: those that differ in the bits of lane_across. */
__device__ inline float sum_across(float value)
{
    value = value + __shfl_xor_sync(0xffffffffu, value, 8);
    value = value + __shfl_xor_sync(0xffffffffu, value, 4);
    return value + __shfl_xor_sync(0xffffffffu, value, 1);
}

__device__ inline float largest_across(float value)
{
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 8));
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 4));
    return fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 1));
}

#endif
