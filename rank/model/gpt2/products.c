/* The matrix products of a pass, by the operation that decoding uses as well: so both have the same
 * bits. Called by the other files of this directory. */
#include "model/gpt2/pass.h"

gpt2_operand gpt2_operand_make(const gpt2_pass *pass, const gpt2_matrix *matrix, float *to)
{
    const size_t row = matrix->transposed ? matrix->depth : matrix->columns;
    if (!pass->backend->packs) {
        return (gpt2_operand){.at = matrix->at,
                              .row = row,
                              .transposed = matrix->transposed,
                              .depth = matrix->depth,
                              .columns = matrix->columns};
    }
    pass->backend->pack(pass->queue, &(rank_pack){.depth = matrix->depth,
                                                  .columns = matrix->columns,
                                                  .from = matrix->at,
                                                  .from_row = row,
                                                  .transposed = matrix->transposed,
                                                  .to = to,
                                                  .to_panel = matrix->depth * RANK_PANEL});
    return (gpt2_operand){.at = to, .depth = matrix->depth, .columns = matrix->columns};
}

void gpt2_multiply(const gpt2_pass *pass, const gpt2_operand *operand, gpt2_factor by)
{
    pass->backend->product(pass->queue,
                           &(rank_product){.rows = by.rows,
                                           .columns = operand->columns,
                                           .depth = operand->depth,
                                           .a = by.a,
                                           .a_type = pass->type,
                                           .a_row = operand->depth,
                                           .a_depth = 1,
                                           .b = operand->at,
                                           .b_type = pass->type,
                                           .b_row = operand->row,
                                           .b_transposed = operand->transposed,
                                           .c = by.c,
                                           .c_type = by.c_type,
                                           .c_row = by.c_row > 0 ? by.c_row : operand->columns,
                                           .leaves = by.leaves > 0 ? by.leaves : 1});
}

void gpt2_multiply_transposed(const gpt2_pass *pass, rank_product product)
{
    product.a_type = pass->type;
    product.a_row = 1;
    product.a_depth = product.a_depth > 0 ? product.a_depth : product.rows;
    product.b_type = pass->type;
    product.b_row = product.columns;
    product.scratch = pass->packed_rows;
    product.c_row = product.columns;
    product.leaves = 1;
    pass->backend->product(pass->queue, &product);
}
