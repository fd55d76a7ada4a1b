/* What the kernels of the backend `cuda` share: rows in fours of elements, sums by warps, and sums
 * of columns in parts. Those of `cuda-exact` do not use it.
 *
 * Bits. Sums run in another order than the CPU's, but in a fixed one: it depends on shapes alone,
 * not on addresses, on the card, nor on how blocks are scheduled. There is no atomic operation.
 *
 * Fours. A thread reads and writes four neighbouring elements of a row at once: 16 bytes of float32,
 * 8 of bfloat16, which are widened and rounded on the way (element.h).
 * That needs a width and addresses that are multiples of four elements. Where they are not, `VEC`
 * is false: then the four are moved one by one, and their bits are the same. */
#ifndef RANK_BACKEND_CUDA_KERNELS_FAST_H
#define RANK_BACKEND_CUDA_KERNELS_FAST_H

#include "element.h"
#include "kernels.h"

enum {
    WARP = 32,
    FOUR = 4,
    WARP_COLUMNS = WARP * FOUR, /* columns that a warp moves at once */
    PART_ROWS = 8,              /* rows that a block of column_parts_kernel moves at once */
    PART_THREADS = WARP * PART_ROWS,
    PART_EACH = 4,      /* rows that a thread reads at once */
    PARTS_MAX = 128,    /* of the rows of one sum */
    PART_BLOCKS = 1024, /* that one sum is cut into */
    PART_FLOATS = 2 * CUDA_PARTIALS,
    ENDS_COLUMNS = 8, /* of a block of column_ends_kernel */
    ENDS_THREADS = 256,
    ENDS_ROWS = ENDS_THREADS / ENDS_COLUMNS,
    ENDS_EACH = PARTS_MAX / ENDS_ROWS, /* parts of a thread */
    ENDS_TILE = ENDS_THREADS / WARP * ENDS_COLUMNS,
};
static_assert(ENDS_EACH == 4 && ENDS_TILE == 2 * WARP, "the tree of column_ends_kernel");

/* Whether fours may be moved at once: `width` is of the rows, `addresses` all or'ed together. */
static inline bool in_fours(size_t width, uintptr_t addresses)
{
    return width % FOUR == 0 && addresses % (FOUR * sizeof(float)) == 0;
}

static inline uintptr_t address_of(const void *at)
{
    return (uintptr_t)at;
}

/* Elements column … column + 3 of a row; zeros behind its end. */
template <bool VEC>
__device__ inline float4 load_four(const float *row, size_t column, size_t width)
{
    if (VEC) {
        return column < width ? *reinterpret_cast<const float4 *>(row + column)
                              : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
    return make_float4(
        column < width ? row[column] : 0.0f, column + 1 < width ? row[column + 1] : 0.0f,
        column + 2 < width ? row[column + 2] : 0.0f, column + 3 < width ? row[column + 3] : 0.0f);
}

template <bool VEC>
__device__ inline void store_four(float *row, size_t column, size_t width, float4 value)
{
    if (VEC) {
        if (column < width) {
            *reinterpret_cast<float4 *>(row + column) = value;
        }
        return;
    }
    const float each[FOUR] = {value.x, value.y, value.z, value.w};
#pragma unroll
    for (int e = 0; e < FOUR; e++) {
        if (column + e < width) {
            row[column + e] = each[e];
        }
    }
}

template <bool VEC>
__device__ inline float4 load_four(const __nv_bfloat16 *row, size_t column, size_t width)
{
    if (VEC) {
        const unsigned long long bits =
            column < width ? *reinterpret_cast<const unsigned long long *>(row + column) : 0;
        return make_float4(__uint_as_float((unsigned)bits << 16),
                           __uint_as_float((unsigned)bits & 0xffff0000u),
                           __uint_as_float((unsigned)(bits >> 32) << 16),
                           __uint_as_float((unsigned)(bits >> 32) & 0xffff0000u));
    }
    return make_float4(column < width ? get(row[column]) : 0.0f,
                       column + 1 < width ? get(row[column + 1]) : 0.0f,
                       column + 2 < width ? get(row[column + 2]) : 0.0f,
                       column + 3 < width ? get(row[column + 3]) : 0.0f);
}

template <bool VEC>
__device__ inline void store_four(__nv_bfloat16 *row, size_t column, size_t width, float4 value)
{
    if (VEC) {
        if (column < width) {
            *reinterpret_cast<unsigned long long *>(row + column) =
                pair_of(value.x, value.y) | (unsigned long long)pair_of(value.z, value.w) << 32;
        }
        return;
    }
    const float each[FOUR] = {value.x, value.y, value.z, value.w};
#pragma unroll
    for (int e = 0; e < FOUR; e++) {
        if (column + e < width) {
            put(row + column + e, each[e]);
        }
    }
}

/* What stands in memory of a value after it was stored. */
template <typename E> __device__ inline float stored(float value)
{
    E element;
    put(&element, value);
    return get(element);
}

template <typename E> __device__ inline float4 as_stored(float4 a)
{
    return make_float4(stored<E>(a.x), stored<E>(a.y), stored<E>(a.z), stored<E>(a.w));
}

__device__ inline float4 plus(float4 a, float4 b)
{
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

__device__ inline float sum_of_four(float4 a)
{
    return (a.x + a.y) + (a.z + a.w);
}

/* Where sums of columns are added: up to three arrays side by side. NULL: not wanted. */
struct sums_to {
    float *at[3];
    size_t width; /* columns of each */
};

/* parts (gridDim.y, columns) = the column sums of the rows that a block has: PART_ROWS rows from
 * PART_ROWS · blockIdx.y on, and so on in strides of the whole grid. value.rows() is their number.
 * value.load(row, column) reads, and value.take(row, column, loaded) gives four elements of that; it is
 * called once for each, so it may also write. Some are read before the first is taken. */
template <typename Value>
__global__ static void column_parts_kernel(Value value, size_t columns, float *parts)
{
    SHARED(float4, tile);
    const size_t lane = threadIdx.x % WARP;
    const size_t column = ((size_t)blockIdx.x * WARP + lane) * FOUR;
    const size_t rows = value.rows();
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (column < columns) {
        const size_t step = (size_t)gridDim.y * PART_ROWS;
        size_t row = (size_t)blockIdx.y * PART_ROWS + threadIdx.x / WARP;
        for (; row + (PART_EACH - 1) * step < rows; row += PART_EACH * step) {
            typename Value::loaded loaded[PART_EACH];
#pragma unroll
            for (int i = 0; i < PART_EACH; i++) {
                loaded[i] = value.load(row + (size_t)i * step, column);
            }
#pragma unroll
            for (int i = 0; i < PART_EACH; i++) {
                sum = plus(sum, value.take(row + (size_t)i * step, column, loaded[i]));
            }
        }
        for (; row < rows; row += step) {
            sum = plus(sum, value.take(row, column, value.load(row, column)));
        }
    }
    tile[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x < WARP && column < columns) {
        for (int r = 1; r < PART_ROWS; r++) {
            sum = plus(sum, tile[r * WARP + lane]);
        }
        store_four<false>(parts + (size_t)blockIdx.y * columns, column, columns, sum);
    }
}

/* to += the column sums of parts (part_count, columns), by a tree of fixed shape. A block has
 * ENDS_COLUMNS columns: 32 bytes of each part, which the memory moves at once. A thread has parts in
 * strides of ENDS_ROWS. Its loads, also that of what is added to, are under way together. */
__global__ static void column_ends_kernel(const float *parts, size_t part_count, size_t columns,
                                          sums_to to)
{
    SHARED(float, tile);
    const size_t column = (size_t)blockIdx.x * ENDS_COLUMNS + threadIdx.x % ENDS_COLUMNS;
    const size_t there = column < columns ? column : columns - 1;
    const size_t which = (there >= to.width ? 1 : 0) + (there >= 2 * to.width ? 1 : 0);
    float *base = which == 0 ? to.at[0] : which == 1 ? to.at[1] : to.at[2];
    float *at = base != NULL ? base + (there - which * to.width) : NULL;
    const bool adds = threadIdx.x < ENDS_COLUMNS && column < columns && at != NULL;
    const float before = adds ? *at : 0.0f;
    float each[ENDS_EACH];
#pragma unroll
    for (int i = 0; i < ENDS_EACH; i++) {
        const size_t part = threadIdx.x / ENDS_COLUMNS + (size_t)(i * ENDS_ROWS);
        each[i] = part < part_count ? parts[part * columns + there] : 0.0f;
    }
    float sum = (each[0] + each[1]) + (each[2] + each[3]);
    sum = sum + __shfl_xor_sync(0xffffffffu, sum, 2 * ENDS_COLUMNS);
    sum = sum + __shfl_xor_sync(0xffffffffu, sum, ENDS_COLUMNS);
    if (threadIdx.x % WARP < ENDS_COLUMNS) {
        tile[threadIdx.x / WARP * ENDS_COLUMNS + threadIdx.x % WARP] = sum;
    }
    __syncthreads();
    if (threadIdx.x < WARP) { /* the sums of the block's warps, two for each lane */
        sum = tile[threadIdx.x] + tile[WARP + threadIdx.x];
        sum = sum + __shfl_xor_sync(0xffffffffu, sum, 2 * ENDS_COLUMNS);
        sum = sum + __shfl_xor_sync(0xffffffffu, sum, ENDS_COLUMNS);
        if (adds) {
            *at = before + sum;
        }
    }
}

static inline unsigned tiles_of(size_t columns)
{
    return (unsigned)((columns + WARP_COLUMNS - 1) / WARP_COLUMNS);
}

/* How many parts sums of so many columns and rows (at most) are cut into. Depends on these alone. */
static inline unsigned parts_of(size_t rows, size_t columns)
{
    size_t parts = (rows + PART_ROWS - 1) / PART_ROWS;
    const size_t for_blocks = PART_BLOCKS / tiles_of(columns);
    const size_t room = PART_FLOATS / columns;
    parts = parts < PARTS_MAX ? parts : (size_t)PARTS_MAX;
    parts = parts < for_blocks ? parts : for_blocks;
    parts = parts < room ? parts : room;
    return parts > 0 ? (unsigned)parts : 1;
}

/* Whether there is room for the parts of so many columns. */
static inline bool has_parts(size_t columns)
{
    return columns <= PART_FLOATS;
}

/* part_count: at most PARTS_MAX. */
static inline void launch_column_ends(const float *parts, size_t part_count, size_t columns,
                                      sums_to to, cudaStream_t stream)
{
    LAUNCH(column_ends_kernel, (unsigned)((columns + ENDS_COLUMNS - 1) / ENDS_COLUMNS),
           ENDS_THREADS, ENDS_TILE * sizeof(float), stream, parts, part_count, columns, to);
}

/* sums += the column sums of the values of at most `rows` rows. */
template <typename Value>
static void launch_fast_sums(size_t rows, size_t columns, Value value, float *sums, float *parts,
                             cudaStream_t stream)
{
    const unsigned count = parts_of(rows, columns);
    LAUNCH(column_parts_kernel<Value>, dim3(tiles_of(columns), count), PART_THREADS,
           PART_THREADS * sizeof(float4), stream, value, columns, parts);
    launch_column_ends(parts, count, columns, sums_to{{sums, NULL, NULL}, columns}, stream);
}

#endif
