/* The tables of the CUDA backends. plugin.c lists them. */
#include "backend/cuda/cuda.h"

#include "backend/cuda/kernels/kernels.h"
#include "backend/cuda/queue.h"

/* A GPU has no near cache that rows could stay in: the more at once, the better, also for how evenly
 * a product's tiles are shared out. The limit is the memory for a chunk of the MLP. */
enum { ROWS_AT_ONCE = 16384 };

/* What a queue takes of the device's memory (queue_bytes). */
enum {
    EXACT_BYTES = CUDA_SCRATCH_BYTES,
    FAST_BYTES = EXACT_BYTES + CUDA_LT_WORKSPACE_BYTES,
};

/* The operations of which there are two: with the CPU's order of sums, and with a fast one. */
#define ORDERED(prefix)                                                                            \
    .embed = prefix##_embed, .embed_grad = prefix##_embed_grad, .layernorm = prefix##_layernorm,   \
    .layernorm_grad = prefix##_layernorm_grad, .gelu = prefix##_gelu,                              \
    .attention_scratch = prefix##_attention_scratch, .attention = prefix##_attention,              \
    .attention_grad = prefix##_attention_grad, .gelu_grad = prefix##_gelu_grad,                    \
    .cross_entropy = prefix##_cross_entropy, .gather_rows = prefix##_gather_rows,                  \
    .spread_rows = prefix##_spread_rows, .sum_squares = prefix##_sum_squares,                      \
    .column_sums = prefix##_column_sums

/* `plain`: of the backends with fast kernels, whose gradient of attention reads its output. */
#define TABLE(table_name, open_queue, plain, own_bytes, prefix, cast_operation)                    \
    {                                                                                              \
        .name = (table_name), .rows_at_once = ROWS_AT_ONCE, .plain_weights = (plain),              \
        .product_gelu = (plain), .open = (open_queue), .close = cuda_close, .info = cuda_info,     \
        .alloc = cuda_alloc, .release = cuda_release, .free_bytes = cuda_free_bytes,               \
        .memory_peak = cuda_memory_peak, .queue_bytes = (own_bytes),                               \
        .attention_grad_reads_out = (plain), .adopt = cuda_adopt, .disown = cuda_disown,           \
        .map = cuda_map, .unmap = cuda_unmap, .copy = cuda_copy, .zero = cuda_zero,                \
        .sync = cuda_sync, .set_waiter = cuda_set_waiter, .stream = cuda_stream,                   \
        .mark = cuda_mark, .after = cuda_after, .capture = cuda_capture,                           \
        .capture_end = cuda_capture_end, .replay = cuda_replay, .signal_open = cuda_signal_open,   \
        .signal_close = cuda_signal_close, .signal_set = cuda_signal_set,                          \
        .signal_await = cuda_signal_await, .signal_elapsed_ns = cuda_signal_elapsed_ns,            \
        .graph_destroy = cuda_graph_destroy, .pack = cuda_pack, .product = cuda_product,           \
        .embed_packed = cuda_embed_packed, .rmsnorm = cuda_rmsnorm, .rope_table = cuda_rope_table, \
        .rope = cuda_rope, .swiglu = cuda_swiglu, .rmsnorm_grad = cuda_rmsnorm_grad,               \
        .copy_heads = cuda_copy_heads, .sum_heads = cuda_sum_heads, .add_bias = cuda_add_bias,     \
        .swiglu_grad = cuda_swiglu_grad,                                                           \
        .attention_cached_scratch = cuda_attention_cached_scratch,                                 \
        .attention_cached = cuda_attention_cached, .draw = cuda_draw, .adamw = cuda_adamw,         \
        .grad_scale = cuda_grad_scale, .add = cuda_add, .zero_parts = cuda_zero_parts,             \
        .digest = cuda_digest, .difference = cuda_difference, .cast = (cast_operation),            \
        ORDERED(prefix),                                                                           \
    }

const rank_backend rank_cuda_backend =
    TABLE("cuda", cuda_open_fast, true, FAST_BYTES, cuda_fast, cuda_cast);
const rank_backend rank_cuda_tf32_backend =
    TABLE("cuda-tf32", cuda_open_tf32, true, FAST_BYTES, cuda_fast, NULL);
const rank_backend rank_cuda_exact_backend =
    TABLE("cuda-exact", cuda_open_exact, false, EXACT_BYTES, cuda, NULL);
