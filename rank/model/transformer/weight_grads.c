/* Backward in two passes: what the first one, backward.c, keeps for the second, and the second itself, which makes
 * the gradients of the blocks. Called by backward.c, and through the families' tables.
 *
 * A matrix's gradient is a product of x, what forward gave to it, and dy, the gradient of what came out. Forward keeps
 * every x but the MLP's activation. dy goes where backward does not need the original any more:
 *
 *     dy of                    takes the place of
 *     the MLP's last matrix    the stream at the layer's end: the next norm's input
 *     attention's projection   the stream behind attention: the second norm's input
 *     queries, keys, values    these
 *
 * Only the MLP's activation and its gradient both need a place: block.active has the one that block.up has not. The gradients
 * of biases and norms are sums that backward makes beside others. They wait in pass.vectors, as the array of
 * gradients belongs to an earlier micro-batch until its second pass has run. */
#include "model/transformer/weight_grads.h"

#include "base/bytes.h"

size_t transformer_count_vectors(const rank_model_config *config)
{
    transformer_layout layout;
    transformer_layout_of(config, &layout);
    size_t count = layout.in_block[BLOCK_TENSORS];
    for (int i = 0; i < BLOCK_TENSORS; i++) {
        count -= transformer_is_matrix(i) ? layout.in_block[i + 1] - layout.in_block[i] : 0;
    }
    return count;
}

/* Where the gradient of a bias or a norm waits. */
static float *kept_vector(const transformer_pass *pass, int layer, int tensor)
{
    const size_t index = (size_t)(layer - pass->run->shape.first_layer);
    size_t place = index * pass->sizes.vectors;
    for (int i = 0; i < tensor; i++) {
        place += transformer_is_matrix(i) ? 0 : transformer_count(pass, i);
    }
    return pass->vectors + place;
}

float *transformer_block_grad(const transformer_pass *pass, int layer, int tensor)
{
    return transformer_count(pass, tensor) == 0 ? NULL
           : pass->sizes.vectors > 0 && !transformer_is_matrix(tensor)
               ? kept_vector(pass, layer, tensor)
               : transformer_grad(pass, transformer_offset(pass, layer, tensor));
}

void transformer_linear_dw(const transformer_pass *pass, int tensor, row_chunk chunk, factor_rows x,
                           factor_rows dy)
{
    const bool turned = pass->layout.transposed;
    const factor_rows *first = turned ? &dy : &x;
    const factor_rows *second = turned ? &x : &dy;
    transformer_multiply_transposed(
        pass, (rank_product){.rows = first->columns,
                             .columns = second->columns,
                             .depth = chunk.rows,
                             .a = first->at,
                             .a_depth = first->row,
                             .b = second->at,
                             .b_row = second->row,
                             .c = transformer_block_grad(pass, pass->layer, tensor),
                             .accumulate = chunk.first > 0});
}

bool transformer_next_rows(const transformer_pass *pass, rank_segments *segments)
{
    const size_t most = pass->backend->rows_at_once;
    if (pass->run->shape.cp == NULL) {
        return rank_next_segments(pass->rows, most, segments) && segments->row_count > 0;
    }
    const size_t first = segments->first_row + segments->row_count;
    const size_t rows = base_min_size(pass->rows->count - first, most);
    *segments = (rank_segments){.first_row = first, .row_count = rows};
    return rows > 0;
}

/* An array of the pass's type, of all rows. */
typedef struct kept_rows {
    void *at;
    size_t columns;
    size_t row; /* elements from one row to the next */
} kept_rows;

/* What forward gave to the current layer's matrix. */
static kept_rows kept_x(const transformer_pass *pass, int tensor)
{
    const transformer_sizes *sizes = &pass->sizes;
    const block_state *block = &pass->block;
    const size_t columns = tensor == DOWN_WEIGHT   ? sizes->hidden
                           : tensor == PROJ_WEIGHT ? sizes->queries
                                                   : sizes->width;
    void *at = tensor == QKV_WEIGHT    ? block->norm1.out
               : tensor == PROJ_WEIGHT ? block->attention
               : tensor == UP_WEIGHT   ? block->norm2.out
               : pass->of.gated        ? block->active
                                       : block->up;
    return (kept_rows){at, columns, columns};
}

/* The stream at the current layer's end; of a stage's last layer the gradient of that, as it was sent. */
static float *stream_behind(const transformer_pass *pass)
{
    return pass->layer + 1 < pass->run->shape.end_layer
               ? transformer_block(pass, pass->layer + 1).norm1.x
           : transformer_is_last_stage(pass) ? pass->norm_final.x
                                             : pass->dout;
}

/* Where the gradient of what came out is kept. */
static kept_rows kept_dy(const transformer_pass *pass, int tensor)
{
    const transformer_sizes *sizes = &pass->sizes;
    const block_state *block = &pass->block;
    return tensor == QKV_WEIGHT    ? (kept_rows){block->qkv, sizes->qkv, sizes->qkv_row}
           : tensor == PROJ_WEIGHT ? (kept_rows){block->norm2.x, sizes->width, sizes->width}
           : tensor == DOWN_WEIGHT ? (kept_rows){stream_behind(pass), sizes->width, sizes->width}
           : pass->of.gated        ? (kept_rows){block->up, sizes->up, sizes->up}
                                   : (kept_rows){block->active, sizes->up, sizes->up};
}

void transformer_keep_dy(const transformer_pass *pass, int tensor, row_chunk chunk, const void *dy)
{
    const kept_rows kept = kept_dy(pass, tensor);
    void *to = transformer_at(pass, kept.at, chunk.first * kept.row);
    if (to != dy) { /* of the MLP's first matrix it is there */
        pass->backend->copy(pass->queue, to, dy,
                            chunk.rows * kept.row * rank_type_bytes(pass->type));
    }
}

static factor_rows rows_of(const transformer_pass *pass, kept_rows kept, row_chunk chunk)
{
    return (factor_rows){.at = transformer_at(pass, kept.at, chunk.first * kept.row),
                         .columns = kept.columns,
                         .row = kept.row};
}

static void make_dw(const transformer_pass *pass, int tensor, row_chunk chunk)
{
    transformer_linear_dw(pass, tensor, chunk, rows_of(pass, kept_x(pass, tensor), chunk),
                          rows_of(pass, kept_dy(pass, tensor), chunk));
}

/* In the chunks of backward: a sum's order is a part of its bits. */
static void grads_above_attention(const transformer_pass *pass)
{
    const size_t end = transformer_rows_behind(pass, pass->layer);
    row_chunk chunk = {.first = 0};
    for (; chunk.first < end; chunk.first += chunk.rows) {
        chunk.rows = base_min_size(end - chunk.first, pass->backend->rows_at_once);
        make_dw(pass, DOWN_WEIGHT, chunk);
        make_dw(pass, UP_WEIGHT, chunk);
        make_dw(pass, PROJ_WEIGHT, chunk);
    }
}

static void grads_below_attention(const transformer_pass *pass)
{
    rank_segments segments = {.count = 0};
    while (transformer_next_rows(pass, &segments)) {
        make_dw(pass, QKV_WEIGHT, (row_chunk){segments.first_row, segments.row_count});
    }
}

static void copy_vectors(const transformer_pass *pass)
{
    for (int i = 0; i < BLOCK_TENSORS; i++) {
        const size_t count = transformer_count(pass, i);
        if (count > 0 && !transformer_is_matrix(i)) {
            pass->backend->copy(pass->queue,
                                transformer_grad(pass, transformer_offset(pass, pass->layer, i)),
                                kept_vector(pass, pass->layer, i), count * sizeof(float));
        }
    }
}

static void layer_grads(const transformer_pass *pass)
{
    const rank_hooks *hooks = pass->run->hooks;
    const size_t offset = transformer_offset(pass, pass->layer, 0);
    const size_t count = pass->layout.in_block[BLOCK_TENSORS];
    if (pass->rows->active_count == 0) { /* there may be no first chunk, which writes */
        transformer_zero_range(pass, offset, count);
    }
    if (transformer_target_count(pass) > 0) {
        grads_above_attention(pass);
        grads_below_attention(pass);
        copy_vectors(pass);
    }
    if (hooks->ready != NULL) {
        hooks->ready(hooks->ready_user, offset, count, pass->backend->mark(pass->queue));
    }
}

void transformer_weight_grads(const rank_run *run, const rank_backward_args *args)
{
    transformer_pass pass;
    transformer_pass_begin(run, args->saved, &pass);
    pass.grads = args->grads;
    pass.held = args->held;
    pass.dout = args->dout;
    for (int layer = run->shape.end_layer - 1; layer >= run->shape.first_layer; layer--) {
        transformer_enter_layer(&pass, layer);
        layer_grads(&pass);
        transformer_leave_layer(&pass);
    }
}
