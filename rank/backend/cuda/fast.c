/* The operations that the backend `cuda` computes in an order of its own, with the kernels of the
 * fast_*.cu files: each enqueues them, unless an earlier one failed. Called through cuda.c's table.
 * Everything else of that backend is operations.c's. */
#include "backend/cuda/kernels/kernels.h"
#include "backend/cuda/queue.h"

/* `any`: whether there is something to do. A launch of no blocks would be an error. */
#define OPERATION(name, args_type, any, ...)                                                       \
    void cuda_fast_##name(rank_queue *queue, const args_type *args)                                \
    {                                                                                              \
        if (queue->failed == BASE_OK && (any)) {                                                   \
            cuda_launch_fast_##name(args, __VA_ARGS__);                                            \
            (void)cuda_check(queue, cudaGetLastError(), #name);                                    \
        }                                                                                          \
    }

OPERATION(embed, rank_embed, args->tokens > 0, queue->stream)
OPERATION(embed_grad, rank_embed_grad, args->tokens > 0, queue->partials, queue->stream)
OPERATION(layernorm_grad, rank_layernorm_grad, args->rows > 0, queue->partials, queue->stream)
OPERATION(gelu, rank_gelu, args->rows > 0, queue->stream)
OPERATION(gelu_grad, rank_gelu_grad, args->rows > 0, queue->partials, queue->stream)
OPERATION(cross_entropy, rank_cross_entropy, args->rows > 0, queue->partials, queue->stream)
OPERATION(gather_rows, rank_move_rows, args->count > 0, queue->stream)
OPERATION(spread_rows, rank_move_rows, args->total > 0, queue->stream)
OPERATION(column_sums, rank_column_sums, args->rows > 0, queue->partials, queue->stream)

/* Where there are few rows, each has a block. */
void cuda_fast_layernorm(rank_queue *queue, const rank_layernorm *args)
{
    enum { FEW_ROWS = 32 };
    if (queue->failed != BASE_OK || args->rows == 0) {
        return;
    }
    if (args->rows <= FEW_ROWS) {
        cuda_launch_norm_rows(args, queue->stream);
    } else {
        cuda_launch_fast_layernorm(args, queue->stream);
    }
    (void)cuda_check(queue, cudaGetLastError(), "layernorm");
}

void cuda_fast_sum_squares(rank_queue *queue, const rank_sum_squares *args)
{
    if (args->count == 0) {
        cuda_zero(queue, args->sum, sizeof *args->sum);
    } else if (queue->failed == BASE_OK) {
        cuda_launch_fast_sum_squares(args, queue->partials, queue->stream);
        (void)cuda_check(queue, cudaGetLastError(), "sum_squares");
    }
}

/* A table of the rows' segments, and what backward keeps of rows. */
size_t cuda_fast_attention_scratch(const rank_attention_shape *shape)
{
    return cuda_fast_attention_floats(shape);
}

void cuda_fast_attention(rank_queue *queue, const rank_attention *args)
{
    if (args->rows > 0 && cuda_heads_fit(queue, args->width / args->heads)) {
        cuda_launch_fast_attention(args, queue->stream);
        (void)cuda_check(queue, cudaGetLastError(), "attention");
    }
}

void cuda_fast_attention_grad(rank_queue *queue, const rank_attention *args)
{
    if (args->rows > 0 && cuda_heads_fit(queue, args->width / args->heads)) {
        cuda_launch_fast_attention_grad(args, queue->partials, queue->stream);
        (void)cuda_check(queue, cudaGetLastError(), "attention_grad");
    }
}
