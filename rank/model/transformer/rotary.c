/* Biases, rotary positions, and heads of keys and values that several heads of queries share. Called by
 * forward.c and backward.c.
 *
 * Attention has a head of keys and values for each head of queries, in rows of 3Q. A product leaves
 * the rows as q, k, v side by side. If heads are shared, each of k and v is copied to the places of
 * all its heads of queries before attention; in backward their gradients are added up. Ranks that share a
 * micro-batch may do so behind their exchange, and before that of the gradients (context.c). */
#include "model/transformer/pass.h"

static void make_turns(const transformer_pass *pass, const float *frequency, float *turns)
{
    rank_rope_table table = {.rows = pass->rows->count,
                             .positions = pass->rows->positions,
                             .pairs = pass->of.rotated / 2,
                             .scale = pass->of.turn_scale,
                             .table = turns};
    for (size_t i = 0; i < table.pairs; i++) {
        table.frequency[i] = frequency[i];
    }
    pass->backend->rope_table(pass->queue, &table);
}

void transformer_make_turns(const transformer_pass *pass)
{
    make_turns(pass, pass->of.frequency, pass->turns[0]);
    if (pass->sizes.local) {
        make_turns(pass, pass->of.local_frequency, pass->turns[1]);
    }
}

/* Queries and keys stand side by side. Some layers may have no rope. */
static void turn(const transformer_pass *pass, row_chunk chunk, float *rows, bool back)
{
    if (!rank_decoder_rotates(&pass->of, pass->layer)) {
        return;
    }
    const float *turns = pass->turns[rank_decoder_is_local(&pass->of, pass->layer)];
    pass->backend->rope(pass->queue, &(rank_rope){.rows = chunk.rows,
                                                  .heads = pass->of.heads + pass->of.kv_heads,
                                                  .head_width = pass->of.head_width,
                                                  .pairs = pass->of.rotated / 2,
                                                  .table = turns + chunk.first * pass->of.rotated,
                                                  .at = rows,
                                                  .at_row = pass->sizes.qkv_row,
                                                  .back = back});
}

static rank_shared_heads shared_heads(const transformer_pass *pass, row_chunk chunk, float *rows)
{
    return (rank_shared_heads){.rows = chunk.rows,
                               .heads = pass->of.heads,
                               .kv_heads = pass->of.kv_heads,
                               .head_width = pass->of.head_width,
                               .at = rows};
}

void transformer_prepare_heads(const transformer_pass *pass, row_chunk chunk, float *qkv)
{
    const rank_shared_heads shared = shared_heads(pass, chunk, qkv);
    if (pass->of.early_bias) {
        pass->backend->add_bias(pass->queue, &(rank_add_bias){.rows = chunk.rows,
                                                              .columns = {pass->sizes.qkv},
                                                              .bias = {pass->weights[QKV_BIAS]},
                                                              .at = qkv,
                                                              .at_row = pass->sizes.qkv_row});
    }
    transformer_norm_heads(pass, chunk, qkv);
    turn(pass, chunk, qkv, false);
    if (shared.kv_heads < shared.heads && !transformer_exchanges_groups(pass)) {
        pass->backend->copy_heads(pass->queue, &shared);
    }
}

void transformer_prepare_heads_grad(const transformer_pass *pass, row_chunk chunk, float *dqkv)
{
    const rank_shared_heads shared = shared_heads(pass, chunk, dqkv);
    if (shared.kv_heads < shared.heads && !transformer_exchanges_groups(pass)) {
        pass->backend->sum_heads(pass->queue, &shared);
    }
    turn(pass, chunk, dqkv, true);
    transformer_norm_heads_grad(pass, chunk, dqkv);
    if (pass->of.early_bias && pass->adapters == NULL) {
        pass->backend->column_sums(pass->queue,
                                   &(rank_column_sums){
                                       .rows = chunk.rows,
                                       .columns = pass->sizes.qkv,
                                       .from = dqkv,
                                       .sums = transformer_block_grad(pass, pass->layer, QKV_BIAS),
                                       .row = pass->sizes.qkv_row,
                                   });
    }
}
