/* Sets gradients to zero before backward adds to them. Called by backward.c and embed_grad.c. */
#include "model/transformer/pass.h"

/* Of parameters; with adapters these have no gradient. */
void transformer_zero_range(const transformer_pass *pass, size_t offset, size_t count)
{
    if (count > 0 && pass->adapters == NULL) {
        pass->backend->zero(pass->queue, transformer_grad(pass, offset), count * sizeof(float));
    }
}

void transformer_zero_adapters(const transformer_pass *pass)
{
    if (pass->adapters != NULL) {
        pass->backend->zero(pass->queue, pass->grads,
                            pass->layers * pass->adapted.elements * sizeof *pass->grads);
    }
}

/* Sets what was collected to zero. */
static void zero_collected(const transformer_pass *pass, rank_zero_parts *zeros)
{
    if (zeros->count > 0) {
        pass->backend->zero_parts(pass->queue, zeros);
        zeros->count = 0;
    }
}

static void collect_range(const transformer_pass *pass, rank_zero_parts *zeros, size_t offset,
                          size_t count)
{
    if (count == 0) {
        return;
    }
    if (zeros->count == RANK_ZERO_PARTS_MAX) {
        zero_collected(pass, zeros);
    }
    zeros->parts[zeros->count].at = transformer_grad(pass, offset);
    zeros->parts[zeros->count++].count = count;
}

/* Biases and norms collect their gradients chunk by chunk. */
static void zero_vectors(const transformer_pass *pass)
{
    if (pass->adapters != NULL) {
        return;
    }
    const rank_shape *shape = &pass->run->shape;
    const size_t *in_block = pass->layout.in_block;
    rank_zero_parts zeros = {.count = 0};
    /* from the first tensor to before the second: those side by side are one part */
    static const int runs[][2] = {{NORM1_WEIGHT, QKV_WEIGHT},
                                  {QKV_BIAS, PROJ_WEIGHT},
                                  {PROJ_BIAS, UP_WEIGHT},
                                  {UP_BIAS, DOWN_WEIGHT},
                                  {DOWN_BIAS, ROUTER_WEIGHT}};
    if (shape->split) {
        const size_t layers = (size_t)(shape->end_layer - shape->first_layer);
        pass->backend->zero(pass->queue, pass->vectors,
                            layers * pass->sizes.vectors * sizeof *pass->vectors);
    }
    for (int layer = shape->first_layer; !shape->split && layer < shape->end_layer; layer++) {
        for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
            collect_range(pass, &zeros, transformer_offset(pass, layer, runs[i][0]),
                          in_block[runs[i][1]] - in_block[runs[i][0]]);
        }
    }
    if (transformer_is_last_stage(pass)) {
        collect_range(pass, &zeros, pass->layout.final_weight,
                      pass->layout.final_end - pass->layout.final_weight);
    }
    zero_collected(pass, &zeros);
}

/* Weights' gradients are written by the first chunk of rows. Of a micro-batch that ranks share, a rank may
 * have no rows of a layer. */
void transformer_begin_grads(const transformer_pass *pass)
{
    const rank_shape *shape = &pass->run->shape;
    zero_vectors(pass);
    if (pass->rows->active_count > 0 || shape->cp == NULL) {
        return;
    }
    transformer_zero_adapters(pass);
    for (int layer = shape->first_layer; !shape->split && layer < shape->end_layer; layer++) {
        transformer_zero_range(pass, transformer_offset(pass, layer, 0),
                               pass->layout.in_block[BLOCK_TENSORS]);
    }
    if (transformer_is_last_stage(pass)) {
        transformer_zero_range(pass, pass->layout.output, pass->sizes.vocab_size * pass->width);
    }
}
