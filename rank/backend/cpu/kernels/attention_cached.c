/* Attention of new tokens over a cache in blocks, one query head of one token at a time.
 *
 * Each score is one chain of products along the head's width, the softmax runs over the tokens in
 * their order, and so does the sum of the values: nothing depends on how many rows come at once, or
 * on the blocks' length. Compiled with fused multiply-add where the instruction set has it. */
#include "kernels_isa.h"

enum { VALUE_VECTORS = 4 }; /* of a head's values that are summed up together */

size_t KERNEL(attention_cached_scratch)(size_t length_max)
{
    return (length_max + VEC_LANES - 1) / VEC_LANES * VEC_LANES;
}

/* One sequence's cache of one head for keys and values. */
typedef struct head_cache {
    const rank_attention_cached *args;
    const int32_t *blocks;
    size_t head;
} head_cache;

/* Where token t's vector lies in `cache`, keys or values. */
VEC_INLINE float *token_at(const head_cache *at, float *cache, size_t t)
{
    const rank_attention_cached *args = at->args;
    const size_t block = (size_t)at->blocks[t / args->block_tokens];
    const size_t row = (block * args->kv_heads + at->head) * args->block_tokens;
    return cache + (row + t % args->block_tokens) * args->head_width;
}

static void put(const float *from, const float *bias, float *to, size_t width)
{
    for (size_t j = 0; j < width; j += VEC_LANES) {
        const size_t left = width - j;
        vec x = vec_load(from + j, left);
        if (bias != NULL) {
            x += vec_load(bias + j, left);
        }
        vec_store(to + j, x, left);
    }
}

/* The row's keys and values go to token t of its sequence's cache. */
static void append(const rank_attention_cached *args, const int32_t *blocks, const float *row,
                   size_t t)
{
    const size_t width = args->head_width;
    const size_t keys_at = args->heads * width;
    const size_t values_at = keys_at + args->kv_heads * width;
    for (size_t head = 0; head < args->kv_heads; head++) {
        const head_cache at = {args, blocks, head};
        const size_t k = keys_at + head * width;
        const size_t v = values_at + head * width;
        const float *bias = args->bias;
        put(row + k, bias != NULL ? bias + k : NULL, token_at(&at, args->keys, t), width);
        put(row + v, bias != NULL ? bias + v : NULL, token_at(&at, args->values, t), width);
    }
}

static float dot(const float *q, const float *k, size_t width)
{
    vec sum = vec_set(0.0f);
    size_t j = 0;
    for (; j + VEC_LANES <= width; j += VEC_LANES) {
        sum += vec_get(q + j) * vec_get(k + j);
    }
    if (j < width) {
        sum += vec_load(q + j, width - j) * vec_load(k + j, width - j);
    }
    return vec_sum(sum);
}

/* scores = exp(score - largest), zeros behind; returns the inverse of their sum. */
static float softmax(float *scores, size_t count, float largest)
{
    vec sum = vec_set(0.0f);
    for (size_t t = 0; t < count; t += VEC_LANES) {
        const vec e = vec_select(vec_first_lanes(count - t), vec_exp(vec_get(scores + t) - largest),
                                 vec_set(0.0f));
        vec_put(scores + t, e);
        sum += e;
    }
    return 1.0f / vec_sum(sum);
}

/* out (vectors) = the sum of the first `count` values, each times its score, times inverse; `left`
 * floats of it. Each vector is a chain of its own; several hide what an addition takes. */
VEC_INLINE void sum_values(const head_cache *at, size_t j, size_t left, int vectors, size_t count,
                           float inverse, float *out)
{
    const rank_attention_cached *args = at->args;
    const size_t width = args->head_width;
    const float *scores = args->scratch;
    vec sum[VALUE_VECTORS];
    for (int v = 0; v < vectors; v++) {
        sum[v] = vec_set(0.0f);
    }
    for (size_t first = 0; first < count; first += args->block_tokens) {
        const size_t end = count - first < args->block_tokens ? count : first + args->block_tokens;
        const float *value = token_at(at, args->values, first) + j;
        for (size_t t = first; t < end; t++, value += width) {
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) {
                sum[v] += scores[t] *
                          (vectors > 1 ? vec_get(value + v * VEC_LANES) : vec_load(value, left));
            }
        }
    }
    for (int v = 0; v < vectors; v++) {
        vec_store(out + v * VEC_LANES, sum[v] * inverse, left - (size_t)v * VEC_LANES);
    }
}

/* One query head of one row over the first `count` tokens. out holds the query with its bias until
 * the scores are there. */
static void attend(const head_cache *at, const float *q, const float *bias, size_t count,
                   float *out)
{
    const rank_attention_cached *args = at->args;
    const size_t width = args->head_width;
    const float scale = 1.0f / __builtin_sqrtf((float)width);
    float *scores = args->scratch;
    float largest = 0.0f;
    put(q, bias, out, width);
    for (size_t first = 0; first < count; first += args->block_tokens) {
        const size_t end = count - first < args->block_tokens ? count : first + args->block_tokens;
        const float *key = token_at(at, args->keys, first);
        for (size_t t = first; t < end; t++, key += width) {
            scores[t] = dot(out, key, width) * scale;
            largest = t == 0 || scores[t] > largest ? scores[t] : largest;
        }
    }
    const float inverse = softmax(scores, count, largest);
    size_t j = 0;
    for (; j + VALUE_VECTORS * VEC_LANES <= width; j += VALUE_VECTORS * VEC_LANES) {
        sum_values(at, j, width - j, VALUE_VECTORS, count, inverse, out + j);
    }
    for (; j < width; j += VEC_LANES) {
        sum_values(at, j, width - j, 1, count, inverse, out + j);
    }
}

static void attend_row(const rank_attention_cached *args, const int32_t *blocks, size_t row,
                       size_t count)
{
    const size_t width = args->head_width;
    const size_t shared = args->heads / args->kv_heads;
    const float *q = args->qkv + row * (args->heads + 2 * args->kv_heads) * width;
    for (size_t head = 0; head < args->heads; head++) {
        const head_cache at = {args, blocks, head / shared};
        const float *bias = args->bias != NULL ? args->bias + head * width : NULL;
        attend(&at, q + head * width, bias, count, args->out + (row * args->heads + head) * width);
    }
}

void KERNEL(attention_cached)(const rank_attention_cached *args)
{
    const size_t stride = (args->heads + 2 * args->kv_heads) * args->head_width;
    for (size_t s = 0; s < args->sequence_count; s++) {
        const int32_t *blocks = args->block_table + s * args->table_width;
        const size_t first = (size_t)args->row_start[s];
        const size_t end = (size_t)args->row_start[s + 1];
        const size_t before = (size_t)args->lengths[s];
        for (size_t row = first; row < end; row++) {
            append(args, blocks, args->qkv + row * stride, before + row - first);
            attend_row(args, blocks, row, before + row - first + 1);
        }
    }
}
