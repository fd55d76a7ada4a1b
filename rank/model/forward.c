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

static row_chunk chunk_at(size_t first, size_t end)
{
    const size_t left = end - first;
    return (row_chunk){first, left < ROW_CHUNK ? left : ROW_CHUNK};
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

/* The attention of some whole segments, whose rows of qkv are there. */
static void attention(rank_model *model, int layer, segment_chunk segments)
{
    block_state *block = &model->blocks[layer];
    model->kernels->attention(&(rank_attention){
        .width = (size_t)model->config.width,
        .heads = (size_t)model->config.heads,
        .segment_count = segments.count,
        .segment_start = model->batch->segment_start + segments.first,
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

/* The chunk's rows of state->x become the residual stream, those of state->out its layer norm; args
 * has the residual (of row 0) and the parameters. */
static void norm(rank_model *model, row_chunk chunk, const norm_state *state, rank_layernorm args)
{
    const size_t width = (size_t)model->config.width;
    args.rows = chunk.rows;
    args.width = width;
    args.x = state->x + chunk.first * width;
    args.out = state->out + chunk.first * width;
    args.mean = state->mean + chunk.first;
    args.rstd = state->rstd + chunk.first;
    if (args.residual_rows != NULL) {
        args.residual_rows += chunk.first;
    } else if (args.residual != NULL) {
        args.residual += chunk.first * width;
    }
    model->kernels->layernorm(&args);
    rank_profile_book(model->profile, RANK_PART_LAYERNORM);
}

/* The first layer norm: of the embeddings, or of the block below's output, which is still without
 * its bias and residual. */
static void norm_first(rank_model *model, int layer, row_chunk chunk)
{
    const float *params = model->params;
    rank_layernorm args = {.weight = params + rank_block_offset(model, layer, LN1_WEIGHT),
                           .bias = params + rank_block_offset(model, layer, LN1_BIAS)};
    if (layer > 0) {
        args.residual = model->blocks[layer - 1].norm2.x;
        args.residual_bias = params + rank_block_offset(model, layer - 1, DOWN_BIAS);
    }
    norm(model, chunk, &model->blocks[layer].norm1, args);
}

static void norm_second(rank_model *model, int layer, row_chunk chunk, const int32_t *rows)
{
    const float *params = model->params;
    norm(model, chunk, &model->blocks[layer].norm2,
         (rank_layernorm){.residual = model->blocks[layer].norm1.x,
                          .residual_rows = rows,
                          .residual_bias = params + rank_block_offset(model, layer, PROJ_BIAS),
                          .weight = params + rank_block_offset(model, layer, LN2_WEIGHT),
                          .bias = params + rank_block_offset(model, layer, LN2_BIAS)});
}

static void gelu(rank_model *model, int layer, row_chunk chunk)
{
    const size_t width = WIDENING * (size_t)model->config.width;
    model->kernels->gelu(&(rank_gelu){
        .rows = chunk.rows,
        .width = width,
        .bias = model->params + rank_block_offset(model, layer, UP_BIAS),
        .x = model->blocks[layer].up + chunk.first * width,
        .out = model->wide,
    });
    rank_profile_book(model->profile, RANK_PART_GELU);
}

/* What follows attention, for some rows. The block's output goes to `out` without bias and
 * residual. `rows` are the numbers of all its rows in the stream before, NULL if they are the same.
 */
static base_status finish_rows(rank_model *model, int layer, row_chunk chunk, const int32_t *rows,
                               float *out, base_error *reterr)
{
    const block_state *block = &model->blocks[layer];
    const size_t width = (size_t)model->config.width;
    const size_t at = chunk.first * width;
    base_status status = linear(model, layer, PROJ_WEIGHT,
                                (rank_matmul){.rows = chunk.rows,
                                              .columns = width,
                                              .depth = width,
                                              .a = block->attention + at,
                                              .c = block->norm2.x + at},
                                reterr);
    if (status != BASE_OK) {
        return status;
    }
    norm_second(model, layer, chunk, rows);
    status = linear(model, layer, UP_WEIGHT,
                    (rank_matmul){.rows = chunk.rows,
                                  .columns = WIDENING * width,
                                  .depth = width,
                                  .a = block->norm2.out + at,
                                  .c = block->up + WIDENING * at},
                    reterr);
    if (status != BASE_OK) {
        return status;
    }
    gelu(model, layer, chunk);
    return linear(model, layer, DOWN_WEIGHT,
                  (rank_matmul){.rows = chunk.rows,
                                .columns = width,
                                .depth = WIDENING * width,
                                .a = model->wide,
                                .c = out + at},
                  reterr);
}

/* From a block's input to its attention. */
static base_status attend(rank_model *model, int layer, base_error *reterr)
{
    const block_state *block = &model->blocks[layer];
    const size_t width = (size_t)model->config.width;
    segment_chunk segments = {.count = 0};
    while (rank_next_segments(model, &segments)) {
        const size_t at = segments.rows.first * width;
        norm_first(model, layer, segments.rows);
        const base_status status = linear(model, layer, QKV_WEIGHT,
                                          (rank_matmul){.rows = segments.rows.rows,
                                                        .columns = 3 * width,
                                                        .depth = width,
                                                        .a = block->norm1.out + at,
                                                        .c = block->qkv + 3 * at},
                                          reterr);
        if (status != BASE_OK) {
            return status;
        }
        attention(model, layer, segments);
    }
    return BASE_OK;
}

static base_status forward_block(rank_model *model, int layer, base_error *reterr)
{
    const block_state *block = &model->blocks[layer];
    const int last = layer == model->config.layers - 1;
    const int some = last && model->active_count < model->tokens;
    const size_t end = some ? model->active_count : model->tokens;
    float *out = last ? model->norm_final.x : model->blocks[layer + 1].norm1.x;
    base_status status = attend(model, layer, reterr);
    if (status != BASE_OK) {
        return status;
    }
    if (some) {
        keep_active_rows(model, block->attention);
    }
    for (size_t first = 0; first < end && status == BASE_OK; first += ROW_CHUNK) {
        status = finish_rows(model, layer, chunk_at(first, end), some ? model->active : NULL, out,
                             reterr);
    }
    return status;
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
        model, (row_chunk){0, model->active_count}, &model->norm_final,
        (rank_layernorm){.residual = model->blocks[last].norm2.x,
                         .residual_bias = model->params + rank_block_offset(model, last, DOWN_BIAS),
                         .weight = model->params + model->layout.final_weight,
                         .bias = model->params + model->layout.final_bias});
    return BASE_OK;
}
