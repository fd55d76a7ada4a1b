/* Backward over the layers of a run. Writes every gradient of these layers. Called through the
 * families' tables. */
#include "base/bytes.h"
#include "model/transformer/weight_grads.h"

typedef struct backward {
    transformer_pass pass;
    row_chunk rows;  /* the current chunk */
    bool tied_begun; /* as in rank_backward_args */
} backward;

static float *grad(const backward *b, int tensor)
{
    return transformer_block_grad(&b->pass, b->pass.layer, tensor);
}

/* The chunk's rows of an activation. */
static float *at(const backward *b, float *rows, size_t columns)
{
    return rows + b->rows.first * columns;
}

/* The same of an array of the pass's type. */
static void *typed_at(const backward *b, void *rows, size_t columns)
{
    return transformer_at(&b->pass, rows, b->rows.first * columns);
}

/* The layer's weight W of shape (depth, columns), for products with Wᵀ. */
static transformer_operand transposed(const backward *b, int tensor, size_t depth, size_t columns,
                                      float *to)
{
    return transformer_operand_make(
        &b->pass,
        &(transformer_matrix){.at = transformer_layer_factor(&b->pass, tensor),
                              .depth = columns,
                              .columns = depth,
                              .transposed = !b->pass.layout.transposed},
        to);
}

static transformer_rows adapted_rows(factor_rows of)
{
    return (transformer_rows){of.at, of.row > 0 ? of.row : of.columns};
}

/* With adapters their gradients, and not the weight's. */
static void linear_dw(const backward *b, int tensor, factor_rows x, factor_rows dy)
{
    if (b->pass.adapters != NULL) {
        transformer_adapt_grads(&b->pass, tensor, b->rows, adapted_rows(x), adapted_rows(dy));
    } else if (b->pass.run->shape.split) {
        transformer_keep_dy(&b->pass, tensor, b->rows, dy.at);
    } else {
        transformer_linear_dw(&b->pass, tensor, b->rows, x, dy);
    }
}

/* product.c (rows, depth) = product.a, which is dy (rows, columns), · Wᵀ; and what adapters add. */
static void linear_dx(const backward *b, int tensor, const transformer_operand *weight,
                      transformer_factor product)
{
    product.rows = b->rows.rows;
    transformer_multiply(&b->pass, weight, product);
    transformer_adapt_dx(
        &b->pass, tensor, b->rows.rows,
        (transformer_rows){product.a, product.a_row > 0 ? product.a_row : weight->depth},
        product.c);
}

/* The gradient of a norm's output, in dbranch: a sum over columns that ranks may share. */
static void linear_dnorm(const backward *b, int tensor, const transformer_operand *weight,
                         transformer_factor product)
{
    const transformer_pass *pass = &b->pass;
    float *dbranch = at(b, pass->dbranch, pass->width);
    product.c = dbranch;
    product.leaves = transformer_grad_leaves(pass, product.leaves);
    linear_dx(b, tensor, weight, product);
    transformer_sum_over_ranks(pass, dbranch, b->rows.rows * pass->width);
}

/* The chunk's rows of dx += the norm's backward of dbranch. */
static void norm_grad(const backward *b, const norm_state *norm, int weight, int bias,
                      float *dx_sum)
{
    transformer_norm_grad(&b->pass, b->rows, norm,
                          (norm_grads){.weight = b->pass.weights[weight],
                                       .dweight = grad(b, weight),
                                       .dbias = grad(b, bias),
                                       .dx_sum = dx_sum,
                                       .keep = true});
}

/* The MLP's activation in backward: its output, computed again, and the gradient of the first
 * product, which replace the gradient of that output and the first product. */
typedef struct activation {
    factor_rows out;  /* (rows, F) */
    factor_rows dsum; /* (rows, U) */
} activation;

/* The chunk's rows of the gradient of the activation's output, and of what replaces it. */
static void *wide_of(const backward *b)
{
    return b->pass.run->shape.split ? typed_at(b, b->pass.block.active, b->pass.sizes.hidden)
                                    : b->pass.wide;
}

static activation activation_grad(const backward *b)
{
    const transformer_pass *pass = &b->pass;
    void *wide = wide_of(b);
    const size_t hidden = pass->sizes.hidden;
    float *up = typed_at(b, pass->block.up, pass->sizes.up);
    if (pass->of.gated) {
        pass->backend->swiglu_grad(pass->queue, &(rank_swiglu_grad){.rows = b->rows.rows,
                                                                    .width = hidden,
                                                                    .gate = up,
                                                                    .up = up + hidden,
                                                                    .row = pass->sizes.up,
                                                                    .d = wide,
                                                                    .gelu = pass->of.gelu});
        return (activation){{wide, hidden, 0}, {up, pass->sizes.up, 0}};
    }
    pass->backend->gelu_grad(pass->queue, &(rank_gelu_grad){.rows = b->rows.rows,
                                                            .width = hidden,
                                                            .x = up,
                                                            .d = wide,
                                                            .dbias = grad(b, UP_BIAS),
                                                            .type = pass->type});
    return (activation){{up, hidden, 0}, {wide, hidden, 0}};
}

/* From dx, the gradient of the block's output, to that of the MLP's first product. */
static activation backward_down(const backward *b, const transformer_operand *down)
{
    const transformer_pass *pass = &b->pass;
    const void *dx = transformer_branch_grad(pass, DROP_MLP, b->rows);
    linear_dx(b, DOWN_WEIGHT, down,
              (transformer_factor){.a = dx, .c = wide_of(b), .c_type = pass->type});
    const activation active = activation_grad(b);
    linear_dw(b, DOWN_WEIGHT, active.out, (factor_rows){dx, pass->width, 0});
    return active;
}

/* From there to the gradient of the second norm's output, in dbranch. */
static void backward_up(const backward *b, const transformer_operand *up, factor_rows dsum)
{
    const transformer_pass *pass = &b->pass;
    const size_t width = pass->width;
    const norm_state *norm = &pass->block.norm2;
    linear_dw(b, UP_WEIGHT, (factor_rows){typed_at(b, norm->out, width), width, 0}, dsum);
    transformer_factor factor = {.a = dsum.at, .leaves = pass->of.leaves};
    for (size_t part = 0; part < dsum.columns / pass->sizes.hidden; part++) { /* gate and up */
        factor.parts[part] = pass->sizes.hidden;
    }
    linear_dnorm(b, UP_WEIGHT, up, factor);
}

/* From dx to the gradient of attention's output, in dattention. */
static void backward_projection(const backward *b, const transformer_operand *projection)
{
    const transformer_pass *pass = &b->pass;
    const size_t queries = pass->sizes.queries;
    const void *dx = transformer_branch_grad(pass, DROP_ATTENTION, b->rows);
    linear_dw(b, PROJ_WEIGHT,
              (factor_rows){typed_at(b, pass->block.attention, queries), queries, 0},
              (factor_rows){dx, pass->width, 0});
    linear_dx(b, PROJ_WEIGHT, projection,
              (transformer_factor){.a = dx, .c = at(b, pass->dattention, queries)});
}

static void next_chunk(backward *b, size_t first, size_t end)
{
    const size_t most = b->pass.backend->rows_at_once;
    b->rows = (row_chunk){first, end - first < most ? end - first : most};
}

/* The MLP's weights, turned round. */
typedef struct mlp_operands {
    transformer_operand down;
    transformer_operand up;
} mlp_operands;

static mlp_operands turn_mlp(const backward *b)
{
    const transformer_sizes *sizes = &b->pass.sizes;
    const size_t up_at = rank_pack_count(sizes->width, sizes->hidden);
    return (mlp_operands){
        .down = transposed(b, DOWN_WEIGHT, sizes->hidden, sizes->width,
                           transformer_packed(&b->pass, 0)),
        .up =
            transposed(b, UP_WEIGHT, sizes->width, sizes->up, transformer_packed(&b->pass, up_at)),
    };
}

/* From a block's output back to its attention's, in chunks of rows that stay in the near caches. Experts have
 * their own rows, all of which come before. */
static void backward_above_attention(backward *b, size_t end)
{
    const transformer_pass *pass = &b->pass;
    const transformer_sizes *sizes = &pass->sizes;
    const bool routed = sizes->experts > 0;
    const size_t width = sizes->width;
    const size_t projection_at =
        rank_pack_count(width, sizes->hidden) + rank_pack_count(sizes->up, width);
    if (routed) {
        b->pass.experts.dout = transformer_branch_grad(pass, DROP_MLP, (row_chunk){0, end});
        transformer_experts_grad(pass, end);
    }
    const mlp_operands mlp = routed ? (mlp_operands){.up = {.at = NULL}} : turn_mlp(b);
    const transformer_operand projection =
        transposed(b, PROJ_WEIGHT, sizes->queries, width, transformer_packed(pass, projection_at));
    for (size_t first = 0; first < end; first += pass->backend->rows_at_once) {
        next_chunk(b, first, end);
        if (!routed) {
            const activation active = backward_down(b, &mlp.down);
            backward_up(b, &mlp.up, active.dsum);
        }
        norm_grad(b, &pass->block.norm2, NORM2_WEIGHT, NORM2_BIAS,
                  transformer_sum_grad(pass, pass->layer, PROJ_BIAS));
        backward_projection(b, &projection);
    }
}

/* The gradient of the segments' qkv, in wide. */
static void attention_grad(const backward *b, const rank_segments *segments)
{
    const transformer_pass *pass = &b->pass;
    const rank_shape *shape = &pass->run->shape;
    rank_attention args = transformer_attention(
        pass, segments, shape->recompute ? pass->layer : shape->end_layer - 1);
    args.out = pass->block.attention;
    args.dout = pass->dattention;
    args.dqkv = pass->wide;
    args.dqkv_first = segments->first_row;
    args.dbias = pass->no_bias_grad != NULL ? pass->no_bias_grad : grad(b, QKV_BIAS);
    pass->backend->attention_grad(pass->queue, &args);
}

/* The next rows, and in wide the gradient of their q, k and v. */
static bool next_dqkv(backward *b, rank_segments *segments)
{
    const transformer_pass *pass = &b->pass;
    if (!transformer_next_rows(pass, segments)) {
        return false;
    }
    b->rows = (row_chunk){segments->first_row, segments->row_count};
    if (pass->run->shape.cp != NULL) {
        transformer_take_dqkv(pass, b->rows, pass->wide);
    } else {
        attention_grad(b, segments);
    }
    if (pass->sizes.rotated > 0) {
        transformer_prepare_heads_grad(pass, b->rows, pass->wide);
    }
    return true;
}

/* From the gradient of attention's output, in dattention, to that of the block's input, in dx. */
static void backward_below_attention(backward *b)
{
    const transformer_pass *pass = &b->pass;
    const transformer_sizes *sizes = &pass->sizes;
    const size_t width = pass->width;
    const size_t keys = pass->of.kv_heads * pass->of.head_width;
    const norm_state *norm = &pass->block.norm1;
    const bool below_is_here = pass->layer > pass->run->shape.first_layer;
    float *below = below_is_here ? transformer_sum_grad(pass, pass->layer - 1, DOWN_BIAS) : NULL;
    const transformer_operand qkv = transposed(b, QKV_WEIGHT, width, sizes->qkv, pass->operands);
    rank_segments segments = {.count = 0};
    transformer_begin_head_norms_grad(pass);
    if (pass->run->shape.cp != NULL) {
        transformer_attend_together_grad(pass);
    }
    while (next_dqkv(b, &segments)) {
        linear_dw(b, QKV_WEIGHT, (factor_rows){typed_at(b, norm->out, width), width, 0},
                  (factor_rows){pass->wide, sizes->qkv, sizes->qkv_row});
        if (pass->adapters != NULL && pass->layer == 0) {
            continue; /* nothing below is trained */
        }
        linear_dnorm(b, QKV_WEIGHT, &qkv,
                     (transformer_factor){.a = pass->wide,
                                          .a_row = sizes->qkv_row,
                                          .leaves = pass->of.leaves,
                                          .parts = {sizes->queries, keys, keys}});
        norm_grad(b, norm, NORM1_WEIGHT, NORM1_BIAS, below);
    }
    transformer_end_head_norms_grad(pass);
}

static void backward_layer(backward *b)
{
    const transformer_pass *pass = &b->pass;
    const size_t end = transformer_rows_behind(pass, pass->layer);
    backward_above_attention(b, end);
    if (end < pass->rows->count) {
        const rank_move_rows stream =
            transformer_active_rows(pass, pass->dx, pass->width, RANK_FLOAT32);
        const rank_move_rows branch =
            transformer_active_rows(pass, pass->dattention, pass->sizes.queries, RANK_FLOAT32);
        pass->backend->spread_rows(pass->queue, &stream);
        pass->backend->spread_rows(pass->queue, &branch);
        if (pass->backend->attention_grad_reads_out) {
            const rank_move_rows attention = transformer_active_rows(
                pass, pass->block.attention, pass->sizes.queries, pass->type);
            pass->backend->spread_rows(pass->queue, &attention);
        }
    }
    backward_below_attention(b);
}

/* Reports that the gradients of the range are final. */
static void tell(const backward *b, size_t offset, size_t end)
{
    const rank_hooks *hooks = b->pass.run->hooks;
    if (hooks->ready != NULL) {
        hooks->ready(hooks->ready_user, offset, end - offset, b->pass.backend->mark(b->pass.queue));
    }
}

/* Reports the gradients of an output's matrix of its own, and the final norm's; in a split backward the latter in any
 * case. */
static void tell_output(const backward *b)
{
    const transformer_layout *layout = &b->pass.layout;
    const bool apart = !transformer_is_tied(layout) || b->pass.run->shape.split;
    if (transformer_is_last_stage(&b->pass) && apart && b->pass.adapters == NULL) {
        tell(b, layout->final_weight, layout->total);
    }
}

/* Reports a layer's gradients, unless weight_grads does; with the model's last layer also the final norm's, which are
 * few, if that was not done. Of adapters theirs alone. */
static void tell_layer(const backward *b, int layer)
{
    const size_t adapters = b->pass.adapted.elements;
    if (b->pass.run->shape.split) {
        return;
    }
    if (b->pass.adapters != NULL) {
        tell(b, (size_t)layer * adapters, ((size_t)layer + 1) * adapters);
        return;
    }
    const transformer_layout *layout = &b->pass.layout;
    const size_t offset = transformer_offset(&b->pass, layer, 0);
    const bool last = (size_t)layer + 1 == b->pass.layers && transformer_is_tied(layout);
    tell(b, offset, last ? layout->total : offset + layout->in_block[BLOCK_TENSORS]);
}

/* Reports the embeddings' gradients. A stage that has both ends of the model, or begins it, has all
 * of them. A stage that only ends it has the part of the tied output embedding. */
static void tell_embeddings(const backward *b)
{
    if (b->pass.adapters != NULL) {
        return;
    }
    if (transformer_is_first_stage(&b->pass)) {
        tell(b, 0, b->pass.layout.block);
    } else if (transformer_is_last_stage(&b->pass) && transformer_is_tied(&b->pass.layout)) {
        tell(b, b->pass.layout.wte, b->pass.layout.wpe);
    }
}

/* The gradients of the experts here, whose rows are those of other ranks. */
static void backward_idle(backward *b, int layer)
{
    transformer_pass *pass = &b->pass;
    transformer_enter_layer(pass, layer);
    if (pass->run->shape.recompute) {
        transformer_recompute(pass);
    }
    transformer_experts_grad(pass, 0);
    transformer_leave_layer(pass);
}

/* Without targets every gradient is zero, but for what other ranks' rows give. */
static void zero_all(backward *b, float *din)
{
    const transformer_pass *pass = &b->pass;
    const rank_shape *shape = &pass->run->shape;
    transformer_zero_adapters(pass);
    if (transformer_is_last_stage(pass)) {
        transformer_zero_range(&b->pass, pass->layout.final_weight,
                               pass->layout.total - pass->layout.final_weight);
    }
    tell_output(b);
    for (int layer = shape->end_layer - 1; layer >= shape->first_layer; layer--) {
        if (!shape->split) {
            transformer_zero_range(&b->pass, transformer_offset(pass, layer, 0),
                                   pass->layout.in_block[BLOCK_TENSORS]);
        }
        if (transformer_is_idle(pass)) {
            backward_idle(b, layer);
        }
        tell_layer(b, layer);
    }
    if (transformer_is_first_stage(pass)) {
        transformer_zero_range(&b->pass, 0, pass->layout.block);
    } else {
        pass->backend->zero(pass->queue, din, pass->rows->count * pass->width * sizeof *din);
        if (transformer_is_last_stage(pass) && transformer_is_tied(&pass->layout)) {
            transformer_zero_range(&b->pass, pass->layout.wte, pass->layout.wpe);
        }
    }
    tell_embeddings(b);
}

/* Makes dx at the end of the last layer: from the losses, or from the next stage. */
static void begin_stream(const backward *b, const rank_backward_args *args)
{
    const transformer_pass *pass = &b->pass;
    if (transformer_is_last_stage(pass)) {
        transformer_loss(pass, args->saved->loss);
        return;
    }
    const int last = pass->run->shape.end_layer - 1;
    pass->backend->copy(pass->queue, pass->dx, args->dout,
                        pass->rows->count * pass->width * sizeof *pass->dx);
    if (pass->narrow_dx != NULL) {
        pass->backend->cast(pass->queue, &(rank_cast){.count = pass->rows->count * pass->width,
                                                      .from = pass->dx,
                                                      .to = pass->narrow_dx});
    }
    float *sums = transformer_sum_grad(pass, last, DOWN_BIAS);
    if (sums != NULL) {
        pass->backend->column_sums(pass->queue, &(rank_column_sums){.rows = pass->rows->count,
                                                                    .columns = pass->width,
                                                                    .from = pass->dx,
                                                                    .sums = sums});
    }
}

static void end_stream(const backward *b, float *din)
{
    const transformer_pass *pass = &b->pass;
    if (transformer_is_first_stage(pass) && pass->adapters == NULL) {
        transformer_embed_grad(pass, b->tied_begun);
    } else if (!transformer_is_first_stage(pass)) {
        pass->backend->copy(pass->queue, din, pass->dx,
                            pass->rows->count * pass->width * sizeof *din);
    }
    tell_embeddings(b);
}

void transformer_backward(const rank_run *run, const rank_backward_args *args)
{
    backward b = {.tied_begun = args->tied_begun};
    transformer_pass_begin(run, args->saved, &b.pass);
    b.pass.grads = args->grads;
    b.pass.held = args->held;
    b.pass.dout = args->dout;
    if (transformer_target_count(&b.pass) == 0) {
        zero_all(&b, args->din);
        return;
    }
    transformer_begin_grads(&b.pass);
    begin_stream(&b, args);
    if (b.pass.sizes.experts > 0) {
        transformer_router_loss(&b.pass, args->saved->router_loss);
    }
    tell_output(&b);
    for (int layer = run->shape.end_layer - 1; layer >= run->shape.first_layer; layer--) {
        transformer_enter_layer(&b.pass, layer);
        if (run->shape.recompute) {
            transformer_recompute(&b.pass);
        }
        backward_layer(&b);
        transformer_leave_layer(&b.pass);
        tell_layer(&b, layer);
    }
    end_stream(&b, args->din);
}
