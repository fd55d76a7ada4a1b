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
OPERATION(layernorm, rank_layernorm, args->rows > 0, queue->stream)
OPERATION(layernorm_grad, rank_layernorm_grad, args->rows > 0, queue->partials, queue->stream)
OPERATION(gelu, rank_gelu, args->rows > 0, queue->stream)
OPERATION(gelu_grad, rank_gelu_grad, args->rows > 0, queue->partials, queue->stream)
OPERATION(cross_entropy, rank_cross_entropy, args->rows > 0, queue->partials, queue->stream)
OPERATION(gather_rows, rank_move_rows, args->count > 0, queue->stream)
OPERATION(spread_rows, rank_move_rows, args->total > 0, queue->stream)
OPERATION(column_sums, rank_column_sums, args->rows > 0, queue->partials, queue->stream)

void cuda_fast_sum_squares(rank_queue *queue, const rank_sum_squares *args)
{
    if (args->count == 0) {
        cuda_zero(queue, args->sum, sizeof *args->sum);
    } else if (queue->failed == BASE_OK) {
        cuda_launch_fast_sum_squares(args, queue->partials, queue->stream);
        (void)cuda_check(queue, cudaGetLastError(), "sum_squares");
    }
}
