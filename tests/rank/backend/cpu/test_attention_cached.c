/* Attention over a cache in blocks against attention over segments,
 * and what it must not depend on. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/cpu/kernels.h"
#include "random.h"
#include "support.h"

enum {
    HEADS = 3,
    HEAD_WIDTH = 84, /* four vectors of any length, and some, and a part of one */
    WIDTH = HEADS * HEAD_WIDTH,
    TOKENS = 37,
    SEQUENCES = 2,
    BLOCKS_MAX = 64,
};

/* Where each sequence ends: two segments of the flat rows. */
static const int32_t starts[SEQUENCES + 1] = {0, 21, TOKENS};

typedef struct bed {
    rank_device device;
    float qkv[TOKENS * 3 * WIDTH];
    float bias[3 * WIDTH];
    float expected[TOKENS * WIDTH];
    float out[TOKENS * WIDTH];
    float *scratch;
    size_t window;
    float scale;
} bed;

static bed *open_bed(void)
{
    base_error error;
    bed *b = calloc(1, sizeof *b);
    assert_non_null(b);
    assert_ok(rank_device_open("cpu", &b->device, &error), &error);
    test_random_floats(b->qkv, TOKENS * 3 * WIDTH, 2, 1);
    test_random_floats(b->bias, 3 * WIDTH, 2, 2);
    const size_t cached = b->device.backend->attention_cached_scratch(HEAD_WIDTH, TOKENS);
    const size_t whole = b->device.backend->attention_scratch(
        &(rank_attention_shape){TOKENS, HEADS, HEAD_WIDTH, TOKENS});
    b->scratch = malloc((cached + whole) * sizeof *b->scratch);
    assert_non_null(b->scratch);
    return b;
}

static void close_bed(bed *b)
{
    free(b->scratch);
    rank_device_close(&b->device);
    free(b);
}

/* What attention over segments makes of it. */
static void run_segments(bed *b)
{
    float row_max[TOKENS * HEADS];
    float row_scale[TOKENS * HEADS];
    b->device.backend->attention(b->device.queue, &(rank_attention){.width = WIDTH,
                                                                    .heads = HEADS,
                                                                    .segment_count = SEQUENCES,
                                                                    .segment_start = starts,
                                                                    .segment_max = TOKENS,
                                                                    .qkv = b->qkv,
                                                                    .bias = b->bias,
                                                                    .out = b->expected,
                                                                    .row_max = row_max,
                                                                    .row_scale = row_scale,
                                                                    .scratch = b->scratch});
}

/* How the same tokens are cut into steps and blocks. */
typedef struct cutting {
    int32_t chunk; /* tokens of each sequence in a step */
    size_t block_tokens;
    bool together; /* both sequences in one step, or one after the other */
} cutting;

/* One step: the next tokens of sequences first … first + count. Rows are copied together, and the
 * results back. */
static void run_step(bed *b, cutting c, const int32_t *done, int first, int count, float *cache)
{
    static float qkv[TOKENS * 3 * WIDTH];
    static float out[TOKENS * WIDTH];
    int32_t row_start[SEQUENCES + 1] = {0};
    int32_t lengths[SEQUENCES];
    int32_t table[SEQUENCES * BLOCKS_MAX];
    for (int s = 0; s < count; s++) {
        const int32_t from = starts[first + s] + done[first + s];
        const int32_t left = starts[first + s + 1] - from;
        const int32_t rows = left < c.chunk ? left : c.chunk;
        lengths[s] = done[first + s];
        row_start[s + 1] = row_start[s] + rows;
        memcpy(qkv + row_start[s] * 3 * WIDTH, b->qkv + from * 3 * WIDTH,
               (size_t)rows * 3 * WIDTH * sizeof *qkv);
        for (int i = 0; i < BLOCKS_MAX / 2; i++) { /* odd blocks falling, even ones rising */
            const int at = (first + s) % 2 == 0 ? 2 * i : BLOCKS_MAX - 1 - 2 * i;
            table[s * BLOCKS_MAX + i] = at;
        }
    }
    const size_t half = BLOCKS_MAX * c.block_tokens * WIDTH;
    b->device.backend->attention_cached(b->device.queue,
                                        &(rank_attention_cached){.heads = HEADS,
                                                                 .kv_heads = HEADS,
                                                                 .head_width = HEAD_WIDTH,
                                                                 .sequence_count = (size_t)count,
                                                                 .row_start = row_start,
                                                                 .lengths = lengths,
                                                                 .block_table = table,
                                                                 .table_width = BLOCKS_MAX,
                                                                 .block_tokens = c.block_tokens,
                                                                 .length_max = TOKENS,
                                                                 .qkv = qkv,
                                                                 .bias = b->bias,
                                                                 .keys = cache,
                                                                 .values = cache + half,
                                                                 .out = out,
                                                                 .scratch = b->scratch});
    for (int s = 0; s < count; s++) {
        const int32_t from = starts[first + s] + done[first + s];
        memcpy(b->out + from * WIDTH, out + row_start[s] * WIDTH,
               (size_t)(row_start[s + 1] - row_start[s]) * WIDTH * sizeof *out);
    }
}

static void advance(cutting c, int32_t *done, int s)
{
    const int32_t length = starts[s + 1] - starts[s];
    done[s] = done[s] + c.chunk < length ? done[s] + c.chunk : length;
}

static bool is_done(const int32_t *done, int s)
{
    return done[s] == starts[s + 1] - starts[s];
}

static void run_cached(bed *b, cutting c)
{
    int32_t done[SEQUENCES] = {0};
    float *cache = malloc(2 * BLOCKS_MAX * c.block_tokens * WIDTH * sizeof *cache);
    assert_non_null(cache);
    memset(b->out, 0xff, sizeof b->out);
    while (!is_done(done, 0) || !is_done(done, 1)) {
        if (c.together && !is_done(done, 0) && !is_done(done, 1)) {
            run_step(b, c, done, 0, 2, cache);
            advance(c, done, 0);
            advance(c, done, 1);
            continue;
        }
        const int s = is_done(done, 0);
        run_step(b, c, done, s, 1, cache);
        advance(c, done, s);
    }
    free(cache);
}

static void it_is_attention_over_segments(void **state)
{
    (void)state;
    bed *b = open_bed();
    run_segments(b);
    run_cached(b, (cutting){.chunk = TOKENS, .block_tokens = 16, .together = true});
    for (size_t i = 0; i < TOKENS * WIDTH; i++) {
        assert_true(fabsf(b->out[i] - b->expected[i]) < 1e-5f);
    }
    close_bed(b);
}

/* The same bits whatever the chunk, the block and the other sequences. */
static void cutting_changes_nothing(void **state)
{
    (void)state;
    static const cutting cuttings[] = {{1, 16, false},     {1, 16, true}, {7, 16, true},
                                       {TOKENS, 1, false}, {3, 5, true},  {20, 64, true}};
    bed *b = open_bed();
    run_cached(b, (cutting){.chunk = TOKENS, .block_tokens = 16, .together = true});
    memcpy(b->expected, b->out, sizeof b->out);
    for (size_t i = 0; i < sizeof cuttings / sizeof *cuttings; i++) {
        run_cached(b, cuttings[i]);
        assert_memory_equal(b->out, b->expected, sizeof b->out);
    }
    close_bed(b);
}

/* Two query heads that share one head of keys and values, against two that have equal ones. */
static void heads_may_share_keys_and_values(void **state)
{
    (void)state;
    enum { D = 8, ROWS = 5 };
    static const int32_t row_start[] = {0, ROWS};
    static const int32_t length = 0;
    static const int32_t block = 0;
    float shared[ROWS * 4 * D];
    float full[ROWS * 6 * D];
    float cache[2 * 2 * ROWS * D];
    float out[2][ROWS * 2 * D];
    bed *b = open_bed();
    test_random_floats(shared, ROWS * 4 * D, 2, 9);
    for (size_t row = 0; row < ROWS; row++) {
        const float *from = shared + row * 4 * D;
        float *to = full + row * 6 * D;
        memcpy(to, from, 2 * D * sizeof *to);
        for (size_t head = 0; head < 2; head++) {
            memcpy(to + (2 + head) * D, from + 2 * D, D * sizeof *to);
            memcpy(to + (4 + head) * D, from + 3 * D, D * sizeof *to);
        }
    }
    for (size_t kv_heads = 1; kv_heads <= 2; kv_heads++) {
        b->device.backend->attention_cached(
            b->device.queue, &(rank_attention_cached){.heads = 2,
                                                      .kv_heads = kv_heads,
                                                      .head_width = D,
                                                      .sequence_count = 1,
                                                      .row_start = row_start,
                                                      .lengths = &length,
                                                      .block_table = &block,
                                                      .table_width = 1,
                                                      .block_tokens = ROWS,
                                                      .length_max = ROWS,
                                                      .qkv = kv_heads == 1 ? shared : full,
                                                      .keys = cache,
                                                      .values = cache + 2 * ROWS * D,
                                                      .out = out[kv_heads - 1],
                                                      .scratch = b->scratch});
    }
    assert_memory_equal(out[0], out[1], sizeof out[0]);
    close_bed(b);
}

/* One head's chain for one row, element by element, as attention_cached.c writes it down. Keys and
 * values are rows of qkv; the exponential is a kernel's, the same everywhere. */
static void expect_row(const bed *b, size_t row, size_t head, float *out)
{
    static float e[TOKENS];
    const size_t first = b->window > 0 && row + 1 > b->window ? row + 1 - b->window : 0;
    const size_t count = row + 1 - first; /* tokens from `first` on */
    const float scale = b->scale > 0.0f ? b->scale : 1.0f / sqrtf(HEAD_WIDTH);
    const float *q = b->qkv + row * 3 * WIDTH + head * HEAD_WIDTH;
    const float *bias = b->bias + head * HEAD_WIDTH;
    float largest = -INFINITY;
    float lanes[16] = {0};
    for (size_t t = 0; t < count; t++) {
        const float *key = b->qkv + ((first + t) * 3 + 1) * WIDTH + head * HEAD_WIDTH;
        float score = 0;
        for (size_t d = 0; d < HEAD_WIDTH; d++) {
            score = fmaf((q[d] + bias[d]) * scale, key[d] + bias[WIDTH + d], score);
        }
        e[t] = score;
        largest = score > largest ? score : largest;
    }
    for (size_t t = 0; t < count; t++) {
        e[t] -= largest;
    }
    rank_kernels_get()->exp(e, count);
    for (size_t t = 0; t < count; t++) {
        lanes[t % 16] += e[t];
    }
    for (size_t half = 8; half > 0; half /= 2) {
        for (size_t i = 0; i < half; i++) {
            lanes[i] += lanes[i + half];
        }
    }
    for (size_t d = 0; d < HEAD_WIDTH; d++) {
        float sum = 0;
        for (size_t t = 0; t < count; t++) {
            const float *value = b->qkv + ((first + t) * 3 + 2) * WIDTH + head * HEAD_WIDTH;
            sum = fmaf(e[t], value[d] + bias[2 * WIDTH + d], sum);
        }
        out[d] = sum * (1.0f / lanes[0]);
    }
}

enum { BLOCK = 16, CACHE = 4 * BLOCK * WIDTH };

/* No later row sees the token. */
static void poison(float *keys, float *values, size_t block, size_t token)
{
    for (size_t i = 0; i < WIDTH; i++) {
        const size_t head = (block * HEADS + i / HEAD_WIDTH) * BLOCK * HEAD_WIDTH;
        keys[head + i % HEAD_WIDTH * BLOCK + token] = NAN;
        values[head + token * HEAD_WIDTH + i % HEAD_WIDTH] = NAN;
    }
}

/* One sequence of all rows, by one instruction set; whole tiles of rows and a part of one. */
static void run_kernels(bed *b, const rank_kernels *kernels, int32_t before)
{
    static const int32_t table[] = {3, 0, 2, 1};
    float *cache = calloc(2 * CACHE, sizeof *cache);
    assert_non_null(cache);
    memset(b->out, 0xff, sizeof b->out);
    for (int32_t done = 0; done < TOKENS; done = done == 0 && before > 0 ? before : TOKENS) {
        const int32_t end = done == 0 && before > 0 ? before : TOKENS;
        kernels->attention_cached(
            &(rank_attention_cached){.heads = HEADS,
                                     .kv_heads = HEADS,
                                     .head_width = HEAD_WIDTH,
                                     .sequence_count = 1,
                                     .row_start = (const int32_t[]){0, end - done},
                                     .lengths = &done,
                                     .block_table = table,
                                     .table_width = 4,
                                     .block_tokens = BLOCK,
                                     .length_max = TOKENS,
                                     .qkv = b->qkv + (size_t)done * 3 * WIDTH,
                                     .bias = b->bias,
                                     .keys = cache,
                                     .values = cache + CACHE,
                                     .out = b->out + (size_t)done * WIDTH,
                                     .scratch = b->scratch,
                                     .window = b->window,
                                     .scale = b->scale});
        for (size_t t = 0; b->window > 0 && t + b->window <= (size_t)end; t++) {
            poison(cache, cache + CACHE, (size_t)table[t / BLOCK], t % BLOCK);
        }
    }
    free(cache);
}

/* All rows as a segment, in training. */
static void run_segment(bed *b, const rank_kernels *kernels)
{
    static float row_max[TOKENS * HEADS];
    static float row_scale[TOKENS * HEADS];
    float *scratch = malloc(kernels->attention_scratch(HEAD_WIDTH, TOKENS) * sizeof *scratch);
    assert_non_null(scratch);
    memset(b->out, 0xff, sizeof b->out);
    kernels->attention(&(rank_attention){.width = WIDTH,
                                         .heads = HEADS,
                                         .segment_count = 1,
                                         .segment_start = (const int32_t[]){0, TOKENS},
                                         .segment_max = TOKENS,
                                         .qkv = b->qkv,
                                         .bias = b->bias,
                                         .out = b->out,
                                         .row_max = row_max,
                                         .row_scale = row_scale,
                                         .scratch = scratch,
                                         .window = b->window,
                                         .scale = b->scale});
    free(scratch);
}

static void check_chains(bed *b)
{
    for (size_t row = 0; row < TOKENS; row++) {
        for (size_t head = 0; head < HEADS; head++) {
            expect_row(b, row, head, b->expected + row * WIDTH + head * HEAD_WIDTH);
        }
    }
    const rank_kernels *kernels = NULL;
    for (int isa = 1; (kernels = rank_kernels_at(isa)) != NULL; isa++) {
        run_segment(b, kernels);
        assert_memory_equal(b->out, b->expected, sizeof b->out);
        free(b->scratch);
        b->scratch =
            malloc(kernels->attention_cached_scratch(HEAD_WIDTH, TOKENS) * sizeof *b->scratch);
        assert_non_null(b->scratch);
        for (int32_t before = 0; before < TOKENS; before += 6) {
            run_kernels(b, kernels, before);
            assert_memory_equal(b->out, b->expected, sizeof b->out);
        }
    }
}

/* On every instruction set with fused multiply-add, in decoding and in training. */
static void every_row_has_the_bits_of_its_chain(void **state)
{
    (void)state;
    bed *b = open_bed();
    check_chains(b);
    close_bed(b);
}

/* Windows shorter than a tile, than a vector, and that end in the middle of one; and one that is too long to cut. */
static void a_window_leaves_out_what_is_before_it(void **state)
{
    (void)state;
    static const size_t windows[] = {1, 2, 7, 15, 16, 17, 23, TOKENS, 2 * TOKENS};
    bed *b = open_bed();
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
        b->window = windows[i];
        b->scale = i % 2 == 0 ? 0.0f : 0.21f;
        check_chains(b);
    }
    close_bed(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_attention_over_segments),
        cmocka_unit_test(cutting_changes_nothing),
        cmocka_unit_test(every_row_has_the_bits_of_its_chain),
        cmocka_unit_test(a_window_leaves_out_what_is_before_it),
        cmocka_unit_test(heads_may_share_keys_and_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
