/* Backward in two passes: what the first one, backward.c, leaves to the second, weight_grads.c, and what both need. */
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

/* In a split backward, in place of that: keeps the chunk's dy for the second pass. Its rows are as far apart as those of what
 * came out. x is kept by forward, and of DOWN_WEIGHT by backward, which makes it. */
void transformer_keep_dy(const transformer_pass *pass, int tensor, row_chunk chunk, const void *dy);

/* Targets of the micro-batch, whoever has them. */
static inline size_t transformer_target_count(const transformer_pass *pass)
{
    return pass->run->shape.cp != NULL ? pass->rows->whole_target_count : pass->rows->target_count;
}

/* The next rows that a layer's lower half takes at once in backward; segments are zeros before the first call. They are
 * whole segments, but where ranks share the micro-batch. False: there are none. */
bool transformer_next_rows(const transformer_pass *pass, rank_segments *segments);

#endif
