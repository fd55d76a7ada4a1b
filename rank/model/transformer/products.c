/* The matrix products of a pass, by the operation that decoding uses as well: so both have the same
 * bits. Called by the other files of this directory. */
#include "model/transformer/pass.h"

transformer_operand transformer_operand_make(const transformer_pass *pass,
                                             const transformer_matrix *matrix, float *to)
{
    const size_t row = matrix->transposed ? matrix->depth : matrix->columns;
    if (!pass->backend->packs) {
        return (transformer_operand){.at = matrix->at,
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
    return (transformer_operand){.at = to, .depth = matrix->depth, .columns = matrix->columns};
}

void transformer_multiply(const transformer_pass *pass, const transformer_operand *operand,
                          transformer_factor by)
{
    pass->backend->product(pass->queue,
                           &(rank_product){.rows = by.rows,
                                           .columns = operand->columns,
                                           .depth = operand->depth,
                                           .a = by.a,
                                           .a_type = pass->type,
                                           .a_row = by.a_row > 0 ? by.a_row : operand->depth,
                                           .a_depth = 1,
                                           .b = operand->at,
                                           .b_type = pass->type,
                                           .b_row = operand->row,
                                           .b_transposed = operand->transposed,
                                           .c = by.c,
                                           .c_type = by.c_type,
                                           .c_row = by.c_row > 0 ? by.c_row : operand->columns,
                                           .leaves = by.leaves > 0 ? by.leaves : 1,
                                           .parts = {by.parts[0], by.parts[1], by.parts[2]}});
}

void transformer_multiply_transposed(const transformer_pass *pass, rank_product product)
{
    product.a_type = pass->type;
    product.a_row = 1;
    product.a_depth = product.a_depth > 0 ? product.a_depth : product.rows;
    product.b_type = pass->type;
    product.b_row = product.b_row > 0 ? product.b_row : product.columns;
    product.scratch = pass->packed_rows;
    product.c_row = product.columns;
    product.leaves = 1;
    pass->backend->product(pass->queue, &product);
}
