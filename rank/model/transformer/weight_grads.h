/* Backward in two passes: what the first one, backward.c, leaves to the second, weight_grads.c. */
#ifndef RANK_MODEL_TRANSFORMER_WEIGHT_GRADS_H
#define RANK_MODEL_TRANSFORMER_WEIGHT_GRADS_H

#include "model/transformer/pass.h"

/* Rows of activations or gradients, as a factor of a weight's gradient. */
typedef struct factor_rows {
    const void *at;
    size_t columns;
    size_t row; /* elements from one row to the next; 0: columns */
} factor_rows;

/* Of the current layer's matrix (depth, columns), from a chunk's rows: dW = or, from the second chunk on, += xᵀ·dy; or its
 * transpose, dyᵀ·x, where the family keeps that. */
void transformer_linear_dw(const transformer_pass *pass, int tensor, row_chunk chunk, factor_rows x,
                           factor_rows dy);

/* Elements of a block's biases and norms. */
size_t transformer_count_vectors(const rank_model_config *config);

/* In a split backward; else nothing. The gradient of the layer's output, dx, is put where nobody needs
 * the stream any more; and so are the chunk's rows of dx behind the second norm, and of dqkv. */
void transformer_keep_output_grad(const transformer_pass *pass);
void transformer_keep_middle_grad(const transformer_pass *pass, row_chunk chunk);
void transformer_keep_dqkv(const transformer_pass *pass, row_chunk chunk);

#endif
