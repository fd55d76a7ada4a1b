/* Backward in two passes: what the first one, backward.c, keeps for the second, and the second itself, which makes
 * the gradients of the blocks. Called by backward.c, and through the families' tables.
 *
 * A weight's gradient is a product of what forward gave to it and the gradient of what came out. The factors
 * that backward overwrites are kept where their originals are not needed any more:
 *
 *     gradient of                              takes the place of
 *     the stream at a layer's end              the stream there: the next norm's input
 *     the stream behind attention              the stream there: the second norm's input
 *     q, k and v                               q, k and v
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

/* Where the gradient of the current layer's output is kept. NULL: the stage behind has sent it, and it stays there. */
static float *output_grad(const transformer_pass *pass)
{
    if (pass->layer + 1 < pass->run->shape.end_layer) {
        return transformer_block(pass, pass->layer + 1).norm1.x;
    }
    return transformer_is_last_stage(pass) ? pass->norm_final.x : NULL;
}

static void keep(const transformer_pass *pass, void *to, const void *from, size_t size_bytes)
{
    if (pass->run->shape.split && to != NULL) {
        pass->backend->copy(pass->queue, to, from, size_bytes);
    }
}

void transformer_keep_output_grad(const transformer_pass *pass)
{
    const size_t rows = transformer_rows_behind(pass, pass->layer);
    keep(pass, output_grad(pass), pass->dx, rows * pass->width * sizeof *pass->dx);
}

void transformer_keep_middle_grad(const transformer_pass *pass, row_chunk chunk)
{
    const size_t at = chunk.first * pass->width;
    keep(pass, pass->block.norm2.x + at, pass->dx + at,
         chunk.rows * pass->width * sizeof *pass->dx);
}

void transformer_keep_dqkv(const transformer_pass *pass, row_chunk chunk)
{
    const size_t row = pass->sizes.qkv_row;
    keep(pass, transformer_at(pass, pass->block.qkv, chunk.first * row), pass->wide,
         chunk.rows * row * rank_type_bytes(pass->type));
}

/* The chunk's rows of an array of the pass's type. */
static factor_rows rows_of(const transformer_pass *pass, const void *array, row_chunk chunk,
                           size_t columns)
{
    const size_t row_bytes = columns * rank_type_bytes(pass->type);
    return (factor_rows){.at = (const char *)array + chunk.first * row_bytes, .columns = columns};
}

/* Of what is above attention, from the gradient of the block's output. */
static void grads_above_attention(const transformer_pass *pass, const float *dout)
{
    const transformer_sizes *sizes = &pass->sizes;
    const block_state *block = &pass->block;
    const size_t width = pass->width;
    const size_t end = transformer_rows_behind(pass, pass->layer);
    row_chunk chunk = {.first = 0};
    for (; chunk.first < end; chunk.first += chunk.rows) {
        chunk.rows = base_min_size(end - chunk.first, pass->backend->rows_at_once);
        const factor_rows up = rows_of(pass, block->up, chunk, sizes->up);
        const factor_rows active = rows_of(pass, block->active, chunk, sizes->hidden);
        transformer_linear_dw(pass, DOWN_WEIGHT, chunk, pass->of.gated ? active : up,
                              rows_of(pass, dout, chunk, width));
        transformer_linear_dw(pass, UP_WEIGHT, chunk, rows_of(pass, block->norm2.out, chunk, width),
                              pass->of.gated ? up : active);
        transformer_linear_dw(pass, PROJ_WEIGHT, chunk,
                              rows_of(pass, block->attention, chunk, sizes->queries),
                              rows_of(pass, block->norm2.x, chunk, width));
    }
}

/* In the chunks of backward: a sum's order is a part of its bits. */
static void grads_below_attention(const transformer_pass *pass)
{
    const size_t most = pass->backend->rows_at_once;
    const size_t row = pass->sizes.qkv_row;
    rank_segments segments = {.count = 0};
    while (rank_next_segments(pass->rows, most, &segments)) {
        const row_chunk chunk = {segments.first_row, segments.row_count};
        const factor_rows dqkv = {
            .at = transformer_at(pass, pass->block.qkv, chunk.first * row),
            .columns = pass->sizes.qkv,
            .row = row,
        };
        if (chunk.rows > 0) {
            transformer_linear_dw(pass, QKV_WEIGHT, chunk,
                                  rows_of(pass, pass->block.norm1.out, chunk, pass->width), dqkv);
        }
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

static void layer_grads(const transformer_pass *pass, const rank_backward_args *args)
{
    const rank_hooks *hooks = pass->run->hooks;
    const size_t offset = transformer_offset(pass, pass->layer, 0);
    const size_t count = pass->layout.in_block[BLOCK_TENSORS];
    const float *kept = output_grad(pass);
    if (pass->rows->target_count == 0) {
        transformer_zero_range(pass, offset, count);
    } else {
        grads_above_attention(pass, kept != NULL ? kept : args->dout);
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
    for (int layer = run->shape.end_layer - 1; layer >= run->shape.first_layer; layer--) {
        transformer_enter_layer(&pass, layer);
        layer_grads(&pass, args);
        transformer_leave_layer(&pass);
    }
}
