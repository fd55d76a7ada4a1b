/* What attention in tiles of both kinds has of its rows: fast_attention.cu and mma_attention.cu. */
#ifndef RANK_BACKEND_CUDA_KERNELS_ATTENTION_ROWS_H
#define RANK_BACKEND_CUDA_KERNELS_ATTENTION_ROWS_H

#include "fast.h"

/* The segment of each row, in rows of this call: cuda_launch_row_bounds leaves it in the
 * scratch. */
struct row_bounds {
    int32_t begin;
    int32_t end;
};

/* A call's scratch: the first token, the rows' bounds, then their means (rows, H) for the backward of
 * mma_attention_grad.cu. */
struct attention_scratch {
    int32_t *first;
    row_bounds *bounds;
    float *means;
};

enum { SCRATCH_HEAD = 4 }; /* floats before the bounds */

static inline size_t attention_scratch_floats(size_t rows, size_t heads)
{
    return SCRATCH_HEAD + (2 + heads) * rows;
}

__device__ inline attention_scratch scratch_of(const rank_attention &args)
{
    attention_scratch scratch;
    scratch.first = reinterpret_cast<int32_t *>(args.scratch);
    scratch.bounds = reinterpret_cast<row_bounds *>(args.scratch + SCRATCH_HEAD);
    scratch.means = args.scratch + SCRATCH_HEAD + 2 * args.rows;
    return scratch;
}

#endif
