/* The operations of the CUDA backend: each enqueues its kernels, unless an earlier one failed.
 * Called through cuda.c's table. */
#include "backend/cuda/kernels/kernels.h"
#include "backend/cuda/queue.h"

/* `any`: whether there is something to do. A launch of no blocks would be an error. */
#define OPERATION_ON(name, args_type, any, ...)                                                    \
    void cuda_##name(rank_queue *queue, const args_type *args)                                     \
    {                                                                                              \
        if (queue->failed == BASE_OK && (any)) {                                                   \
            cuda_launch_##name(args, __VA_ARGS__);                                                 \
            (void)cuda_check(queue, cudaGetLastError(), #name);                                    \
        }                                                                                          \
    }
#define OPERATION(name, any, ...) OPERATION_ON(name, rank_##name, any, __VA_ARGS__)

OPERATION(pack, args->depth > 0 && args->columns > 0, queue->stream)
OPERATION(embed, args->tokens > 0, queue->stream)
OPERATION(embed_packed, args->tokens > 0, queue->stream)
OPERATION(embed_grad, args->tokens > 0, queue->stream)
OPERATION(layernorm, args->rows > 0, queue->stream)
OPERATION(layernorm_grad, args->rows > 0, queue->stream)
OPERATION(rmsnorm, args->rows > 0, queue->stream)
OPERATION(add_bias, args->rows > 0 && rank_bias_columns(args) > 0, queue->stream)
OPERATION(rope_table, args->rows > 0, queue->stream)
OPERATION(rope, args->rows > 0, queue->stream)
OPERATION(swiglu, args->rows > 0, queue->stream)
OPERATION(rmsnorm_grad, args->rows > 0, queue->stream)
OPERATION(swiglu_grad, args->rows > 0, queue->stream)
OPERATION(gelu, args->rows > 0, queue->stream)
OPERATION(gelu_grad, args->rows > 0, queue->stream)
OPERATION(cross_entropy, args->rows > 0, queue->partials, queue->stream)
OPERATION(draw, args->rows > 0, queue->partials, CUDA_PARTIALS, queue->stream)
OPERATION(adamw, args->count > 0, queue->stream)
OPERATION(grad_scale, true, queue->stream)
OPERATION(column_sums, args->rows > 0, queue->stream)
OPERATION(add, args->count > 0, queue->stream)
OPERATION(zero_parts, args->count > 0, queue->stream)
OPERATION(cast, args->count > 0, queue->stream)
OPERATION(difference, true, queue->partials, queue->stream)
OPERATION_ON(copy_heads, rank_shared_heads, args->rows > 0, queue->stream)
OPERATION_ON(sum_heads, rank_shared_heads, args->rows > 0, queue->stream)
OPERATION_ON(gather_rows, rank_move_rows, args->count > 0, queue->stream)
OPERATION_ON(spread_rows, rank_move_rows, args->total > 0, queue->stream)

void cuda_sum_squares(rank_queue *queue, const rank_sum_squares *args)
{
    if (args->count == 0) {
        cuda_zero(queue, args->sum, sizeof *args->sum);
    } else if (queue->failed == BASE_OK) {
        cuda_launch_sum_squares(args, queue->partials, queue->stream);
        (void)cuda_check(queue, cudaGetLastError(), "sum_squares");
    }
}

/* A thread has CUDA_HEAD_WIDTH_MAX / threads elements of a head in registers. */
bool cuda_heads_fit(rank_queue *queue, size_t head_width)
{
    if (queue->failed == BASE_OK && head_width > CUDA_HEAD_WIDTH_MAX) {
        cuda_fail(queue, BASE_ERR_UNSUPPORTED, "attention: heads wider than 512");
    }
    return queue->failed == BASE_OK;
}

/* The rows' means, which backward's second kernel gets from the first. */
size_t cuda_attention_scratch(const rank_attention_shape *shape)
{
    return shape->tokens * shape->heads;
}

void cuda_attention(rank_queue *queue, const rank_attention *args)
{
    if (args->rows > 0 && cuda_heads_fit(queue, args->width / args->heads)) {
        cuda_launch_attention(args, queue->stream);
        (void)cuda_check(queue, cudaGetLastError(), "attention");
    }
}

void cuda_attention_grad(rank_queue *queue, const rank_attention *args)
{
    if (args->rows > 0 && cuda_heads_fit(queue, args->width / args->heads)) {
        cuda_launch_attention_grad(args, queue->stream);
        (void)cuda_check(queue, cudaGetLastError(), "attention_grad");
    }
}

/* Scores stay in shared memory. The parts of a sequence that is cut stand in cublasLt's workspace,
 * which no product uses meanwhile. */
size_t cuda_attention_cached_scratch(size_t head_width, size_t length_max)
{
    (void)head_width;
    (void)length_max;
    return 1;
}

void cuda_attention_cached(rank_queue *queue, const rank_attention_cached *args)
{
    const size_t scratch_floats = CUDA_LT_WORKSPACE_BYTES / sizeof(float);
    if (args->sequence_count > 0 && cuda_heads_fit(queue, args->head_width) && args->rows > 0) {
        if (queue->lt != NULL && cuda_can_split(args, scratch_floats)) {
            cuda_launch_attention_split(args, queue->lt_workspace, scratch_floats, queue->counts,
                                        queue->stream);
        } else if (args->cache_type != RANK_FLOAT32) {
            cuda_fail(queue, BASE_ERR_UNSUPPORTED,
                      "attention over a cache in bfloat16: heads are multiples of 8, up to 512");
        } else {
            cuda_launch_attention_cached(args, queue->stream);
        }
        (void)cuda_check(queue, cudaGetLastError(), "attention_cached");
    }
}
