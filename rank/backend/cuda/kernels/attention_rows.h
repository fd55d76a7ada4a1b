/* What attention in tiles of both kinds has of its rows: fast_attention.cu and mma_attention.cu. */
#ifndef RANK_BACKEND_CUDA_KERNELS_ATTENTION_ROWS_H
#define RANK_BACKEND_CUDA_KERNELS_ATTENTION_ROWS_H

#include "fast.h"

/* The segment of each row, in rows of this call: cuda_launch_row_bounds leaves it in the
 * scratch, where it stays for calls with the same segments. */
struct row_bounds {
    int32_t begin;
    int32_t end;
};

/* A call's scratch: the first token, the rows' bounds, then two floats for each row and head, and two
 * factors in bfloat16 for each of its elements. The last two are for the backward of
 * mma_attention_grad.cu, which explains what it keeps there. */
struct attention_scratch {
    int32_t *first;
    row_bounds *bounds;
    float *means;
    float *factors; /* at a multiple of 16 bytes */
};

enum {
    SCRATCH_HEAD = 4,   /* floats before the bounds */
    MMA_WIDTH_MAX = 64, /* of heads on tensor cores; wider ones have no factors */
};

static inline size_t attention_scratch_floats(const rank_attention_shape *shape)
{
    const size_t even_rows = shape->tokens + shape->tokens % 2;
    const size_t factors =
        shape->head_width <= MMA_WIDTH_MAX ? shape->heads * shape->head_width : 0;
    return SCRATCH_HEAD + 2 * (1 + shape->heads) * even_rows + factors * shape->tokens;
}

__device__ inline attention_scratch scratch_of(const rank_attention &args)
{
    attention_scratch scratch;
    const size_t even_rows = args.rows + args.rows % 2;
    scratch.first = reinterpret_cast<int32_t *>(args.scratch);
    scratch.bounds = reinterpret_cast<row_bounds *>(args.scratch + SCRATCH_HEAD);
    scratch.means = args.scratch + SCRATCH_HEAD + 2 * even_rows;
    scratch.factors = scratch.means + 2 * even_rows * args.heads;
    return scratch;
}

#endif
