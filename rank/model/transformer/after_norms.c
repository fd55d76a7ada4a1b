/* RMS norms of what attention and the MLP add to the residual stream, and their gradient. Called by forward.c before it is
 * added, and by dropout.c for what backward goes on with. */
#include "model/transformer/pass.h"

void transformer_norm_added(const transformer_pass *pass, int tensor, row_chunk chunk, float *out)
{
    const normed_state *state = &pass->block.after[tensor - AFTER1_WEIGHT];
    if (!pass->of.after_norms) {
        return;
    }
    pass->backend->rmsnorm(pass->queue, &(rank_rmsnorm){.rows = chunk.rows,
                                                        .width = pass->width,
                                                        .epsilon = pass->of.epsilon,
                                                        .x = state->x + chunk.first * pass->width,
                                                        .weight = pass->weights[tensor],
                                                        .one_more = pass->of.one_more,
                                                        .out = out,
                                                        .rstd = state->rstd + chunk.first});
}

void transformer_norm_added_grad(const transformer_pass *pass, int tensor, row_chunk chunk,
                                 const float *dout)
{
    const normed_state *state = &pass->block.after[tensor - AFTER1_WEIGHT];
    pass->backend->rmsnorm_grad(pass->queue,
                                &(rank_rmsnorm_grad){
                                    .rows = chunk.rows,
                                    .width = pass->width,
                                    .x = state->x + chunk.first * pass->width,
                                    .rstd = state->rstd + chunk.first,
                                    .weight = pass->weights[tensor],
                                    .one_more = pass->of.one_more,
                                    .dout = dout,
                                    .dx = pass->dadded,
                                    .dweight = transformer_block_grad(pass, pass->layer, tensor),
                                });
}
