/* Kernels in which ROW_LANES threads work on a row. */
#ifndef RANK_BACKEND_CUDA_KERNELS_ROW_PLACE_H
#define RANK_BACKEND_CUDA_KERNELS_ROW_PLACE_H

#include "device.h"

/* The row of this thread, and its lane. All threads of a warp go through the same calls of
 * sum_lanes, so a thread without a row goes along with row 0, and writes nothing. */
struct row_place {
    size_t row;
    size_t lane;
    bool exists;
};

/* each: rows of a block. */
__device__ static inline row_place my_row(size_t rows, size_t each)
{
    row_place at;
    at.row = (size_t)blockIdx.x * each + threadIdx.x / ROW_LANES;
    at.lane = threadIdx.x % ROW_LANES;
    at.exists = at.row < rows;
    at.row = at.exists ? at.row : 0;
    return at;
}

#endif
