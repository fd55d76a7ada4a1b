/* Computes logits and losses from the final norm, and the gradients back to the stream. Called by
 * forward.c and backward.c. */
#include "model/pieces.h"
#include "model/transformer/pass.h"

static const void *output_matrix(const transformer_pass *pass, size_t columns)
{
    return transformer_need_factor(pass, pass->layout.output, columns * pass->width);
}

/* Its transpose, for products with rows of the final norm. */
static transformer_operand output_operand(const transformer_pass *pass, size_t columns)
{
    return transformer_operand_make(pass,
                                    &(transformer_matrix){.at = output_matrix(pass, columns),
                                                          .depth = pass->width,
                                                          .columns = columns,
                                                          .transposed = true},
                                    pass->output);
}

/* to.c (to.rows, V) = the final norm's rows from `first` on, times the output's
 * matrix. */
static void make_logits(const transformer_pass *pass, const transformer_operand *output,
                        size_t first, transformer_factor to)
{
    to.a = transformer_at(pass, pass->norm_final.out, first * pass->width);
    transformer_multiply(pass, output, to);
}

/* A run of neighbouring active rows is one product. */
void transformer_logits(const transformer_pass *pass, const int32_t *rows, size_t count,
                        float *logits)
{
    const int32_t *active = pass->rows->active;
    const transformer_operand output = output_operand(pass, pass->sizes.vocab_size);
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
                    (transformer_factor){.rows = run, .c = logits + i * pass->sizes.vocab_size});
        i += run;
        at += run;
    }
}

/* Ids in a leaf of a sum over the vocabulary: of some leaves that ranks are given whole. */
static size_t leaf_width(const transformer_pass *pass)
{
    const rank_model_config *config = pass->run->shape.config;
    const int leaves = pass->of.leaves * rank_tensor_ranks(config);
    return (size_t)rank_tp_leaf_width(config->vocab_size) * (size_t)(RANK_TP_LEAVES / leaves);
}

/* Where the rounded gradient of some rows' logits stands: behind these, in wide. NULL: float32. */
static rank_bfloat16 *rounded_gradient(const transformer_pass *pass, size_t rows)
{
    const size_t logits = rank_pieces_size(rows * pass->logit_row);
    return pass->type == RANK_FLOAT32 ? NULL : (rank_bfloat16 *)((float *)pass->wide + logits);
}

/* From the gradient of some rows' logits: that of the output's matrix, unless doutput is NULL, and, in
 * dbranch, the final norm's gradient. */
static void logits_grad(const transformer_pass *pass, size_t first, size_t rows, float *doutput)
{
    const size_t width = pass->width;
    const size_t columns = pass->logit_columns; /* behind V the gradient is zero */
    const rank_bfloat16 *rounded = rounded_gradient(pass, rows);
    float *dnorm = pass->dbranch + first * width;
    const void *dlogits = rounded != NULL ? (const void *)rounded : pass->wide;
    if (doutput != NULL) {
        transformer_multiply_transposed(
            pass, (rank_product){.rows = columns,
                                 .columns = width,
                                 .depth = rows,
                                 .a = dlogits,
                                 .a_depth = pass->logit_row,
                                 .b = transformer_at(pass, pass->norm_final.out, first * width),
                                 .c = doutput,
                                 .accumulate = first > 0});
    }
    pass->backend->product(pass->queue,
                           &(rank_product){.rows = rows,
                                           .columns = width,
                                           .depth = columns,
                                           .a = dlogits,
                                           .a_type = pass->type,
                                           .a_row = pass->logit_row,
                                           .a_depth = 1,
                                           .b = output_matrix(pass, columns),
                                           .b_type = pass->type,
                                           .b_row = width,
                                           .c = dnorm,
                                           .c_row = width,
                                           .leaves = transformer_grad_leaves(pass, pass->of.leaves),
                                           .leaf_depth = leaf_width(pass)});
    transformer_sum_over_ranks(pass, dnorm, rows * width);
}

static void norm_final_grad(const transformer_pass *pass)
{
    const transformer_layout *layout = &pass->layout;
    transformer_norm_grad(
        pass, (row_chunk){0, pass->rows->active_count}, &pass->norm_final,
        (norm_grads){
            .weight = transformer_need(pass, layout->final_weight, pass->width),
            .dweight = transformer_grad(pass, layout->final_weight),
            .dbias = pass->sizes.biased ? transformer_grad(pass, layout->final_bias) : NULL,
            .dx_sum = transformer_sum_grad(pass, (int)pass->layers - 1, DOWN_BIAS),
        });
}

/* Adds the loss of some rows to args.loss, and makes the gradient of their logits in its place. */
static void cross_entropy(const transformer_pass *pass, rank_cross_entropy args)
{
    const rank_tp *tp = pass->run->shape.tp;
    args.vocab_size = pass->sizes.vocab_size;
    args.logits = pass->wide;
    args.row_floats = pass->logit_row;
    args.leaves = pass->of.leaves;
    args.leaf_columns = leaf_width(pass);
    if (tp == NULL || tp->ranks == 1) {
        pass->backend->cross_entropy(pass->queue, &args);
        return;
    }
    args.shared = (rank_loss_shared){.step = RANK_LOSS_LARGEST,
                                     .first_id = tp->vocab_first,
                                     .largest = pass->shared_loss,
                                     .sum = pass->shared_loss + args.rows,
                                     .target = pass->shared_loss + 2 * args.rows};
    pass->backend->cross_entropy(pass->queue, &args);
    tp->all_reduce_max(tp->group, args.shared.largest, args.rows);
    args.shared.step = RANK_LOSS_SUM;
    pass->backend->cross_entropy(pass->queue, &args);
    tp->all_reduce(tp->group, args.shared.sum, 2 * args.rows);
    args.shared.step = RANK_LOSS_GRADIENT;
    pass->backend->cross_entropy(pass->queue, &args);
}

/* Takes as many rows at a time as there is room for logits. */
void transformer_loss(const transformer_pass *pass, double *loss)
{
    const bool want_gradient = pass->grads != NULL;
    const size_t active_count = pass->rows->active_count;
    const transformer_operand output = output_operand(pass, pass->logit_columns);
    for (size_t first = 0; first < active_count; first += pass->logit_rows_at_once) {
        const size_t left = active_count - first;
        const size_t rows = left < pass->logit_rows_at_once ? left : pass->logit_rows_at_once;
        make_logits(pass, &output, first,
                    (transformer_factor){.rows = rows, .c = pass->wide, .c_row = pass->logit_row});
        cross_entropy(pass, (rank_cross_entropy){
                                .rows = rows,
                                .targets = pass->rows->active_targets + first,
                                .want_gradient = want_gradient,
                                .loss = loss,
                                .rounded = want_gradient ? rounded_gradient(pass, rows) : NULL,
                            });
        if (want_gradient) {
            logits_grad(pass, first, rows, transformer_grad(pass, pass->layout.output));
        }
    }
    if (want_gradient) {
        norm_final_grad(pass);
    }
}
