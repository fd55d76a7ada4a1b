/* Computes what adapters add to a product of decoding. Called by decoder.c. */
#include "model/beside.h"

#include "base/assert.h"

/* NULL: the matrix has none. */
static const rank_beside *find(const rank_run *run, int layer, const void *matrix)
{
    const rank_hooks *hooks = run->hooks;
    for (int i = 0; i < hooks->beside_count; i++) {
        const rank_beside *of = &hooks->beside[layer * hooks->beside_count + i];
        if (of->matrix == matrix) {
            return of;
        }
    }
    return NULL;
}

/* Shards of adapters are packed. */
static void multiply(const rank_run *run, rank_product product)
{
    BASE_ASSERT(run->device.backend->packs);
    product.a_depth = 1;
    product.b_type = RANK_FLOAT32;
    product.leaves = product.leaves > 0 ? product.leaves : 1;
    run->device.backend->product(run->device.queue, &product);
}

size_t rank_beside_make_low(const rank_run *run, int layer, rank_product product, float *low)
{
    const rank_beside *of = find(run, layer, product.b);
    if (of == NULL) {
        return 0;
    }
    const size_t rank = rank_beside_rank(&run->shape);
    multiply(run, (rank_product){.rows = product.rows,
                                 .columns = rank,
                                 .depth = product.depth,
                                 .a = product.a,
                                 .a_row = product.depth,
                                 .b = of->a,
                                 .c = low,
                                 .c_row = rank,
                                 .leaves = product.leaves});
    return product.rows * rank;
}

void rank_beside_add(const rank_run *run, int layer, rank_product product, float *low)
{
    const rank_beside *of = find(run, layer, product.b);
    if (of == NULL) {
        return;
    }
    const size_t rank = rank_beside_rank(&run->shape);
    run->device.backend->scale(run->device.queue,
                               &(rank_scale){.count = product.rows * rank,
                                             .factor = run->shape.config->adapters.scale,
                                             .at = low});
    multiply(run, (rank_product){.rows = product.rows,
                                 .columns = product.columns,
                                 .depth = rank,
                                 .a = low,
                                 .a_row = rank,
                                 .b = of->b,
                                 .c = product.c,
                                 .c_row = product.c_row > 0 ? product.c_row : product.columns,
                                 .accumulate = true});
}
