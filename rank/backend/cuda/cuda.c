/* The tables of the CUDA backends. plugin.c lists them. */
#include "backend/cuda/cuda.h"

#include "backend/cuda/queue.h"

/* A GPU has no near cache that rows could stay in: the more at once, the better. The limit is the
 * memory for a chunk of logits. */
enum { ROWS_AT_ONCE = 8192 };

#define TABLE(table_name, open_queue, plain, cast_operation)                                       \
    {                                                                                              \
        .abi = RANK_BACKEND_ABI, .size_bytes = sizeof(rank_backend), .name = (table_name),         \
        .rows_at_once = ROWS_AT_ONCE, .plain_weights = (plain), .open = (open_queue),              \
        .close = cuda_close, .info = cuda_info, .alloc = cuda_alloc, .release = cuda_release,      \
        .free_bytes = cuda_free_bytes, .adopt = cuda_adopt, .disown = cuda_disown,                 \
        .map = cuda_map, .unmap = cuda_unmap, .copy = cuda_copy, .zero = cuda_zero,                \
        .sync = cuda_sync, .stream = cuda_stream, .mark = cuda_mark, .after = cuda_after,          \
        .capture = cuda_capture, .capture_end = cuda_capture_end, .replay = cuda_replay,           \
        .graph_destroy = cuda_graph_destroy, .pack = cuda_pack, .product = cuda_product,           \
        .embed = cuda_embed, .embed_packed = cuda_embed_packed, .embed_grad = cuda_embed_grad,     \
        .layernorm = cuda_layernorm, .layernorm_grad = cuda_layernorm_grad, .gelu = cuda_gelu,     \
        .gelu_grad = cuda_gelu_grad, .attention_scratch = cuda_attention_scratch,                  \
        .attention = cuda_attention, .attention_grad = cuda_attention_grad,                        \
        .attention_cached_scratch = cuda_attention_cached_scratch,                                 \
        .attention_cached = cuda_attention_cached, .cross_entropy = cuda_cross_entropy,            \
        .best = cuda_best, .gather_rows = cuda_gather_rows, .spread_rows = cuda_spread_rows,       \
        .adamw = cuda_adamw, .sum_squares = cuda_sum_squares, .grad_scale = cuda_grad_scale,       \
        .column_sums = cuda_column_sums, .add = cuda_add, .digest = cuda_digest,                   \
        .difference = cuda_difference, .cast = (cast_operation),                                   \
    }

const rank_backend rank_cuda_backend = TABLE("cuda", cuda_open_fast, true, cuda_cast);
const rank_backend rank_cuda_tf32_backend = TABLE("cuda-tf32", cuda_open_tf32, true, NULL);
const rank_backend rank_cuda_exact_backend = TABLE("cuda-exact", cuda_open_exact, false, NULL);
