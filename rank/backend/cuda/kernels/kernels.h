/* The launchers of the CUDA kernels: one function for each operation of backend/operations.h, which enqueues
 * its kernels on a stream. Called by operations.c and product.c; the kernels are in the .cu files
 * of this directory.
 *
 * Shapes are at least 1. A launcher reports no error: cudaGetLastError has it. */
#ifndef RANK_BACKEND_CUDA_KERNELS_KERNELS_H
#define RANK_BACKEND_CUDA_KERNELS_KERNELS_H

#include <cuda_runtime_api.h>

#include "backend/operations.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    CUDA_PARTIALS = 1 << 18, /* doubles of scratch that some launchers get */
    CUDA_COUNTS = 1 << 14,   /* of blocks that have ended; zeros between kernels */
    CUDA_SCRATCH_BYTES = CUDA_PARTIALS * sizeof(double) + CUDA_COUNTS * sizeof(unsigned),
    CUDA_HEAD_WIDTH_MAX = 512, /* of attention */
    CUDA_FEW_ROWS = 8,         /* of a product that is a matrix times a few vectors */
};

void cuda_launch_pack(const rank_pack *args, cudaStream_t stream);
/* The canonical order, with any number of leaves. */
void cuda_launch_product(const rank_product *args, cudaStream_t stream);
/* At most CUDA_FEW_ROWS rows whose elements lie side by side, b transposed, and neither leaves nor
 * accumulate. The order of a sum follows from depth alone. */
void cuda_launch_few_rows(const rank_product *args, cudaStream_t stream);
void cuda_launch_embed(const rank_embed *args, cudaStream_t stream);
void cuda_launch_embed_packed(const rank_embed_packed *args, cudaStream_t stream);
void cuda_launch_embed_grad(const rank_embed_grad *args, cudaStream_t stream);
void cuda_launch_layernorm(const rank_layernorm *args, cudaStream_t stream);
/* The same in an order of its own: a block for each row. */
void cuda_launch_norm_rows(const rank_layernorm *args, cudaStream_t stream);
void cuda_launch_layernorm_grad(const rank_layernorm_grad *args, cudaStream_t stream);
void cuda_launch_rmsnorm(const rank_rmsnorm *args, cudaStream_t stream);
void cuda_launch_add_bias(const rank_add_bias *args, cudaStream_t stream);
void cuda_launch_rope_table(const rank_rope_table *args, cudaStream_t stream);
void cuda_launch_rope(const rank_rope *args, cudaStream_t stream);
void cuda_launch_swiglu(const rank_swiglu *args, cudaStream_t stream);
void cuda_launch_rmsnorm_grad(const rank_rmsnorm_grad *args, cudaStream_t stream);
void cuda_launch_copy_heads(const rank_shared_heads *args, cudaStream_t stream);
void cuda_launch_sum_heads(const rank_shared_heads *args, cudaStream_t stream);
void cuda_launch_swiglu_grad(const rank_swiglu_grad *args, cudaStream_t stream);
void cuda_launch_gelu(const rank_gelu *args, cudaStream_t stream);
void cuda_launch_gelu_grad(const rank_gelu_grad *args, cudaStream_t stream);
void cuda_launch_attention(const rank_attention *args, cudaStream_t stream);
void cuda_launch_attention_grad(const rank_attention *args, cudaStream_t stream);
void cuda_launch_attention_cached(const rank_attention_cached *args, cudaStream_t stream);
/* Whether the fast one takes these shapes: blocks of 4, 8, 16, 32 or 64 tokens, heads of whole
 * vectors. It cuts sequences into parts, whose results stand in the scratch. */
bool cuda_can_split(const rank_attention_cached *args, size_t scratch_floats);
void cuda_launch_attention_split(const rank_attention_cached *args, float *scratch,
                                 size_t scratch_floats, unsigned *counts, cudaStream_t stream);
void cuda_launch_cross_entropy(const rank_cross_entropy *args, double *partials,
                               cudaStream_t stream);
void cuda_launch_draw(const rank_draw *args, double *partials, size_t partials_count,
                      cudaStream_t stream);
/* The part of it for rows that keep their best: cuda_launch_draw calls it. */
void cuda_launch_keep(const rank_draw *args, cudaStream_t stream);
void cuda_launch_gather_rows(const rank_move_rows *args, cudaStream_t stream);
void cuda_launch_spread_rows(const rank_move_rows *args, cudaStream_t stream);
void cuda_launch_adamw(const rank_adamw *args, cudaStream_t stream);
void cuda_launch_sum_squares(const rank_sum_squares *args, double *partials, cudaStream_t stream);
void cuda_launch_grad_scale(const rank_grad_scale *args, cudaStream_t stream);
void cuda_launch_column_sums(const rank_column_sums *args, cudaStream_t stream);
void cuda_launch_add(const rank_add *args, cudaStream_t stream);
void cuda_launch_zero_parts(const rank_zero_parts *args, cudaStream_t stream);
void cuda_launch_cast(const rank_cast *args, cudaStream_t stream);
void cuda_launch_difference(const rank_difference *args, double *partials, cudaStream_t stream);

/* Those of the backend `cuda`, in orders of their own: the fast_*.cu files. */
void cuda_launch_fast_embed(const rank_embed *args, cudaStream_t stream);
void cuda_launch_fast_embed_grad(const rank_embed_grad *args, double *partials,
                                 cudaStream_t stream);
void cuda_launch_fast_layernorm(const rank_layernorm *args, cudaStream_t stream);
void cuda_launch_fast_layernorm_grad(const rank_layernorm_grad *args, double *partials,
                                     cudaStream_t stream);
void cuda_launch_fast_gelu(const rank_gelu *args, cudaStream_t stream);
void cuda_launch_fast_gelu_grad(const rank_gelu_grad *args, double *partials, cudaStream_t stream);
/* Floats of scratch for attention. */
size_t cuda_fast_attention_floats(const rank_attention_shape *shape);
void cuda_launch_fast_attention(const rank_attention *args, cudaStream_t stream);
void cuda_launch_fast_attention_grad(const rank_attention *args, double *partials,
                                     cudaStream_t stream);
/* The table of the rows' segments, for both kinds of attention in tiles. */
void cuda_launch_row_bounds(const rank_attention *args, cudaStream_t stream);
/* Attention on tensor cores, for bfloat16: heads of a multiple of 8 up to 64, arrays at multiples of
 * 16 bytes. fast_attention.cu calls them, after it has made the table of the rows' segments. */
bool cuda_can_mma_attention(const rank_attention *args);
void cuda_launch_mma_attention(const rank_attention *args, cudaStream_t stream);
void cuda_launch_mma_attention_grad(const rank_attention *args, cudaStream_t stream);
void cuda_launch_fast_cross_entropy(const rank_cross_entropy *args, double *partials,
                                    cudaStream_t stream);
void cuda_launch_fast_gather_rows(const rank_move_rows *args, cudaStream_t stream);
void cuda_launch_fast_spread_rows(const rank_move_rows *args, cudaStream_t stream);
void cuda_launch_fast_sum_squares(const rank_sum_squares *args, double *partials,
                                  cudaStream_t stream);
void cuda_launch_fast_column_sums(const rank_column_sums *args, double *partials,
                                  cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
