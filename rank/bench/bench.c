/* Measures a training step and its bare matrix products, in turns. Called by
 * rank-bench's main.c. */
#include "bench/bench.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/percentile.h"
#include "bench/products.h"

/* The shape of the comparison with other trainers. */
static rank_model_config config = {
    .vocab_size = 512, .width = 128, .layers = 2, .heads = 4, .context = 64};

typedef struct bench {
    rank_device device;
    rank_model *model;
    bench_products *products;
    size_t param_count;
    int tokens;
    float *params, *grads, *first, *second;
    int32_t *ids, *targets, *segments;
    rank_batch batch;
    int64_t step;
    double *step_ms, *adamw_ms, *products_ms, *attention_ms, *ratio; /* (rounds) */
} bench;

static void bench_fini(bench *b)
{
    void *const blocks[] = {b->params,   b->grads,       b->first,    b->second,
                            b->ids,      b->targets,     b->segments, b->step_ms,
                            b->adamw_ms, b->products_ms, b->ratio,    b->attention_ms};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        free(blocks[i]);
    }
    rank_model_destroy(b->model);
    bench_products_destroy(b->products);
    rank_device_close(&b->device);
}

static void fill_batch(bench *b, int rows)
{
    uint64_t random = 1;
    for (int t = 0; t < b->tokens; t++) {
        random = random * UINT64_C(6364136223846793005) + 1;
        b->ids[t] = (int32_t)((random >> 33) % (uint64_t)config.vocab_size);
    }
    for (int t = 0; t < b->tokens; t++) {
        b->targets[t] = b->ids[(t + 1) % b->tokens];
    }
    for (int i = 0; i <= rows; i++) {
        b->segments[i] = i * config.context;
    }
    b->batch = (rank_batch){.token_count = b->tokens,
                            .ids = b->ids,
                            .targets = b->targets,
                            .segment_count = rows,
                            .segment_start = b->segments};
}

static base_status bench_init(bench *b, const bench_options *options, base_error *reterr)
{
    const size_t rounds = (size_t)options->rounds;
    config.family = rank_family_default();
    config.dropout = options->dropout;
    b->param_count = rank_model_param_count(&config);
    b->tokens = options->batch * config.context;
    float **arrays[] = {&b->params, &b->grads, &b->first, &b->second};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        *arrays[i] = aligned_alloc(64, (b->param_count * sizeof(float) + 63) / 64 * 64);
    }
    double **series[] = {&b->step_ms, &b->adamw_ms, &b->products_ms, &b->attention_ms, &b->ratio};
    for (size_t i = 0; i < sizeof series / sizeof *series; i++) {
        *series[i] = calloc(rounds, sizeof(double));
    }
    b->ids = malloc((size_t)b->tokens * sizeof *b->ids);
    b->targets = malloc((size_t)b->tokens * sizeof *b->targets);
    b->segments = malloc((size_t)(options->batch + 1) * sizeof *b->segments);
    if (!b->params || !b->grads || !b->first || !b->second || !b->ids || !b->targets ||
        !b->segments || !b->step_ms || !b->adamw_ms || !b->products_ms || !b->attention_ms ||
        !b->ratio) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory");
    }
    rank_model_init(&config, 35000, b->params);
    memset(b->first, 0, b->param_count * sizeof *b->first);
    memset(b->second, 0, b->param_count * sizeof *b->second);
    fill_batch(b, options->batch);
    b->batch.draw.on = options->dropout > 0.0;
    base_status status = rank_device_open("cpu", &b->device, reterr);
    if (status == BASE_OK) {
        status = rank_model_create(&(rank_model_options){.config = &config,
                                                         .device = &b->device,
                                                         .token_count_max = b->tokens,
                                                         .training = true},
                                   &b->model, reterr);
    }
    return status == BASE_OK
               ? bench_products_create(&config, &b->device, options->batch, &b->products, reterr)
               : status;
}

static void optimize(bench *b)
{
    static const rank_adamw_config adamw = {
        .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .weight_decay = 0.01};
    b->step++;
    const rank_adamw_step now = {
        .step = b->step, .learning_rate = 3e-4, .grad_scale = 1.0f / (float)b->tokens};
    for (int i = 0; i < rank_model_tensor_count(&config); i++) {
        rank_tensor tensor;
        rank_model_tensor(&config, i, &tensor);
        const size_t at = tensor.offset;
        b->device.backend->adamw(b->device.queue, &(rank_adamw){.config = &adamw,
                                                                .step = &now,
                                                                .decay = tensor.decay,
                                                                .count = tensor.count,
                                                                .params = b->params + at,
                                                                .grads = b->grads + at,
                                                                .first = b->first + at,
                                                                .second = b->second + at});
    }
}

static double ms_between(int64_t begin_ns, int64_t end_ns)
{
    return (double)(end_ns - begin_ns) * 1e-6;
}

/* One step, then one set of products; round -1 is warm-up. */
static base_status run_round(bench *b, int round, base_error *reterr)
{
    rank_result result;
    int64_t attention_ns;
    const rank_hooks hooks = rank_hooks_flat(b->params);
    const int64_t begin_ns = base_now_ns();
    base_status status = rank_model_train(b->model, &hooks, &b->batch, b->grads, &result, reterr);
    if (status != BASE_OK) {
        return status;
    }
    const int64_t trained_ns = base_now_ns();
    optimize(b);
    const int64_t stepped_ns = base_now_ns();
    bench_products_reset(b->products);
    const int64_t products_ns = base_now_ns();
    status = bench_products_run(b->products, &attention_ns, reterr);
    const int64_t end_ns = base_now_ns();
    if (status == BASE_OK && round >= 0) {
        b->step_ms[round] = ms_between(begin_ns, stepped_ns);
        b->adamw_ms[round] = ms_between(trained_ns, stepped_ns);
        b->products_ms[round] = ms_between(products_ns, end_ns);
        b->attention_ms[round] = (double)attention_ns * 1e-6;
        b->ratio[round] = b->step_ms[round] / b->products_ms[round];
    }
    return status;
}

/* Where a step's time goes: after the rounds, so that reading the clock costs them nothing. */
static base_status run_profile(bench *b, int rounds, bench_figures *figures, base_error *reterr)
{
    base_status status = BASE_OK;
    for (int round = 0; round < rounds && status == BASE_OK; round++) {
        rank_result result;
        const rank_hooks hooks = rank_hooks_flat(b->params);
        rank_profile profile = {.last_ns = 0};
        b->device.backend->set_profile(b->device.queue, &profile);
        status = rank_model_train(b->model, &hooks, &b->batch, b->grads, &result, reterr);
        optimize(b);
        b->device.backend->set_profile(b->device.queue, NULL);
        for (int part = 0; part < RANK_PART_COUNT; part++) {
            const double ms = (double)profile.ns[part] * 1e-6;
            double *best_ms = &figures->profile_ms[part];
            *best_ms = round == 0 || ms < *best_ms ? ms : *best_ms;
        }
    }
    return status;
}

static double median(double *values, int count)
{
    base_sort(values, (size_t)count);
    return base_percentile(values, (size_t)count, 0.5);
}

base_status bench_run(const bench_options *options, bench_figures *figures, base_error *reterr)
{
    bench b = {.step = 0};
    *figures = (bench_figures){.step_ms = 0.0};
    base_status status = bench_init(&b, options, reterr);
    for (int round = -BENCH_WARM_UP; round < options->rounds && status == BASE_OK; round++) {
        status = run_round(&b, round, reterr);
    }
    if (status == BASE_OK) {
        b.device.backend->info(b.device.queue, &figures->info);
        figures->params = (int)b.param_count;
        figures->tokens = b.tokens;
        figures->step_ms = median(b.step_ms, options->rounds);
        figures->adamw_ms = median(b.adamw_ms, options->rounds);
        figures->products_ms = median(b.products_ms, options->rounds);
        figures->attention_products_ms = median(b.attention_ms, options->rounds);
        figures->ratio = median(b.ratio, options->rounds);
        figures->products_gflops = bench_products_flop(b.products) /
                                   (figures->products_ms - figures->attention_products_ms) * 1e-6;
        figures->tokens_per_second = (double)b.tokens / figures->step_ms * 1e3;
        if (options->profile) {
            status = run_profile(&b, options->rounds, figures, reterr);
        }
    }
    bench_fini(&b);
    return status;
}
