/* A model cut between 1, 2 and 4 ranks: the same logits to the bit, over every transport, whatever
 * the batch and the chunks of a prompt; and nearly the same between 3. Every rank decodes the same
 * script of steps; rank 0's neighbour in the grid of worlds is compared byte for byte. A training
 * step on the same tokens has the same log-probabilities, and the loss that follows from them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/shards.h"
#include "model/family.h"
#include "model/llama/parts.h"
#include "proto/digest.h"
#include "ranks.h"
#include "support.h"

enum {
    VOCAB = 100,
    PADDED = 32 * RANK_TP_LEAVES,
    SEQUENCES = 3,
    TOKENS = 40, /* of each sequence */
    BLOCK_TOKENS = 8,
    TABLE_WIDTH = 6,
    ROWS_MAX = SEQUENCES * TOKENS,
    SUM_LEAVES = 4, /* of a sum, with the heads of all models below */
};

/* 12 heads would do for 3 ranks as well; the leaves are 4 then, as with 4 heads. */
static const rank_model_config config_of_4 = {
    .vocab_size = VOCAB, .width = 64, .layers = 2, .heads = 4, .context = 48};
static const rank_model_config config_of_12 = {
    .vocab_size = VOCAB, .width = 96, .layers = 2, .heads = 12, .context = 48};

/* Biases of q, k and v are cut, too; two heads share one of keys. */
static const rank_model_config qwen2 = {.family = &rank_llama,
                                        .vocab_size = VOCAB,
                                        .width = 60,
                                        .layers = 2,
                                        .heads = 8,
                                        .context = 48,
                                        .settings = {[LLAMA_KV_HEADS] = 4,
                                                     [LLAMA_HEAD_WIDTH] = 8,
                                                     [LLAMA_HIDDEN] = 128,
                                                     [LLAMA_EPSILON] = 1e-6,
                                                     [LLAMA_THETA] = 1e6,
                                                     [LLAMA_BIASED] = 1}};

/* The weights of heads' norms are whole on each rank. */
static const rank_model_config qwen3 = {.family = &rank_llama,
                                        .vocab_size = VOCAB,
                                        .width = 60,
                                        .layers = 2,
                                        .heads = 8,
                                        .context = 48,
                                        .settings = {[LLAMA_KV_HEADS] = 4,
                                                     [LLAMA_HEAD_WIDTH] = 18,
                                                     [LLAMA_HIDDEN] = 128,
                                                     [LLAMA_EPSILON] = 1e-6,
                                                     [LLAMA_THETA] = 1e6,
                                                     [LLAMA_HEAD_NORMS] = 1}};

/* How the tokens of all sequences are handed in. */
typedef struct script {
    int sequences_at_once; /* they take turns otherwise */
    int chunk;             /* tokens in a step */
} script;

typedef struct world {
    rank_model_config config;
    rank_type type; /* of matrices */
    float *params;
    script script;
    float (*logits)[SEQUENCES][TOKENS][PADDED]; /* every rank writes its ids */
} world;

typedef struct bed {
    rank_device device;
    rank_tp_group *group;
    rank_shards *shards;
    rank_hooks hooks;
    rank_shape shape;
    rank_run run;
    rank_saved saved;
    rank_cache cache;
    float *out;
} bed;

static int32_t token(int sequence, int position)
{
    return (int32_t)((sequence * 37 + position * position * 11 + position) % VOCAB);
}

static base_status open_bed(bed *b, world *w, coll_comm *comm, base_error *reterr)
{
    const rank_family *family = w->config.family;
    rank_flat_params params = {&w->config, w->params};
    const rank_tensor_source source = rank_flat_source(&params);
    base_status status = rank_device_open("cpu", &b->device, reterr);
    if (status != BASE_OK) {
        return status;
    }
    b->shape = (rank_shape){.config = &w->config,
                            .backend = b->device.backend,
                            .end_layer = w->config.layers,
                            .token_count_max = ROWS_MAX,
                            .decode_type = w->type};
    status = rank_tp_group_create(comm, &b->device, VOCAB, family->exchanged_floats(&b->shape),
                                  &b->group, reterr);
    if (status != BASE_OK) {
        return status;
    }
    b->shape.tp = rank_tp_group_tp(b->group);
    status = rank_shards_create(
        &(rank_shards_options){&w->config, &b->device, b->shape.tp, w->type, NULL}, &source,
        &b->shards, reterr);
    if (status != BASE_OK) {
        return status;
    }
    b->hooks = rank_shards_hooks(b->shards);
    b->run = (rank_run){.shape = b->shape, .device = b->device, .hooks = &b->hooks};
    b->cache = (rank_cache){.block_tokens = BLOCK_TOKENS, .block_count = SEQUENCES * TABLE_WIDTH};
    b->run.work = malloc(family->work_floats(&b->shape) * sizeof(float));
    b->cache.memory = malloc(b->cache.block_count * BLOCK_TOKENS * family->cache_floats(&b->shape) *
                             (size_t)w->config.layers * sizeof(float));
    b->out = malloc((size_t)ROWS_MAX * (size_t)b->shape.tp->vocab_count * sizeof(float));
    return rank_saved_create(&b->shape, &b->device, &b->saved, reterr);
}

static void close_bed(bed *b)
{
    rank_saved_destroy(&b->saved);
    free(b->run.work);
    free(b->cache.memory);
    free(b->out);
    rank_shards_destroy(b->shards);
    rank_tp_group_destroy(b->group);
    rank_device_close(&b->device);
}

/* One step: `count` tokens from `position` on, of the sequences first … first + at_once. */
static base_status step(bed *b, const world *w, int first, int position, int count,
                        base_error *reterr)
{
    int32_t ids[ROWS_MAX];
    int32_t rows[ROWS_MAX];
    int32_t start[SEQUENCES + 1] = {0};
    int32_t lengths[SEQUENCES];
    int32_t tables[SEQUENCES][TABLE_WIDTH];
    const int sequences = w->script.sequences_at_once;
    int used = 0;
    for (int s = 0; s < sequences; s++) {
        for (int i = 0; i < count; i++, used++) {
            ids[used] = token(first + s, position + i);
            rows[used] = used;
        }
        start[s + 1] = used;
        lengths[s] = position;
        for (int i = 0; i < TABLE_WIDTH; i++) {
            tables[s][i] = (int32_t)(i * SEQUENCES + (first + s));
        }
    }
    const rank_batch batch = {used, ids, NULL, sequences, start};
    base_status status =
        rank_rows_place_step(&b->saved, &batch, lengths, &(rank_logits){rows, used, NULL}, reterr);
    if (status != BASE_OK) {
        return status;
    }
    w->config.family->decode(&b->run,
                             &(rank_decode_args){.saved = &b->saved,
                                                 .cache = &b->cache,
                                                 .lengths = lengths,
                                                 .block_table = tables[0],
                                                 .table_width = TABLE_WIDTH,
                                                 .exchanged = rank_tp_group_memory(b->group),
                                                 .logits = b->out});
    status = b->device.backend->sync(b->device.queue, reterr);
    const size_t columns = (size_t)b->shape.tp->vocab_count;
    for (int i = 0; i < used; i++) {
        memcpy((*w->logits)[first + i / count][position + i % count] + b->shape.tp->vocab_first,
               b->out + (size_t)i * columns, columns * sizeof *b->out);
    }
    return status == BASE_OK ? rank_tp_group_check(b->group, reterr) : status;
}

static base_status run_script(bed *b, const world *w, base_error *reterr)
{
    base_status status = BASE_OK;
    for (int s = 0; s < SEQUENCES; s += w->script.sequences_at_once) {
        for (int at = 0; status == BASE_OK && at < TOKENS; at += w->script.chunk) {
            const int left = TOKENS - at;
            status = step(b, w, s, at, left < w->script.chunk ? left : w->script.chunk, reterr);
        }
    }
    return status;
}

static void run_rank(test_rank *rank)
{
    bed b = {.out = NULL};
    world *w = rank->user;
    coll_comm *comm = coll_context_world(rank->context);
    base_status status = open_bed(&b, w, comm, &rank->failure);
    if (status == BASE_OK) {
        status = run_script(&b, w, &rank->failure);
    }
    /* one all-reduce for the embedding, two for each layer, in every step: by libcoll's count */
    const uint64_t steps = (uint64_t)(SEQUENCES / w->script.sequences_at_once) *
                           (uint64_t)((TOKENS + w->script.chunk - 1) / w->script.chunk);
    const uint64_t expected = steps * (1 + 2 * (uint64_t)w->config.layers);
    const bool counted = coll_comm_operations(comm, COLL_ALL_REDUCE) == expected &&
                         (status != BASE_OK || rank_tp_group_costs(b.group).count == expected);
    close_bed(&b);
    RANK_CHECK(rank, status == BASE_OK);
    RANK_CHECK(rank, counted);
}

static void run_world(world *w, int ranks, coll_transport transport, script steps)
{
    w->script = steps;
    memset(*w->logits, 0, sizeof *w->logits);
    test_ranks_as_threads(&(test_ranks_options){.size = ranks, .transport = transport, .user = w},
                          run_rank);
}

static world new_world(const rank_model_config *config, rank_type type)
{
    world w = {.config = *config, .type = type};
    w.config.family = config->family != NULL ? config->family : rank_family_default();
    const size_t count = rank_model_param_count(&w.config);
    w.params = malloc(count * sizeof *w.params);
    w.logits = malloc(sizeof *w.logits);
    assert_non_null(w.params);
    assert_non_null(w.logits);
    rank_model_init(&w.config, 7, w.params);
    for (size_t i = 0; i < count; i++) { /* livelier than fresh parameters; biases, too */
        w.params[i] = w.params[i] * 3.0f + (float)(i % 7) * 0.01f;
    }
    return w;
}

static float (*keep(const world *w))[SEQUENCES][TOKENS][PADDED]
{
    float(*kept)[SEQUENCES][TOKENS][PADDED] = malloc(sizeof *kept);
    assert_non_null(kept);
    memcpy(kept, w->logits, sizeof *kept);
    return kept;
}

static void free_world(world *w)
{
    free(w->params);
    free(w->logits);
}

static void check_worlds(const rank_model_config *config, rank_type type)
{
    static const coll_transport transports[] = {COLL_TRANSPORT_SHM, COLL_TRANSPORT_TCP,
                                                COLL_TRANSPORT_ZMQ};
    world w = new_world(config, type);
    run_world(&w, 1, COLL_TRANSPORT_SHM, (script){SEQUENCES, TOKENS});
    float(*alone)[SEQUENCES][TOKENS][PADDED] = keep(&w);
    assert_true(fabsf((*alone)[1][5][3]) > 1e-3f);
    for (int ranks = 2; ranks <= 4; ranks *= 2) {
        for (int t = 0; t < 3; t++) {
            run_world(&w, ranks, transports[t], (script){SEQUENCES, t == 0 ? 7 : TOKENS});
            assert_memory_equal(w.logits, alone, sizeof *alone);
        }
    }
    free(alone);
    free_world(&w);
}

static void every_world_has_the_same_bits(void **state)
{
    (void)state;
    check_worlds(&config_of_4, RANK_FLOAT32);
    check_worlds(&qwen2, RANK_FLOAT32);
    check_worlds(&qwen3, RANK_FLOAT32);
}

/* Their blocks of int8 begin anew at each leaf, of 16 numbers and more, and some have a few numbers left. */
static void every_world_has_the_same_bits_in_int8(void **state)
{
    (void)state;
    check_worlds(&config_of_4, RANK_INT8);
    check_worlds(&qwen2, RANK_INT8);
    check_worlds(&qwen3, RANK_INT8);
}

/* Logits change, and little. */
static void int8_comes_close(void **state)
{
    (void)state;
    double difference = 0;
    double size = 0;
    world w = new_world(&config_of_4, RANK_FLOAT32);
    run_world(&w, 1, COLL_TRANSPORT_SHM, (script){SEQUENCES, TOKENS});
    float(*exact)[SEQUENCES][TOKENS][PADDED] = keep(&w);
    w.type = RANK_INT8;
    run_world(&w, 2, COLL_TRANSPORT_SHM, (script){SEQUENCES, TOKENS});
    const float *before = (const void *)exact;
    const float *after = (const void *)w.logits;
    for (size_t i = 0; i < sizeof *exact / sizeof *before; i++) {
        const double expected = (double)before[i];
        difference += pow((double)after[i] - expected, 2);
        size += pow(expected, 2);
    }
    assert_true(difference > 1e-8 * size);
    assert_true(difference < 4e-4 * size); /* 2 % of the logits' length */
    free(exact);
    free_world(&w);
}

static void check_chunks(rank_type type)
{
    static const script scripts[] = {{1, TOKENS}, {1, 1}, {1, 7}, {SEQUENCES, 1}, {SEQUENCES, 13}};
    world w = new_world(&config_of_4, type);
    run_world(&w, 2, COLL_TRANSPORT_SHM, (script){SEQUENCES, TOKENS});
    float(*whole)[SEQUENCES][TOKENS][PADDED] = keep(&w);
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        run_world(&w, 2, COLL_TRANSPORT_SHM, scripts[i]);
        assert_memory_equal(w.logits, whole, sizeof *whole);
    }
    free(whole);
    free_world(&w);
}

static void batch_and_chunks_change_no_bit(void **state)
{
    (void)state;
    check_chunks(RANK_FLOAT32);
    check_chunks(RANK_INT8);
}

/* 3 does not divide the leaves: another order of the same sums. */
static void three_ranks_come_close(void **state)
{
    (void)state;
    world w = new_world(&config_of_12, RANK_FLOAT32);
    run_world(&w, 1, COLL_TRANSPORT_SHM, (script){SEQUENCES, TOKENS});
    float(*alone)[SEQUENCES][TOKENS][PADDED] = keep(&w);
    run_world(&w, 3, COLL_TRANSPORT_SHM, (script){SEQUENCES, TOKENS});
    for (int s = 0; s < SEQUENCES; s++) {
        for (int t = 0; t < TOKENS; t++) {
            for (int v = 0; v < PADDED; v++) {
                const float expected = (*alone)[s][t][v];
                const float difference = fabsf((*w.logits)[s][t][v] - expected);
                if (!(difference <= 1e-4f * (1.0f + fabsf(expected)))) {
                    fail_msg("sequence %d, token %d, id %d: %g, not %g", s, t, v,
                             (double)(*w.logits)[s][t][v], (double)expected);
                }
            }
        }
    }
    run_world(&w, 4, COLL_TRANSPORT_SHM, (script){SEQUENCES, 5});
    assert_memory_equal(w.logits, alone, sizeof *alone);
    free(alone);
    free_world(&w);
}

/* A training step over the tokens of all sequences, on one rank: its logits, and its loss. */
typedef struct lesson {
    int32_t ids[ROWS_MAX];
    int32_t targets[ROWS_MAX];
    int32_t start[SEQUENCES + 1];
    float logits[ROWS_MAX][VOCAB];
    double loss_sum;
} lesson;

static void take_lesson(const world *w, lesson *l)
{
    base_error error;
    rank_device device;
    rank_model *model;
    rank_result result;
    int32_t rows[ROWS_MAX];
    const rank_hooks hooks = rank_hooks_flat(w->params);
    for (int i = 0; i < ROWS_MAX; i++) {
        rows[i] = i;
        l->ids[i] = token(i / TOKENS, i % TOKENS);
        l->targets[i] = token(i / TOKENS, i % TOKENS + 1);
        l->start[i / TOKENS + 1] = i + 1;
    }
    const rank_batch batch = {ROWS_MAX, l->ids, l->targets, SEQUENCES, l->start};
    float *grads = calloc(rank_model_param_count(&w->config), sizeof *grads);
    assert_non_null(grads);
    assert_ok(rank_device_open("cpu", &device, &error), &error);
    assert_ok(rank_model_create(&(rank_model_options){.config = &w->config,
                                                      .device = &device,
                                                      .token_count_max = ROWS_MAX,
                                                      .training = true},
                                &model, &error),
              &error);
    assert_ok(rank_model_forward(model, &hooks, &batch,
                                 &(rank_logits){rows, ROWS_MAX, l->logits[0]}, NULL, &error),
              &error);
    assert_ok(rank_model_train(model, &hooks, &batch, grads, &result, &error), &error);
    l->loss_sum = result.loss_sum;
    rank_model_destroy(model);
    rank_device_close(&device);
    free(grads);
}

/* The digest of all rows' log-probabilities; `from` has rows of `stride` logits. */
static void digest_log_probabilities(const float *from, size_t stride,
                                     char hex[PROTO_DIGEST_HEX_BYTES])
{
    uint8_t digest[PROTO_DIGEST_BYTES];
    double *all = malloc((size_t)ROWS_MAX * VOCAB * sizeof *all);
    assert_non_null(all);
    for (size_t row = 0; row < ROWS_MAX; row++) {
        const float *logits = from + row * stride;
        double sum = 0.0;
        for (size_t v = 0; v < VOCAB; v++) {
            sum += exp((double)logits[v]);
        }
        for (size_t v = 0; v < VOCAB; v++) {
            all[row * VOCAB + v] = (double)logits[v] - log(sum);
        }
    }
    proto_sha256(all, (size_t)ROWS_MAX * VOCAB * sizeof *all, digest);
    proto_digest_hex(digest, hex);
    free(all);
}

/* The loss of the engine's logits, by the operation that training uses. */
static double loss_of(const world *w, const lesson *l)
{
    base_error error;
    rank_device device;
    double loss = 0.0;
    float *logits = malloc(sizeof l->logits);
    assert_non_null(logits);
    for (size_t row = 0; row < ROWS_MAX; row++) {
        memcpy(logits + row * VOCAB, (*w->logits)[row / TOKENS][row % TOKENS],
               VOCAB * sizeof *logits);
    }
    assert_ok(rank_device_open("cpu", &device, &error), &error);
    device.backend->cross_entropy(
        device.queue, &(rank_cross_entropy){.rows = ROWS_MAX,
                                            .vocab_size = VOCAB,
                                            .targets = l->targets,
                                            .logits = logits,
                                            .loss = &loss,
                                            .leaves = SUM_LEAVES,
                                            .leaf_columns = (size_t)rank_tp_leaf_width(VOCAB) *
                                                            (RANK_TP_LEAVES / SUM_LEAVES)});
    rank_device_close(&device);
    free(logits);
    return loss;
}

static void check_lesson(const rank_model_config *config)
{
    static const script scripts[] = {{SEQUENCES, TOKENS}, {1, 1}, {SEQUENCES, 7}};
    lesson *l = calloc(1, sizeof *l);
    char expected[PROTO_DIGEST_HEX_BYTES];
    world w = new_world(config, RANK_FLOAT32);
    assert_non_null(l);
    take_lesson(&w, l);
    digest_log_probabilities(l->logits[0], VOCAB, expected);
    for (int ranks = 1; ranks <= 4; ranks *= 2) {
        for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
            char found[PROTO_DIGEST_HEX_BYTES];
            run_world(&w, ranks, COLL_TRANSPORT_SHM, scripts[i]);
            digest_log_probabilities((*w.logits)[0][0], PADDED, found);
            assert_string_equal(found, expected);
            assert_true(loss_of(&w, l) == l->loss_sum);
        }
    }
    free(l);
    free_world(&w);
}

static void training_has_the_log_probabilities_of_every_world(void **state)
{
    (void)state;
    check_lesson(&config_of_4);
    check_lesson(&qwen2);
    check_lesson(&qwen3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_world_has_the_same_bits),
        cmocka_unit_test(every_world_has_the_same_bits_in_int8),
        cmocka_unit_test(int8_comes_close),
        cmocka_unit_test(batch_and_chunks_change_no_bit),
        cmocka_unit_test(three_ranks_come_close),
        cmocka_unit_test(training_has_the_log_probabilities_of_every_world),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
