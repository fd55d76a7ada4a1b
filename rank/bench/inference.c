/* Decoding against what the machine can do, in interleaved rounds: per token on one rank and on
 * all, the bandwidth of one core and of all over as many bytes, prefill, its products alone, and
 * the all-reduces. Called by inference_main.c.
 *
 * Where rank 0 measures alone, the others wait in a barrier, which sleeps. */
#include "bench/inference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/path.h"
#include "base/percentile.h"
#include "generate/engine.h"
#include "generate/reading.h"
#include "rank/checkpoint.h"
#include "ringfence/coll_error.h"

enum {
    PROMPT_TOKENS = 8,
    NEW_TOKENS = 700, /* of a sequence that is decoded in all rounds */
    PREFILL_TOKENS = 512,
    TOKENS_A_ROUND = 6,
    FIRST_STEPS = 2, /* a request is admitted, then computed */
    REDUCES = 50,
    PEAK_ROWS = 112, /* of a product that stays in the near caches */
    PEAK_COLUMNS = 64,
    PEAK_DEPTH = 512,
    PEAK_TIMES = 200,
};

_Static_assert((int)FIRST_STEPS + (int)TOKENS_A_ROUND * (1 + (int)BENCH_INFERENCE_ROUNDS_MAX) <
                   (int)NEW_TOKENS,
               "a sequence does not end before the rounds do");

/* What a round gives; the slowest rank's where several take part. */
typedef enum figure {
    ONE_BANDWIDTH, /* bytes per second, best way of reading */
    ALL_BANDWIDTH,
    ONE_TOKEN_MS,
    ALL_TOKEN_MS,
    ALL_REDUCE_SHARE, /* of a step's time: moving and waiting */
    REDUCE_US,        /* one bare all-reduce between ranks that are ready */
    PREFILL_MS,
    PRODUCTS_MS,
    PEAK_GFLOPS,
    FIGURES,
} figure;

typedef struct bench {
    coll_comm *world;
    int rank;
    int ranks;
    rank_model_config config;
    rank_device device;
    char weights[BASE_PATH_BYTES];
    rank_type type;   /* of the matrices */
    rank_engine *all; /* of all ranks */
    rank_engine *one; /* rank 0's own */
    int64_t first_token_ns;
    size_t peak_bytes;
    uint32_t *words; /* as many bytes as the weights of one rank's model have */
    size_t words_bytes;
    float *rows;    /* (PREFILL_TOKENS, 4 widths), */
    float *out;     /* and as many again; */
    float *scratch; /* of products */
    coll_arena *arena;
    double *figures[FIGURES]; /* (rounds) */
} bench;

static void on_event(void *user, const rank_schedule_event *event)
{
    uint64_t *drawn = user;
    (void)event;
    (*drawn)++;
}

static uint64_t drawn; /* tokens; the engine's steps say nothing else of them */

static base_status make_engine(bench *b, coll_comm *comm, rank_engine **engine, base_error *reterr)
{
    return rank_engine_create(&(rank_engine_options){.config = &b->config,
                                                     .device = &b->device,
                                                     .comm = comm,
                                                     .weights = b->weights,
                                                     .type = b->type,
                                                     .sequences = 1,
                                                     .chunk_tokens = PREFILL_TOKENS,
                                                     .block_tokens = 16,
                                                     .waiting_max = 1,
                                                     .on_event = on_event,
                                                     .user = &drawn},
                              engine, reterr);
}

static base_status submit(rank_engine *engine, int prompt_count, int new_tokens, base_error *reterr)
{
    int32_t prompt[PREFILL_TOKENS];
    rank_request request = {
        .prompt_count = prompt_count, .max_new_tokens = new_tokens, .sample = {.top_p = 1}};
    for (int i = 0; i < prompt_count; i++) {
        prompt[i] = i * 37 % 500;
    }
    return rank_engine_submit(engine, &request, prompt, reterr);
}

static base_status steps(rank_engine *engine, int count, base_error *reterr)
{
    base_status status = BASE_OK;
    bool ended = false;
    for (int i = 0; status == BASE_OK && i < count; i++) {
        status = rank_engine_step(engine, false, &ended, reterr);
    }
    return status;
}

/* The largest over the ranks. */
static base_status slowest(bench *b, double *value, base_error *reterr)
{
    return (base_status)coll_all_reduce(b->world, value, value, 1, COLL_FLOAT64, COLL_MAX,
                                        coll_error_of(reterr));
}

static size_t peak_rss_bytes(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (size_t)usage.ru_maxrss * 1024 : 0;
}

/* Takes as much memory as weights will need, and gives it back: what a virtual machine's host has
 * taken away in the meantime costs a second for each gigabyte when it is first used, however it is
 * used. That is the machine's time; loading is timed with warm memory, as with a warm file. */
static base_status warm_memory(const bench *b, base_error *reterr)
{
    const size_t page_bytes = 4096;
    const size_t bytes =
        rank_numbers_bytes(b->type, rank_model_param_count(&b->config) / (size_t)b->ranks);
    void *memory = NULL;
    const base_status status =
        b->device.backend->alloc(b->device.queue, RANK_MEMORY_WEIGHTS, bytes, &memory, reterr);
    for (size_t i = 0; status == BASE_OK && i < bytes; i += page_bytes) {
        ((volatile char *)memory)[i] = 1;
    }
    b->device.backend->release(b->device.queue, memory);
    return status;
}

/* The engine of all ranks, from the file to its first token; then its peak memory. */
static base_status begin(bench *b, base_error *reterr)
{
    base_status status = warm_memory(b, reterr);
    if (status == BASE_OK) {
        status = (base_status)coll_barrier(b->world, coll_error_of(reterr));
    }
    const int64_t before_ns = base_now_ns();
    if (status == BASE_OK) {
        status = make_engine(b, b->world, &b->all, reterr);
    }
    if (status == BASE_OK && b->rank == 0) {
        status = submit(b->all, PROMPT_TOKENS, NEW_TOKENS, reterr);
    }
    if (status == BASE_OK) {
        status = steps(b->all, FIRST_STEPS, reterr);
    }
    b->first_token_ns = base_now_ns() - before_ns;
    if (status == BASE_OK) {
        status = steps(b->all, TOKENS_A_ROUND, reterr);
    }
    b->peak_bytes = peak_rss_bytes();
    return status;
}

/* Rank 0's own engine, and memory to read and to multiply. */
static base_status prepare(bench *b, base_error *reterr)
{
    const rank_backend *backend = b->device.backend;
    void *memory = NULL;
    base_status status = BASE_OK;
    const size_t wide = (size_t)PREFILL_TOKENS * 4 * (size_t)b->config.width;
    b->words_bytes = rank_numbers_bytes(b->type, rank_model_param_count(&b->config) / 1024 * 1024);
    status = backend->alloc(b->device.queue, RANK_MEMORY_WEIGHTS, b->words_bytes, &memory, reterr);
    b->words = memory;
    if (status == BASE_OK) {
        for (size_t i = 0; i < b->words_bytes / sizeof *b->words; i++) {
            b->words[i] = 0x3c003c00 + (uint32_t)(i % 97) * 0x10001; /* about 0.01, in both types */
        }
        const size_t wide_depth = 4 * (size_t)b->config.width;
        const size_t scratch =
            rank_narrow_scratch(b->type, PREFILL_TOKENS,
                                wide_depth > PEAK_DEPTH ? wide_depth : PEAK_DEPTH, RANK_LEAVES_MAX);
        status = backend->alloc(b->device.queue, RANK_MEMORY_WORK,
                                (2 * wide + scratch) * sizeof(float), &memory, reterr);
    }
    if (status == BASE_OK) {
        b->rows = memory;
        b->out = b->rows + wide;
        b->scratch = b->out + wide;
        memset(b->rows, 0, 2 * wide * sizeof(float));
        status = (base_status)coll_arena_create(b->world, (size_t)b->config.width * sizeof(float),
                                                &b->arena, coll_error_of(reterr));
    }
    if (status == BASE_OK && b->rank == 0) {
        status = make_engine(b, NULL, &b->one, reterr);
    }
    if (status == BASE_OK && b->rank == 0) {
        status = submit(b->one, PROMPT_TOKENS, NEW_TOKENS, reterr);
    }
    return status == BASE_OK && b->rank == 0 ? steps(b->one, FIRST_STEPS + 2, reterr) : status;
}

/* ---- a round ---- */

static double best_reading(const bench *b, size_t bytes)
{
    double best = 0;
    for (int reading = 0; reading < RANK_READINGS; reading++) {
        const double rate = rank_read_speed(b->words, bytes, reading);
        best = rate > best ? rate : best;
    }
    return best;
}

/* All cores read at once, each its part, one way after the other. */
static base_status read_together(bench *b, double *best, base_error *reterr)
{
    const size_t part = b->words_bytes / (size_t)b->ranks / 512 * 512;
    base_status status = BASE_OK;
    *best = 0;
    for (int reading = 0; status == BASE_OK && reading < RANK_READINGS; reading++) {
        status = (base_status)coll_barrier(b->world, coll_error_of(reterr));
        double seconds = (double)part / rank_read_speed(b->words, part, reading);
        if (status == BASE_OK) {
            status = slowest(b, &seconds, reterr);
        }
        const double rate = (double)part * b->ranks / seconds;
        *best = rate > *best ? rate : *best;
    }
    return status;
}

static base_status decode_together(bench *b, int round, base_error *reterr)
{
    base_status status = (base_status)coll_barrier(b->world, coll_error_of(reterr));
    const rank_engine_costs before = rank_engine_get_costs(b->all);
    const int64_t before_ns = base_now_ns();
    if (status == BASE_OK) {
        status = steps(b->all, TOKENS_A_ROUND, reterr);
    }
    double ms = (double)(base_now_ns() - before_ns) * 1e-6 / TOKENS_A_ROUND;
    const rank_engine_costs after = rank_engine_get_costs(b->all);
    double share = (double)(after.all_reduce.ns - before.all_reduce.ns) /
                   (double)(after.step_ns - before.step_ns);
    if (status == BASE_OK) {
        status = slowest(b, &ms, reterr);
    }
    if (status == BASE_OK) {
        status = slowest(b, &share, reterr);
    }
    b->figures[ALL_TOKEN_MS][round] = ms;
    b->figures[ALL_REDUCE_SHARE][round] = share;
    return status;
}

static base_status reduce_bare(bench *b, int round, base_error *reterr)
{
    float *at = coll_arena_data(b->arena);
    base_status status = (base_status)coll_barrier(b->world, coll_error_of(reterr));
    const int64_t before_ns = base_now_ns();
    for (int i = 0; status == BASE_OK && i < REDUCES; i++) {
        status = (base_status)coll_all_reduce(b->world, at, at, (size_t)b->config.width,
                                              COLL_FLOAT32, COLL_SUM, coll_error_of(reterr));
    }
    b->figures[REDUCE_US][round] = (double)(base_now_ns() - before_ns) * 1e-3 / REDUCES;
    return status;
}

static const char *multiply(const bench *b, const char *weights, size_t rows, size_t depth,
                            size_t columns, int leaves)
{
    b->device.backend->product(b->device.queue, &(rank_product){.rows = rows,
                                                                .columns = columns,
                                                                .depth = depth,
                                                                .a = b->rows,
                                                                .a_row = depth,
                                                                .a_depth = 1,
                                                                .b = weights,
                                                                .b_type = b->type,
                                                                .scratch = b->scratch,
                                                                .c = b->out,
                                                                .c_row = columns,
                                                                .leaves = leaves});
    return weights + rank_pack_count(rank_pack_depth(b->type, depth, leaves), columns) *
                         rank_type_bytes(b->type);
}

/* The products of a prefill, each over its own weights. */
static double prefill_products_ms(const bench *b)
{
    const size_t width = (size_t)b->config.width;
    const char *at = (const char *)b->words;
    const int64_t before_ns = base_now_ns();
    for (int layer = 0; layer < b->config.layers; layer++) {
        const size_t rows = layer + 1 < b->config.layers ? PREFILL_TOKENS : 1;
        at = multiply(b, at, PREFILL_TOKENS, width, 3 * width, 1);
        at = multiply(b, at, rows, width, width, rank_tp_leaves((size_t)b->config.heads));
        at = multiply(b, at, rows, width, 4 * width, 1);
        at = multiply(b, at, rows, 4 * width, width, rank_tp_leaves(4 * width / 16));
    }
    (void)multiply(b, (const char *)b->words, 1, width, (size_t)b->config.vocab_size, 1);
    return (double)(base_now_ns() - before_ns) * 1e-6;
}

static double prefill_gflop(const bench *b)
{
    const double width = b->config.width;
    const double whole = (b->config.layers - 1) * 12.0 * PREFILL_TOKENS + 3.0 * PREFILL_TOKENS + 9;
    return 2e-9 * (whole * width * width + width * b->config.vocab_size);
}

/* The best that a product does whose operands stay near. */
static double peak_gflops(const bench *b)
{
    const int64_t before_ns = base_now_ns();
    for (int i = 0; i < PEAK_TIMES; i++) {
        (void)multiply(b, (const char *)b->words, PEAK_ROWS, PEAK_DEPTH, PEAK_COLUMNS, 1);
    }
    return 2.0 * PEAK_ROWS * PEAK_DEPTH * PEAK_COLUMNS * PEAK_TIMES /
           (double)(base_now_ns() - before_ns);
}

/* A prompt of 512 tokens, to its first new one, in an engine of its own sequence. */
static base_status prefill(rank_engine *engine, double *ms, base_error *reterr)
{
    base_status status = submit(engine, PREFILL_TOKENS, 1, reterr);
    if (status == BASE_OK) {
        status = steps(engine, 1, reterr); /* it is admitted */
    }
    const int64_t before_ns = base_now_ns();
    if (status == BASE_OK) {
        status = steps(engine, 1, reterr);
    }
    *ms = (double)(base_now_ns() - before_ns) * 1e-6;
    return status;
}

/* Rank 0 by itself. */
static base_status measure_alone(bench *b, rank_engine *prefiller, int round, base_error *reterr)
{
    b->figures[ONE_BANDWIDTH][round] = best_reading(b, b->words_bytes);
    const int64_t before_ns = base_now_ns();
    base_status status = steps(b->one, TOKENS_A_ROUND, reterr);
    b->figures[ONE_TOKEN_MS][round] = (double)(base_now_ns() - before_ns) * 1e-6 / TOKENS_A_ROUND;
    if (status == BASE_OK) {
        status = prefill(prefiller, &b->figures[PREFILL_MS][round], reterr);
    }
    b->figures[PRODUCTS_MS][round] = prefill_products_ms(b);
    b->figures[PEAK_GFLOPS][round] = peak_gflops(b);
    return status;
}

static base_status measure(bench *b, rank_engine *prefiller, int round, base_error *reterr)
{
    base_status status = b->rank == 0 ? measure_alone(b, prefiller, round, reterr) : BASE_OK;
    if (status == BASE_OK) {
        status = read_together(b, &b->figures[ALL_BANDWIDTH][round], reterr);
    }
    if (status == BASE_OK) {
        status = decode_together(b, round, reterr);
    }
    return status == BASE_OK ? reduce_bare(b, round, reterr) : status;
}

/* ---- the report ---- */

static void print_report(const bench *b, const double *median, double peak_bytes)
{
    const double bytes = (double)rank_engine_get_memory(b->one).weight_bytes;
    const rank_engine_memory part = rank_engine_get_memory(b->all);
    const double allowed =
        (double)part.weight_bytes * 1.15 + (double)part.cache_bytes + 60.0 * (1 << 20);
    const double reduces = 1 + 2 * b->config.layers;
    (void)printf("%zu parameters, weights of %.0f MB; medians\n",
                 rank_model_param_count(&b->config), bytes * 1e-6);
    (void)printf("read bandwidth      one core %.2f GB/s, %d together %.2f GB/s\n",
                 median[ONE_BANDWIDTH] * 1e-9, b->ranks, median[ALL_BANDWIDTH] * 1e-9);
    (void)printf("a token             one rank %.2f ms: %.0f %% of the bandwidth\n",
                 median[ONE_TOKEN_MS],
                 100 * bytes / (median[ONE_TOKEN_MS] * 1e-3) / median[ONE_BANDWIDTH]);
    (void)printf("                    %d ranks %.2f ms: %.0f %% of the bandwidth; %.2f times one\n",
                 b->ranks, median[ALL_TOKEN_MS],
                 100 * bytes / (median[ALL_TOKEN_MS] * 1e-3) / median[ALL_BANDWIDTH],
                 median[ONE_TOKEN_MS] / median[ALL_TOKEN_MS]);
    (void)printf(
        "all-reduces         %.1f %% of a token, waiting included; a bare one %.1f us, %.2f "
        "%% of a token\n",
        100 * median[ALL_REDUCE_SHARE], median[REDUCE_US],
        100 * median[REDUCE_US] * 1e-3 * reduces / median[ALL_TOKEN_MS]);
    (void)printf("prefill of %d      %.0f ms, its products alone %.0f ms: %.0f %%\n",
                 PREFILL_TOKENS, median[PREFILL_MS], median[PRODUCTS_MS],
                 100 * median[PRODUCTS_MS] / median[PREFILL_MS]);
    (void)printf("products            %.0f GFLOP/s, near the core %.0f: %.0f %%\n",
                 prefill_gflop(b) / median[PRODUCTS_MS] * 1e3, median[PEAK_GFLOPS],
                 100 * prefill_gflop(b) / median[PRODUCTS_MS] * 1e3 / median[PEAK_GFLOPS]);
    (void)printf("from file to token  %.2f s on %d ranks\n", (double)b->first_token_ns * 1e-9,
                 b->ranks);
    (void)printf("peak memory a rank  %.0f MB (weights x 1.15 + cache + 60 MiB: %.0f MB)\n",
                 peak_bytes * 1e-6, allowed * 1e-6);
}

static base_status report(bench *b, int rounds, base_error *reterr)
{
    double median[FIGURES];
    double peak_bytes = (double)b->peak_bytes;
    const base_status status = slowest(b, &peak_bytes, reterr);
    for (int i = 0; i < FIGURES; i++) {
        base_sort(b->figures[i], (size_t)rounds);
        median[i] = base_percentile(b->figures[i], (size_t)rounds, 0.5);
    }
    if (status == BASE_OK && b->rank == 0) {
        print_report(b, median, peak_bytes);
    }
    return status;
}

static base_status run(bench *b, int rounds, base_error *reterr)
{
    rank_engine *prefiller = NULL;
    base_status status = begin(b, reterr);
    if (status == BASE_OK) {
        status = prepare(b, reterr);
    }
    if (status == BASE_OK && b->rank == 0) {
        status = make_engine(b, NULL, &prefiller, reterr);
    }
    for (int round = 0; status == BASE_OK && round < rounds; round++) {
        status = measure(b, prefiller, round, reterr);
    }
    rank_engine_destroy(prefiller);
    return status == BASE_OK ? report(b, rounds, reterr) : status;
}

base_status bench_inference(coll_context *context, const char *checkpoint, int rounds,
                            rank_type type, base_error *reterr)
{
    bench b = {.world = coll_context_world(context), .type = type};
    b.rank = coll_comm_rank(b.world);
    b.ranks = coll_comm_size(b.world);
    base_status status = rank_checkpoint_config(checkpoint, &b.config, reterr);
    if (status == BASE_OK && b.config.family != rank_family_default()) {
        status = base_fail(reterr, BASE_ERR_UNSUPPORTED,
                           "it is of the family %s, and the products that are timed are gpt2's",
                           b.config.family->model_types[0]);
    }
    if (status == BASE_OK && b.config.context < PROMPT_TOKENS + NEW_TOKENS) {
        status =
            base_fail(reterr, BASE_ERR_INVALID, "its context of %d is too small", b.config.context);
    }
    if (status == BASE_OK) {
        status = base_path_join(checkpoint, "model.safetensors", b.weights, reterr);
    }
    for (int i = 0; status == BASE_OK && i < FIGURES; i++) {
        b.figures[i] = calloc((size_t)rounds, sizeof *b.figures[i]);
        status = b.figures[i] != NULL ? BASE_OK : base_fail(reterr, BASE_ERR_MEMORY, "no memory");
    }
    if (status == BASE_OK) {
        status = rank_device_open("cpu", &b.device, reterr);
    }
    if (status == BASE_OK && !rank_in_blocks(type)) {
        status = rank_shards_type(&b.config, b.weights, &b.type, reterr);
    }
    if (status == BASE_OK) {
        status = run(&b, rounds, reterr);
    }
    rank_engine_destroy(b.one);
    rank_engine_destroy(b.all);
    coll_arena_destroy(b.arena);
    if (b.device.backend != NULL) {
        b.device.backend->release(b.device.queue, b.words);
        b.device.backend->release(b.device.queue, b.rows);
    }
    rank_device_close(&b.device);
    for (int i = 0; i < FIGURES; i++) {
        free(b.figures[i]);
    }
    return status;
}
