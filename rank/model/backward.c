#include <string.h>

#include "model/state.h"

typedef struct backward {
    rank_model *model;
    float *grads;
    int layer;
    size_t rows; /* of the residual stream: A from the last block's projection up, else T */
} backward;

static float *grad(const backward *b, int tensor)
{
    return b->grads + rank_block_offset(b->model, b->layer, tensor);
}

static const float *param(const backward *b, int tensor)
{
    return b->model->params + rank_block_offset(b->model, b->layer, tensor);
}

/* For y (rows, columns) = x (rows, depth) · W: dW = xᵀ·dy, and then dx = dy·Wᵀ. */
typedef struct linear_grad {
    int tensor;
    size_t rows;
    size_t columns;
    size_t depth;
    const float *x;
    const float *dy;
    float *dx; /* NULL: not wanted yet */
} linear_grad;

static base_status linear_dw(const backward *b, const linear_grad *l, base_error *reterr)
{
    const base_status status = rank_matmul_tn(&(rank_matmul){.rows = l->depth,
                                                             .columns = l->columns,
                                                             .depth = l->rows,
                                                             .a = l->x,
                                                             .b = l->dy,
                                                             .c = grad(b, l->tensor)},
                                              reterr);
    rank_profile_book(b->model->profile, RANK_PART_MATMUL_DW);
    return status;
}

static base_status linear_dx(const backward *b, const linear_grad *l, base_error *reterr)
{
    const base_status status = rank_matmul_nt(&(rank_matmul){.rows = l->rows,
                                                             .columns = l->depth,
                                                             .depth = l->columns,
                                                             .a = l->dy,
                                                             .b = param(b, l->tensor),
                                                             .c = l->dx},
                                              reterr);
    rank_profile_book(b->model->profile, RANK_PART_MATMUL_DX);
    return status;
}

static base_status linear_both(const backward *b, const linear_grad *l, base_error *reterr)
{
    const base_status status = linear_dw(b, l, reterr);
    return status != BASE_OK ? status : linear_dx(b, l, reterr);
}

/* dx of the residual stream += the layer norm's backward of dbranch. dx_sum is the gradient of the
 * bias that was added to this stream last. */
static void norm_grad(const backward *b, const norm_state *norm, int weight, int bias,
                      float *dx_sum)
{
    rank_model *model = b->model;
    model->kernels->layernorm_grad(&(rank_layernorm_grad){
        .rows = b->rows,
        .width = (size_t)model->config.width,
        .keep = 1,
        .x = norm->x,
        .mean = norm->mean,
        .rstd = norm->rstd,
        .weight = param(b, weight),
        .dout = model->dbranch,
        .dx = model->dx,
        .dweight = grad(b, weight),
        .dbias = grad(b, bias),
        .dx_sum = dx_sum,
    });
    rank_profile_book(model->profile, RANK_PART_LAYERNORM_GRAD);
}

/* The feed-forward half: dx enters as the gradient of the block's output, and leaves as that of the
 * stream between the halves. */
static base_status backward_feed_forward(const backward *b, base_error *reterr)
{
    rank_model *model = b->model;
    const block_state *block = &model->blocks[b->layer];
    const size_t width = (size_t)model->config.width;
    const linear_grad down = {.tensor = DOWN_WEIGHT,
                              .rows = b->rows,
                              .columns = width,
                              .depth = WIDENING * width,
                              .x = block->up,
                              .dy = model->dx,
                              .dx = model->wide};
    const linear_grad up = {.tensor = UP_WEIGHT,
                            .rows = b->rows,
                            .columns = WIDENING * width,
                            .depth = width,
                            .x = block->norm2.out,
                            .dy = model->wide,
                            .dx = model->dbranch};
    base_status status = linear_dx(b, &down, reterr);
    if (status != BASE_OK) {
        return status;
    }
    model->kernels->gelu_grad(&(rank_gelu_grad){.rows = b->rows,
                                                .width = WIDENING * width,
                                                .x = block->up,
                                                .d = model->wide,
                                                .dbias = grad(b, UP_BIAS)});
    rank_profile_book(model->profile, RANK_PART_GELU_GRAD);
    status = linear_dw(b, &down, reterr);
    if (status == BASE_OK) {
        status = linear_both(b, &up, reterr);
    }
    if (status == BASE_OK) {
        norm_grad(b, &block->norm2, LN2_WEIGHT, LN2_BIAS, grad(b, PROJ_BIAS));
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

static void attention_grad(const backward *b)
{
    rank_model *model = b->model;
    const block_state *block = &model->blocks[b->layer];
    model->kernels->attention_grad(&(rank_attention){
        .width = (size_t)model->config.width,
        .heads = (size_t)model->config.heads,
        .segment_count = (size_t)model->batch->segment_count,
        .segment_start = model->batch->segment_start,
        .segment_max = rank_segment_max(model),
        .qkv = block->qkv,
        .row_max = block->row_max,
        .row_scale = block->row_scale,
        .dout = model->dbranch,
        .dqkv = model->wide,
        .dbias = grad(b, QKV_BIAS),
        .scratch = model->attention_scratch,
    });
    rank_profile_book(model->profile, RANK_PART_ATTENTION_GRAD);
}

static base_status backward_attention(backward *b, base_error *reterr)
{
    rank_model *model = b->model;
    const block_state *block = &model->blocks[b->layer];
    const size_t width = (size_t)model->config.width;
    const linear_grad proj = {.tensor = PROJ_WEIGHT,
                              .rows = b->rows,
                              .columns = width,
                              .depth = width,
                              .x = block->attention,
                              .dy = model->dx,
                              .dx = model->dbranch};
    const linear_grad qkv = {.tensor = QKV_WEIGHT,
                             .rows = model->tokens,
                             .columns = 3 * width,
                             .depth = width,
                             .x = block->norm1.out,
                             .dy = model->wide,
                             .dx = model->dbranch};
    base_status status = linear_both(b, &proj, reterr);
    if (status != BASE_OK) {
        return status;
    }
    if (b->rows < model->tokens) {
        spread_active_rows(model, model->dx);
        spread_active_rows(model, model->dbranch);
        b->rows = model->tokens;
    }
    attention_grad(b);
    status = linear_both(b, &qkv, reterr);
    if (status == BASE_OK) {
        float *below =
            b->layer > 0 ? b->grads + rank_block_offset(model, b->layer - 1, DOWN_BIAS) : NULL;
        norm_grad(b, &block->norm1, LN1_WEIGHT, LN1_BIAS, below);
    }
    return status;
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
    backward b = {.model = model, .grads = grads, .rows = model->active_count};
    for (int layer = model->config.layers - 1; layer >= 0; layer--) {
        b.layer = layer;
        base_status status = backward_feed_forward(&b, reterr);
        if (status == BASE_OK) {
            status = backward_attention(&b, reterr);
        }
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
