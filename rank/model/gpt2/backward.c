/* Backward over the layers of a run. Writes every gradient of these layers. Called through gpt2.c's
 * table. */
#include "model/gpt2/pass.h"

typedef struct backward {
    gpt2_pass pass;
    row_chunk rows;  /* the current chunk */
    bool tied_begun; /* as in rank_backward_args */
} backward;

static float *grad(const backward *b, int tensor)
{
    return gpt2_grad(&b->pass, gpt2_offset(&b->pass, b->pass.layer, tensor));
}

/* The chunk's rows of an activation. */
static float *at(const backward *b, float *rows, size_t columns)
{
    return rows + b->rows.first * columns;
}

/* The same of an array of the pass's type. */
static void *typed_at(const backward *b, void *rows, size_t columns)
{
    return gpt2_at(&b->pass, rows, b->rows.first * columns);
}

/* The chunk's rows of dx, as products read them. */
static const void *factor_dx(const backward *b)
{
    const gpt2_pass *pass = &b->pass;
    return typed_at(b, pass->narrow_dx != NULL ? (void *)pass->narrow_dx : pass->dx, pass->width);
}

/* The layer's weight W of shape (depth, columns), for products with Wᵀ. */
static gpt2_operand transposed(const backward *b, int tensor, size_t depth, size_t columns,
                               float *to)
{
    return gpt2_operand_make(&b->pass,
                             &(gpt2_matrix){.at = gpt2_layer_factor(&b->pass, tensor),
                                            .depth = columns,
                                            .columns = depth,
                                            .transposed = true},
                             to);
}

/* dW (depth, columns) = or, from the second chunk on, += xᵀ·dy. */
static void linear_dw(const backward *b, int tensor, rank_product product)
{
    product.depth = b->rows.rows;
    product.c = grad(b, tensor);
    product.accumulate = b->rows.first > 0;
    gpt2_multiply_transposed(&b->pass, product);
}

/* product.c (rows, depth) = product.a, which is dy (rows, columns), · Wᵀ. */
static void linear_dx(const backward *b, const gpt2_operand *weight, gpt2_factor product)
{
    product.rows = b->rows.rows;
    gpt2_multiply(&b->pass, weight, product);
}

/* The chunk's rows of dx, the gradient of the residual stream, += the layer norm's backward of
 * dbranch. dx_sum is the gradient of the bias that was last added to this stream. */
static void norm_grad(const backward *b, const norm_state *norm, int weight, int bias,
                      float *dx_sum)
{
    const size_t width = b->pass.width;
    rank_bfloat16 *narrow = b->pass.narrow_dx;
    b->pass.backend->layernorm_grad(
        b->pass.queue, &(rank_layernorm_grad){
                           .rows = b->rows.rows,
                           .width = width,
                           .keep = true,
                           .x = at(b, norm->x, width),
                           .mean = norm->mean + b->rows.first,
                           .rstd = norm->rstd + b->rows.first,
                           .weight = b->pass.weights[weight],
                           .dout = at(b, b->pass.dbranch, width),
                           .dx = at(b, b->pass.dx, width),
                           .dweight = grad(b, weight),
                           .dbias = grad(b, bias),
                           .dx_sum = dx_sum,
                           .rounded = narrow != NULL ? typed_at(b, narrow, width) : NULL,
                       });
}

/* From dx, the gradient of the block's output, to that of GELU's input, in wide. Computes GELU's
 * output again, and with it dW of the projection down. */
static void backward_down(const backward *b, const gpt2_operand *down)
{
    const gpt2_pass *pass = &b->pass;
    const size_t width = pass->width;
    const size_t wider = WIDENING * width;
    void *up = typed_at(b, pass->block.up, wider);
    const void *dx = factor_dx(b);
    linear_dx(b, down, (gpt2_factor){.a = dx, .c = pass->wide, .c_type = pass->type});
    pass->backend->gelu_grad(pass->queue, &(rank_gelu_grad){.rows = b->rows.rows,
                                                            .width = wider,
                                                            .x = up,
                                                            .d = pass->wide,
                                                            .dbias = grad(b, UP_BIAS),
                                                            .type = pass->type});
    linear_dw(b, DOWN_WEIGHT, (rank_product){.rows = wider, .columns = width, .a = up, .b = dx});
}

/* From wide to the gradient of the stream between the block's halves, in dx. */
static void backward_up(const backward *b, const gpt2_operand *up)
{
    const gpt2_pass *pass = &b->pass;
    const size_t width = pass->width;
    const size_t wider = WIDENING * width;
    const norm_state *norm = &pass->block.norm2;
    linear_dw(
        b, UP_WEIGHT,
        (rank_product){
            .rows = width, .columns = wider, .a = typed_at(b, norm->out, width), .b = pass->wide});
    linear_dx(b, up, (gpt2_factor){.a = pass->wide, .c = at(b, pass->dbranch, width)});
    norm_grad(b, norm, LN2_WEIGHT, LN2_BIAS, grad(b, PROJ_BIAS));
}

/* From dx to the gradient of attention's output, in dbranch. */
static void backward_projection(const backward *b, const gpt2_operand *projection)
{
    const gpt2_pass *pass = &b->pass;
    const size_t width = pass->width;
    const void *dx = factor_dx(b);
    linear_dw(b, PROJ_WEIGHT,
              (rank_product){.rows = width,
                             .columns = width,
                             .a = typed_at(b, pass->block.attention, width),
                             .b = dx});
    linear_dx(b, projection, (gpt2_factor){.a = dx, .c = at(b, pass->dbranch, width)});
}

static void next_chunk(backward *b, size_t first, size_t end)
{
    const size_t most = b->pass.backend->rows_at_once;
    b->rows = (row_chunk){first, end - first < most ? end - first : most};
}

/* From a block's output back to its attention's, in chunks of rows that stay in the near caches. */
static void backward_above_attention(backward *b, size_t end)
{
    const size_t width = b->pass.width;
    const size_t wider = WIDENING * width;
    const size_t up_at = rank_pack_count(width, wider);
    const size_t projection_at = up_at + rank_pack_count(wider, width);
    const gpt2_operand down = transposed(b, DOWN_WEIGHT, wider, width, gpt2_packed(&b->pass, 0));
    const gpt2_operand up = transposed(b, UP_WEIGHT, width, wider, gpt2_packed(&b->pass, up_at));
    const gpt2_operand projection =
        transposed(b, PROJ_WEIGHT, width, width, gpt2_packed(&b->pass, projection_at));
    for (size_t first = 0; first < end; first += b->pass.backend->rows_at_once) {
        next_chunk(b, first, end);
        backward_down(b, &down);
        backward_up(b, &up);
        backward_projection(b, &projection);
    }
}

/* The gradient of the segments' qkv, in wide. */
static void attention_grad(const backward *b, const rank_segments *segments)
{
    const gpt2_pass *pass = &b->pass;
    rank_attention args = gpt2_attention(pass, segments);
    args.out = pass->block.attention;
    args.dout = pass->dbranch;
    args.dqkv = pass->wide;
    args.dqkv_first = segments->first_row;
    args.dbias = grad(b, QKV_BIAS);
    pass->backend->attention_grad(pass->queue, &args);
}

/* From the gradient of attention's output, in dbranch, to that of the block's input, in dx. */
static void backward_below_attention(backward *b)
{
    const gpt2_pass *pass = &b->pass;
    const size_t width = pass->width;
    const norm_state *norm = &pass->block.norm1;
    const bool below_is_here = pass->layer > pass->run->shape.first_layer;
    float *below =
        below_is_here ? gpt2_grad(pass, gpt2_offset(pass, pass->layer - 1, DOWN_BIAS)) : NULL;
    const gpt2_operand qkv = transposed(b, QKV_WEIGHT, width, 3 * width, pass->operands);
    rank_segments segments = {.count = 0};
    while (rank_next_segments(pass->rows, pass->backend->rows_at_once, &segments)) {
        b->rows = (row_chunk){segments.first_row, segments.row_count};
        attention_grad(b, &segments);
        linear_dw(b, QKV_WEIGHT,
                  (rank_product){.rows = width,
                                 .columns = 3 * width,
                                 .a = typed_at(b, norm->out, width),
                                 .b = pass->wide});
        linear_dx(b, &qkv, (gpt2_factor){.a = pass->wide, .c = at(b, pass->dbranch, width)});
        norm_grad(b, norm, LN1_WEIGHT, LN1_BIAS, below);
    }
}

static void backward_layer(backward *b)
{
    const gpt2_pass *pass = &b->pass;
    const size_t end = gpt2_rows_behind(pass, pass->layer);
    backward_above_attention(b, end);
    if (end < pass->rows->count) {
        const rank_move_rows stream = gpt2_active_rows(pass, pass->dx, RANK_FLOAT32);
        const rank_move_rows branch = gpt2_active_rows(pass, pass->dbranch, RANK_FLOAT32);
        pass->backend->spread_rows(pass->queue, &stream);
        pass->backend->spread_rows(pass->queue, &branch);
        if (pass->backend->attention_grad_reads_out) {
            const rank_move_rows attention =
                gpt2_active_rows(pass, pass->block.attention, pass->type);
            pass->backend->spread_rows(pass->queue, &attention);
        }
    }
    backward_below_attention(b);
}

static void zero_range(const backward *b, size_t offset, size_t count)
{
    b->pass.backend->zero(b->pass.queue, gpt2_grad(&b->pass, offset), count * sizeof(float));
}

static void embed_grad(const backward *b)
{
    const gpt2_pass *pass = &b->pass;
    const gpt2_layout *layout = &pass->layout;
    if (!gpt2_is_last_stage(pass) && !b->tied_begun) { /* another stage makes the output's part */
        zero_range(b, layout->wte, layout->wpe - layout->wte);
    }
    zero_range(b, layout->wpe, layout->block - layout->wpe);
    pass->backend->embed_grad(pass->queue, &(rank_embed_grad){
                                               .tokens = pass->rows->count,
                                               .width = pass->width,
                                               .ids = pass->rows->ids,
                                               .positions = pass->rows->positions,
                                               .dx = pass->dx,
                                               .dwte = gpt2_grad(pass, layout->wte),
                                               .dwpe = gpt2_grad(pass, layout->wpe),
                                           });
}

/* Reports that the gradients of the range are final. */
static void tell(const backward *b, size_t offset, size_t end)
{
    const rank_hooks *hooks = b->pass.run->hooks;
    if (hooks->ready != NULL) {
        hooks->ready(hooks->ready_user, offset, end - offset, b->pass.backend->mark(b->pass.queue));
    }
}

/* Reports a layer's gradients; with the model's last layer also the final norm's, which follow them
 * in the array. */
static void tell_layer(const backward *b, int layer)
{
    const size_t offset = gpt2_offset(&b->pass, layer, 0);
    const bool last = (size_t)layer + 1 == b->pass.layers;
    tell(b, offset, last ? b->pass.layout.total : offset + b->pass.layout.in_block[BLOCK_TENSORS]);
}

/* Reports the embeddings' gradients. A stage that has both ends of the model, or begins it, has all
 * of them. A stage that only ends it has the part of the tied output embedding. */
static void tell_embeddings(const backward *b)
{
    if (gpt2_is_first_stage(&b->pass)) {
        tell(b, 0, b->pass.layout.block);
    } else if (gpt2_is_last_stage(&b->pass)) {
        tell(b, b->pass.layout.wte, b->pass.layout.wpe);
    }
}

/* Without targets every gradient is zero. */
static void zero_all(const backward *b, float *din)
{
    const gpt2_pass *pass = &b->pass;
    const rank_shape *shape = &pass->run->shape;
    for (int layer = shape->end_layer - 1; layer >= shape->first_layer; layer--) {
        zero_range(b, gpt2_offset(pass, layer, 0), pass->layout.in_block[BLOCK_TENSORS]);
    }
    if (gpt2_is_last_stage(pass)) {
        zero_range(b, pass->layout.final_weight, pass->layout.total - pass->layout.final_weight);
    }
    if (gpt2_is_first_stage(pass)) {
        zero_range(b, 0, pass->layout.block);
    } else {
        pass->backend->zero(pass->queue, din, pass->rows->count * pass->width * sizeof *din);
        if (gpt2_is_last_stage(pass)) {
            zero_range(b, pass->layout.wte, pass->layout.wpe);
        }
    }
    for (int layer = shape->end_layer - 1; layer >= shape->first_layer; layer--) {
        tell_layer(b, layer);
    }
    tell_embeddings(b);
}

/* Biases and norms collect their gradients chunk by chunk. */
static void zero_vectors(const backward *b)
{
    const gpt2_pass *pass = &b->pass;
    const rank_shape *shape = &pass->run->shape;
    const size_t *in_block = pass->layout.in_block;
    /* from the first tensor to before the second: those side by side are one operation */
    static const int runs[][2] = {{LN1_WEIGHT, QKV_WEIGHT},
                                  {QKV_BIAS, PROJ_WEIGHT},
                                  {PROJ_BIAS, UP_WEIGHT},
                                  {UP_BIAS, DOWN_WEIGHT},
                                  {DOWN_BIAS, BLOCK_TENSORS}};
    for (int layer = shape->first_layer; layer < shape->end_layer; layer++) {
        for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
            zero_range(b, gpt2_offset(pass, layer, runs[i][0]),
                       in_block[runs[i][1]] - in_block[runs[i][0]]);
        }
    }
    if (gpt2_is_last_stage(pass)) {
        zero_range(b, pass->layout.final_weight, pass->layout.total - pass->layout.final_weight);
    }
}

/* Makes dx at the end of the last layer: from the losses, or from the next stage. */
static void begin_stream(const backward *b, const rank_backward_args *args)
{
    const gpt2_pass *pass = &b->pass;
    if (gpt2_is_last_stage(pass)) {
        gpt2_loss(pass, args->saved->loss);
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
    pass->backend->column_sums(
        pass->queue,
        &(rank_column_sums){.rows = pass->rows->count,
                            .columns = pass->width,
                            .from = pass->dx,
                            .sums = gpt2_grad(pass, gpt2_offset(pass, last, DOWN_BIAS))});
}

static void end_stream(const backward *b, float *din)
{
    const gpt2_pass *pass = &b->pass;
    if (gpt2_is_first_stage(pass)) {
        embed_grad(b);
    } else {
        pass->backend->copy(pass->queue, din, pass->dx,
                            pass->rows->count * pass->width * sizeof *din);
    }
    tell_embeddings(b);
}

void gpt2_backward(const rank_run *run, const rank_backward_args *args)
{
    backward b = {.tied_begun = args->tied_begun};
    gpt2_pass_begin(run, args->saved, &b.pass);
    b.pass.grads = args->grads;
    b.pass.held = args->held;
    if (b.pass.rows->target_count == 0) {
        zero_all(&b, args->din);
        return;
    }
    zero_vectors(&b);
    begin_stream(&b, args);
    for (int layer = run->shape.end_layer - 1; layer >= run->shape.first_layer; layer--) {
        gpt2_enter_layer(&b.pass, layer);
        backward_layer(&b);
        gpt2_leave_layer(&b.pass);
        tell_layer(&b, layer);
    }
    end_stream(&b, args->din);
}
