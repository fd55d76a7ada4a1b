#include <string.h>

#include "model/state.h"

typedef struct backward {
    rank_model *model;
    float *grads;
    int layer;
    row_chunk rows; /* at hand */
} backward;

static float *grad(const backward *b, int tensor)
{
    return b->grads + rank_block_offset(b->model, b->layer, tensor);
}

static const float *param(const backward *b, int tensor)
{
    return b->model->params + rank_block_offset(b->model, b->layer, tensor);
}

/* The chunk's rows of an activation. */
static float *at(const backward *b, float *rows, size_t columns)
{
    return rows + b->rows.first * columns;
}

/* W (depth, columns) as Wᵀ (columns, depth): oneDNN is a tenth faster on products that read both
 * operands along their rows, and a weight is used for every chunk. */
static void transpose_weight(const backward *b, int tensor, size_t depth, size_t columns, float *to)
{
    b->model->kernels->transpose(
        &(rank_transpose){.rows = depth, .columns = columns, .from = param(b, tensor), .to = to});
    rank_profile_book(b->model->profile, RANK_PART_TRANSPOSE);
}

/* dW (depth, columns) = or, from the second chunk on, += xᵀ·dy. */
static base_status linear_dw(const backward *b, int tensor, rank_matmul product, base_error *reterr)
{
    product.depth = b->rows.rows;
    product.c = grad(b, tensor);
    product.accumulate = b->rows.first > 0;
    const base_status status = rank_matmul_tn(&product, reterr);
    rank_profile_book(b->model->profile, RANK_PART_MATMUL_DW);
    return status;
}

/* dx (rows, depth) = dy (rows, columns) · Wᵀ, which is product.b. */
static base_status linear_dx(const backward *b, rank_matmul product, base_error *reterr)
{
    product.rows = b->rows.rows;
    const base_status status = rank_matmul_nn(&product, reterr);
    rank_profile_book(b->model->profile, RANK_PART_MATMUL_DX);
    return status;
}

/* The chunk's rows of dx, the gradient of the residual stream, += the layer norm's backward of
 * dbranch. dx_sum is the gradient of the bias that was added to this stream last. */
static void norm_grad(const backward *b, const norm_state *norm, int weight, int bias,
                      float *dx_sum)
{
    rank_model *model = b->model;
    const size_t width = (size_t)model->config.width;
    model->kernels->layernorm_grad(&(rank_layernorm_grad){
        .rows = b->rows.rows,
        .width = width,
        .keep = 1,
        .x = at(b, norm->x, width),
        .mean = norm->mean + b->rows.first,
        .rstd = norm->rstd + b->rows.first,
        .weight = param(b, weight),
        .dout = at(b, model->dbranch, width),
        .dx = at(b, model->dx, width),
        .dweight = grad(b, weight),
        .dbias = grad(b, bias),
        .dx_sum = dx_sum,
    });
    rank_profile_book(model->profile, RANK_PART_LAYERNORM_GRAD);
}

/* From dx, the gradient of the block's output, to that of GELU's input, in wide; GELU's output is
 * made again on the way, and dW of the projection down from it. */
static base_status backward_down(const backward *b, const float *down_t, base_error *reterr)
{
    rank_model *model = b->model;
    const size_t width = (size_t)model->config.width;
    const size_t wider = WIDENING * width;
    float *up = at(b, model->blocks[b->layer].up, wider);
    const float *dx = at(b, model->dx, width);
    const base_status status = linear_dx(
        b, (rank_matmul){.columns = wider, .depth = width, .a = dx, .b = down_t, .c = model->wide},
        reterr);
    if (status != BASE_OK) {
        return status;
    }
    model->kernels->gelu_grad(&(rank_gelu_grad){.rows = b->rows.rows,
                                                .width = wider,
                                                .x = up,
                                                .d = model->wide,
                                                .dbias = grad(b, UP_BIAS)});
    rank_profile_book(model->profile, RANK_PART_GELU_GRAD);
    return linear_dw(b, DOWN_WEIGHT,
                     (rank_matmul){.rows = wider, .columns = width, .a = up, .b = dx}, reterr);
}

/* From there to the gradient of the stream between the block's halves, in dx. */
static base_status backward_up(const backward *b, const float *up_t, base_error *reterr)
{
    rank_model *model = b->model;
    const size_t width = (size_t)model->config.width;
    const size_t wider = WIDENING * width;
    const norm_state *norm = &model->blocks[b->layer].norm2;
    base_status status = linear_dw(
        b, UP_WEIGHT,
        (rank_matmul){
            .rows = width, .columns = wider, .a = at(b, norm->out, width), .b = model->wide},
        reterr);
    if (status == BASE_OK) {
        status = linear_dx(b,
                           (rank_matmul){.columns = width,
                                         .depth = wider,
                                         .a = model->wide,
                                         .b = up_t,
                                         .c = at(b, model->dbranch, width)},
                           reterr);
    }
    if (status == BASE_OK) {
        norm_grad(b, norm, LN2_WEIGHT, LN2_BIAS, grad(b, PROJ_BIAS));
    }
    return status;
}

/* From there to the gradient of attention's output, in dbranch. */
static base_status backward_projection(const backward *b, const float *proj_t, base_error *reterr)
{
    rank_model *model = b->model;
    const size_t width = (size_t)model->config.width;
    const float *dx = at(b, model->dx, width);
    const base_status status =
        linear_dw(b, PROJ_WEIGHT,
                  (rank_matmul){.rows = width,
                                .columns = width,
                                .a = at(b, model->blocks[b->layer].attention, width),
                                .b = dx},
                  reterr);
    return status != BASE_OK ? status
                             : linear_dx(b,
                                         (rank_matmul){.columns = width,
                                                       .depth = width,
                                                       .a = dx,
                                                       .b = proj_t,
                                                       .c = at(b, model->dbranch, width)},
                                         reterr);
}

static void next_chunk(backward *b, size_t first, size_t end)
{
    b->rows = (row_chunk){first, end - first < ROW_CHUNK ? end - first : ROW_CHUNK};
}

/* A block from its output back to attention's, in chunks of rows that stay in the near caches. */
static base_status backward_above_attention(backward *b, size_t end, base_error *reterr)
{
    rank_model *model = b->model;
    const size_t width = (size_t)model->config.width;
    const size_t wider = WIDENING * width;
    float *down_t = model->weights_t;
    float *up_t = down_t + wider * width;
    float *proj_t = up_t + wider * width;
    transpose_weight(b, DOWN_WEIGHT, wider, width, down_t);
    transpose_weight(b, UP_WEIGHT, width, wider, up_t);
    transpose_weight(b, PROJ_WEIGHT, width, width, proj_t);
    base_status status = BASE_OK;
    for (size_t first = 0; first < end && status == BASE_OK; first += ROW_CHUNK) {
        next_chunk(b, first, end);
        status = backward_down(b, down_t, reterr);
        if (status == BASE_OK) {
            status = backward_up(b, up_t, reterr);
        }
        if (status == BASE_OK) {
            status = backward_projection(b, proj_t, reterr);
        }
    }
    return status;
}

/* The A active rows go back to their places among T rows, with zeros between. */
static void spread_active_rows(const rank_model *model, float *rows)
{
    const size_t width = (size_t)model->config.width;
    size_t end = model->tokens;
    for (size_t i = model->active_count; i-- > 0;) {
        const size_t to = (size_t)model->active[i];
        memset(rows + (to + 1) * width, 0, (end - to - 1) * width * sizeof *rows);
        memmove(rows + to * width, rows + i * width, width * sizeof *rows);
        end = to;
    }
    memset(rows, 0, end * width * sizeof *rows);
}

/* The gradient of the segments' qkv, in wide. */
static void attention_grad(const backward *b, segment_chunk segments)
{
    rank_model *model = b->model;
    const block_state *block = &model->blocks[b->layer];
    model->kernels->attention_grad(&(rank_attention){
        .width = (size_t)model->config.width,
        .heads = (size_t)model->config.heads,
        .segment_count = segments.count,
        .segment_start = model->batch->segment_start + segments.first,
        .segment_max = rank_segment_max(model),
        .qkv = block->qkv,
        .bias = param(b, QKV_BIAS),
        .row_max = block->row_max,
        .row_scale = block->row_scale,
        .dout = model->dbranch,
        .dqkv = model->wide,
        .dqkv_first = segments.rows.first,
        .dbias = grad(b, QKV_BIAS),
        .scratch = model->attention_scratch,
    });
    rank_profile_book(model->profile, RANK_PART_ATTENTION_GRAD);
}

/* From the gradient of attention's output, in dbranch, to that of the block's input, in dx. */
static base_status backward_below_attention(backward *b, base_error *reterr)
{
    rank_model *model = b->model;
    const size_t width = (size_t)model->config.width;
    const norm_state *norm = &model->blocks[b->layer].norm1;
    float *below =
        b->layer > 0 ? b->grads + rank_block_offset(model, b->layer - 1, DOWN_BIAS) : NULL;
    transpose_weight(b, QKV_WEIGHT, width, 3 * width, model->weights_t);
    segment_chunk segments = {.count = 0};
    while (rank_next_segments(model, &segments)) {
        b->rows = segments.rows;
        attention_grad(b, segments);
        base_status status = linear_dw(b, QKV_WEIGHT,
                                       (rank_matmul){.rows = width,
                                                     .columns = 3 * width,
                                                     .a = at(b, norm->out, width),
                                                     .b = model->wide},
                                       reterr);
        if (status == BASE_OK) {
            status = linear_dx(b,
                               (rank_matmul){.columns = width,
                                             .depth = 3 * width,
                                             .a = model->wide,
                                             .b = model->weights_t,
                                             .c = at(b, model->dbranch, width)},
                               reterr);
        }
        if (status != BASE_OK) {
            return status;
        }
        norm_grad(b, norm, LN1_WEIGHT, LN1_BIAS, below);
    }
    return BASE_OK;
}

static base_status backward_block(backward *b, base_error *reterr)
{
    rank_model *model = b->model;
    const int some = b->layer == model->config.layers - 1 && model->active_count < model->tokens;
    base_status status =
        backward_above_attention(b, some ? model->active_count : model->tokens, reterr);
    if (status != BASE_OK) {
        return status;
    }
    if (some) {
        spread_active_rows(model, model->dx);
        spread_active_rows(model, model->dbranch);
    }
    return backward_below_attention(b, reterr);
}

static void embed_grad(const backward *b)
{
    rank_model *model = b->model;
    const size_t width = (size_t)model->config.width;
    float *dwpe = b->grads + model->layout.wpe;
    memset(dwpe, 0, (size_t)model->config.context * width * sizeof *dwpe);
    model->kernels->embed_grad(&(rank_embed_grad){
        .tokens = model->tokens,
        .width = width,
        .ids = model->batch->ids,
        .positions = model->positions,
        .dx = model->dx,
        .dwte = b->grads + model->layout.wte,
        .dwpe = dwpe,
    });
    rank_profile_book(model->profile, RANK_PART_EMBED_GRAD);
}

base_status rank_backward_blocks(rank_model *model, float *grads, rank_grad_ready on_ready,
                                 void *on_ready_user, base_error *reterr)
{
    backward b = {.model = model, .grads = grads};
    for (int layer = model->config.layers - 1; layer >= 0; layer--) {
        b.layer = layer;
        const base_status status = backward_block(&b, reterr);
        if (status != BASE_OK) {
            return status;
        }
        if (on_ready != NULL) {
            rank_tell_block_ready(model, layer, on_ready, on_ready_user);
        }
    }
    embed_grad(&b);
    if (on_ready != NULL) {
        on_ready(on_ready_user, 0, model->layout.block);
    }
    return BASE_OK;
}
