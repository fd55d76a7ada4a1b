/* The arguments of a backend's attention, beside those of operations.h, whose terms they use. */
#ifndef RANK_BACKEND_ATTENTION_H
#define RANK_BACKEND_ATTENTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/product.h"

/* The largest call of attention that scratch is made for. */
typedef struct rank_attention_shape {
    size_t tokens; /* of all segments of a call */
    size_t heads;
    size_t head_width;
    size_t segment_max; /* no segment is longer */
} rank_attention_shape;

/* Causal attention of flat tokens that are cut into segments. A segment may be empty. With a window a row sees the
 * last so many tokens up to itself alone. */
typedef struct rank_attention {
    size_t width;
    size_t heads;
    size_t segment_count;
    const int32_t *segment_start; /* (segment_count + 1) */
    size_t rows;                  /* of all segments together */
    size_t segment_max;           /* no segment is longer; the scratch is made for it */
    rank_type type;               /* of qkv, out and dqkv */
    const void *qkv;              /* (T, 3C): q, k and v, without bias */
    const float *bias;            /* (3C) */
    void *out;                    /* (T, C), written by forward, read by backward; rows
                                   * whose dout is zero may be anything finite by then */
    float *row_max;               /* (T, H), written by forward, read by backward */
    float *row_scale;             /* (T, H), the same: 1 / the sum of the exponentials */
    const float *dout;            /* (T, C), for backward */
    void *dqkv;                   /* (…, 3C), written by backward */
    size_t dqkv_first;            /* the token of dqkv's first row */
    float *dbias;                 /* (3C), added to by backward */
    float *scratch;               /* attention_scratch floats */
    bool same_segments;           /* as of the call before with this scratch, which nothing has
                                   * written since: what it says of them may stay */
    size_t window; /* 0: a row sees all tokens up to itself. Only on the CPU, as the next one */
    float scale;   /* of scores; 0: 1 / sqrt(D) */
} rank_attention;

/* Causal attention of new tokens over a cache in blocks. Sequence s has lengths[s] tokens in the
 * cache, and the rows row_start[s] … row_start[s+1] are its next ones: their keys and values are
 * put into the cache, behind what is there, and each row attends to all of its sequence up to
 * itself. A sequence of length -1 is padding: its rows become zero, and the cache is not touched. A row's result depends on its sequence alone: not on the other sequences, nor on how many
 * rows come at once. With a window a row sees the last so many of these tokens alone, itself among them.
 *
 * D = head_width. heads is a multiple of kv_heads; query heads h·heads/kv_heads … share head h's keys and values. */
typedef struct rank_attention_cached {
    size_t heads;
    size_t kv_heads;
    size_t head_width;
    size_t sequence_count;
    const int32_t *row_start;   /* (sequence_count + 1) */
    const int32_t *lengths;     /* (sequence_count) */
    const int32_t *block_table; /* (sequence_count, table_width): its blocks, in order. A device may
                                   read these three while the operations enqueued just before run */
    size_t table_width;
    size_t block_tokens;
    size_t length_max;    /* no sequence becomes longer; the scratch is made for it */
    const float *qkv;     /* (rows, heads·D + 2·kv_heads·D): q, k and v, without bias */
    const float *bias;    /* (heads·D + 2·kv_heads·D); NULL: none */
    void *keys;           /* (blocks, kv_heads, D, block_tokens): a block's tokens side by side */
    void *values;         /* (blocks, kv_heads, block_tokens, D) */
    rank_type cache_type; /* of keys and values, which are rounded when they are put there */
    float *out;           /* (rows, heads·D) */
    float *scratch;       /* attention_cached_scratch floats */
    size_t rows;          /* row_start[sequence_count], which the host may not be able to read */
    bool one_row_each;    /* every sequence has one row */
    size_t window; /* 0: a row sees all tokens up to itself. Only on the CPU, as the next one */
    float scale;   /* of scores; 0: 1 / sqrt(D) */
} rank_attention_cached;

#endif
