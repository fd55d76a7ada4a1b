/* Dropout of the residual stream: of the embedding, and of what attention and the MLP add to it. Called by
 * forward.c, backward.c and embed_grad.c.
 *
 * A mask depends on the micro-batch's slot and step, the token's place in the micro-batch, the layer and the
 * column (backend/dropout.h). It does not depend on which ranks share the model, the tokens or the layers, nor on
 * how often it is drawn. */
#include "model/config_read.h"
#include "model/transformer/pass.h"

enum { SITE_BITS = 11, SITES_MAX = 1 << SITE_BITS, SLOTS_MAX = 1 << (32 - SITE_BITS) };

_Static_assert(1 + 2 * RANK_LAYERS_MAX <= SITES_MAX, "each place in the model has a number");
_Static_assert((int)RANK_WIDTH_MAX <= (int)RANK_DROPOUT_WIDTH_MAX, "each column has its words");
_Static_assert((int)RANK_MODEL_TOKENS_MAX <= (int)RANK_DROPOUT_TOKENS_MAX, "and each token");
_Static_assert((int)SLOTS_MAX >= (int)RANK_MODEL_SLOTS_MAX, "and each slot");

transformer_dropout transformer_dropout_of(const rank_shape *shape, const rank_rows *rows)
{
    const double rate = shape->config->dropout;
    const double below = rate * 0x1p32 + 0.5;
    return (transformer_dropout){
        .on = rate > 0.0 && rows->draw.on,
        .below = below < (double)UINT32_MAX ? (uint32_t)below : UINT32_MAX,
        .scale = (float)(1.0 / (1.0 - rate)),
    };
}

/* The call for these rows of a site, which are of all tokens, or behind the last layer's attention of the active
 * ones. */
static rank_dropout call(const transformer_pass *pass, transformer_site site, row_chunk chunk)
{
    const rank_batch_draw *batch = &pass->rows->draw;
    const bool some = site.kind != DROP_EMBEDDING &&
                      transformer_rows_behind(pass, site.layer) < pass->rows->count;
    return (rank_dropout){
        .rows = chunk.rows,
        .width = pass->width,
        .tokens = some ? pass->rows->active + chunk.first : NULL,
        .first_token = pass->rows->first + (some ? 0 : chunk.first),
        .site = batch->slot << SITE_BITS | (uint32_t)(2 * site.layer + (int)site.kind),
        .step = batch->step,
        .seed = batch->seed,
        .below = pass->dropout.below,
        .scale = pass->dropout.scale,
    };
}

const float *transformer_drop(const transformer_pass *pass, transformer_site site, row_chunk chunk,
                              const float *bias, float *at)
{
    if (!pass->dropout.on) {
        return bias;
    }
    rank_dropout args = call(pass, site, chunk);
    args.from = at + chunk.first * pass->width;
    args.to = at + chunk.first * pass->width;
    args.bias = bias;
    pass->backend->dropout(pass->queue, &args);
    return NULL;
}

/* dx, or what dropout leaves of it, in dadded. */
static const void *drop_grad(const transformer_pass *pass, transformer_site_kind kind,
                             row_chunk chunk)
{
    const size_t at = chunk.first * pass->width;
    if (!pass->dropout.on) {
        return pass->narrow_dx != NULL ? (const void *)(pass->narrow_dx + at) : pass->dx + at;
    }
    rank_dropout args = call(pass, (transformer_site){kind, pass->layer}, chunk);
    args.from = pass->dx + at;
    args.to = pass->dadded;
    pass->backend->dropout(pass->queue, &args);
    float *bias_grad =
        transformer_block_grad(pass, pass->layer, kind == DROP_ATTENTION ? PROJ_BIAS : DOWN_BIAS);
    if (bias_grad != NULL) {
        pass->backend->column_sums(pass->queue, &(rank_column_sums){.rows = chunk.rows,
                                                                    .columns = pass->width,
                                                                    .from = pass->dadded,
                                                                    .sums = bias_grad});
    }
    return pass->dadded;
}

const void *transformer_branch_grad(const transformer_pass *pass, transformer_site_kind kind,
                                    row_chunk chunk)
{
    const void *dout = drop_grad(pass, kind, chunk);
    if (!pass->of.after_norms) {
        return dout;
    }
    transformer_norm_added_grad(pass, kind == DROP_ATTENTION ? AFTER1_WEIGHT : AFTER2_WEIGHT, chunk,
                                dout);
    return pass->dadded;
}
