/* Parity of operations on rows: GELU, embeddings, moved rows; of norms: norms.c. */
#include <stdio.h>
#include <stdlib.h>

#include "cases.h"
#include "support.h"

size_t parity_width(twin *t, size_t most)
{
    static const size_t wide[] = {128, 508, 768, 1024, 1100, 2048, 2056, 4100, 8200};
    return twin_between(t, 0, 2) > 0 ? twin_between(t, 1, most)
                                     : wide[twin_between(t, 0, sizeof wide / sizeof *wide - 1)];
}

static void gelu_of(twin *t, rank_type type)
{
    char shape[PARITY_TEXT_BYTES];
    const size_t rows = twin_between(t, 1, 150);
    const size_t width = parity_width(t, 100);
    const float scale = twin_between(t, 0, 3) == 0 ? 100.0f : 4.0f;
    const int bias = twin_floats(t, "bias", width, 1.0f);
    const int x = twin_elements(t, "x", type, rows * width, scale);
    const int out = twin_elements(t, "out", type, rows * width, 1.0f);
    const int d = twin_elements(t, "d", type, rows * width, 1.0f);
    const int dbias = twin_floats(t, "dbias", width, 1.0f);
    ON_BOTH(t, gelu,
            &(rank_gelu){rows, width, FLOATS(t, bias, side), twin_at(t, x, side),
                         twin_at(t, out, side), twin_type(type, side)});
    ON_BOTH(t, gelu_grad,
            &(rank_gelu_grad){rows, width, twin_at(t, x, side), twin_at(t, d, side),
                              FLOATS(t, dbias, side), twin_type(type, side)});
    if (type == RANK_BFLOAT16) {
        twin_tolerate(t, x, PARITY_ROUNDED);
        twin_tolerate(t, out, PARITY_ROUNDED);
        twin_tolerate(t, d, PARITY_ROUNDED);
        twin_tolerate(t, dbias, PARITY_ROUNDED_SUM);
    }
    (void)snprintf(shape, sizeof shape, "gelu and gelu_grad (%zu, %zu)", rows, width);
    twin_compare(t, shape);
}

static void gelu(twin *t)
{
    gelu_of(t, RANK_FLOAT32);
}

void parity_gelu_bfloat16(twin *t)
{
    gelu_of(t, RANK_BFLOAT16);
}

/* Heads that are turned, and behind them some that are not. */
static void rope(twin *t)
{
    char shape[PARITY_TEXT_BYTES];
    const size_t rows = twin_between(t, 1, 40);
    const size_t heads = twin_between(t, 1, 7);
    const size_t pairs = twin_between(t, 1, 64);
    const size_t head_width = 2 * pairs + twin_between(t, 0, 5);
    const size_t at_row = heads * head_width + twin_between(t, 0, 50);
    const int positions = twin_ints(t, "positions", rows, 0, (1 << 20) - 1);
    const int table = twin_floats(t, "table", rows * 2 * pairs, 1.0f);
    const int at = twin_floats(t, "at", rows * at_row, 1.0f);
    const bool back = twin_between(t, 0, 1) > 0;
    rank_rope_table angles = {.rows = rows, .pairs = pairs, .scale = back ? 1.0f : 1.19f};
    for (size_t i = 0; i < pairs; i++) {
        angles.frequency[i] = 1.0f / (float)(1 + i * i);
    }
    for (int side = 0; side < 2; side++) {
        const rank_device *device = &t->device[side];
        angles.positions = INTS(t, positions, side);
        angles.table = FLOATS(t, table, side);
        device->backend->rope_table(device->queue, &angles);
    }
    ON_BOTH(t, rope,
            &(rank_rope){rows, heads, head_width, pairs, FLOATS(t, table, side),
                         FLOATS(t, at, side), at_row, back});
    (void)snprintf(shape, sizeof shape,
                   "rope, %zu rows of %zu, %zu heads of %zu, %zu pairs, back %d", rows, at_row,
                   heads, head_width, pairs, back);
    twin_compare(t, shape);
}

/* One to three parts, and behind them columns that stay. */
static void add_bias(twin *t)
{
    char shape[PARITY_TEXT_BYTES];
    size_t columns[RANK_BIAS_PARTS] = {twin_between(t, 1, 90)};
    columns[1] = twin_between(t, 0, 50);
    columns[2] = columns[1] > 0 ? twin_between(t, 0, 50) : 0;
    const size_t rows = twin_between(t, 1, 40);
    const size_t at_row = columns[0] + columns[1] + columns[2] + twin_between(t, 0, 50);
    const int at = twin_floats(t, "at", rows * at_row, 1.0f);
    const int first = twin_floats(t, "first", columns[0], 1.0f);
    const int second = twin_floats(t, "second", columns[1] + 1, 1.0f);
    const int third = twin_floats(t, "third", columns[2] + 1, 1.0f);
    ON_BOTH(t, add_bias,
            &(rank_add_bias){.rows = rows,
                             .columns = {columns[0], columns[1], columns[2]},
                             .bias = {FLOATS(t, first, side), FLOATS(t, second, side),
                                      columns[2] > 0 ? FLOATS(t, third, side) : NULL},
                             .at = FLOATS(t, at, side),
                             .at_row = at_row});
    (void)snprintf(shape, sizeof shape, "add_bias, %zu rows of %zu, %zu + %zu + %zu", rows, at_row,
                   columns[0], columns[1], columns[2]);
    twin_compare(t, shape);
}

static void shared_heads(twin *t)
{
    char shape[PARITY_TEXT_BYTES];
    const size_t rows = twin_between(t, 1, 40);
    const size_t kv_heads = twin_between(t, 1, 4);
    const size_t heads = kv_heads * twin_between(t, 2, 5);
    const size_t head_width = twin_between(t, 1, 70);
    const size_t columns = 3 * heads * head_width;
    const int at = twin_floats(t, "at", rows * columns, 1.0f);
    const int other = twin_floats(t, "other", rows * columns, 1.0f);
    ON_BOTH(t, copy_heads,
            &(rank_shared_heads){rows, heads, kv_heads, head_width, FLOATS(t, at, side)});
    ON_BOTH(t, sum_heads,
            &(rank_shared_heads){rows, heads, kv_heads, head_width, FLOATS(t, other, side)});
    (void)snprintf(shape, sizeof shape,
                   "copy_heads and sum_heads, %zu rows, %zu of %zu heads of %zu", rows, kv_heads,
                   heads, head_width);
    twin_compare(t, shape);
}

/* Gate and up with gaps, as training has them, or without. */
static void swiglu(twin *t)
{
    char shape[PARITY_TEXT_BYTES];
    const size_t rows = twin_between(t, 1, 40);
    const size_t width = twin_between(t, 1, 90);
    const size_t row = width + (twin_between(t, 0, 1) > 0 ? width : 0);
    const float scale = twin_between(t, 0, 3) == 0 ? 100.0f : 4.0f;
    const int gate = twin_floats(t, "gate", rows * row, scale);
    const int up = twin_floats(t, "up", rows * row, 1.0f);
    const int out = twin_floats(t, "out", rows * width, 1.0f);
    const int d = twin_floats(t, "d", rows * width, 1.0f);
    ON_BOTH(t, swiglu,
            &(rank_swiglu){rows, width, FLOATS(t, gate, side), FLOATS(t, up, side), row,
                           FLOATS(t, out, side), false});
    ON_BOTH(t, swiglu_grad,
            &(rank_swiglu_grad){rows, width, FLOATS(t, gate, side), FLOATS(t, up, side), row,
                                FLOATS(t, d, side), false});
    (void)snprintf(shape, sizeof shape, "swiglu and swiglu_grad (%zu, %zu), row %zu", rows, width,
                   row);
    twin_compare(t, shape);
}

static void embed_tokens(twin *t, size_t tokens, size_t width, size_t vocab, size_t context)
{
    char shape[PARITY_TEXT_BYTES];
    const int ids = twin_ints(t, "ids", tokens, 0, (int)vocab - 1);
    const int positions = twin_ints(t, "positions", tokens, 0, (int)context - 1);
    const int wte = twin_floats(t, "wte", vocab * width, 1.0f);
    const int wpe = twin_floats(t, "wpe", context * width, 1.0f);
    const int out = twin_floats(t, "out", tokens * width, 1.0f);
    const int dwte = twin_floats(t, "dwte", vocab * width, 1.0f);
    const int dwpe = twin_floats(t, "dwpe", context * width, 1.0f);
    const bool with_wpe = twin_between(t, 0, 2) > 0;
    ON_BOTH(t, embed,
            &(rank_embed){tokens, width, INTS(t, ids, side), INTS(t, positions, side),
                          FLOATS(t, wte, side), with_wpe ? FLOATS(t, wpe, side) : NULL,
                          FLOATS(t, out, side), 0, 0});
    ON_BOTH(t, embed_grad,
            &(rank_embed_grad){tokens, width, INTS(t, ids, side), INTS(t, positions, side),
                               FLOATS(t, out, side), FLOATS(t, dwte, side),
                               with_wpe ? FLOATS(t, dwpe, side) : NULL, 0, 0});
    (void)snprintf(shape, sizeof shape,
                   "embed and embed_grad, %zu tokens of %zu, width %zu, wpe %d", tokens, vocab,
                   width, with_wpe);
    twin_compare(t, shape);
}

/* Few different ids, so that many tokens share one. */
static void embed(twin *t)
{
    const size_t tokens = twin_between(t, 1, 300);
    const size_t width = parity_width(t, 200);
    const size_t vocab = twin_between(t, 1, 40);
    embed_tokens(t, tokens, width, vocab, twin_between(t, 1, 30));
}

/* Tokens whose order is made of several parts, some of whose ids come often. */
static void embed_many(twin *t)
{
    const size_t tokens = twin_between(t, 1025, 3000);
    const size_t vocab = twin_between(t, 1, 500);
    embed_tokens(t, tokens, twin_between(t, 1, 8), vocab, twin_between(t, 20, 1500));
}

static void embed_packed(twin *t)
{
    char shape[PARITY_TEXT_BYTES];
    const size_t tokens = twin_between(t, 1, 50);
    const size_t width = twin_between(t, 1, 70);
    const size_t columns = twin_between(t, 1, 90);
    const size_t first_id = twin_between(t, 0, 20);
    const int ids = twin_ints(t, "ids", tokens, 0, (int)(first_id + columns + 10));
    const int positions = twin_ints(t, "positions", tokens, 0, 9);
    const size_t wte_row = twin_between(t, 0, 1) > 0 ? width + twin_between(t, 0, 3) : 0;
    const size_t wte_count = wte_row > 0 ? columns * wte_row : rank_pack_count(width, columns);
    const int wte = twin_floats(t, "wte", wte_count, 1.0f);
    const int wpe = twin_floats(t, "wpe", 10 * width, 1.0f);
    const bool with_wpe = twin_between(t, 0, 2) > 0;
    const int out = twin_floats(t, "out", tokens * width, 1.0f);
    ON_BOTH(t, embed_packed,
            &(rank_embed_packed){tokens, width, INTS(t, ids, side), INTS(t, positions, side),
                                 (int32_t)first_id, (int32_t)columns, FLOATS(t, wte, side),
                                 with_wpe ? FLOATS(t, wpe, side) : NULL, FLOATS(t, out, side),
                                 wte_row, RANK_FLOAT32});
    (void)snprintf(shape, sizeof shape,
                   "embed_packed, %zu tokens, ids from %zu, %zu columns, row %zu", tokens, first_id,
                   columns, wte_row);
    twin_compare(t, shape);
}

/* Rows that ascend: each of the total is in it or not. At least one. */
static int some_rows(twin *t, size_t total, size_t *count)
{
    int32_t *rows = malloc(total * sizeof *rows);
    assert_non_null(rows);
    *count = 0;
    for (size_t i = 0; i < total; i++) {
        if (twin_between(t, 0, 2) > 0 || (i + 1 == total && *count == 0)) {
            rows[(*count)++] = (int32_t)i;
        }
    }
    const int made = twin_copy(t, "rows", RANK_MEMORY_HOST, rows, *count * sizeof *rows);
    twin_tolerate(t, made, -1.0);
    free(rows);
    return made;
}

static void move_rows(twin *t)
{
    char shape[PARITY_TEXT_BYTES];
    size_t count = 0;
    const size_t total = twin_between(t, 0, 3) > 0 ? twin_between(t, 1, 60) : 1700;
    const size_t width = twin_between(t, 1, 130);
    const int rows = some_rows(t, total, &count);
    const int at = twin_floats(t, "at", total * width, 1.0f);
    const int also = twin_floats(t, "also", total * width, 1.0f);
    ON_BOTH(t, gather_rows,
            &(rank_move_rows){count, total, width, INTS(t, rows, side), FLOATS(t, at, side)});
    ON_BOTH(t, spread_rows,
            &(rank_move_rows){count, total, width, INTS(t, rows, side), FLOATS(t, also, side)});
    (void)snprintf(shape, sizeof shape, "gather_rows and spread_rows, %zu of %zu, width %zu", count,
                   total, width);
    twin_compare(t, shape);
}

static void column_sums(twin *t)
{
    char shape[PARITY_TEXT_BYTES];
    const size_t rows = twin_between(t, 1, 200);
    const size_t columns = twin_between(t, 1, 100);
    const size_t gap = twin_between(t, 0, 1) > 0 ? twin_between(t, 1, 50) : 0;
    const int from = twin_floats(t, "from", rows * (columns + gap), 1.0f);
    const int sums = twin_floats(t, "sums", columns, 1.0f);
    const int to = twin_floats(t, "to", rows * columns, 1.0f);
    ON_BOTH(t, column_sums,
            &(rank_column_sums){rows, columns, FLOATS(t, from, side), FLOATS(t, sums, side),
                                gap > 0 ? columns + gap : 0});
    ON_BOTH(t, add, &(rank_add){rows * columns, FLOATS(t, from, side), FLOATS(t, to, side)});
    (void)snprintf(shape, sizeof shape, "column_sums and add (%zu, %zu), gaps of %zu", rows,
                   columns, gap);
    twin_compare(t, shape);
}

/* Each part has a gap behind it that stays. */
static void zero_parts(twin *t)
{
    char shape[PARITY_TEXT_BYTES];
    const size_t parts = twin_between(t, 1, RANK_ZERO_PARTS_MAX);
    const size_t longest = twin_between(t, 0, parts < 4 ? 70000 : 700);
    size_t counts[RANK_ZERO_PARTS_MAX];
    size_t all = 0;
    for (size_t i = 0; i < parts; i++) {
        counts[i] = twin_between(t, 0, longest);
        all += counts[i] + 3;
    }
    const int array = twin_floats(t, "array", all, 1.0f);
    const int single = twin_floats(t, "single", longest + 1, 1.0f);
    for (int side = 0; side < TWIN_SIDES; side++) {
        const rank_device *device = &t->device[side];
        rank_zero_parts args = {.count = parts};
        float *at = FLOATS(t, array, side);
        for (size_t i = 0; i < parts; i++) {
            args.parts[i].at = at;
            args.parts[i].count = counts[i];
            at += counts[i] + 3;
        }
        device->backend->zero_parts(device->queue, &args);
        device->backend->zero(device->queue, FLOATS(t, single, side), longest * sizeof *at);
    }
    (void)snprintf(shape, sizeof shape, "zero_parts %zu, up to %zu", parts, longest);
    twin_compare(t, shape);
}

const parity_case parity_rows_cases[] = {
    {.name = "rope", .run = rope},
    {.name = "add_bias", .run = add_bias},
    {.name = "shared_heads", .run = shared_heads},
    {.name = "swiglu", .run = swiglu},
    {.name = "gelu", .run = gelu},
    {.name = "embed", .run = embed},
    {.name = "embed_many", .run = embed_many, .shapes = 3},
    {.name = "embed_packed", .run = embed_packed},
    {.name = "move_rows", .run = move_rows},
    {.name = "column_sums", .run = column_sums},
    {.name = "zero_parts", .run = zero_parts},
    {.name = NULL},
};
