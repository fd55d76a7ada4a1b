/* Computes logits and losses from the final norm, and the gradients back to the stream. Called by
 * forward.c and backward.c. */
#include "model/gpt2/pass.h"
#include "model/pieces.h"

static const void *output_embedding(const gpt2_pass *pass)
{
    return gpt2_need_factor(pass, pass->layout.wte,
                            (size_t)pass->run->shape.config->vocab_size * pass->width);
}

/* wteᵀ, for products with rows of the final norm. */
static gpt2_operand output_operand(const gpt2_pass *pass)
{
    return gpt2_operand_make(pass,
                             &(gpt2_matrix){.at = output_embedding(pass),
                                            .depth = pass->width,
                                            .columns = (size_t)pass->run->shape.config->vocab_size,
                                            .transposed = true},
                             pass->output);
}

/* to.c (to.rows, V) = the final norm's rows from `first` on, times wteᵀ. */
static void make_logits(const gpt2_pass *pass, const gpt2_operand *output, size_t first,
                        gpt2_factor to)
{
    to.a = gpt2_at(pass, pass->norm_final.out, first * pass->width);
    gpt2_multiply(pass, output, to);
}

/* A run of neighbouring active rows is one product. */
void gpt2_logits(const gpt2_pass *pass, const int32_t *rows, size_t count, float *logits)
{
    const int32_t *active = pass->rows->active;
    const gpt2_operand output = output_operand(pass);
    size_t at = 0; /* an index of active rows */
    for (size_t i = 0; i < count;) {
        while (active[at] != rows[i]) {
            at++;
        }
        size_t run = 1;
        while (i + run < count && active[at + run] == rows[i + run]) {
            run++;
        }
        make_logits(pass, &output, at,
                    (gpt2_factor){.rows = run,
                                  .c = logits + i * (size_t)pass->run->shape.config->vocab_size});
        i += run;
        at += run;
    }
}

/* Where the rounded gradient of some rows' logits stands: behind these, in wide. NULL: float32. */
static rank_bfloat16 *rounded_gradient(const gpt2_pass *pass, size_t rows)
{
    const size_t logits = rank_pieces_size(rows * pass->logit_row);
    return pass->type == RANK_FLOAT32 ? NULL : (rank_bfloat16 *)((float *)pass->wide + logits);
}

/* From the gradient of some rows' logits: dwte (its output half) and, in dbranch, the final norm's
 * gradient. */
static void logits_grad(const gpt2_pass *pass, size_t first, size_t rows, float *dwte)
{
    const size_t width = pass->width;
    const size_t vocab_size = (size_t)pass->run->shape.config->vocab_size;
    const rank_bfloat16 *rounded = rounded_gradient(pass, rows);
    const void *dlogits = rounded != NULL ? (const void *)rounded : pass->wide;
    gpt2_multiply_transposed(pass,
                             (rank_product){.rows = vocab_size,
                                            .columns = width,
                                            .depth = rows,
                                            .a = dlogits,
                                            .a_depth = pass->logit_row,
                                            .b = gpt2_at(pass, pass->norm_final.out, first * width),
                                            .c = dwte,
                                            .accumulate = first > 0});
    pass->backend->product(pass->queue, &(rank_product){.rows = rows,
                                                        .columns = width,
                                                        .depth = vocab_size,
                                                        .a = dlogits,
                                                        .a_type = pass->type,
                                                        .a_row = pass->logit_row,
                                                        .a_depth = 1,
                                                        .b = output_embedding(pass),
                                                        .b_type = pass->type,
                                                        .b_row = width,
                                                        .c = pass->dbranch + first * width,
                                                        .c_row = width,
                                                        .leaves = 1});
}

static void norm_final_grad(const gpt2_pass *pass)
{
    const gpt2_layout *layout = &pass->layout;
    pass->backend->layernorm_grad(
        pass->queue,
        &(rank_layernorm_grad){
            .rows = pass->rows->active_count,
            .width = pass->width,
            .keep = false,
            .x = pass->norm_final.x,
            .mean = pass->norm_final.mean,
            .rstd = pass->norm_final.rstd,
            .weight = gpt2_need(pass, layout->final_weight, pass->width),
            .dout = pass->dbranch,
            .dx = pass->dx,
            .dweight = gpt2_grad(pass, layout->final_weight),
            .dbias = gpt2_grad(pass, layout->final_bias),
            .dx_sum = gpt2_grad(pass, gpt2_offset(pass, (int)pass->layers - 1, DOWN_BIAS)),
            .rounded = pass->narrow_dx,
        });
}

/* Takes as many rows at a time as there is room for logits. */
void gpt2_loss(const gpt2_pass *pass, double *loss)
{
    const bool want_gradient = pass->grads != NULL;
    const size_t active_count = pass->rows->active_count;
    const gpt2_operand output = output_operand(pass);
    for (size_t first = 0; first < active_count; first += pass->logit_rows_at_once) {
        const size_t left = active_count - first;
        const size_t rows = left < pass->logit_rows_at_once ? left : pass->logit_rows_at_once;
        make_logits(pass, &output, first,
                    (gpt2_factor){.rows = rows, .c = pass->wide, .c_row = pass->logit_row});
        pass->backend->cross_entropy(
            pass->queue, &(rank_cross_entropy){
                             .rows = rows,
                             .vocab_size = (size_t)pass->run->shape.config->vocab_size,
                             .targets = pass->rows->active_targets + first,
                             .logits = pass->wide,
                             .want_gradient = want_gradient,
                             .loss = loss,
                             .row_floats = pass->logit_row,
                             .rounded = want_gradient ? rounded_gradient(pass, rows) : NULL,
                         });
        if (want_gradient) {
            logits_grad(pass, first, rows, gpt2_grad(pass, pass->layout.wte));
        }
    }
    if (want_gradient) {
        norm_final_grad(pass);
    }
}
