/* Forward over the layers of a run, for training and evaluation. Decoding has decode.c. Called
 * through the families' tables. */
#include "model/transformer/pass.h"

/* Makes the first stage's stream: token embeddings, and those of positions if there are any. */
static void embed(const transformer_pass *pass)
{
    const transformer_layout *layout = &pass->layout;
    const size_t wte_count = layout->wpe - layout->wte;
    const size_t wpe_count = layout->block - layout->wpe;
    const rank_tp *tp = pass->run->shape.tp;
    float *out = transformer_block(pass, 0).norm1.x;
    pass->backend->embed(
        pass->queue,
        &(rank_embed){
            .tokens = pass->rows->count,
            .width = pass->width,
            .ids = pass->rows->ids,
            .positions = pass->rows->positions,
            .wte = transformer_need(pass, layout->wte, wte_count),
            .wpe = wpe_count > 0 ? transformer_need(pass, layout->wpe, wpe_count) : NULL,
            .out = out,
            .first_id = tp != NULL ? tp->vocab_first : 0,
            .id_count = tp != NULL ? tp->vocab_count : 0,
        });
    transformer_sum_over_ranks(pass, out, pass->rows->count * pass->width);
    transformer_done(pass, layout->wte, wte_count + wpe_count);
    transformer_scale_embedding(pass, out);
    (void)transformer_drop(pass, (transformer_site){DROP_EMBEDDING, 0},
                           (row_chunk){0, pass->rows->count}, NULL, out);
}

static row_chunk chunk_at(const transformer_pass *pass, size_t first, size_t end)
{
    const size_t left = end - first;
    const size_t most = pass->backend->rows_at_once;
    return (row_chunk){first, left < most ? left : most};
}

/* The layer's tensor of shape (depth, columns), for products with rows of activations. */
static transformer_operand operand(const transformer_pass *pass, int tensor, size_t depth,
                                   size_t columns, float *to)
{
    return transformer_operand_make(
        pass,
        &(transformer_matrix){.at = transformer_layer_factor(pass, tensor),
                              .depth = depth,
                              .columns = columns,
                              .transposed = pass->layout.transposed},
        to);
}

/* The product with a layer's tensor, and what its adapters add. Only float32 has some. */
static void linear(const transformer_pass *pass, int tensor, const transformer_operand *weight,
                   transformer_factor by)
{
    transformer_multiply(pass, weight, by);
    transformer_adapt(pass, tensor, by.rows, (transformer_rows){by.a, weight->depth}, by.c,
                      by.c_row > 0 ? by.c_row : weight->columns);
}

/* The chunk's rows of state->x become the residual stream, and those of state->out its norm. args
 * has the residual (of row 0) and the parameters, in the form of layer norm. */
static void norm(const transformer_pass *pass, row_chunk chunk, const norm_state *state,
                 rank_layernorm args)
{
    const size_t width = pass->width;
    args.rows = chunk.rows;
    args.width = width;
    args.x = state->x + chunk.first * width;
    args.out = state->out != NULL ? transformer_at(pass, state->out, chunk.first * width) : NULL;
    args.type = pass->type;
    args.mean = state->mean != NULL ? state->mean + chunk.first : NULL;
    args.rstd = state->rstd + chunk.first;
    if (args.residual_rows != NULL) {
        args.residual_rows += chunk.first;
    } else if (args.residual != NULL) {
        args.residual += chunk.first * width;
    }
    if (pass->sizes.layer_norm) {
        pass->backend->layernorm(pass->queue, &args);
        return;
    }
    pass->backend->rmsnorm(pass->queue, &(rank_rmsnorm){.rows = args.rows,
                                                        .width = width,
                                                        .epsilon = pass->of.epsilon,
                                                        .x = args.x,
                                                        .residual = args.residual,
                                                        .residual_rows = args.residual_rows,
                                                        .weight = args.weight,
                                                        .one_more = pass->of.one_more,
                                                        .out = args.out,
                                                        .rstd = args.rstd});
}

/* The chunk's rows of what attention or the MLP adds to the stream, in `out`: by.c. */
static void linear_added(const transformer_pass *pass, int tensor,
                         const transformer_operand *weight, row_chunk chunk, transformer_factor by)
{
    const int norm_of = tensor == PROJ_WEIGHT ? AFTER1_WEIGHT : AFTER2_WEIGHT;
    float *out = by.c;
    if (pass->of.after_norms) {
        by.c = pass->block.after[norm_of - AFTER1_WEIGHT].x + chunk.first * pass->width;
    }
    by.rows = chunk.rows;
    by.leaves = pass->of.leaves;
    linear(pass, tensor, weight, by);
    transformer_sum_over_ranks(pass, by.c, chunk.rows * pass->width);
    transformer_norm_added(pass, norm_of, chunk, out);
}

/* The bias of the layer below. That layer's output is still without it. NULL: there is none. */
static const float *bias_below(const transformer_pass *pass, int layer)
{
    return pass->sizes.biased
               ? transformer_need(pass, transformer_offset(pass, layer - 1, DOWN_BIAS), pass->width)
               : NULL;
}

/* The first layer norm. Its input is the stream of the stage before, or the output of the block
 * below, which is still without its bias and residual. */
static void norm_first(const transformer_pass *pass, row_chunk chunk)
{
    rank_layernorm args = {.weight = pass->weights[NORM1_WEIGHT],
                           .bias = pass->weights[NORM1_BIAS]};
    if (pass->layer > pass->run->shape.first_layer && !pass->again) {
        args.residual = transformer_block(pass, pass->layer - 1).norm2.x;
        args.residual_bias =
            transformer_drop(pass, (transformer_site){DROP_MLP, pass->layer - 1}, chunk,
                             bias_below(pass, pass->layer), pass->block.norm1.x);
    }
    norm(pass, chunk, &pass->block.norm1, args);
}

static void norm_second(const transformer_pass *pass, row_chunk chunk, const int32_t *rows)
{
    const float *bias =
        transformer_drop(pass, (transformer_site){DROP_ATTENTION, pass->layer}, chunk,
                         pass->sizes.biased ? pass->weights[PROJ_BIAS] : NULL, pass->block.norm2.x);
    norm(pass, chunk, &pass->block.norm2,
         (rank_layernorm){.residual = pass->block.norm1.x,
                          .residual_rows = rows,
                          .residual_bias = bias,
                          .weight = pass->weights[NORM2_WEIGHT],
                          .bias = pass->weights[NORM2_BIAS]});
}

/* From the MLP's first product to the second one's factor, in wide. */
static void activate(const transformer_pass *pass, row_chunk chunk)
{
    const size_t hidden = pass->sizes.hidden;
    float *up = transformer_at(pass, pass->block.up, chunk.first * pass->sizes.up);
    if (pass->of.gated) {
        pass->backend->swiglu(pass->queue, &(rank_swiglu){.rows = chunk.rows,
                                                          .width = hidden,
                                                          .gate = up,
                                                          .up = up + hidden,
                                                          .row = pass->sizes.up,
                                                          .out = pass->wide,
                                                          .gelu = pass->of.gelu});
        return;
    }
    pass->backend->gelu(pass->queue, &(rank_gelu){
                                         .rows = chunk.rows,
                                         .width = hidden,
                                         .bias = pass->weights[UP_BIAS],
                                         .x = up,
                                         .out = pass->wide,
                                         .type = pass->type,
                                     });
}

/* The weights behind a layer's attention. */
typedef struct upper_half {
    transformer_operand projection;
    transformer_operand up;
    transformer_operand down;
} upper_half;

/* Whether the MLP is computed again, and backward does not read what its last product makes. */
static bool ends_early(const transformer_pass *pass)
{
    return pass->again && !pass->of.after_norms;
}

static upper_half upper_half_make(const transformer_pass *pass)
{
    const transformer_sizes *sizes = &pass->sizes;
    const size_t width = pass->width;
    const size_t up = rank_pack_count(sizes->queries, width);
    const size_t down = up + rank_pack_count(width, sizes->up);
    const transformer_operand projection =
        operand(pass, PROJ_WEIGHT, sizes->queries, width, transformer_packed(pass, 0));
    if (sizes->experts > 0) { /* which make their own ready, behind it */
        return (upper_half){.projection = projection};
    }
    return (upper_half){
        .projection = projection,
        .up = operand(pass, UP_WEIGHT, width, sizes->up, transformer_packed(pass, up)),
        .down = ends_early(pass) ? (transformer_operand){.at = NULL}
                                 : operand(pass, DOWN_WEIGHT, sizes->hidden, width,
                                           transformer_packed(pass, down)),
    };
}

/* From attention to the second norm, for some rows. `rows` are the indices of all the block's rows in
 * the stream before; NULL: the same. */
static void project(const transformer_pass *pass, const upper_half *half, row_chunk chunk,
                    const int32_t *rows)
{
    const block_state *block = &pass->block;
    linear_added(pass, PROJ_WEIGHT, &half->projection, chunk,
                 (transformer_factor){
                     .a = transformer_at(pass, block->attention, chunk.first * pass->sizes.queries),
                     .c = block->norm2.x + chunk.first * pass->width});
    norm_second(pass, chunk, rows);
}

/* The MLP of these rows. The block's output goes to `out` without bias and residual. */
static void run_mlp(const transformer_pass *pass, const upper_half *half, row_chunk chunk,
                    float *out)
{
    const block_state *block = &pass->block;
    const transformer_sizes *sizes = &pass->sizes;
    const size_t at = chunk.first * pass->width;
    linear(pass, UP_WEIGHT, &half->up,
           (transformer_factor){.rows = chunk.rows,
                                .a = transformer_at(pass, block->norm2.out, at),
                                .c = transformer_at(pass, block->up, chunk.first * sizes->up),
                                .c_type = pass->type});
    activate(pass, chunk); /* which adds the bias to its argument, for backward */
    if (!ends_early(pass)) {
        linear_added(pass, DOWN_WEIGHT, &half->down, chunk,
                     (transformer_factor){.a = pass->wide, .c = out + at});
    }
}

/* The attention of some whole segments, whose rows of qkv are computed. */
static void attention(const transformer_pass *pass, const rank_segments *segments)
{
    rank_attention args = transformer_attention(
        pass, segments, pass->again ? pass->layer : pass->run->shape.first_layer);
    args.out = pass->block.attention;
    pass->backend->attention(pass->queue, &args);
}

/* From the layer's input to its q, k and v. */
static void project_qkv(const transformer_pass *pass, const transformer_operand *qkv,
                        row_chunk chunk)
{
    void *to = transformer_at(pass, pass->block.qkv, chunk.first * pass->sizes.qkv_row);
    norm_first(pass, chunk);
    linear(pass, QKV_WEIGHT, qkv,
           (transformer_factor){
               .rows = chunk.rows,
               .a = transformer_at(pass, pass->block.norm1.out, chunk.first * pass->width),
               .c = to,
               .c_row = pass->sizes.qkv_row,
               .c_type = pass->type});
    if (pass->sizes.rotated > 0) {
        transformer_prepare_heads(pass, chunk, to);
    }
}

/* From the layer's input to its attention. */
static void attend(const transformer_pass *pass)
{
    const transformer_operand qkv =
        operand(pass, QKV_WEIGHT, pass->width, pass->sizes.qkv, pass->operands);
    const size_t end = pass->rows->count;
    rank_segments segments = {.count = 0};
    if (pass->run->shape.cp != NULL) {
        for (size_t first = 0; first < end; first += pass->backend->rows_at_once) {
            project_qkv(pass, &qkv, chunk_at(pass, first, end));
        }
        transformer_attend_together(pass);
        return;
    }
    while (rank_next_segments(pass->rows, pass->backend->rows_at_once, &segments)) {
        project_qkv(pass, &qkv, (row_chunk){segments.first_row, segments.row_count});
        attention(pass, &segments);
    }
}

static void forward_layer(const transformer_pass *pass, float *out)
{
    const size_t end = transformer_rows_behind(pass, pass->layer);
    const bool some = end < pass->rows->count;
    attend(pass);
    if (some) {
        const rank_move_rows together =
            transformer_active_rows(pass, pass->block.attention, pass->sizes.queries, pass->type);
        pass->backend->gather_rows(pass->queue, &together);
    }
    const upper_half half = upper_half_make(pass);
    for (size_t first = 0; first < end; first += pass->backend->rows_at_once) {
        const row_chunk chunk = chunk_at(pass, first, end);
        project(pass, &half, chunk, some ? pass->rows->active : NULL);
        if (pass->sizes.experts == 0) {
            run_mlp(pass, &half, chunk, out);
        }
    }
    if (pass->sizes.experts > 0) {
        transformer_experts(pass, end, out);
    }
}

void transformer_recompute(transformer_pass *pass)
{
    pass->again = true;
    if (transformer_is_idle(pass)) {
        transformer_experts(pass, 0, NULL);
    } else {
        forward_layer(pass, pass->dbranch); /* nobody reads what it makes there */
    }
    pass->again = false;
}

/* Adds bias and residual to the last layer's output. In the last stage also computes its norm. */
static void finish_stream(const transformer_pass *pass, const norm_state *state,
                          rank_layernorm args)
{
    const int end = pass->run->shape.end_layer;
    const row_chunk all = {0, transformer_rows_behind(pass, end - 1)};
    args.residual = transformer_block(pass, end - 1).norm2.x;
    args.residual_bias = transformer_drop(pass, (transformer_site){DROP_MLP, end - 1}, all,
                                          bias_below(pass, end), state->x);
    norm(pass, all, state, args);
}

static void norm_final(const transformer_pass *pass)
{
    const transformer_layout *layout = &pass->layout;
    finish_stream(
        pass, &pass->norm_final,
        (rank_layernorm){.weight = transformer_need(pass, layout->final_weight, pass->width),
                         .bias = pass->sizes.biased
                                     ? transformer_need(pass, layout->final_bias, pass->width)
                                     : NULL});
}

/* Embeddings or `in`, the layers, and the final norm of the active rows, or `out`. */
static void run_layers(transformer_pass *pass, const float *in, float *out)
{
    const rank_shape *shape = &pass->run->shape;
    if (pass->sizes.rotated > 0) {
        transformer_make_turns(pass);
    }
    if (transformer_is_first_stage(pass)) {
        embed(pass);
    } else {
        pass->backend->copy(pass->queue, transformer_block(pass, shape->first_layer).norm1.x, in,
                            pass->rows->count * pass->width * sizeof *in);
    }
    float *last_out = transformer_is_last_stage(pass) ? pass->norm_final.x : out;
    for (int layer = shape->first_layer; layer < shape->end_layer; layer++) {
        transformer_enter_layer(pass, layer);
        forward_layer(pass, layer + 1 < shape->end_layer
                                ? transformer_block(pass, layer + 1).norm1.x
                                : last_out);
        transformer_leave_layer(pass);
    }
    if (transformer_is_last_stage(pass)) {
        norm_final(pass);
    } else {
        finish_stream(pass, &(norm_state){.x = out}, (rank_layernorm){.out = NULL});
    }
}

/* Only for the rows that other ranks have for the experts here. */
static void run_idle(transformer_pass *pass)
{
    const rank_shape *shape = &pass->run->shape;
    for (int layer = shape->first_layer; layer < shape->end_layer; layer++) {
        transformer_enter_layer(pass, layer);
        transformer_experts(pass, 0, NULL);
        transformer_leave_layer(pass);
    }
}

void transformer_forward(const rank_run *run, const rank_forward_args *args)
{
    transformer_pass pass;
    transformer_pass_begin(run, args->saved, &pass);
    pass.backend->zero(pass.queue, args->saved->loss, sizeof *args->saved->loss);
    if (pass.sizes.experts > 0) {
        pass.backend->zero(pass.queue, args->saved->router_loss, sizeof(double));
    }
    const bool shared = run->shape.cp != NULL && pass.rows->whole_count > 0;
    if (transformer_is_idle(&pass)) {
        run_idle(&pass);
        return;
    }
    if (transformer_is_last_stage(&pass) && pass.rows->active_count == 0 && !shared) {
        return; /* no output is needed, nor what other ranks would need for theirs */
    }
    run_layers(&pass, args->in, args->out);
    if (args->logits != NULL) {
        transformer_logits(&pass, args->logits->rows, (size_t)args->logits->count,
                           args->logits->at);
    }
    if (args->want_loss && transformer_is_last_stage(&pass) && pass.rows->target_count > 0) {
        transformer_loss(&pass, args->saved->loss);
    }
}
