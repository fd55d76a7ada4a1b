/* What a block of attention in tiles does in forward and in backward: its place in a call, and the rows that it
 * reads. fast_attention.h explains the tiles. Included by fast_attention.cu and fast_attention_grad.cu. */
#ifndef RANK_BACKEND_CUDA_KERNELS_FAST_ATTENTION_PLACE_H
#define RANK_BACKEND_CUDA_KERNELS_FAST_ATTENTION_PLACE_H

#include "fast_attention.h"

enum {
    WIDTH_MAX = 128,
    FEW_TILES = 2 * 132, /* two for each multiprocessor of an H200 */
};

/* A block's place in a call: its head, and its own rows. */
struct tile_place {
    attention_scratch scratch;
    size_t token; /* of row 0 */
    size_t head;
    size_t width; /* of the head */
    int begin;    /* the own rows */
    int end;
    float scale; /* of queries */
};

/* The row of statistics, in (T, H). */
__device__ inline size_t statistic(const rank_attention &args, const tile_place &at, int row)
{
    return (at.token + (size_t)row) * args.heads + at.head;
}

template <typename S>
__device__ inline tile_place place_of(const rank_attention &args, unsigned tile)
{
    tile_place at;
    at.scratch = scratch_of(args);
    at.token = (size_t)*at.scratch.first;
    at.head = blockIdx.y;
    at.width = (unsigned)args.width / (unsigned)args.heads;
    at.begin = (int)tile * S::own;
    at.end = at.begin + S::own < (int)args.rows ? at.begin + S::own : (int)args.rows;
    at.scale = 1.0f / sqrtf((float)at.width);
    return at;
}

/* part: 0 queries (scaled), 1 keys, 2 values. */
template <typename E>
__device__ inline head_rows<E> rows_of_qkv(const rank_attention &args, const tile_place &at,
                                           int part)
{
    const size_t column = (size_t)part * args.width + at.head * at.width;
    return {(const E *)args.qkv + at.token * 3 * args.width + column, 3 * args.width,
            args.bias + column, part == 0 ? at.scale : 1.0f, at.width};
}

/* The bounds of this lane's rows; of rows that are not there, none. */
template <typename S>
__device__ inline void load_bounds(row_bounds (&bounds)[S::each_down], const tile_place &at)
{
#pragma unroll
    for (int i = 0; i < S::each_down; i++) {
        const int row = at.begin + own_row<S>(i);
        bounds[i] = row < at.end ? at.scratch.bounds[row] : row_bounds{0x7fffffff, 0};
    }
}

/* The stream rows that a warp's strip needs: those from `begin` up to `end`. */
struct stream_range {
    int begin;
    int end;
    __device__ bool meets(int first) const
    {
        return first < end && first + STREAM > begin;
    }
};

__device__ inline int stream_tile(int row)
{
    return row / STREAM * STREAM;
}

/* Of a strip of queries: their keys. */
template <typename S> __device__ inline stream_range keys_of_strip(const tile_place &at)
{
    const int first = at.begin + (int)(threadIdx.x / WARP) * S::rows;
    return first < at.end ? stream_range{at.scratch.bounds[first].begin, first + S::rows}
                          : stream_range{0, 0};
}

/* Scores of keys that a query does not see become `value`. */
template <typename S>
__device__ inline void mask(typename S::values &s, const tile_place &at, const row_bounds *bounds,
                            int key, float value)
{
#pragma unroll
    for (int i = 0; i < S::each_down; i++) {
        const int row = at.begin + own_row<S>(i);
#pragma unroll
        for (int j = 0; j < EACH_ACROSS; j++) {
            const int k = key + strip_column(j);
            s[i][j] = k >= bounds[i].begin && k <= row ? s[i][j] : value;
        }
    }
}

inline bool heads_in_fours(const rank_attention *args)
{
    return in_fours(args->width / args->heads, address_of(args->qkv) | address_of(args->bias) |
                                                   address_of(args->out) | address_of(args->dout) |
                                                   address_of(args->dqkv));
}

template <typename S> inline dim3 grid_of(const rank_attention *args, unsigned kinds)
{
    return dim3((unsigned)((args->rows + S::own - 1) / S::own), (unsigned)args->heads, kinds);
}

/* Whether low strips are better: they make twice as many tiles, but read shared memory more often for
 * each product. */
template <int D> inline bool has_few_tiles(const rank_attention *args)
{
    const dim3 grid = grid_of<tile_shape<D, TALL>>(args, 1);
    return (size_t)grid.x * grid.y < FEW_TILES;
}

#endif
