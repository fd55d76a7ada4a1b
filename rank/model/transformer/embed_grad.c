/* The gradients of the embeddings, from that of the first layer's input, and their factor. Called by backward.c, and by
 * forward.c for the factor. */
#include "model/transformer/pass.h"

void transformer_scale_embedding(const transformer_pass *pass, float *at)
{
    if (pass->of.embed_scale > 0.0f) {
        pass->backend->scale(pass->queue, &(rank_scale){.count = pass->rows->count * pass->width,
                                                        .factor = pass->of.embed_scale,
                                                        .at = at});
    }
}

void transformer_embed_grad(const transformer_pass *pass, bool tied_begun)
{
    const transformer_layout *layout = &pass->layout;
    const size_t wpe_count = layout->block - layout->wpe;
    const rank_tp *tp = pass->run->shape.tp;
    (void)transformer_drop(pass, (transformer_site){DROP_EMBEDDING, 0},
                           (row_chunk){0, pass->rows->count}, NULL, pass->dx);
    transformer_scale_embedding(pass, pass->dx);
    /* The output's matrix, if it is the same, has made its part here, or in another stage. */
    if (!transformer_is_tied(layout) || (!transformer_is_last_stage(pass) && !tied_begun)) {
        transformer_zero_range(pass, layout->wte, layout->wpe - layout->wte);
    }
    transformer_zero_range(pass, layout->wpe, wpe_count);
    pass->backend->embed_grad(
        pass->queue, &(rank_embed_grad){
                         .tokens = pass->rows->count,
                         .width = pass->width,
                         .ids = pass->rows->ids,
                         .positions = pass->rows->positions,
                         .dx = pass->dx,
                         .dwte = transformer_grad(pass, layout->wte),
                         .dwpe = wpe_count > 0 ? transformer_grad(pass, layout->wpe) : NULL,
                         .first_id = tp != NULL ? tp->vocab_first : 0,
                         .id_count = tp != NULL ? tp->vocab_count : 0,
                     });
}
