/* The memory that `launcher plan` says, beside what ranks with the CUDA backends ask for. The launcher
 * has the formulas of rank/model and the backend's limits once more: here they are compared, of a
 * GPT-2, two Llamas and a Qwen3; and of a Gemma 3 and models with experts, which no such backend runs so far. */
#include <math.h>

#include "backend/cuda/cuda.h"
#include "backend/graphs.h"
#include "backend/memory_use.h"
#include "model/gemma3/parts.h"
#include "model/pieces.h"
#include "plan/estimate.h"
#include "rank/adapters.h"
#include "support.h"

enum { CONTEXT = 1024, WIDTH = 64, LAYERS = 2, HEADS = 4, EXPERTS = 8, TINY = 100, LARGE = 50257 };

static bool is_close(double planned, double held)
{
    return fabs(planned - held) <= 1e-3 * held;
}

/* A Llama whose heads are wider than the stream, and one whose heads are not, with a Qwen2's biases. */
typedef enum kind {
    GPT2,
    LLAMA_WIDE,
    LLAMA_NARROW,
    QWEN3,
    GEMMA3,
    WITHOUT_EXPERTS,
    MIXTRAL = WITHOUT_EXPERTS,
    QWEN3_MOE,
    KINDS
} kind;

static rank_model_config config_of(kind of, int vocab_size)
{
    rank_model_config config = {.vocab_size = vocab_size,
                                .width = WIDTH,
                                .layers = LAYERS,
                                .heads = HEADS,
                                .context = CONTEXT,
                                .family = rank_family_default()};
    if (of != GPT2) {
        config.family = &rank_llama;
        config.heads = 2 * HEADS;
        config.settings[LLAMA_KV_HEADS] = HEADS;
        config.settings[LLAMA_HEAD_WIDTH] = of == LLAMA_NARROW ? 8 : 16;
        config.settings[LLAMA_HIDDEN] = 176;
        config.settings[LLAMA_EPSILON] = 1e-5;
        config.settings[LLAMA_THETA] = 10000;
        config.settings[LLAMA_TIED] = of == LLAMA_NARROW;
        config.settings[LLAMA_BIASED] = of == LLAMA_NARROW;
        config.settings[LLAMA_HEAD_NORMS] = of == QWEN3 || of == QWEN3_MOE;
    }
    if (of == GEMMA3) {
        config.family = &rank_gemma3;
        config.settings[LLAMA_TIED] = 1;
        config.settings[LLAMA_HEAD_NORMS] = 1;
        config.settings[LLAMA_GEMMA3] = 1;
        config.settings[GEMMA3_QUERY_SCALAR] = 16;
        config.settings[GEMMA3_FULL_EVERY] = 2;
        config.settings[GEMMA3_LOCAL_THETA] = 10000;
        config.settings[LLAMA_FACTOR] = 1;
        config.settings[GEMMA3_WINDOW] = 64;
        config.settings[GEMMA3_DTYPE] = GEMMA3_FLOAT32;
    }
    if (of >= WITHOUT_EXPERTS) {
        config.settings[LLAMA_EXPERTS] = EXPERTS;
        config.settings[LLAMA_CHOSEN] = of == MIXTRAL ? 2 : 3;
    }
    return config;
}

static launch_model model_of(const rank_model_config *config)
{
    const double *of = config->settings;
    const bool gemma3 = config->family == &rank_gemma3;
    return config->family == rank_family_default()
               ? launch_model_gpt2(config->layers, config->width, config->heads, config->vocab_size,
                                   config->context)
               : (launch_model){.vocab_size = config->vocab_size,
                                .width = config->width,
                                .layers = config->layers,
                                .heads = config->heads,
                                .context = config->context,
                                .context_max = config->context,
                                .kv_heads = (int64_t)of[LLAMA_KV_HEADS],
                                .head_width = (int64_t)of[LLAMA_HEAD_WIDTH],
                                .hidden = (int64_t)of[LLAMA_HIDDEN],
                                .experts = (int64_t)of[LLAMA_EXPERTS],
                                .chosen = gemma3 ? 0 : (int64_t)of[LLAMA_CHOSEN],
                                .gated = true,
                                .rms = true,
                                .biased = of[LLAMA_BIASED] != 0,
                                .head_norms = of[LLAMA_HEAD_NORMS] != 0,
                                .after_norms = gemma3,
                                .window = gemma3 ? (int64_t)of[GEMMA3_WINDOW] : 0,
                                .full_every = gemma3 ? (int64_t)of[GEMMA3_FULL_EVERY] : 0,
                                .rotated = true,
                                .tied = of[LLAMA_TIED] != 0};
}

static launch_ask ask_of(const rank_model_config *config, int64_t batch, rank_type type)
{
    return (launch_ask){
        .model = model_of(config),
        .device = {.flops = {1e12, 1e12, 1e12},
                   .memory_bytes = 1e12,
                   .memory_bytes_per_s = 1e12,
                   .inside = {.latency_s = 1e-6, .bandwidth_bytes_per_s = 1e9},
                   .between = {.latency_s = 1e-6, .bandwidth_bytes_per_s = 1e9},
                   .host_ranks = 4},
        .precision = type == RANK_BFLOAT16 ? PROTO_PRECISION_BFLOAT16 : PROTO_PRECISION_FLOAT32,
        .efficiency = 1,
        .memory_efficiency = 1,
        .batch = batch,
        .global_batch = batch,
        .schedule = PROTO_PIPELINE_1F1B,
        .chunks = 1,
    };
}

static launch_estimate planned(const launch_ask *ask, int64_t tensor, int64_t context_ranks)
{
    launch_estimate made;
    base_error error;
    const launch_layout layout = {
        .data = 1, .tensor = tensor, .pipeline = 1, .context_ranks = context_ranks};
    assert_ok(launch_estimate_make(ask, &layout, &made, &error), &error);
    launch_estimate_fini(&made);
    return made;
}

/* What cublasLt's workspaces take. The backend's own sums, which the launcher leaves out, are few. */
static double queues_bytes(int queues)
{
    return queues * (double)(rank_cuda_backend.queue_bytes - rank_cuda_exact_backend.queue_bytes);
}

/* The same adapters, by their names. */
static launch_adapters adapters_of(const rank_model_config *config, const launch_model *model)
{
    char names[RANK_ADAPTERS_NAMES_BYTES];
    launch_adapters adapters = {.rank = 0};
    base_error error;
    if (config->adapters.rank > 0) {
        rank_adapters_names(config, names);
        assert_ok(launch_adapters_choose(model, config->adapters.rank, names, &adapters, &error),
                  &error);
    }
    return adapters;
}

/* Tables of experts' rows, of which a plan says nothing: where each expert's begin, and with `tables` 2 what has come
 * for each. */
static double tables_bytes(const rank_model_config *config, int tables)
{
    const size_t experts = (size_t)config->settings[LLAMA_EXPERTS];
    return experts > 0
               ? (double)(tables * LAYERS * (int)(rank_pieces_size(experts + 1) * sizeof(float)))
               : 0;
}

/* One micro-batch. Parameters, gradients, moments and activations are as many bytes; work memory is
 * as much but for what is rounded up. `cp`: of one of the ranks that share the micro-batch, or NULL. */
static void assert_training(const rank_model_config *config, int batch, rank_type type,
                            bool recompute, rank_graphs *graphs, const rank_cp *cp)
{
    const rank_device device = {.backend = &rank_cuda_backend};
    const rank_model_options options = {.config = config,
                                        .device = &device,
                                        .token_count_max = batch * CONTEXT,
                                        .training = true,
                                        .recompute = recompute,
                                        .graphs = graphs,
                                        .batches_max = 1,
                                        .type = type,
                                        .cp = cp};
    const rank_attention_shape attention = {.tokens = (size_t)options.token_count_max,
                                            .heads = (size_t)config->heads,
                                            .head_width = rank_decoder_head_width(config),
                                            .segment_max = CONTEXT};
    launch_ask ask = ask_of(config, batch, type);
    ask.recompute = recompute;
    ask.adapters = adapters_of(config, &ask.model);
    const launch_estimate said = planned(&ask, 1, cp != NULL ? cp->ranks : 1);
    const rank_model_config adapters = rank_adapters_config(config);
    const double added = config->adapters.rank > 0 ? (double)rank_model_param_count(&adapters) : 0;
    const double params = (double)rank_model_param_count(config) + added;
    const double trained = added > 0 ? added : params;
    rank_memory_use use = {{0}};
    rank_model_plan(&options, &use);
    assert_true(said.memory_bytes[LAUNCH_MEMORY_WEIGHTS] ==
                (type == RANK_BFLOAT16 ? 6 : 4) * params);
    /* a sum of several ranks' gradients has their pieces, too */
    const double pieces = cp != NULL ? 1 + 1.0 / cp->ranks : 0;
    assert_true(said.memory_bytes[LAUNCH_MEMORY_GRADIENTS] == 4 * trained * (1 + pieces));
    assert_true(said.memory_bytes[LAUNCH_MEMORY_OPTIMIZER] == 8 * trained);
    assert_true(said.memory_bytes[LAUNCH_MEMORY_ACTIVATIONS] + tables_bytes(config, 1) ==
                (double)use.bytes[RANK_MEMORY_ACTIVATIONS]);
    const size_t scratch = rank_cuda_backend.attention_scratch(&attention) * sizeof(float);
    const double held = (double)(use.bytes[RANK_MEMORY_WORK] - scratch);
    const double work = said.memory_bytes[LAUNCH_MEMORY_WORK] - queues_bytes(2);
    if (!is_close(work, held)) {
        fail_msg(
            "%d rows of %d, vocabulary %d, type %d, recompute %d: planned %.0f bytes, held %.0f",
            batch, CONTEXT, config->vocab_size, (int)type, recompute, work, held);
    }
}

/* Each of work memory's uses is the largest one once, below and above its limit. */
static void training(void **state)
{
    static const struct {
        int batch;
        int vocab_size;
    } cases[] = {{2, LARGE}, {8, LARGE}, {8, TINY}, {20, TINY}, {32, TINY}, {32, LARGE}};
    base_error error;
    rank_graphs *graphs = NULL; /* with which batches are padded */
    (void)state;
    assert_ok(rank_graphs_create(&rank_cuda_backend, 1, &graphs, &error), &error);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (kind of = GPT2; of < KINDS; of++) {
            const rank_model_config config = config_of(of, cases[i].vocab_size);
            for (int recompute = 0; recompute < 2; recompute++) {
                const bool again = recompute == 1;
                assert_training(&config, cases[i].batch, RANK_FLOAT32, again, graphs, NULL);
                assert_training(&config, cases[i].batch, RANK_BFLOAT16, again, graphs, NULL);
            }
        }
    }
    rank_graphs_destroy(graphs);
}

/* Ranks that share a micro-batch have their tokens' part, and what they exchange. */
static void shared_tokens(void **state)
{
    enum {
        SMALL = 4,
        LARGE_BATCH = 80 /* of which each has more rows than are computed at once */
    };
    base_error error;
    rank_graphs *graphs = NULL;
    (void)state;
    assert_ok(rank_graphs_create(&rank_cuda_backend, 1, &graphs, &error), &error);
    for (int ranks = 2; ranks <= 4; ranks *= 2) {
        for (kind of = GPT2; of < WITHOUT_EXPERTS; of++) {
            const rank_model_config config = config_of(of, TINY);
            for (int batch = SMALL; batch <= LARGE_BATCH; batch += LARGE_BATCH - SMALL) {
                const rank_cp cp = {.ranks = ranks, .tokens_max = (size_t)batch * CONTEXT};
                assert_training(&config, batch, RANK_FLOAT32, false, graphs, &cp);
                assert_training(&config, batch, RANK_FLOAT32, true, graphs, &cp);
            }
        }
    }
    rank_graphs_destroy(graphs);
}

/* Adapters of every set of layers, and of one that both have. Ranks have them in float32. */
static void adapters(void **state)
{
    enum { BATCH = 4 };
    base_error error;
    rank_graphs *graphs = NULL;
    (void)state;
    assert_ok(rank_graphs_create(&rank_cuda_backend, 1, &graphs, &error), &error);
    for (kind of = GPT2; of < WITHOUT_EXPERTS; of++) {
        rank_model_config config = config_of(of, LARGE);
        config.adapters = (rank_adapters){.rank = 64, .scale = 2};
        const uint32_t sets = of == GPT2 ? 1 << 4 : 1 << 7;
        for (config.adapters.targets = 1; config.adapters.targets < sets;
             config.adapters.targets++) {
            const rank_cp cp = {.ranks = 2, .tokens_max = (size_t)BATCH * CONTEXT};
            const bool again = config.adapters.targets % 2 == 0;
            assert_training(&config, BATCH, RANK_FLOAT32, again, graphs, NULL);
            assert_training(&config, BATCH, RANK_FLOAT32, again, graphs, &cp);
        }
    }
    rank_graphs_destroy(graphs);
}

/* What recompute adds to work, in bytes: planned, and held. */
typedef struct added {
    double planned;
    double held;
} added;

static added assert_shared(const rank_model_config *config, rank_type type)
{
    enum { BATCH = 4 };
    const rank_device device = {.backend = &rank_cuda_backend};
    launch_ask ask = ask_of(config, BATCH, type);
    added work = {.planned = 0};
    for (int recompute = 0; recompute < 2; recompute++) {
        const double sign = recompute == 1 ? 1 : -1;
        rank_memory_use use = {{0}};
        ask.recompute = recompute == 1;
        const launch_estimate said = planned(&ask, config->tensor_ranks, 1);
        rank_model_plan(&(rank_model_options){.config = config,
                                              .device = &device,
                                              .token_count_max = BATCH * CONTEXT,
                                              .training = true,
                                              .recompute = ask.recompute,
                                              .type = type},
                        &use);
        assert_true(said.memory_bytes[LAUNCH_MEMORY_ACTIVATIONS] + tables_bytes(config, 1) ==
                    (double)use.bytes[RANK_MEMORY_ACTIVATIONS]);
        work.planned += sign * said.memory_bytes[LAUNCH_MEMORY_WORK];
        work.held += sign * (double)use.bytes[RANK_MEMORY_WORK];
    }
    return work;
}

/* Ranks that share a layer have parts of its activations, of those that are computed again too. */
static void shared_layers(void **state)
{
    (void)state;
    for (kind of = GPT2; of < KINDS; of++) {
        rank_model_config config = config_of(of, TINY);
        for (config.tensor_ranks = 1; config.tensor_ranks <= 4; config.tensor_ranks *= 2) {
            for (int rounded = 0; rounded < 2; rounded++) {
                const added work =
                    assert_shared(&config, rounded == 1 ? RANK_BFLOAT16 : RANK_FLOAT32);
                assert_true(work.held > 0 && work.planned == work.held);
            }
        }
    }
}

/* Ranks that share out experts have room for all rows that may come: where each token goes to all experts, as many as a
 * plan takes to come. */
static void assert_experts(const rank_model_config *config, int batch, bool recompute,
                           rank_graphs *graphs)
{
    const rank_device device = {.backend = &rank_cuda_backend};
    const int ranks = config->expert_ranks;
    const rank_ep ep = {.cut = {.ranks = ranks,
                                .experts = EXPERTS,
                                .rows_max = (size_t)batch * CONTEXT,
                                .chosen = EXPERTS}};
    const rank_attention_shape attention = {.tokens = (size_t)batch * CONTEXT,
                                            .heads = (size_t)config->heads,
                                            .head_width = rank_decoder_head_width(config),
                                            .segment_max = CONTEXT};
    const rank_model_options options = {.config = config,
                                        .device = &device,
                                        .token_count_max = batch * CONTEXT,
                                        .training = true,
                                        .recompute = recompute,
                                        .graphs = graphs,
                                        .batches_max = 1,
                                        .ep = &ep};
    launch_ask ask = ask_of(config, batch, RANK_FLOAT32);
    ask.recompute = recompute;
    ask.global_batch = ranks * batch;
    launch_estimate said;
    base_error error;
    const launch_layout layout = {
        .data = ranks, .tensor = 1, .pipeline = 1, .context_ranks = 1, .expert_ranks = ranks};
    assert_ok(launch_estimate_make(&ask, &layout, &said, &error), &error);
    launch_estimate_fini(&said);
    rank_memory_use use = {{0}};
    rank_model_plan(&options, &use);
    assert_true(said.memory_bytes[LAUNCH_MEMORY_WEIGHTS] ==
                4 * (double)rank_model_param_count(config));
    assert_true(said.memory_bytes[LAUNCH_MEMORY_ACTIVATIONS] + tables_bytes(config, 2) ==
                (double)use.bytes[RANK_MEMORY_ACTIVATIONS]);
    const size_t scratch = rank_cuda_backend.attention_scratch(&attention) * sizeof(float);
    const double held = (double)(use.bytes[RANK_MEMORY_WORK] - scratch);
    const double work = said.memory_bytes[LAUNCH_MEMORY_WORK] - queues_bytes(2);
    if (!is_close(work, held)) {
        fail_msg("%d ranks, %d rows of %d, recompute %d: planned %.0f bytes, held %.0f", ranks,
                 batch, CONTEXT, (int)recompute, work, held);
    }
}

static void shared_experts(void **state)
{
    base_error error;
    rank_graphs *graphs = NULL;
    (void)state;
    assert_ok(rank_graphs_create(&rank_cuda_backend, 1, &graphs, &error), &error);
    for (kind of = WITHOUT_EXPERTS; of < KINDS; of++) {
        rank_model_config config = config_of(of, TINY);
        config.settings[LLAMA_CHOSEN] = EXPERTS;
        for (config.expert_ranks = 2; config.expert_ranks <= EXPERTS; config.expert_ranks *= 2) {
            for (int recompute = 0; recompute < 2; recompute++) {
                /* more rows than are computed at once, and fewer */
                assert_experts(&config, 20, recompute == 1, graphs);
                assert_experts(&config, 2, recompute == 1, graphs);
            }
        }
    }
    rank_graphs_destroy(graphs);
}

/* The logits are the engine's, and what is exchanged the group's. */
static void assert_decoding(const rank_model_config *config, int ranks, rank_type type)
{
    enum { ROWS = 64 };
    const rank_tp tp = {.ranks = ranks,
                        .vocab_count = rank_tp_first_leaf(ranks, 1) * rank_tp_leaf_width(TINY)};
    const rank_shape shape = {.config = config,
                              .backend = &rank_cuda_backend,
                              .end_layer = LAYERS,
                              .token_count_max = ROWS,
                              .tp = &tp,
                              .decode_type = type,
                              .cache_type = type};
    launch_ask ask = ask_of(config, ROWS, type);
    ask.decode = true;
    const rank_family *family = config->family;
    const size_t scratch =
        rank_cuda_backend.attention_cached_scratch(rank_decoder_head_width(config), CONTEXT);
    const size_t floats = family->work_floats(&shape) + rank_decoder_exchanged_floats(&shape) +
                          (size_t)ROWS * (size_t)tp.vocab_count - scratch;
    const launch_estimate said = planned(&ask, ranks, 1);
    const double work = said.memory_bytes[LAUNCH_MEMORY_WORK] - queues_bytes(1);
    if (!is_close(work, (double)(floats * sizeof(float)))) {
        fail_msg("%d ranks, type %d: planned %.0f bytes, held %zu", ranks, (int)type, work,
                 floats * sizeof(float));
    }
    const size_t cached = rank_decoder_cache_floats(&shape) * LAYERS * ROWS * CONTEXT;
    assert_true(said.memory_bytes[LAUNCH_MEMORY_CACHE] == (double)(cached * rank_type_bytes(type)));
}

static void decoding(void **state)
{
    (void)state;
    for (kind of = GPT2; of < KINDS; of++) {
        const rank_model_config config = config_of(of, TINY);
        for (int ranks = 1; ranks <= 4; ranks *= 2) {
            assert_decoding(&config, ranks, RANK_FLOAT32);
            assert_decoding(&config, ranks, RANK_BFLOAT16);
        }
    }
}

/* Where a product makes GELU on its way, nothing is held for what stands before it. */
static void fused_gelu_needs_no_rows(void **state)
{
    enum { ROWS = 48 };
    (void)state;
    const rank_model_config config = config_of(GPT2, TINY);
    const rank_tp tp = {.ranks = 2, .vocab_count = TINY / 2};
    rank_backend apart = rank_cuda_backend;
    apart.product_gelu = false;
    rank_shape shape = {.config = &config,
                        .backend = &rank_cuda_backend,
                        .end_layer = LAYERS,
                        .token_count_max = ROWS,
                        .tp = &tp};
    const size_t fused = config.family->work_floats(&shape);
    shape.backend = &apart;
    assert_int_equal(config.family->work_floats(&shape) - fused, ROWS * 4 * WIDTH / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(training),
                                       cmocka_unit_test(shared_tokens),
                                       cmocka_unit_test(adapters),
                                       cmocka_unit_test(shared_layers),
                                       cmocka_unit_test(shared_experts),
                                       cmocka_unit_test(decoding),
                                       cmocka_unit_test(fused_gelu_needs_no_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
