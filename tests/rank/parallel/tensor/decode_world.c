/* Ranks as threads that decode a script. Called by the tests of cut models. */
#include "decode_world.h"

#include <stdlib.h>
#include <string.h>

#include "model/gemma3/parts.h"
#include "model/llama/parts.h"
#include "rank/adapters.h"
#include "ranks.h"
#include "support.h"

const rank_model_config config_of_4 = {
    .vocab_size = VOCAB, .width = 64, .layers = 2, .heads = 4, .context = 48};

/* What Llamas have in common. */
#define OF_LLAMA                                                                                   \
    .family = &rank_llama, .vocab_size = VOCAB, .width = 60, .layers = 2, .heads = 8, .context = 48

/* Biases of q, k and v are cut, too; two heads share one of keys. */
const rank_model_config qwen2 = {OF_LLAMA, .settings = {[LLAMA_KV_HEADS] = 4,
                                                        [LLAMA_HEAD_WIDTH] = 8,
                                                        [LLAMA_HIDDEN] = 128,
                                                        [LLAMA_EPSILON] = 1e-6,
                                                        [LLAMA_THETA] = 1e6,
                                                        [LLAMA_BIASED] = 1}};

/* The weights of heads' norms are whole on each rank. */
const rank_model_config qwen3 = {OF_LLAMA, .settings = {[LLAMA_KV_HEADS] = 4,
                                                        [LLAMA_HEAD_WIDTH] = 18,
                                                        [LLAMA_HIDDEN] = 128,
                                                        [LLAMA_EPSILON] = 1e-6,
                                                        [LLAMA_THETA] = 1e6,
                                                        [LLAMA_HEAD_NORMS] = 1}};

/* Each rank has the whole router, and its columns of each expert. */
const rank_model_config mixtral = {OF_LLAMA, .settings = {[LLAMA_KV_HEADS] = 4,
                                                          [LLAMA_HEAD_WIDTH] = 8,
                                                          [LLAMA_HIDDEN] = 64,
                                                          [LLAMA_EPSILON] = 1e-6,
                                                          [LLAMA_THETA] = 1e6,
                                                          [LLAMA_EXPERTS] = 5,
                                                          [LLAMA_CHOSEN] = 2,
                                                          [LLAMA_NORMED] = 1}};

const rank_model_config gemma3 = {.family = &rank_gemma3,
                                  .vocab_size = VOCAB,
                                  .width = 60,
                                  .layers = 3,
                                  .heads = 8,
                                  .context = 48,
                                  .settings = {[LLAMA_KV_HEADS] = 1,
                                               [LLAMA_HEAD_WIDTH] = 20,
                                               [LLAMA_HIDDEN] = 128,
                                               [LLAMA_TIED] = 1,
                                               [LLAMA_HEAD_NORMS] = 1,
                                               [LLAMA_GEMMA3] = 1,
                                               [LLAMA_EPSILON] = 1e-6,
                                               [GEMMA3_QUERY_SCALAR] = 20,
                                               [GEMMA3_FULL_EVERY] = 2,
                                               [LLAMA_THETA] = 1e6,
                                               [LLAMA_FACTOR] = 1,
                                               [GEMMA3_WINDOW] = 11,
                                               [GEMMA3_LOCAL_THETA] = 1e4}};

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

int32_t world_token(int sequence, int position)
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
    status = rank_tp_group_create(comm, &b->device, VOCAB, rank_decoder_exchanged_floats(&b->shape),
                                  &b->group, reterr);
    if (status != BASE_OK) {
        return status;
    }
    b->shape.tp = rank_tp_group_tp(b->group);
    status = rank_shards_create(&(rank_shards_options){.config = &w->config,
                                                       .device = &b->device,
                                                       .tp = b->shape.tp,
                                                       .type = w->type,
                                                       .adapters = w->adapters},
                                &source, &b->shards, reterr);
    if (status != BASE_OK) {
        return status;
    }
    b->hooks = rank_shards_hooks(b->shards);
    b->run = (rank_run){.shape = b->shape, .device = b->device, .hooks = &b->hooks};
    b->cache = (rank_cache){.block_tokens = BLOCK_TOKENS, .block_count = SEQUENCES * TABLE_WIDTH};
    b->run.work = malloc(family->work_floats(&b->shape) * sizeof(float));
    b->cache.memory =
        malloc(b->cache.block_count * BLOCK_TOKENS * rank_decoder_cache_floats(&b->shape) *
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
            ids[used] = world_token(first + s, position + i);
            rows[used] = used;
        }
        start[s + 1] = used;
        lengths[s] = position;
        for (int i = 0; i < TABLE_WIDTH; i++) {
            tables[s][i] = (int32_t)(i * SEQUENCES + (first + s));
        }
    }
    const rank_batch batch = {.token_count = used,
                              .ids = ids,
                              .targets = NULL,
                              .segment_count = sequences,
                              .segment_start = start};
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

void run_world(world *w, int ranks, coll_transport transport, script steps)
{
    w->script = steps;
    memset(*w->logits, 0, sizeof *w->logits);
    test_ranks_as_threads(&(test_ranks_options){.size = ranks, .transport = transport, .user = w},
                          run_rank);
}

/* B is not zero. */
static void make_adapters(world *w)
{
    if (w->config.adapters.rank == 0) {
        return;
    }
    const rank_model_config config = rank_adapters_config(&w->config);
    const size_t count = rank_model_param_count(&config);
    w->adapters = malloc(count * sizeof *w->adapters);
    assert_non_null(w->adapters);
    rank_model_init(&config, 9, w->adapters);
    for (size_t i = 0; i < count; i++) {
        w->adapters[i] += (float)(i % 11) * 0.02f - 0.1f;
    }
}

world new_world(const rank_model_config *config, rank_type type)
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
    make_adapters(&w);
    return w;
}

float (*keep(const world *w))[SEQUENCES][TOKENS][PADDED]
{
    float(*kept)[SEQUENCES][TOKENS][PADDED] = malloc(sizeof *kept);
    assert_non_null(kept);
    memcpy(kept, w->logits, sizeof *kept);
    return kept;
}

void free_world(world *w)
{
    free(w->params);
    free(w->adapters);
    free(w->logits);
}
