/* The work memory that `launcher plan` says, beside what ranks with the CUDA backends ask for. The
 * launcher has the formula of rank/model/gpt2 and the backend's limits once more: here they are
 * compared. */
#include <math.h>

#include "backend/cuda/cuda.h"
#include "backend/graphs.h"
#include "backend/memory_use.h"
#include "model/family.h"
#include "plan/estimate.h"
#include "support.h"

enum { CONTEXT = 1024, WIDTH = 64, LAYERS = 2, HEADS = 4, TINY = 100, LARGE = 50257 };

static bool is_close(double planned, double held)
{
    return fabs(planned - held) <= 1e-3 * held;
}

static rank_model_config config_of(int vocab_size)
{
    return (rank_model_config){.vocab_size = vocab_size,
                               .width = WIDTH,
                               .layers = LAYERS,
                               .heads = HEADS,
                               .context = CONTEXT,
                               .family = rank_family_default()};
}

static launch_ask ask_of(const rank_model_config *config, int64_t batch, rank_type type)
{
    return (launch_ask){
        .model = {.vocab_size = config->vocab_size,
                  .width = config->width,
                  .layers = config->layers,
                  .heads = config->heads,
                  .context = config->context},
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

static double planned_bytes(const launch_ask *ask, int64_t tensor)
{
    launch_estimate made;
    base_error error;
    const launch_layout layout = {.data = 1, .tensor = tensor, .pipeline = 1};
    assert_ok(launch_estimate_make(ask, &layout, &made, &error), &error);
    const double bytes = made.memory_bytes[LAUNCH_MEMORY_WORK];
    launch_estimate_fini(&made);
    return bytes;
}

/* What cublasLt's workspaces take. The backend's own sums, which the launcher leaves out, are few. */
static double queues_bytes(int queues)
{
    return queues * (double)(rank_cuda_backend.queue_bytes - rank_cuda_exact_backend.queue_bytes);
}

/* One micro-batch: each of the buffer's uses is the largest one once, below and above its limit. */
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
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        const rank_type type = i % 2 == 0 ? RANK_FLOAT32 : RANK_BFLOAT16;
        const rank_model_config config = config_of(cases[i / 2].vocab_size);
        const rank_device device = {.backend = &rank_cuda_backend};
        const rank_model_options options = {.config = &config,
                                            .device = &device,
                                            .token_count_max = cases[i / 2].batch * CONTEXT,
                                            .training = true,
                                            .graphs = graphs,
                                            .batches_max = 1,
                                            .type = type};
        const rank_attention_shape attention = {.tokens = (size_t)options.token_count_max,
                                                .heads = HEADS,
                                                .head_width = WIDTH / HEADS,
                                                .segment_max = CONTEXT};
        const launch_ask ask = ask_of(&config, cases[i / 2].batch, type);
        rank_memory_use use = {{0}};
        rank_model_plan(&options, &use);
        const size_t scratch = rank_cuda_backend.attention_scratch(&attention) * sizeof(float);
        const double held = (double)(use.bytes[RANK_MEMORY_WORK] - scratch);
        const double planned = planned_bytes(&ask, 1) - queues_bytes(2);
        if (!is_close(planned, held)) {
            fail_msg("%d rows of %d, vocabulary %d, type %d: planned %.0f bytes, held %.0f",
                     cases[i / 2].batch, CONTEXT, config.vocab_size, (int)type, planned, held);
        }
    }
    rank_graphs_destroy(graphs);
}

/* On one rank, on two and on four. The logits are the engine's, and what is exchanged the group's. */
static void decoding(void **state)
{
    enum { ROWS = 64 };
    (void)state;
    for (int i = 0; i < 6; i++) {
        const rank_type type = i % 2 == 0 ? RANK_FLOAT32 : RANK_BFLOAT16;
        const int ranks = 1 << i / 2;
        const rank_model_config config = config_of(TINY);
        const rank_tp tp = {.ranks = ranks,
                            .vocab_count = rank_tp_first_leaf(ranks, 1) * rank_tp_leaf_width(TINY)};
        const rank_shape shape = {.config = &config,
                                  .backend = &rank_cuda_backend,
                                  .end_layer = LAYERS,
                                  .token_count_max = ROWS,
                                  .tp = &tp,
                                  .decode_type = type};
        launch_ask ask = ask_of(&config, ROWS, type);
        ask.decode = true;
        const size_t scratch = rank_cuda_backend.attention_cached_scratch(WIDTH / HEADS, CONTEXT);
        const size_t floats = config.family->work_floats(&shape) +
                              config.family->exchanged_floats(&shape) +
                              (size_t)ROWS * (size_t)tp.vocab_count - scratch;
        const double planned = planned_bytes(&ask, ranks) - queues_bytes(1);
        if (!is_close(planned, (double)(floats * sizeof(float)))) {
            fail_msg("%d ranks, type %d: planned %.0f bytes, held %zu", ranks, (int)type, planned,
                     floats * sizeof(float));
        }
    }
}

/* Where a product makes GELU on its way, nothing is held for what stands before it. */
static void fused_gelu_needs_no_rows(void **state)
{
    enum { ROWS = 48 };
    (void)state;
    const rank_model_config config = config_of(TINY);
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(training), cmocka_unit_test(decoding),
                                       cmocka_unit_test(fused_gelu_needs_no_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
