#include <string.h>

#include "model/state.h"
#include "rank/model.h"

static base_status begin(rank_model *model, const float *params, const rank_batch *batch,
                         base_error *reterr)
{
    model->params = params;
    model->batch = batch;
    model->tokens = (size_t)(batch->token_count > 0 ? batch->token_count : 0);
    rank_matmul_use_one_thread();
    return rank_batch_check(model, batch, reterr);
}

/* logits (rows, V) = the final norm's rows first … first + rows, times wteᵀ. */
static base_status make_logits(rank_model *model, const float *rows_in, size_t rows, float *logits,
                               base_error *reterr)
{
    const size_t width = (size_t)model->config.width;
    const base_status status =
        rank_matmul_nt(&(rank_matmul){.rows = rows,
                                      .columns = (size_t)model->config.vocab_size,
                                      .depth = width,
                                      .a = rows_in,
                                      .b = model->params + model->layout.wte,
                                      .c = logits},
                       reterr);
    rank_profile_book(model->profile, RANK_PART_MATMUL_FORWARD);
    return status;
}

/* Logits become their gradient if wanted. */
static double cross_entropy(rank_model *model, size_t first, size_t rows, int want_gradient)
{
    const double loss = model->kernels->cross_entropy(&(rank_cross_entropy){
        .rows = rows,
        .vocab_size = (size_t)model->config.vocab_size,
        .targets = model->active_targets + first,
        .logits = model->wide,
        .want_gradient = want_gradient,
    });
    rank_profile_book(model->profile, RANK_PART_CROSS_ENTROPY);
    return loss;
}

/* From the gradient of some rows' logits: dwte (its output half) and the final norm's gradient. */
static base_status logits_grad(rank_model *model, size_t first, size_t rows, float *dwte,
                               base_error *reterr)
{
    const size_t width = (size_t)model->config.width;
    const size_t vocab_size = (size_t)model->config.vocab_size;
    base_status status = rank_matmul_tn(&(rank_matmul){.rows = vocab_size,
                                                       .columns = width,
                                                       .depth = rows,
                                                       .a = model->wide,
                                                       .b = model->norm_final.out + first * width,
                                                       .c = dwte,
                                                       .accumulate = first > 0},
                                        reterr);
    rank_profile_book(model->profile, RANK_PART_MATMUL_DW);
    if (status != BASE_OK) {
        return status;
    }
    status = rank_matmul_nn(&(rank_matmul){.rows = rows,
                                           .columns = width,
                                           .depth = vocab_size,
                                           .a = model->wide,
                                           .b = model->params + model->layout.wte,
                                           .c = model->dbranch + first * width},
                            reterr);
    rank_profile_book(model->profile, RANK_PART_MATMUL_DX);
    return status;
}

/* The loss of all active rows, as many rows at once as there is room for logits. With grads, also
 * the gradients of the output embedding and (in dbranch) of the final norm. */
static base_status loss_of_rows(rank_model *model, float *grads, double *loss_sum,
                                base_error *reterr)
{
    const size_t width = (size_t)model->config.width;
    for (size_t first = 0; first < model->active_count; first += model->logit_rows_at_once) {
        const size_t left = model->active_count - first;
        const size_t rows = left < model->logit_rows_at_once ? left : model->logit_rows_at_once;
        base_status status =
            make_logits(model, model->norm_final.out + first * width, rows, model->wide, reterr);
        if (status != BASE_OK) {
            return status;
        }
        *loss_sum += cross_entropy(model, first, rows, grads != NULL);
        if (grads != NULL) {
            status = logits_grad(model, first, rows, grads + model->layout.wte, reterr);
        }
        if (status != BASE_OK) {
            return status;
        }
    }
    return BASE_OK;
}

void rank_tell_block_ready(const rank_model *model, int layer, rank_grad_ready on_ready,
                           void *on_ready_user)
{
    const size_t offset = rank_block_offset(model, layer, LN1_WEIGHT);
    const int last = layer == model->config.layers - 1;
    const size_t end = last ? model->layout.total : offset + model->layout.block_count;
    on_ready(on_ready_user, offset, end - offset);
}

/* Without targets every gradient is zero. */
static void zero_grads(const rank_model *model, float *grads, rank_grad_ready on_ready,
                       void *on_ready_user)
{
    memset(grads, 0, model->layout.total * sizeof *grads);
    if (on_ready == NULL) {
        return;
    }
    for (int layer = model->config.layers - 1; layer >= 0; layer--) {
        rank_tell_block_ready(model, layer, on_ready, on_ready_user);
    }
    on_ready(on_ready_user, 0, model->layout.block);
}

/* Biases and norms collect their gradients chunk by chunk. */
static void zero_vector_grads(const rank_model *model, float *grads)
{
    for (int i = 0; i < rank_model_tensor_count(&model->config); i++) {
        rank_tensor tensor;
        rank_model_tensor(&model->config, i, &tensor);
        if (tensor.dims == 1) {
            memset(grads + tensor.offset, 0, tensor.count * sizeof *grads);
        }
    }
}

static void norm_final_grad(rank_model *model, float *grads)
{
    const int last = model->config.layers - 1;
    model->kernels->layernorm_grad(&(rank_layernorm_grad){
        .rows = model->active_count,
        .width = (size_t)model->config.width,
        .keep = 0,
        .x = model->norm_final.x,
        .mean = model->norm_final.mean,
        .rstd = model->norm_final.rstd,
        .weight = model->params + model->layout.final_weight,
        .dout = model->dbranch,
        .dx = model->dx,
        .dweight = grads + model->layout.final_weight,
        .dbias = grads + model->layout.final_bias,
        .dx_sum = grads + rank_block_offset(model, last, DOWN_BIAS),
    });
    rank_profile_book(model->profile, RANK_PART_LAYERNORM_GRAD);
}

base_status rank_model_train(rank_model *model, const float *params, const rank_batch *batch,
                             float *grads, rank_grad_ready on_ready, void *on_ready_user,
                             double *loss_sum, int64_t *target_count, base_error *reterr)
{
    *loss_sum = 0.0;
    *target_count = 0;
    if (!model->for_training) {
        return base_fail(reterr, BASE_ERR_STATE, "model: made for forward only");
    }
    base_status status = begin(model, params, batch, reterr);
    if (status != BASE_OK) {
        return status;
    }
    const size_t targets = rank_model_set_active(model, NULL, 0);
    if (targets == 0) {
        zero_grads(model, grads, on_ready, on_ready_user);
        return BASE_OK;
    }
    zero_vector_grads(model, grads);
    status = rank_forward_blocks(model, reterr);
    if (status == BASE_OK) {
        status = loss_of_rows(model, grads, loss_sum, reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    norm_final_grad(model, grads);
    *target_count = (int64_t)targets;
    return rank_backward_blocks(model, grads, on_ready, on_ready_user, reterr);
}

static base_status check_logit_rows(const rank_batch *batch, const int32_t *rows, int count,
                                    base_error *reterr)
{
    for (int i = 0; i < count; i++) {
        const int32_t least = i > 0 ? rows[i - 1] + 1 : 0;
        if (rows[i] < least || rows[i] >= batch->token_count) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "logits: row %d is %d; rows ascend, below %d tokens", i, (int)rows[i],
                             batch->token_count);
        }
    }
    return BASE_OK;
}

/* logits (count, V) of the listed token rows, which are all active. A run of neighbours among the
 * active rows is one product. */
static base_status logits_of_rows(rank_model *model, const int32_t *rows, size_t count,
                                  float *logits, base_error *reterr)
{
    const size_t width = (size_t)model->config.width;
    size_t at = 0; /* among the active rows */
    for (size_t i = 0; i < count;) {
        while (model->active[at] != rows[i]) {
            at++;
        }
        size_t run = 1;
        while (i + run < count && model->active[at + run] == rows[i + run]) {
            run++;
        }
        const base_status status =
            make_logits(model, model->norm_final.out + at * width, run,
                        logits + i * (size_t)model->config.vocab_size, reterr);
        if (status != BASE_OK) {
            return status;
        }
        i += run;
        at += run;
    }
    return BASE_OK;
}

/* Leaves only rows with a target among the active ones, and their norms beside each other. */
static void keep_target_rows(rank_model *model)
{
    const size_t width = (size_t)model->config.width;
    float *out = model->norm_final.out;
    size_t kept = 0;
    for (size_t i = 0; i < model->active_count; i++) {
        if (model->active_targets[i] >= 0) {
            model->active_targets[kept] = model->active_targets[i];
            memmove(out + kept * width, out + i * width, width * sizeof *out);
            kept++;
        }
    }
    model->active_count = kept;
}

base_status rank_model_forward(rank_model *model, const float *params, const rank_batch *batch,
                               const int32_t *logit_rows, int logit_row_count, float *logits,
                               double *loss_sum, int64_t *target_count, base_error *reterr)
{
    double loss_here = 0.0;
    int64_t targets_here = 0;
    loss_sum = loss_sum != NULL ? loss_sum : &loss_here;
    target_count = target_count != NULL ? target_count : &targets_here;
    *loss_sum = 0.0;
    *target_count = 0;
    base_status status = begin(model, params, batch, reterr);
    const int rows = logit_rows != NULL ? logit_row_count : 0;
    if (status == BASE_OK) {
        status = check_logit_rows(batch, logit_rows, rows, reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    const size_t targets = rank_model_set_active(model, logit_rows, (size_t)rows);
    if (model->active_count == 0) {
        return BASE_OK;
    }
    status = rank_forward_blocks(model, reterr);
    if (status == BASE_OK) {
        status = logits_of_rows(model, logit_rows, (size_t)rows, logits, reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    keep_target_rows(model);
    *target_count = (int64_t)targets;
    return loss_of_rows(model, NULL, loss_sum, reterr);
}
