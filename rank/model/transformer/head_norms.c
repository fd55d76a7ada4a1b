/* RMS norms of each head of queries and of keys, and their gradient. Called by rotary.c, before rope and behind
 * its gradient, and by backward.c. A family without them comes here in vain.
 *
 * A weight's gradient is a sum over heads, which ranks share. So each head has a part of its own, over all
 * rows. In the end the parts are added up leaf by leaf, then in a balanced tree over the leaves, with which
 * the ranks' all-reduce goes on: the bits are those of one rank. */
#include "base/bytes.h"
#include "model/transformer/pass.h"

/* Heads that one weight norms. */
typedef struct normed_heads {
    int weight; /* of BLOCK_TENSORS */
    size_t heads;
    size_t before; /* heads that stand before them in a row */
    normed_state state;
} normed_heads;

enum { NORMS = 2 /* of queries, and of keys behind them */ };

static normed_heads normed(const transformer_pass *pass, int which)
{
    const size_t heads[NORMS] = {pass->of.heads, pass->of.kv_heads};
    static const int weights[NORMS] = {Q_NORM_WEIGHT, K_NORM_WEIGHT};
    return (normed_heads){.weight = weights[which],
                          .heads = heads[which],
                          .before = which > 0 ? heads[0] : 0,
                          .state = pass->block.normed[which]};
}

static void norm_heads(const transformer_pass *pass, row_chunk chunk, float *rows,
                       const normed_heads *of)
{
    const size_t width = pass->of.head_width;
    float *at = rows + of->before * width;
    pass->backend->rmsnorm(pass->queue, &(rank_rmsnorm){
                                            .rows = chunk.rows,
                                            .width = width,
                                            .epsilon = pass->of.epsilon,
                                            .x = at,
                                            .weight = pass->weights[of->weight],
                                            .one_more = pass->of.one_more,
                                            .out = at,
                                            .rstd = of->state.rstd + chunk.first * of->heads,
                                            .heads = {of->heads, pass->sizes.qkv_row},
                                            .before = of->state.x + chunk.first * of->heads * width,
                                        });
}

static void norm_heads_grad(const transformer_pass *pass, row_chunk chunk, float *rows,
                            const normed_heads *of)
{
    const size_t width = pass->of.head_width;
    float *at = rows + of->before * width;
    float *sums = pass->adapters == NULL ? pass->head_sums + of->before * width : NULL;
    pass->backend->rmsnorm_grad(pass->queue, &(rank_rmsnorm_grad){
                                                 .rows = chunk.rows,
                                                 .width = width,
                                                 .x = of->state.x + chunk.first * of->heads * width,
                                                 .rstd = of->state.rstd + chunk.first * of->heads,
                                                 .weight = pass->weights[of->weight],
                                                 .one_more = pass->of.one_more,
                                                 .dout = at,
                                                 .dx = at,
                                                 .dweight = sums,
                                                 .heads = {of->heads, pass->sizes.qkv_row},
                                             });
}

void transformer_norm_heads(const transformer_pass *pass, row_chunk chunk, float *qkv)
{
    for (int i = 0; pass->of.head_norms && i < NORMS; i++) {
        const normed_heads of = normed(pass, i);
        norm_heads(pass, chunk, qkv, &of);
    }
}

void transformer_norm_heads_grad(const transformer_pass *pass, row_chunk chunk, float *dqkv)
{
    for (int i = 0; pass->of.head_norms && i < NORMS; i++) {
        const normed_heads of = normed(pass, i);
        norm_heads_grad(pass, chunk, dqkv, &of);
    }
}

void transformer_begin_head_norms_grad(const transformer_pass *pass)
{
    const size_t heads = pass->of.heads + pass->of.kv_heads;
    if (pass->of.head_norms && pass->adapters == NULL) {
        pass->backend->zero(pass->queue, pass->head_sums,
                            heads * pass->of.head_width * sizeof *pass->head_sums);
    }
}

/* parts (heads, D): the first head's becomes the sum of all. */
static void sum_over_heads(const transformer_pass *pass, float *parts, size_t heads)
{
    const size_t width = pass->of.head_width;
    const size_t leaves = /* of equally many heads */
        base_min_size((size_t)transformer_grad_leaves(pass, pass->of.leaves),
                      (size_t)rank_tp_leaves(heads));
    const size_t leaf = heads / leaves * width;
    for (size_t i = 0; i < leaves; i++) {
        float *first = parts + i * leaf;
        pass->backend->column_sums(pass->queue, &(rank_column_sums){.rows = heads / leaves - 1,
                                                                    .columns = width,
                                                                    .from = first + width,
                                                                    .sums = first});
    }
    for (size_t apart = 1; apart < leaves; apart *= 2) {
        for (size_t i = 0; i < leaves; i += 2 * apart) {
            float *to = parts + i * leaf;
            pass->backend->add(pass->queue,
                               &(rank_add){.count = width, .from = to + apart * leaf, .to = to});
        }
    }
}

void transformer_end_head_norms_grad(const transformer_pass *pass)
{
    const size_t width = pass->of.head_width;
    if (!pass->of.head_norms || pass->adapters != NULL) {
        return;
    }
    for (int i = 0; i < NORMS; i++) {
        const normed_heads of = normed(pass, i);
        float *parts = pass->head_sums + of.before * width;
        sum_over_heads(pass, parts, of.heads);
        pass->backend->copy(pass->queue, transformer_block_grad(pass, pass->layer, of.weight),
                            parts, width * sizeof *parts);
    }
    /* the two gradients stand side by side */
    transformer_sum_over_ranks(pass, transformer_block_grad(pass, pass->layer, Q_NORM_WEIGHT),
                               NORMS * width);
}
