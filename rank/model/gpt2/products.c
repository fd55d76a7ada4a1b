/* The matrix products of a pass: by the backend's own kernels, whose bits decoding has too, or by
 * its matrix library. Called by the other files of this directory. */
#include "model/gpt2/pass.h"

static bool by_engine(const gpt2_pass *pass)
{
    return pass->run->shape.products == RANK_PRODUCTS_ENGINE;
}

gpt2_operand gpt2_operand_make(const gpt2_pass *pass, const gpt2_matrix *matrix, float *to)
{
    const rank_backend *backend = pass->backend;
    if (by_engine(pass)) {
        backend->pack(pass->queue,
                      &(rank_pack){.depth = matrix->depth,
                                   .columns = matrix->columns,
                                   .from = matrix->at,
                                   .from_row = matrix->transposed ? matrix->depth : matrix->columns,
                                   .transposed = matrix->transposed,
                                   .to = to,
                                   .to_panel = matrix->depth * RANK_PANEL});
        return (gpt2_operand){.at = to, .depth = matrix->depth, .columns = matrix->columns};
    }
    gpt2_operand made = {.at = matrix->at,
                         .depth = matrix->depth,
                         .columns = matrix->columns,
                         .kind = matrix->transposed ? RANK_MATMUL_NT : RANK_MATMUL_NN};
    if (matrix->transposed && matrix->chunks && backend->transpose != NULL) {
        backend->transpose(pass->queue, &(rank_transpose){.rows = matrix->columns,
                                                          .columns = matrix->depth,
                                                          .from = matrix->at,
                                                          .to = to});
        made.at = to;
        made.kind = RANK_MATMUL_NN;
    }
    return made;
}

void gpt2_multiply(const gpt2_pass *pass, const gpt2_operand *operand, gpt2_factor by)
{
    if (by_engine(pass)) {
        pass->backend->product(pass->queue,
                               &(rank_product){.rows = by.rows,
                                               .columns = operand->columns,
                                               .depth = operand->depth,
                                               .a = by.a,
                                               .a_row = operand->depth,
                                               .a_depth = 1,
                                               .b = operand->at,
                                               .c = by.c,
                                               .c_row = operand->columns,
                                               .leaves = by.leaves > 0 ? by.leaves : 1});
        return;
    }
    pass->backend->matmul(pass->queue, &(rank_matmul){.rows = by.rows,
                                                      .columns = operand->columns,
                                                      .depth = operand->depth,
                                                      .a = by.a,
                                                      .b = operand->at,
                                                      .c = by.c,
                                                      .kind = operand->kind});
}

void gpt2_multiply_plain(const gpt2_pass *pass, rank_matmul product)
{
    if (!by_engine(pass)) {
        pass->backend->matmul(pass->queue, &product);
        return;
    }
    const bool transposed = product.kind == RANK_MATMUL_TN;
    pass->backend->product(pass->queue,
                           &(rank_product){.rows = product.rows,
                                           .columns = product.columns,
                                           .depth = product.depth,
                                           .a = product.a,
                                           .a_row = transposed ? 1 : product.depth,
                                           .a_depth = transposed ? product.rows : 1,
                                           .b = product.b,
                                           .b_row = product.columns,
                                           .scratch = transposed ? pass->packed_rows : NULL,
                                           .c = product.c,
                                           .c_row = product.columns,
                                           .leaves = 1,
                                           .accumulate = product.accumulate});
}
