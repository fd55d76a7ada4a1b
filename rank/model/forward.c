#include <string.h>

#include "model/state.h"

static void embed(rank_model *model)
{
    const rank_batch *batch = model->batch;
    for (int s = 0; s < batch->segment_count; s++) {
        for (int32_t t = batch->segment_start[s]; t < batch->segment_start[s + 1]; t++) {
            model->positions[t] = t - batch->segment_start[s];
        }
    }
    model->kernels->embed(&(rank_embed){
        .tokens = model->tokens,
        .width = (size_t)model->config.width,
        .ids = batch->ids,
        .positions = model->positions,
        .wte = model->params + model->layout.wte,
        .wpe = model->params + model->layout.wpe,
        .out = model->blocks[0].norm1.x,
    });
    rank_profile_book(model->profile, RANK_PART_EMBED);
}

/* y (rows, columns) = x (rows, depth) · W, W a block's tensor of shape (depth, columns). */
static base_status linear(rank_model *model, int layer, int tensor, rank_matmul product,
                          base_error *reterr)
{
    product.b = model->params + rank_block_offset(model, layer, tensor);
    const base_status status = rank_matmul_nn(&product, reterr);
    rank_profile_book(model->profile, RANK_PART_MATMUL_FORWARD);
    return status;
}

static void attention(rank_model *model, int layer)
{
    block_state *block = &model->blocks[layer];
    model->kernels->attention(&(rank_attention){
        .width = (size_t)model->config.width,
        .heads = (size_t)model->config.heads,
        .segment_count = (size_t)model->batch->segment_count,
        .segment_start = model->batch->segment_start,
        .segment_max = rank_segment_max(model),
        .qkv = block->qkv,
        .bias = model->params + rank_block_offset(model, layer, QKV_BIAS),
        .out = block->attention,
        .row_max = block->row_max,
        .row_scale = block->row_scale,
        .scratch = model->attention_scratch,
    });
    rank_profile_book(model->profile, RANK_PART_ATTENTION);
}

/* Moves the active rows together; they ascend, so each moves down or stays. */
static void keep_active_rows(const rank_model *model, float *rows)
{
    const size_t width = (size_t)model->config.width;
    if (model->active_count == model->tokens) {
        return;
    }
    for (size_t i = 0; i < model->active_count; i++) {
        memmove(rows + i * width, rows + (size_t)model->active[i] * width, width * sizeof *rows);
    }
}

/* state->x becomes the residual stream, state->out its layer norm; args has the residual and the
 * parameters. */
static void norm(rank_model *model, size_t rows, const norm_state *state, rank_layernorm args)
{
    args.rows = rows;
    args.width = (size_t)model->config.width;
    args.x = state->x;
    args.out = state->out;
    args.mean = state->mean;
    args.rstd = state->rstd;
    model->kernels->layernorm(&args);
    rank_profile_book(model->profile, RANK_PART_LAYERNORM);
}

/* The first layer norm: of the embeddings, or of the block below's output, which is still without
 * its bias and residual. */
static void norm_first(rank_model *model, int layer)
{
    const float *params = model->params;
    rank_layernorm args = {.weight = params + rank_block_offset(model, layer, LN1_WEIGHT),
                           .bias = params + rank_block_offset(model, layer, LN1_BIAS)};
    if (layer > 0) {
        args.residual = model->blocks[layer - 1].norm2.x;
        args.residual_bias = params + rank_block_offset(model, layer - 1, DOWN_BIAS);
    }
    norm(model, model->tokens, &model->blocks[layer].norm1, args);
}

static void gelu(rank_model *model, int layer, size_t rows)
{
    model->kernels->gelu(&(rank_gelu){
        .rows = rows,
        .width = WIDENING * (size_t)model->config.width,
        .bias = model->params + rank_block_offset(model, layer, UP_BIAS),
        .x = model->blocks[layer].up,
        .out = model->wide,
    });
    rank_profile_book(model->profile, RANK_PART_GELU);
}

/* From attention to the block's output, which goes to `out` without bias and residual. */
static base_status finish_block(rank_model *model, int layer, float *out, base_error *reterr)
{
    block_state *block = &model->blocks[layer];
    const size_t width = (size_t)model->config.width;
    const int last = layer == model->config.layers - 1;
    const int some = last && model->active_count < model->tokens;
    const size_t rows = some ? model->active_count : model->tokens;
    if (some) {
        keep_active_rows(model, block->attention);
    }
    base_status status = linear(
        model, layer, PROJ_WEIGHT,
        (rank_matmul){rows, width, width, .a = block->attention, .c = block->norm2.x}, reterr);
    if (status != BASE_OK) {
        return status;
    }
    norm(model, rows, &block->norm2,
         (rank_layernorm){.residual = block->norm1.x,
                          .residual_rows = some ? model->active : NULL,
                          .residual_bias =
                              model->params + rank_block_offset(model, layer, PROJ_BIAS),
                          .weight = model->params + rank_block_offset(model, layer, LN2_WEIGHT),
                          .bias = model->params + rank_block_offset(model, layer, LN2_BIAS)});
    status =
        linear(model, layer, UP_WEIGHT,
               (rank_matmul){rows, WIDENING * width, width, .a = block->norm2.out, .c = block->up},
               reterr);
    if (status != BASE_OK) {
        return status;
    }
    gelu(model, layer, rows);
    return linear(model, layer, DOWN_WEIGHT,
                  (rank_matmul){rows, width, WIDENING * width, .a = model->wide, .c = out}, reterr);
}

static base_status forward_block(rank_model *model, int layer, base_error *reterr)
{
    block_state *block = &model->blocks[layer];
    const size_t width = (size_t)model->config.width;
    const int last = layer == model->config.layers - 1;
    norm_first(model, layer);
    base_status status = linear(
        model, layer, QKV_WEIGHT,
        (rank_matmul){model->tokens, 3 * width, width, .a = block->norm1.out, .c = block->qkv},
        reterr);
    if (status != BASE_OK) {
        return status;
    }
    attention(model, layer);
    float *out = last ? model->norm_final.x : model->blocks[layer + 1].norm1.x;
    return finish_block(model, layer, out, reterr);
}

base_status rank_forward_blocks(rank_model *model, base_error *reterr)
{
    embed(model);
    for (int layer = 0; layer < model->config.layers; layer++) {
        const base_status status = forward_block(model, layer, reterr);
        if (status != BASE_OK) {
            return status;
        }
    }
    const int last = model->config.layers - 1;
    norm(
        model, model->active_count, &model->norm_final,
        (rank_layernorm){.residual = model->blocks[last].norm2.x,
                         .residual_bias = model->params + rank_block_offset(model, last, DOWN_BIAS),
                         .weight = model->params + model->layout.final_weight,
                         .bias = model->params + model->layout.final_bias});
    return BASE_OK;
}
