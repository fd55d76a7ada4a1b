/* Sums of columns: each one chain of additions down the rows, as on the CPU. Included by kernels.
 *
 * A block has COLUMNS_TILE columns. All its threads bring a tile of rows into shared memory, and
 * one thread per column adds it up. */
#ifndef RANK_BACKEND_CUDA_KERNELS_COLUMNS_H
#define RANK_BACKEND_CUDA_KERNELS_COLUMNS_H

#include "element.h"

enum {
    COLUMNS_TILE = 32,
    COLUMNS_ROWS = 64, /* rows of a tile */
    COLUMNS_THREADS = 256,
    COLUMNS_SHARED_BYTES = COLUMNS_TILE * COLUMNS_ROWS * (int)sizeof(float),
};

/* For the thread's column of the block (threads from COLUMNS_TILE on have none): sum + the values
 * of rows first … end, in order. value(row, column) is called for columns that exist. */
template <typename Value>
__device__ inline float column_chain(float sum, const Value &value, size_t first, size_t end,
                                     size_t columns, float *tile)
{
    const size_t column_first = (size_t)blockIdx.x * COLUMNS_TILE;
    const size_t mine = column_first + threadIdx.x % COLUMNS_TILE;
    for (size_t row = first; row < end; row += COLUMNS_ROWS) {
        const size_t rows = end - row < COLUMNS_ROWS ? end - row : (size_t)COLUMNS_ROWS;
        for (size_t r = threadIdx.x / COLUMNS_TILE; r < rows; r += COLUMNS_THREADS / COLUMNS_TILE) {
            if (mine < columns) {
                tile[r * COLUMNS_TILE + threadIdx.x % COLUMNS_TILE] = value(row + r, mine);
            }
        }
        __syncthreads();
        if (threadIdx.x < COLUMNS_TILE && mine < columns) {
            for (size_t r = 0; r < rows; r++) {
                sum = sum + tile[r * COLUMNS_TILE + threadIdx.x];
            }
        }
        __syncthreads();
    }
    return sum;
}

/* sums (columns) += the values' columns. One block per COLUMNS_TILE columns. */
template <typename Value>
__global__ void column_sums_kernel(size_t rows, size_t columns, Value value, float *sums)
{
    SHARED(float, tile);
    const size_t column = (size_t)blockIdx.x * COLUMNS_TILE + threadIdx.x;
    const bool mine = threadIdx.x < COLUMNS_TILE && column < columns;
    const float sum =
        column_chain(mine ? sums[column] : 0.0f, value, (size_t)0, rows, columns, tile);
    if (mine) {
        sums[column] = sum;
    }
}

/* The elements of an array with so many from one row to the next. */
template <typename Element = float> struct array_value {
    const Element *from;
    size_t columns;
    __device__ float operator()(size_t row, size_t column) const
    {
        return get(from[row * columns + column]);
    }
};

template <typename Value>
static void launch_column_sums(size_t rows, size_t columns, Value value, float *sums,
                               cudaStream_t stream)
{
    const unsigned blocks = (unsigned)((columns + COLUMNS_TILE - 1) / COLUMNS_TILE);
    LAUNCH(column_sums_kernel<Value>, blocks, COLUMNS_THREADS, COLUMNS_SHARED_BYTES, stream, rows,
           columns, value, sums);
}

#endif
