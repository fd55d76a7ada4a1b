/* Decoding with a cache against a forward pass over the whole sequence, bit for bit, for prompts in
 * chunks, several sequences together, and token by token; and against transformers, which decodes
 * with a cache as well (make_decode_fixture.py, make_llama_fixture.py, make_gemma3_fixture.py, make_phi3_fixture.py). */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/shards.h"
#include "fixture.h"
#include "model/decoder.h"
#include "support.h"
#include "tiny.h"

enum { BLOCK_TOKENS = 5, BLOCK_COUNT = 16, TABLE_WIDTH = 5, VOCAB = 37, SEQUENCES = 2 };

enum { PADDED_VOCAB = 32 * RANK_TP_LEAVES };

typedef struct bed {
    tiny t;
    rank_shape shape;
    rank_run run;
    rank_saved saved;
    rank_cache cache;
    rank_tp_group *group; /* of this rank alone */
    rank_shards *shards;
    rank_hooks hooks;
    int32_t length[SEQUENCES];            /* tokens of each in the cache */
    float logits[SEQUENCES][24][VOCAB];   /* of every position */
    float expected[SEQUENCES][24][VOCAB]; /* by one forward pass, or a fixture */
} bed;

/* Sequence s holds the tokens of segment s: 23 and 17. */
static const int lengths[] = {23, 17, 0};

/* The logits of one forward pass at every position. */
static void expect_forward(bed *b)
{
    base_error error;
    static float logits[40 * VOCAB];
    int32_t rows[40];
    for (int i = 0; i < 40; i++) {
        rows[i] = i;
    }
    assert_ok(rank_model_forward(b->t.model, &b->t.hooks, &b->t.batch,
                                 &(rank_logits){rows, 40, logits}, NULL, &error),
              &error);
    memcpy(b->expected[0], logits, 23 * sizeof b->expected[0][0]);
    memcpy(b->expected[1], logits + 23 * VOCAB, 17 * sizeof b->expected[0][0]);
}

/* Another implementation's parameters, tokens and logits. */
static void expect_fixture(bed *b)
{
    fixture file;
    size_t count = 0;
    fixture_open(&file, "decode.fixture");
    float *params = fixture_get(&file, &count, "params");
    assert_int_equal(count, b->t.param_count);
    memcpy(b->t.params, params, count * sizeof *params);
    int32_t *ids = fixture_get_ints(&file, &count, "ids");
    assert_int_equal(count, 40);
    memcpy(b->t.ids, ids, count * sizeof *ids);
    float *logits = fixture_get(&file, &count, "logits");
    assert_int_equal(count, 40 * VOCAB);
    memcpy(b->expected[0], logits, 23 * sizeof b->expected[0][0]);
    memcpy(b->expected[1], logits + 23 * VOCAB, 17 * sizeof b->expected[0][0]);
    free(params);
    free(ids);
    free(logits);
    fixture_close(&file);
}

/* One of llama.fixture's models: its tokens are the first sequence, and there is no second. */
static void open_llama(bed *b, const char *which, const char *config)
{
    base_error error;
    fixture file;
    size_t count = 0;
    tiny_config(&b->t.config, config);
    assert_ok(rank_device_open("cpu", &b->t.device, &error), &error);
    const bool experts = strstr(config, "experts") != NULL;
    const bool gemma3 = strstr(config, "gemma3") != NULL;
    const bool longrope = strstr(config, "longrope") != NULL;
    fixture_open(&file, experts    ? "experts.fixture"
                        : gemma3   ? "gemma3.fixture"
                        : longrope ? "phi3.fixture"
                                   : "llama.fixture");
    b->t.params = fixture_get(&file, &b->t.param_count, "%s.params", which);
    assert_int_equal(b->t.param_count, rank_model_param_count(&b->t.config));
    int32_t *ids = fixture_get_ints(&file, &count, "%s.ids", which);
    assert_int_equal(count, 23);
    memcpy(b->t.ids, ids, count * sizeof *ids);
    b->t.segments[1] = b->t.segments[2] = 23;
    float *logits = fixture_get(&file, &count, "%s.logits", which);
    assert_int_equal(count, 23 * VOCAB);
    memcpy(b->expected[0], logits, count * sizeof *logits);
    free(ids);
    free(logits);
    fixture_close(&file);
}

static void bed_make(bed *b)
{
    base_error error;
    const rank_family *family = b->t.config.family;
    b->shape = (rank_shape){.config = &b->t.config,
                            .backend = b->t.device.backend,
                            .end_layer = b->t.config.layers,
                            .token_count_max = 48};
    assert_ok(rank_tp_group_create(NULL, &b->t.device, VOCAB,
                                   rank_decoder_exchanged_floats(&b->shape), &b->group, &error),
              &error);
    b->shape.tp = rank_tp_group_tp(b->group);
    rank_flat_params params = {&b->t.config, b->t.params};
    const rank_tensor_source source = rank_flat_source(&params);
    assert_ok(rank_shards_create(&(rank_shards_options){.config = &b->t.config,
                                                        .device = &b->t.device,
                                                        .tp = b->shape.tp,
                                                        .type = RANK_FLOAT32},
                                 &source, &b->shards, &error),
              &error);
    assert_int_equal(rank_shards_elements(b->shards), b->t.param_count);
    b->hooks = rank_shards_hooks(b->shards);
    b->run = (rank_run){.shape = b->shape, .device = b->t.device, .hooks = &b->hooks};
    b->run.work = malloc(family->work_floats(&b->shape) * sizeof(float));
    b->cache = (rank_cache){.block_tokens = BLOCK_TOKENS, .block_count = BLOCK_COUNT};
    b->cache.memory =
        malloc((size_t)BLOCK_COUNT * BLOCK_TOKENS * rank_decoder_cache_floats(&b->shape) *
               (size_t)b->t.config.layers * sizeof(float));
    assert_non_null(b->run.work);
    assert_non_null(b->cache.memory);
    assert_ok(rank_saved_create(&b->shape, &b->t.device, &b->saved, &error), &error);
}

static void bed_open(bed *b, void (*expect)(bed *b))
{
    tiny_open(&b->t);
    tiny_fill(&b->t, lengths, 5);
    b->t.batch.targets = NULL;
    expect(b);
    bed_make(b);
}

static void bed_close(bed *b)
{
    rank_saved_destroy(&b->saved);
    free(b->run.work);
    free(b->cache.memory);
    rank_shards_destroy(b->shards);
    rank_tp_group_destroy(b->group);
    tiny_close(&b->t);
}

/* The next `count[s]` tokens of each sequence (0: it sits out), with the logits of all of them. */
static void step(bed *b, const int count[SEQUENCES])
{
    static const int32_t tables[SEQUENCES][TABLE_WIDTH] = {{3, 0, 9, 12, 5}, {1, 15, 2, 8, 4}};
    base_error error;
    float logits[48 * PADDED_VOCAB];
    int32_t ids[48];
    int32_t rows[48];
    int32_t start[SEQUENCES + 1] = {0};
    int32_t before[SEQUENCES];
    int32_t table[SEQUENCES][TABLE_WIDTH];
    int who[SEQUENCES];
    int used = 0;
    for (int s = 0; s < SEQUENCES; s++) {
        if (count[s] == 0) {
            continue;
        }
        memcpy(ids + start[used], b->t.ids + b->t.segments[s] + b->length[s],
               (size_t)count[s] * sizeof *ids);
        memcpy(table[used], tables[s], sizeof table[used]);
        before[used] = b->length[s];
        who[used++] = s;
        start[used] = start[used - 1] + count[s];
    }
    for (int i = 0; i < start[used]; i++) {
        rows[i] = i;
    }
    const rank_batch batch = {
        .token_count = start[used], .ids = ids, .segment_count = used, .segment_start = start};
    assert_ok(rank_rows_place_step(&b->saved, &batch, before,
                                   &(rank_logits){rows, start[used], NULL}, &error),
              &error);
    b->t.config.family->decode(&b->run,
                               &(rank_decode_args){.saved = &b->saved,
                                                   .cache = &b->cache,
                                                   .lengths = before,
                                                   .block_table = table[0],
                                                   .table_width = TABLE_WIDTH,
                                                   .exchanged = rank_tp_group_memory(b->group),
                                                   .logits = logits});
    assert_ok(b->t.device.backend->sync(b->t.device.queue, &error), &error);
    for (int i = 0; i < used; i++) {
        const int s = who[i];
        for (int k = 0; k < count[s]; k++) {
            memcpy(b->logits[s][b->length[s] + k], logits + (start[i] + k) * PADDED_VOCAB,
                   sizeof b->logits[0][0]);
        }
        b->length[s] += count[s];
    }
}

static void check(const bed *b, float tolerance)
{
    for (int s = 0; s < SEQUENCES; s++) {
        assert_int_equal(b->length[s], b->t.segments[s + 1] - b->t.segments[s]);
        for (int t = 0; t < b->length[s]; t++) {
            for (int v = 0; v < VOCAB; v++) {
                assert_true(fabsf(b->logits[s][t][v] - b->expected[s][t][v]) <= tolerance);
            }
        }
    }
}

static void prompt_in_one_piece(void (*expect)(bed *b), float tolerance)
{
    static bed b;
    b = (bed){.length = {0}};
    bed_open(&b, expect);
    step(&b, (const int[]){23, 17});
    check(&b, tolerance);
    bed_close(&b);
}

static void chunks_and_single_tokens(void (*expect)(bed *b), float tolerance)
{
    static bed b;
    b = (bed){.length = {0}};
    bed_open(&b, expect);
    step(&b, (const int[]){7, 0});
    step(&b, (const int[]){7, 4}); /* the second joins */
    for (int i = 0; i < 9; i++) {
        step(&b, (const int[]){1, 1});
    }
    step(&b, (const int[]){0, 4}); /* the first has left */
    check(&b, tolerance);
    bed_close(&b);
}

static void a_prompt_in_one_piece_is_a_forward_pass(void **state)
{
    (void)state;
    prompt_in_one_piece(expect_forward, 0.0f);
}

static void chunks_and_single_tokens_give_the_same_bits(void **state)
{
    (void)state;
    chunks_and_single_tokens(expect_forward, 0.0f);
}

static void transformers_says_the_same(void **state)
{
    (void)state;
    prompt_in_one_piece(expect_fixture, 1e-4f);
    chunks_and_single_tokens(expect_fixture, 1e-4f);
}

/* What a forward pass says of the first sequence. */
static void check_forward_pass(bed *b)
{
    base_error error;
    static float logits[23 * VOCAB];
    int32_t rows[23];
    for (int i = 0; i < 23; i++) {
        rows[i] = i;
    }
    assert_ok(rank_model_create(&(rank_model_options){.config = &b->t.config,
                                                      .device = &b->t.device,
                                                      .token_count_max = 23},
                                &b->t.model, &error),
              &error);
    b->t.hooks = rank_hooks_flat(b->t.params);
    const rank_batch batch = {.token_count = 23,
                              .ids = b->t.ids,
                              .targets = NULL,
                              .segment_count = 1,
                              .segment_start = b->t.segments};
    assert_ok(rank_model_forward(b->t.model, &b->t.hooks, &batch, &(rank_logits){rows, 23, logits},
                                 NULL, &error),
              &error);
    assert_memory_equal(b->logits[0], logits, sizeof logits);
}

/* A model of llama.fixture, in one piece, token by token, and in a forward pass if it has one: all have
 * the same bits. */
static void decode_llama(const char *which, const char *config)
{
    static bed whole;
    static bed pieces;
    whole = pieces = (bed){.length = {0}};
    open_llama(&whole, which, config);
    open_llama(&pieces, which, config);
    bed_make(&whole);
    bed_make(&pieces);
    step(&whole, (const int[]){23, 0});
    step(&pieces, (const int[]){7, 0});
    for (int i = 0; i < 16; i++) {
        step(&pieces, (const int[]){1, 0});
    }
    check(&whole, 1e-4f);
    assert_memory_equal(whole.logits[0], pieces.logits[0], 23 * sizeof whole.logits[0][0]);
    check_forward_pass(&whole);
    bed_close(&whole);
    bed_close(&pieces);
}

static void transformers_says_the_same_of_llama(void **state)
{
    (void)state;
    decode_llama("tied", TINY_LLAMA_TIED);
    decode_llama("untied", TINY_LLAMA_LINEAR);
    decode_llama("llama3", TINY_LLAMA_LLAMA3);
    decode_llama("qwen2", TINY_QWEN2);
    decode_llama("qwen2-tied", TINY_QWEN2_TIED);
    decode_llama("qwen3", TINY_QWEN3);
    decode_llama("qwen3-untied", TINY_QWEN3_UNTIED);
    decode_llama("smollm3", TINY_SMOLLM3);
    decode_llama("mixtral", TINY_MIXTRAL);
    decode_llama("qwen3-moe", TINY_QWEN3_MOE);
    decode_llama("qwen3-moe-raw", TINY_QWEN3_MOE_RAW);
}

/* With windows that are shorter than the text, and the embedding's factor in two types. */
static void transformers_says_the_same_of_gemma(void **state)
{
    (void)state;
    decode_llama("gemma3", TINY_GEMMA3);
    decode_llama("gemma3-linear", TINY_GEMMA3_LINEAR);
}

/* A part of each head turned, both lists of factors, and both ways to their attention factor. */
static void transformers_says_the_same_of_longrope(void **state)
{
    (void)state;
    decode_llama("phi3-long", TINY_PHI3);
    decode_llama("phi3-short", TINY_PHI3_SHORT);
    decode_llama("longrope", TINY_LLAMA_LONGROPE);
}

static void broken_settings_of_rope_are_refused(void **state)
{
    (void)state;
    static const char *const settings[] = {
        "\"factor\":8.0", "\"rope_type\":\"yarn\",\"factor\":8.0",
        "\"rope_type\":\"llama3\",\"factor\":8.0,\"low_freq_factor\":1.0,"
        "\"high_freq_factor\":4.0,\"original_max_position_embeddings\":1e300",
        "\"rope_type\":\"llama3\",\"factor\":8.0,\"low_freq_factor\":4.0,"
        "\"high_freq_factor\":4.0,\"original_max_position_embeddings\":64"};
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        base_error error = {.message = ""};
        rank_model_config config = {.width = 0};
        char text[1024];
        (void)snprintf(text, sizeof text, TINY_LLAMA("\"rope_scaling\":{%s}"), settings[i]);
        json_t *object = json_loads(text, 0, NULL);
        assert_non_null(object);
        assert_int_not_equal(rank_family_find("llama")->configure(object, &config, &error),
                             BASE_OK);
        assert_int_equal(config.width, 0);
        json_decref(object);
    }
}

static void steps_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    static bed b;
    base_error error;
    const int32_t start[] = {0, 2};
    const int32_t ids[] = {1, 2};
    const rank_batch batch = {
        .token_count = 2, .ids = ids, .segment_count = 1, .segment_start = start};
    b = (bed){.length = {0}};
    bed_open(&b, expect_forward);
    assert_ok(rank_rows_place_step(&b.saved, &batch, &(int32_t){22}, NULL, &error), &error);
    assert_int_equal(b.saved.rows.positions[1], 23);
    assert_status(rank_rows_place_step(&b.saved, &batch, &(int32_t){23}, NULL, &error),
                  BASE_ERR_INVALID);
    assert_non_null(strstr(error.message, "the context is 24"));
    assert_status(rank_rows_place_step(&b.saved, &batch, &(int32_t){-1}, NULL, &error),
                  BASE_ERR_INVALID);
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_prompt_in_one_piece_is_a_forward_pass),
        cmocka_unit_test(chunks_and_single_tokens_give_the_same_bits),
        cmocka_unit_test(transformers_says_the_same),
        cmocka_unit_test(transformers_says_the_same_of_llama),
        cmocka_unit_test(transformers_says_the_same_of_gemma),
        cmocka_unit_test(transformers_says_the_same_of_longrope),
        cmocka_unit_test(broken_settings_of_rope_are_refused),
        cmocka_unit_test(steps_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
