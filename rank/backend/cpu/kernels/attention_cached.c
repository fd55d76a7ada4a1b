/* Attention of new tokens over a cache in blocks; the decoding of a family calls it.
 *
 * What one query row of one head computes over the n tokens up to itself is this chain of
 * operations. Neither the rows beside it, nor chunks, blocks, or the instruction set change it, as
 * far as the instruction set has fused multiply-add:
 *
 *     query[d] = (q[d] + bias[d]) · (1 / sqrt(D)), or by another factor
 *     score[t] = one chain of fma(query[d], key[t][d], score[t]) from 0, d = 0 … D-1
 *     e[t]     = exp(score[t] - the largest score), and its sum by sixteen lanes (softmax.h)
 *     out[d]   = one chain of fma(e[t], value[t][d], out[d]) from 0, t = 0 … n-1; then · (1 / sum)
 *
 * With a window t begins at the first token that the row sees, and the lanes do.
 *
 * An attention of training that shall have the engine's bits must make the same chain. So that it
 * is written down here and not by the compiler, products are vec_fma and nothing is contracted.
 *
 * Many rows (prefill) go in tiles of TILE_ROWS, one row (decoding) by itself. A tile computes its
 * scores for all tokens that any of its rows sees; a row's softmax and sum leave out what is behind
 * the row, and before its window. Keys lie in the cache with a block's tokens side by side, so that a vector of them meets
 * one element of the query. */
#include "backend/cpu/softmax.h"
#include "kernels_isa.h"

#if VEC_LANES == 16
#define TILE_ROWS 8 /* 8 × 2 sums, 2 vectors of keys or values, 1 element: of 32 registers */
#else
#define TILE_ROWS 6 /* 6 × 2 sums, 2, 1: of 16 registers */
#endif

enum {
    TILE_VECTORS = 2, /* of a tile of TILE_ROWS rows */
    WIDE_VECTORS = 4, /* of one row */
};

/* One head of one sequence. */
typedef struct head_run {
    const rank_attention_cached *args;
    const int32_t *blocks;
    size_t kv_head;
    const float *bias; /* of the queries; NULL: none */
    float *queries;    /* (D, rows of the tile) */
    float *scores;     /* (rows of the tile, stride) */
    size_t stride;
    float *staged; /* (WIDE_VECTORS, D, VEC_LANES): keys of blocks that vectors do not divide */
} head_run;

/* Rows row … row + count of a sequence; the first sees `tokens` tokens. */
typedef struct row_tile {
    size_t head;
    size_t row;
    size_t count;
    size_t tokens;
    size_t window; /* a row sees no more tokens */
} row_tile;

/* The first token that row r of the tile sees. */
VEC_INLINE size_t first_seen(const row_tile *tile, size_t r)
{
    const size_t end = tile->tokens + r;
    return end > tile->window ? end - tile->window : 0;
}

/* Scores of a row. The softmax writes whole lanes from the first token that is seen on. */
static size_t score_stride(size_t length_max)
{
    return (length_max + 2 * SOFTMAX_LANES - 1) / SOFTMAX_LANES * SOFTMAX_LANES;
}

size_t KERNEL(attention_cached_scratch)(size_t head_width, size_t length_max)
{
    return TILE_ROWS * (score_stride(length_max) + head_width) +
           WIDE_VECTORS * VEC_LANES * head_width;
}

/* The block that holds token t of the sequence: of keys (D, block_tokens), of values
 * (block_tokens, D). */
VEC_INLINE float *block_of(const head_run *at, float *cache, size_t t)
{
    const rank_attention_cached *args = at->args;
    const size_t block = (size_t)at->blocks[t / args->block_tokens];
    return cache + (block * args->kv_heads + at->kv_head) * args->block_tokens * args->head_width;
}

/* The row's keys and values go to token t of its sequence's cache. */
static void append(const head_run *at, const float *row, size_t t)
{
    const rank_attention_cached *args = at->args;
    const size_t width = args->head_width;
    const size_t k = (args->heads + at->kv_head) * width;
    const size_t v = k + args->kv_heads * width;
    float *key = block_of(at, args->keys, t) + t % args->block_tokens;
    float *value = block_of(at, args->values, t) + t % args->block_tokens * width;
    for (size_t d = 0; d < width; d++) {
        key[d * args->block_tokens] = row[k + d] + (args->bias != NULL ? args->bias[k + d] : 0.0f);
    }
    for (size_t d = 0; d < width; d++) {
        value[d] = row[v + d] + (args->bias != NULL ? args->bias[v + d] : 0.0f);
    }
}

/* Keys of the VEC_LANES tokens from t on, (D, step); what is behind the `count` tokens of the
 * sequence is anything. A block of another length than whole vectors is put together first. */
VEC_INLINE const float *keys_at(const head_run *at, size_t t, size_t count, size_t v)
{
    const rank_attention_cached *args = at->args;
    const size_t width = args->head_width;
    if (args->block_tokens % VEC_LANES == 0) {
        return block_of(at, args->keys, t) + t % args->block_tokens;
    }
    float *staged = at->staged + v * width * VEC_LANES;
    for (size_t lane = 0; lane < VEC_LANES; lane++) {
        const size_t token = t + lane < count ? t + lane : count - 1;
        const float *from = block_of(at, args->keys, token) + token % args->block_tokens;
        for (size_t d = 0; d < width; d++) {
            staged[d * VEC_LANES + lane] = from[d * args->block_tokens];
        }
    }
    return staged;
}

/* queries (D, rows) = (q + bias) · the scale; zeros in rows that are not there. */
VEC_INLINE void take_queries(const head_run *at, const row_tile *tile, const int rows)
{
    const rank_attention_cached *args = at->args;
    const size_t width = args->head_width;
    const size_t stride = (args->heads + 2 * args->kv_heads) * width;
    const float scale = args->scale > 0.0f ? args->scale : 1.0f / __builtin_sqrtf((float)width);
    for (size_t r = 0; r < (size_t)rows; r++) {
        const float *q = args->qkv + (tile->row + r) * stride + tile->head * width;
        for (size_t d = 0; d < width; d++) {
            const float bias = at->bias != NULL ? at->bias[d] : 0.0f;
            at->queries[d * (size_t)rows + r] = r < tile->count ? (q[d] + bias) * scale : 0.0f;
        }
    }
}

/* Scores of all rows of the tile and the tokens from t on. */
VEC_INLINE void score_vectors(const head_run *at, size_t t, size_t count, const int rows,
                              const int vectors)
{
    const rank_attention_cached *args = at->args;
    const size_t step =
        args->block_tokens % VEC_LANES == 0 ? args->block_tokens : (size_t)VEC_LANES;
    const float *query = at->queries;
    const float *keys[WIDE_VECTORS];
    vec sum[TILE_ROWS][WIDE_VECTORS];
    for (int v = 0; v < vectors; v++) {
        keys[v] = keys_at(at, t + (size_t)v * VEC_LANES, count, (size_t)v);
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            sum[r][v] = vec_set(0.0f);
        }
    }
    for (size_t d = 0; d < args->head_width; d++, query += rows) {
        vec key[WIDE_VECTORS];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            key[v] = vec_get(keys[v] + d * step);
        }
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            const vec element = vec_set(query[r]);
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) {
                sum[r][v] = vec_fma(element, key[v], sum[r][v]);
            }
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            vec_put(at->scores + (size_t)r * at->stride + t + (size_t)v * VEC_LANES, sum[r][v]);
        }
    }
}

/* Of tokens first … count, and those before them in the same vector. */
VEC_INLINE void score_tile(const head_run *at, size_t first, size_t count, const int rows,
                           const int vectors)
{
    size_t t = first / VEC_LANES * VEC_LANES;
    for (; t + (size_t)(vectors - 1) * VEC_LANES < count; t += (size_t)vectors * VEC_LANES) {
        score_vectors(at, t, count, rows, vectors);
    }
    for (; t < count; t += VEC_LANES) {
        score_vectors(at, t, count, rows, 1);
    }
}

/* Some elements of the outputs of all rows of a tile, while they are summed up. */
typedef struct value_sums {
    const head_run *at;
    const row_tile *tile;
    size_t j;    /* the first element */
    size_t left; /* elements of a value from j on */
    vec sum[TILE_ROWS][WIDE_VECTORS];
} value_sums;

/* Which rows of a tile see a token. */
enum {
    ALL_SEE,
    LATER_SEE, /* not those before it */
    SOME_SEE,  /* nor those whose window begins behind it */
};

/* Tokens first … end, none behind the block of `first`. */
VEC_INLINE void add_values(value_sums *to, size_t first, size_t end, const int rows,
                           const int vectors, const int who)
{
    const head_run *at = to->at;
    const rank_attention_cached *args = at->args;
    const size_t width = args->head_width;
    const float *value =
        block_of(at, args->values, first) + first % args->block_tokens * width + to->j;
    for (size_t t = first; t < end; t++, value += width) {
        vec element[WIDE_VECTORS];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            element[v] = vectors > 1 ? vec_get(value + v * VEC_LANES) : vec_load(value, to->left);
        }
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            if ((who != ALL_SEE && t >= to->tile->tokens + (size_t)r) ||
                (who == SOME_SEE && t < first_seen(to->tile, (size_t)r))) {
                continue;
            }
            const vec e = vec_set(at->scores[(size_t)r * at->stride + t]);
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) {
                to->sum[r][v] = vec_fma(e, element[v], to->sum[r][v]);
            }
        }
    }
}

/* The same of any tokens, block by block. */
VEC_INLINE void add_blocks(value_sums *to, size_t first, size_t end, const int rows,
                           const int vectors, const int who)
{
    const size_t block_tokens = to->at->args->block_tokens;
    for (size_t t = first, next = 0; t < end; t = next) {
        next = (t / block_tokens + 1) * block_tokens;
        next = next < end ? next : end;
        add_values(to, t, next, rows, vectors, who);
    }
}

/* Elements j … of all rows' outputs. */
VEC_INLINE void sum_values(const head_run *at, const row_tile *tile, const float *inverse, size_t j,
                           const int rows, const int vectors)
{
    const rank_attention_cached *args = at->args;
    const size_t width = args->head_width;
    const size_t count = tile->tokens + tile->count - 1;
    const size_t from = first_seen(tile, tile->count - 1); /* all see it, up to tile->tokens */
    value_sums to = {.at = at, .tile = tile, .j = j, .left = width - j};
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            to.sum[r][v] = vec_set(0.0f);
        }
    }
    add_blocks(&to, first_seen(tile, 0), from, rows, vectors, SOME_SEE);
    add_blocks(&to, from, tile->tokens, rows, vectors, ALL_SEE);
    add_blocks(&to, from > tile->tokens ? from : tile->tokens, count, rows, vectors, LATER_SEE);
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
        if ((size_t)r >= tile->count) {
            continue;
        }
        float *out = args->out + ((tile->row + (size_t)r) * args->heads + tile->head) * width + j;
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            vec_store(out + v * VEC_LANES, to.sum[r][v] * inverse[r],
                      to.left - (size_t)v * VEC_LANES);
        }
    }
}

VEC_INLINE void attend(const head_run *at, const row_tile *tile, const int rows, const int vectors)
{
    const size_t width = at->args->head_width;
    float inverse[TILE_ROWS];
    size_t j = 0;
    take_queries(at, tile, rows);
    score_tile(at, first_seen(tile, 0), tile->tokens + tile->count - 1, rows, vectors);
    for (size_t r = 0; r < tile->count; r++) {
        const size_t first = first_seen(tile, r);
        float *row = at->scores + r * at->stride + first;
        const size_t seen = tile->tokens + r - first;
        inverse[r] = 1.0f / softmax_exponentials(row, seen, softmax_largest(row, seen, true), true);
    }
    for (; j + (size_t)vectors * VEC_LANES <= width; j += (size_t)vectors * VEC_LANES) {
        sum_values(at, tile, inverse, j, rows, vectors);
    }
    for (; j < width; j += VEC_LANES) {
        sum_values(at, tile, inverse, j, rows, 1);
    }
}

static __attribute__((noinline)) void attend_row(const head_run *at, const row_tile *tile)
{
    attend(at, tile, 1, WIDE_VECTORS);
}

static __attribute__((noinline)) void attend_tile(const head_run *at, const row_tile *tile)
{
    attend(at, tile, TILE_ROWS, TILE_VECTORS);
}

/* All rows of sequence s, for one head of keys and values and the query heads that share it. */
static void run_head(head_run *at, size_t s)
{
    const rank_attention_cached *args = at->args;
    const size_t width = args->head_width;
    const size_t stride = (args->heads + 2 * args->kv_heads) * width;
    const size_t shared = args->heads / args->kv_heads;
    const size_t first = (size_t)args->row_start[s];
    const size_t count = (size_t)args->row_start[s + 1] - first;
    const size_t before = (size_t)args->lengths[s];
    for (size_t i = 0; i < count; i++) {
        append(at, args->qkv + (first + i) * stride, before + i);
    }
    for (size_t head = at->kv_head * shared; head < (at->kv_head + 1) * shared; head++) {
        at->bias = args->bias != NULL ? args->bias + head * width : NULL;
        for (size_t i = 0; i < count; i += TILE_ROWS) {
            const row_tile tile = {.head = head,
                                   .row = first + i,
                                   .count = count - i < TILE_ROWS ? count - i : TILE_ROWS,
                                   .tokens = before + i + 1,
                                   .window = args->window > 0 ? args->window : SIZE_MAX};
            (tile.count == 1 ? attend_row : attend_tile)(at, &tile);
        }
    }
}

/* Rows of padding. */
static void zero_rows(const rank_attention_cached *args, size_t sequence)
{
    const size_t width = args->heads * args->head_width;
    const size_t first = (size_t)args->row_start[sequence];
    const size_t end = (size_t)args->row_start[sequence + 1];
    for (size_t i = first * width; i < end * width; i++) {
        args->out[i] = 0.0f;
    }
}

void KERNEL(attention_cached)(const rank_attention_cached *args)
{
    head_run at = {.args = args, .stride = score_stride(args->length_max)};
    at.scores = args->scratch;
    at.queries = at.scores + TILE_ROWS * at.stride;
    at.staged = at.queries + TILE_ROWS * args->head_width;
    for (size_t s = 0; s < args->sequence_count; s++) {
        if (args->lengths[s] < 0) {
            zero_rows(args, s);
            continue;
        }
        at.blocks = args->block_table + s * args->table_width;
        for (at.kv_head = 0; at.kv_head < args->kv_heads; at.kv_head++) {
            run_head(&at, s);
        }
    }
}
