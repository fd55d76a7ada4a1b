/* Parity of attention: of training, forward and backward, and over a cache in blocks. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cases.h"
#include "support.h"

enum { SEGMENTS_MAX = 6, SEQUENCES_MAX = 5 };

/* Segments behind `first` tokens that belong to others. The first has tokens, others may have none. */
static size_t cut_segments(twin *t, size_t segment_max, int32_t *start, size_t first)
{
    const size_t count = twin_between(t, 1, SEGMENTS_MAX);
    start[0] = (int32_t)first;
    for (size_t i = 0; i < count; i++) {
        const bool empty = i > 0 && twin_between(t, 0, 3) == 0;
        start[i + 1] = start[i] + (empty ? 0 : (int32_t)twin_between(t, 1, segment_max));
    }
    return count;
}

/* The arrays of one attention. */
typedef struct arrays {
    int start, qkv, bias, out, row_max, row_scale, dout, dqkv, dbias;
    size_t scratch[TWIN_SIDES];
    void *scratch_at[TWIN_SIDES];
} arrays;

static rank_attention args_of(const twin *t, const rank_attention *shape, const arrays *x, int side)
{
    rank_attention args = *shape;
    args.segment_start = INTS(t, x->start, side);
    args.type = twin_type(shape->type, side);
    args.qkv = twin_at(t, x->qkv, side);
    args.bias = FLOATS(t, x->bias, side);
    args.out = twin_at(t, x->out, side);
    args.row_max = FLOATS(t, x->row_max, side);
    args.row_scale = FLOATS(t, x->row_scale, side);
    args.dout = FLOATS(t, x->dout, side);
    args.dqkv = twin_at(t, x->dqkv, side);
    args.dbias = FLOATS(t, x->dbias, side);
    args.scratch = x->scratch_at[side];
    return args;
}

/* Each backend needs another number of floats. */
static void make_scratch(twin *t, const rank_attention *shape, size_t tokens, arrays *x)
{
    base_error error;
    for (int side = 0; side < TWIN_SIDES; side++) {
        const rank_device *device = &t->device[side];
        const rank_attention_shape largest = {.tokens = tokens,
                                              .heads = shape->heads,
                                              .head_width = shape->width / shape->heads,
                                              .segment_max = shape->segment_max};
        assert_ok(
            device->backend->alloc(device->queue, RANK_MEMORY_WORK,
                                   device->backend->attention_scratch(&largest) * sizeof(float),
                                   &x->scratch_at[side], &error),
            &error);
    }
}

/* The segments of a call. */
typedef struct segments {
    size_t count;
    int32_t start[SEGMENTS_MAX + 1];
} segments;

static void attend(twin *t, rank_attention shape, const segments *cut)
{
    char text[PARITY_TEXT_BYTES];
    arrays x = {.start = 0};
    const rank_type type = shape.type;
    const int32_t *start = cut->start;
    const size_t first = (size_t)start[0];
    const size_t end = (size_t)start[cut->count];
    shape.dqkv_first = first;
    shape.segment_count = cut->count;
    shape.rows = end - first;
    x.start = twin_copy(t, "segment_start", RANK_MEMORY_HOST, start,
                        (shape.segment_count + 1) * sizeof *start);
    twin_tolerate(t, x.start, -1.0);
    x.qkv = twin_elements(t, "qkv", type, end * 3 * shape.width, 2.0f);
    x.bias = twin_floats(t, "bias", 3 * shape.width, 1.0f);
    x.out = twin_elements(t, "out", type, end * shape.width, 1.0f);
    x.row_max = twin_floats(t, "row_max", end * shape.heads, 1.0f);
    x.row_scale = twin_floats(t, "row_scale", end * shape.heads, 1.0f);
    x.dout = twin_floats(t, "dout", end * shape.width, 1.0f);
    x.dqkv = twin_elements(t, "dqkv", type, (end - first) * 3 * shape.width, 1.0f);
    x.dbias = twin_floats(t, "dbias", 3 * shape.width, 1.0f);
    if (type == RANK_BFLOAT16) {
        twin_tolerate(t, x.out, PARITY_ROUNDED_FACTORS);
        twin_tolerate(t, x.row_max, PARITY_ROUNDED_FACTORS);
        twin_tolerate(t, x.row_scale, PARITY_ROUNDED_FACTORS);
        twin_tolerate(t, x.dqkv, PARITY_ROUNDED_SUM);
        twin_tolerate(t, x.dbias, PARITY_ROUNDED_SUM * sqrt(1.0 + (double)shape.rows / 32.0));
    }
    make_scratch(t, &shape, end - first, &x);
    const bool keeps_scratch = twin_between(t, 0, 1) > 0;
    for (int side = 0; side < TWIN_SIDES; side++) {
        const rank_device *device = &t->device[side];
        rank_attention args = args_of(t, &shape, &x, side);
        device->backend->attention(device->queue, &args);
        args.same_segments = keeps_scratch;
        device->backend->attention_grad(device->queue, &args);
    }
    (void)snprintf(text, sizeof text,
                   "attention, %zu segments up to %zu, %zu tokens from %zu, %zu heads of %zu",
                   shape.segment_count, shape.segment_max, end - first, first, shape.heads,
                   shape.width / shape.heads);
    twin_compare(t, text);
    for (int side = 0; side < TWIN_SIDES; side++) {
        t->device[side].backend->release(t->device[side].queue, x.scratch_at[side]);
    }
}

static void attend_some(twin *t, size_t segment_max, size_t head_width, rank_type type)
{
    segments cut;
    const size_t first = twin_between(t, 0, 5);
    const size_t heads = twin_between(t, 1, 3);
    cut.count = cut_segments(t, segment_max, cut.start, first);
    attend(
        t,
        (rank_attention){
            .width = heads * head_width, .heads = heads, .segment_max = segment_max, .type = type},
        &cut);
}

static size_t some_width(twin *t)
{
    static const size_t usual[] = {32, 64, 80, 128, 140};
    const bool one = twin_between(t, 0, 2) > 0;
    return one ? twin_between(t, 1, 40)
               : usual[twin_between(t, 0, sizeof usual / sizeof *usual - 1)];
}

static void attention(twin *t)
{
    const size_t segment_max = twin_between(t, 1, 40);
    attend_some(t, segment_max, some_width(t), RANK_FLOAT32);
}

void parity_attention_bfloat16(twin *t)
{
    const size_t segment_max = twin_between(t, 1, 40);
    attend_some(t, segment_max, some_width(t), RANK_BFLOAT16);
}

/* Widths that tensor cores take, and segments that lie across their tiles of 64 and 128 rows. */
void parity_attention_tiles_bfloat16(twin *t)
{
    static const size_t widths[] = {8, 24, 32, 40, 64};
    attend_some(t, twin_between(t, 1, 200),
                widths[twin_between(t, 0, sizeof widths / sizeof *widths - 1)], RANK_BFLOAT16);
}

/* As GPT-2 has it: a segment of more than 1024 tokens, between two of a single token and a short one.
 * It begins at the row 2: a tile of keys then ends one behind a strip's first row. */
void parity_attention_long_bfloat16(twin *t)
{
    const int32_t tokens = (int32_t)twin_between(t, 1025, 1050);
    const segments cut = {.count = 4, .start = {3, 4, 5, 5 + tokens, 5 + tokens + 37}};
    attend(t,
           (rank_attention){
               .width = 64, .heads = 1, .segment_max = (size_t)tokens, .type = RANK_BFLOAT16},
           &cut);
}

/* A segment that begins in one tile of queries and ends in the next: its tiles of keys then begin at a
 * strip's last row, which sees one key of it, its own. */
static void attention_edges(twin *t)
{
    const int32_t begin = 8 * (int32_t)twin_between(t, 1, 4) - 1;
    const segments cut = {.count = 2, .start = {0, begin, begin + 110}};
    attend(t, (rank_attention){.width = 16, .heads = 2, .segment_max = 110, .type = RANK_FLOAT32},
           &cut);
}

/* So many tiles that a block has the larger ones. */
static void attend_many_heads(twin *t, size_t head_width)
{
    const int32_t tokens = (int32_t)twin_between(t, 70, 95);
    const segments cut = {.count = 3, .start = {2, 3, 3 + tokens, 3 + 2 * tokens}};
    attend(t,
           (rank_attention){.width = 90 * head_width,
                            .heads = 90,
                            .segment_max = (size_t)tokens,
                            .type = RANK_FLOAT32},
           &cut);
}

static void attention_many_heads(twin *t)
{
    attend_many_heads(t, 32);
}

static void attention_many_wide_heads(twin *t)
{
    attend_many_heads(t, twin_between(t, 33, 64));
}

/* Longer than what a block keeps in shared memory, so that scores are made twice. */
static void attention_long(twin *t)
{
    const size_t width = twin_between(t, 1, 5);
    char text[PARITY_TEXT_BYTES];
    const size_t tokens = twin_between(t, 1025, 1050);
    const int32_t start[] = {0, (int32_t)tokens};
    arrays x = {.start = 0};
    rank_attention shape = {
        .width = width, .heads = 1, .segment_count = 1, .rows = tokens, .segment_max = tokens};
    x.start = twin_copy(t, "segment_start", RANK_MEMORY_HOST, start, sizeof start);
    twin_tolerate(t, x.start, -1.0);
    x.qkv = twin_floats(t, "qkv", tokens * 3 * width, 2.0f);
    x.bias = twin_floats(t, "bias", 3 * width, 1.0f);
    x.out = twin_floats(t, "out", tokens * width, 1.0f);
    x.row_max = twin_floats(t, "row_max", tokens, 1.0f);
    x.row_scale = twin_floats(t, "row_scale", tokens, 1.0f);
    x.dout = twin_floats(t, "dout", tokens * width, 1.0f);
    x.dqkv = twin_floats(t, "dqkv", tokens * 3 * width, 1.0f);
    x.dbias = twin_floats(t, "dbias", 3 * width, 1.0f);
    make_scratch(t, &shape, tokens, &x);
    for (int side = 0; side < TWIN_SIDES; side++) {
        const rank_device *device = &t->device[side];
        const rank_attention args = args_of(t, &shape, &x, side);
        device->backend->attention(device->queue, &args);
        device->backend->attention_grad(device->queue, &args);
    }
    (void)snprintf(text, sizeof text, "attention, %zu tokens, width %zu", tokens, width);
    twin_compare(t, text);
    for (int side = 0; side < TWIN_SIDES; side++) {
        t->device[side].backend->release(t->device[side].queue, x.scratch_at[side]);
    }
}

/* Sequences over a cache: who has which blocks, in an order of chance. */
typedef struct cache {
    int32_t row_start[SEQUENCES_MAX + 1];
    int32_t lengths[SEQUENCES_MAX];
    int32_t *table;
    size_t sequences, table_width, block_tokens, blocks, length_max;
    bool one_row_each;
} cache;

/* Sequence s has so many tokens before the step, and rows of it. Padding has -1 tokens. */
static void add_sequence(cache *c, size_t s, int32_t length, size_t rows)
{
    const size_t after = length < 0 ? 0 : (size_t)length + rows;
    c->lengths[s] = length;
    c->row_start[s + 1] = c->row_start[s] + (int32_t)rows;
    c->length_max = after > c->length_max ? after : c->length_max;
}

/* Some sequences have no rows, some are padding. */
static cache make_cache(twin *t)
{
    cache c = {.sequences = twin_between(t, 1, SEQUENCES_MAX),
               .block_tokens = twin_between(t, 0, 1) > 0 ? 16 : twin_between(t, 1, 20)};
    const bool many = twin_between(t, 0, 5) == 0; /* a block then has several rows */
    for (size_t s = 0; s < c.sequences; s++) {
        const size_t few = twin_between(t, 0, 3) == 0 ? 0 : twin_between(t, 1, 12);
        const size_t rows = !many || s > 0 ? few : twin_between(t, 257, 280) / (t->exact ? 1 : 5);
        const bool padding = twin_between(t, 0, 7) == 0;
        add_sequence(&c, s, padding ? -1 : (int32_t)twin_between(t, 0, 40), rows);
    }
    return c;
}

/* As in decoding: one row each, of sequences of `least` to `most` tokens, or of padding. */
static cache make_cache_of_one_row(twin *t, size_t least, size_t most)
{
    cache c = {.sequences = twin_between(t, 1, SEQUENCES_MAX),
               .block_tokens = (size_t)4 << twin_between(t, 0, 4),
               .one_row_each = true};
    for (size_t s = 0; s < c.sequences; s++) {
        const bool padding = s > 0 && twin_between(t, 0, 3) == 0;
        add_sequence(&c, s, padding ? -1 : (int32_t)twin_between(t, least, most), 1);
    }
    return c;
}

static void make_table(twin *t, cache *c)
{
    c->length_max = c->length_max > 0 ? c->length_max : 1;
    c->table_width = (c->length_max + c->block_tokens - 1) / c->block_tokens;
    c->blocks = c->sequences * c->table_width;
    c->table = malloc(c->blocks * sizeof *c->table);
    assert_non_null(c->table);
    for (size_t i = 0; i < c->blocks; i++) { /* a shuffle, from the inside out */
        const size_t j = twin_between(t, 0, i);
        c->table[i] = c->table[j];
        c->table[j] = (int32_t)i;
    }
}

/* The CPU reads whole vectors of its cache, so there are tokens to spare behind it. */
static void attend_cached(twin *t, cache c, size_t head_width, rank_type type)
{
    enum { SPARE = 64 * 64 };
    base_error error;
    char text[PARITY_TEXT_BYTES];
    make_table(t, &c);
    rank_attention_cached shape = {.kv_heads = twin_between(t, 1, 3),
                                   .head_width = head_width,
                                   .rows = (size_t)c.row_start[c.sequences],
                                   .one_row_each = c.one_row_each,
                                   .sequence_count = c.sequences,
                                   .table_width = c.table_width,
                                   .block_tokens = c.block_tokens,
                                   .length_max = c.length_max};
    shape.heads = shape.kv_heads * twin_between(t, 1, 3);
    const size_t rows = (size_t)c.row_start[c.sequences];
    const size_t columns = (shape.heads + 2 * shape.kv_heads) * shape.head_width;
    const size_t cached = c.blocks * shape.kv_heads * shape.head_width * c.block_tokens + SPARE;
    const bool with_bias = twin_between(t, 0, 1) > 0;
    const int row_start = twin_copy(t, "row_start", RANK_MEMORY_HOST, c.row_start,
                                    (c.sequences + 1) * sizeof *c.row_start);
    const int lengths =
        twin_copy(t, "lengths", RANK_MEMORY_HOST, c.lengths, c.sequences * sizeof *c.lengths);
    const int table =
        twin_copy(t, "block_table", RANK_MEMORY_HOST, c.table, c.blocks * sizeof *c.table);
    twin_tolerate(t, row_start, -1.0);
    twin_tolerate(t, lengths, -1.0);
    twin_tolerate(t, table, -1.0);
    const int qkv = twin_floats(t, "qkv", (rows > 0 ? rows : 1) * columns, 2.0f);
    const int bias = twin_floats(t, "bias", columns, 1.0f);
    const int keys = twin_elements(t, "keys", type, cached, 1.0f);
    const int values = twin_elements(t, "values", type, cached, 1.0f);
    const int out =
        twin_floats(t, "out", (rows > 0 ? rows : 1) * shape.heads * shape.head_width, 1.0f);
    free(c.table);
    if (type == RANK_BFLOAT16) { /* the CPU does not round what is put into the cache */
        twin_tolerate(t, keys, 0x1p-8);
        twin_tolerate(t, values, 0x1p-8);
        twin_tolerate(t, out, 0x1p-6);
    }
    for (int side = 0; side < TWIN_SIDES; side++) {
        const rank_device *device = &t->device[side];
        rank_attention_cached args = shape;
        void *scratch = NULL;
        const size_t floats =
            device->backend->attention_cached_scratch(shape.head_width, shape.length_max);
        assert_ok(device->backend->alloc(device->queue, RANK_MEMORY_WORK, floats * sizeof(float),
                                         &scratch, &error),
                  &error);
        args.row_start = INTS(t, row_start, side);
        args.lengths = INTS(t, lengths, side);
        args.block_table = INTS(t, table, side);
        args.qkv = FLOATS(t, qkv, side);
        args.bias = with_bias ? FLOATS(t, bias, side) : NULL;
        args.keys = twin_at(t, keys, side);
        args.values = twin_at(t, values, side);
        args.cache_type = side == TWIN_OTHER ? type : RANK_FLOAT32;
        args.out = FLOATS(t, out, side);
        args.scratch = scratch;
        device->backend->attention_cached(device->queue, &args);
        assert_ok(device->backend->sync(device->queue, &error), &error);
        device->backend->release(device->queue, scratch);
    }
    (void)snprintf(text, sizeof text,
                   "attention_cached, %zu sequences, %zu rows, up to %zu tokens in blocks of %zu, "
                   "%zu heads on %zu of %zu",
                   c.sequences, rows, c.length_max, c.block_tokens, shape.heads, shape.kv_heads,
                   shape.head_width);
    twin_compare(t, text);
}

static void attention_cached(twin *t)
{
    const bool vectors = twin_between(t, 0, 1) > 0;
    const cache c = make_cache(t);
    attend_cached(t, c, vectors ? 8 * twin_between(t, 1, 6) : twin_between(t, 1, 40), RANK_FLOAT32);
}

/* Sequences of one part and of several. */
static void attention_one_row(twin *t)
{
    const cache c = make_cache_of_one_row(t, 0, twin_between(t, 0, 1) > 0 ? 60 : 400);
    attend_cached(t, c, 8 * twin_between(t, 1, 9), RANK_FLOAT32);
}

/* A last part of one token. */
static void attention_one_row_edges(twin *t)
{
    const size_t tokens = 64 * twin_between(t, 1, 3);
    attend_cached(t, make_cache_of_one_row(t, tokens, tokens), 8, RANK_FLOAT32);
}

/* Parts that are longer than what a block has scores of at a time. Blocks are short, so that all warps
 * have scores to make of a part's rest. */
static void attention_one_row_long(twin *t)
{
    cache c = make_cache_of_one_row(t, 8200, 8300);
    c.block_tokens = 8;
    attend_cached(t, c, 8, RANK_FLOAT32);
}

void parity_attention_cached_bfloat16(twin *t)
{
    cache c = make_cache_of_one_row(t, 0, twin_between(t, 0, 1) > 0 ? 60 : 400);
    const bool several = twin_between(t, 0, 2) == 0;
    if (several) {
        c = make_cache(t);
        c.block_tokens = 16;
    }
    c.block_tokens = c.block_tokens < 8 ? 8 : c.block_tokens;
    attend_cached(t, c, 8 * twin_between(t, 1, 9), RANK_BFLOAT16);
}

const parity_case parity_attention_cases[] = {
    {.name = "attention", .run = attention},
    {.name = "attention_edges", .run = attention_edges},
    {.name = "attention_many_heads", .run = attention_many_heads, .shapes = 1, .tiles = true},
    {.name = "attention_many_wide_heads",
     .run = attention_many_wide_heads,
     .shapes = 1,
     .tiles = true},
    {.name = "attention_long", .run = attention_long, .shapes = 1},
    {.name = "attention_cached", .run = attention_cached},
    {.name = "attention_one_row", .run = attention_one_row},
    {.name = "attention_one_row_edges", .run = attention_one_row_edges, .shapes = 3},
    {.name = "attention_one_row_long", .run = attention_one_row_long, .shapes = 1},
    {.name = NULL},
};
