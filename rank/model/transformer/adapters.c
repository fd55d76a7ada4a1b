/* The adapters of a block's linear layers (rank/adapters.h) in a pass. Called by forward.c and backward.c
 * beside the products with the frozen weights.
 *
 * q, k and v are one product, and so are gate and up: each of them has adapters of its own, which add to its
 * own columns. x · Aᵀ is small, so that backward computes it again. */
#include "model/transformer/pass.h"

/* The adapter of some columns of a tensor's product. */
typedef struct part {
    size_t in;
    size_t out;
    size_t column; /* the first */
    size_t a;      /* where A and B stand among the adapters' parameters */
    size_t b;
} part;

/* The next part of the tensor from *at on, which is counted on. False: there is none. */
static bool next_part(const transformer_pass *pass, int tensor, int *at, part *found)
{
    const size_t *in_block = pass->layout.in_block;
    const size_t block = (size_t)pass->layer * pass->adapted.elements;
    while (pass->adapters != NULL && *at < pass->adapted.count) {
        const rank_adapted *of = &pass->adapted.layers[(*at)++];
        if (of->offset >= in_block[tensor] && of->offset < in_block[tensor + 1]) {
            *found = (part){.in = of->in,
                            .out = of->out,
                            .column = (of->offset - in_block[tensor]) / of->in,
                            .a = block + of->a,
                            .b = block + of->b};
            return true;
        }
    }
    return false;
}

/* c (rows, columns) = a (rows, depth) · b, or += it. b is (depth, columns), or its transpose. */
static void multiply(const transformer_pass *pass, rank_product product)
{
    product.a_depth = 1;
    product.b_row = product.b_transposed ? product.depth : product.columns;
    product.leaves = 1;
    pass->backend->product(pass->queue, &product);
}

static void scale(const transformer_pass *pass, float *at, size_t rows)
{
    const rank_adapters *of = &pass->run->shape.config->adapters;
    pass->backend->scale(
        pass->queue,
        &(rank_scale){.count = rows * (size_t)of->rank, .factor = of->scale, .at = at});
}

static size_t rank_of(const transformer_pass *pass)
{
    return (size_t)pass->run->shape.config->adapters.rank;
}

/* low = scale · x · Aᵀ */
static void make_low(const transformer_pass *pass, const part *of, size_t rows, transformer_rows x)
{
    multiply(pass, (rank_product){.rows = rows,
                                  .columns = rank_of(pass),
                                  .depth = of->in,
                                  .a = x.at,
                                  .a_row = x.row,
                                  .b = pass->adapters + of->a,
                                  .b_transposed = true,
                                  .c = pass->low,
                                  .c_row = rank_of(pass)});
    scale(pass, pass->low, rows);
}

/* dlow = scale · dy · B */
static void make_dlow(const transformer_pass *pass, const part *of, size_t rows,
                      transformer_rows dy)
{
    multiply(pass, (rank_product){.rows = rows,
                                  .columns = rank_of(pass),
                                  .depth = of->out,
                                  .a = dy.at + of->column,
                                  .a_row = dy.row,
                                  .b = pass->adapters + of->b,
                                  .c = pass->dlow,
                                  .c_row = rank_of(pass)});
    scale(pass, pass->dlow, rows);
}

void transformer_adapt(const transformer_pass *pass, int tensor, size_t rows, transformer_rows x,
                       float *y, size_t y_row)
{
    part of;
    for (int at = 0; next_part(pass, tensor, &at, &of);) {
        make_low(pass, &of, rows, x);
        multiply(pass, (rank_product){.rows = rows,
                                      .columns = of.out,
                                      .depth = rank_of(pass),
                                      .a = pass->low,
                                      .a_row = rank_of(pass),
                                      .b = pass->adapters + of.b,
                                      .b_transposed = true,
                                      .c = y + of.column,
                                      .c_row = y_row,
                                      .accumulate = true});
    }
}

void transformer_adapt_dx(const transformer_pass *pass, int tensor, size_t rows,
                          transformer_rows dy, float *dx)
{
    part of;
    for (int at = 0; next_part(pass, tensor, &at, &of);) {
        make_dlow(pass, &of, rows, dy);
        multiply(pass, (rank_product){.rows = rows,
                                      .columns = of.in,
                                      .depth = rank_of(pass),
                                      .a = pass->dlow,
                                      .a_row = rank_of(pass),
                                      .b = pass->adapters + of.a,
                                      .c = dx,
                                      .c_row = of.in,
                                      .accumulate = true});
    }
}

void transformer_adapt_grads(const transformer_pass *pass, int tensor, row_chunk chunk,
                             transformer_rows x, transformer_rows dy)
{
    const size_t rank = rank_of(pass);
    part of;
    for (int at = 0; next_part(pass, tensor, &at, &of);) {
        make_low(pass, &of, chunk.rows, x);
        make_dlow(pass, &of, chunk.rows, dy);
        transformer_multiply_transposed(pass, (rank_product){.rows = rank,
                                                             .columns = of.in,
                                                             .depth = chunk.rows,
                                                             .a = pass->dlow,
                                                             .b = x.at,
                                                             .b_row = x.row,
                                                             .c = pass->grads + of.a,
                                                             .accumulate = chunk.first > 0});
        transformer_multiply_transposed(pass, (rank_product){.rows = of.out,
                                                             .columns = rank,
                                                             .depth = chunk.rows,
                                                             .a = dy.at + of.column,
                                                             .a_depth = dy.row,
                                                             .b = pass->low,
                                                             .c = pass->grads + of.b,
                                                             .accumulate = chunk.first > 0});
    }
}
