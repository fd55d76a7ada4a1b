/* A layer's queries, keys and values, and its attention over the cache. Called by decoder.c. */
#include "model/decoder_step.h"

static bool is_local(const decoder_step *step)
{
    return rank_decoder_is_local(&step->of, step->layer);
}

/* Each head of queries and of keys becomes its norm. */
static void norm_heads(const decoder_step *step)
{
    const size_t heads[2] = {step->of.heads, step->of.kv_heads};
    float *at = step->qkv;
    for (int i = 0; i < 2; i++) {
        step->backend->rmsnorm(
            step->queue, &(rank_rmsnorm){.rows = step->rows->count,
                                         .width = step->of.head_width,
                                         .epsilon = step->of.epsilon,
                                         .one_more = step->of.one_more,
                                         .x = at,
                                         .weight = step->weights.head_norm[i],
                                         .out = at,
                                         .heads = {heads[i], rank_decoder_qkv_columns(step)}});
        at += heads[i] * step->of.head_width;
    }
}

/* q, k and v of this rank's heads: side by side in a row. */
void rank_decoder_make_qkv(const decoder_step *step)
{
    const bool one = step->weights.qkv[1] == NULL;
    const size_t columns[3] = {one ? rank_decoder_qkv_columns(step) : step->across, step->kv_across,
                               step->kv_across};
    size_t at = 0;
    for (int i = 0; i < (one ? 1 : 3); i++) {
        rank_decoder_product(step, (rank_product){.columns = columns[i],
                                                  .depth = step->width,
                                                  .a = step->normed,
                                                  .b = step->weights.qkv[i],
                                                  .c = step->qkv + at,
                                                  .c_row = rank_decoder_qkv_columns(step)});
        at += columns[i];
    }
    if (step->of.early_bias) {
        rank_add_bias add = {.rows = step->rows->count,
                             .columns = {step->across, step->kv_across, step->kv_across},
                             .at = step->qkv,
                             .at_row = rank_decoder_qkv_columns(step)};
        for (int i = 0; i < RANK_BIAS_PARTS; i++) {
            add.bias[i] = step->weights.early_bias[i];
        }
        step->backend->add_bias(step->queue, &add);
    }
    if (step->of.head_norms) {
        norm_heads(step);
    }
    if (rank_decoder_rotates(&step->of, step->layer)) {
        step->backend->rope(step->queue, &(rank_rope){.rows = step->rows->count,
                                                      .heads = step->of.heads + step->of.kv_heads,
                                                      .head_width = step->of.head_width,
                                                      .pairs = step->of.rotated / 2,
                                                      .table = step->turns[is_local(step)],
                                                      .at = step->qkv,
                                                      .at_row = rank_decoder_qkv_columns(step)});
    }
}

void rank_decoder_attend(const decoder_step *step)
{
    const rank_decode_args *args = step->args;
    const rank_cache *cache = args->cache;
    const size_t half = cache->block_count * cache->block_tokens * step->kv_across;
    const size_t layer = (size_t)step->layer;
    const rank_type type = step->run->shape.cache_type;
    char *keys = (char *)cache->memory + layer * 2 * half * rank_type_bytes(type);
    step->backend->attention_cached(
        step->queue, &(rank_attention_cached){
                         .heads = step->of.heads,
                         .kv_heads = step->of.kv_heads,
                         .head_width = step->of.head_width,
                         .sequence_count = step->rows->segment_count,
                         .row_start = step->rows->segment_start,
                         .lengths = args->lengths,
                         .block_table = args->block_table,
                         .table_width = args->table_width,
                         .block_tokens = cache->block_tokens,
                         .length_max = (size_t)step->run->shape.config->context,
                         .qkv = step->qkv,
                         .bias = step->weights.qkv_bias,
                         .keys = keys,
                         .values = keys + half * rank_type_bytes(type),
                         .cache_type = type,
                         .out = step->attention,
                         .scratch = step->scratch,
                         .rows = step->rows->count,
                         .one_row_each = step->rows->count == step->rows->segment_count,
                         .window = is_local(step) ? step->of.window : 0,
                         .scale = step->of.score_scale,
                     });
}
