/* Backward of a norm of the stream. Called by backward.c for a layer's norms, and by loss.c for the final one. */
#include "model/transformer/pass.h"

void transformer_norm_grad(const transformer_pass *pass, row_chunk chunk, const norm_state *norm,
                           norm_grads grads)
{
    const size_t width = pass->width;
    const size_t at = chunk.first * width;
    if (!pass->sizes.layer_norm) {
        pass->backend->rmsnorm_grad(pass->queue, &(rank_rmsnorm_grad){
                                                     .rows = chunk.rows,
                                                     .width = width,
                                                     .keep = grads.keep,
                                                     .x = norm->x + at,
                                                     .rstd = norm->rstd + chunk.first,
                                                     .weight = grads.weight,
                                                     .one_more = pass->of.one_more,
                                                     .dout = pass->dbranch + at,
                                                     .dx = pass->dx + at,
                                                     .dweight = grads.dweight,
                                                 });
        return;
    }
    pass->backend->layernorm_grad(
        pass->queue, &(rank_layernorm_grad){
                         .rows = chunk.rows,
                         .width = width,
                         .keep = grads.keep,
                         .x = norm->x + at,
                         .mean = norm->mean + chunk.first,
                         .rstd = norm->rstd + chunk.first,
                         .weight = grads.weight,
                         .dout = pass->dbranch + at,
                         .dx = pass->dx + at,
                         .dweight = grads.dweight,
                         .dbias = grads.dbias,
                         .dx_sum = grads.dx_sum,
                         .rounded = pass->narrow_dx != NULL ? pass->narrow_dx + at : NULL,
                     });
}
