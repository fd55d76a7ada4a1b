/* The model against PyTorch: forward, loss and every gradient.
 *
 * Tolerances: the reference is float64. A tensor's error is the largest difference from it, in
 * units of the tensor's largest magnitude. 2e-5 is about 170 float32 roundings, and sums of up to
 * 1024 terms stay well below it; a wrong term is above it by orders of magnitude. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "difference.h"
#include "fixture.h"
#include "rank/model.h"
#include "support.h"
#include "tiny.h"

static const double TENSOR_TOLERANCE = 2e-5;
static const double LOSS_TOLERANCE = 2e-6;
static const double NORM_TOLERANCE = 1e-5;

typedef struct oracle_case {
    const char *name;
    fixture file;
    rank_model_config config;
    rank_device device;
    rank_batch batch;
    int32_t *ids, *targets, *segments;
    float *params;
    float *grads;
    rank_model *model;
    size_t param_count;
} oracle_case;

static void make_model(oracle_case *c)
{
    base_error error;
    c->grads = malloc(c->param_count * sizeof *c->grads);
    assert_non_null(c->grads);
    for (size_t i = 0; i < c->param_count; i++) {
        c->grads[i] = NAN; /* every gradient is written */
    }
    assert_ok(rank_device_open("cpu", &c->device, &error), &error);
    assert_ok(rank_model_create(&(rank_model_options){.config = &c->config,
                                                      .device = &c->device,
                                                      .token_count_max = c->batch.token_count,
                                                      .training = true},
                                &c->model, &error),
              &error);
}

static void case_open(oracle_case *c, const char *name)
{
    size_t count;
    *c = (oracle_case){.name = name};
    fixture_open(&c->file, "model.fixture");
    int32_t *config = fixture_get_ints(&c->file, &count, "%s.config", name);
    c->config = (rank_model_config){.family = rank_family_default(),
                                    .vocab_size = config[0],
                                    .width = config[1],
                                    .layers = config[2],
                                    .heads = config[3],
                                    .context = config[4]};
    free(config);
    c->ids = fixture_get_ints(&c->file, &count, "%s.ids", name);
    c->batch.token_count = (int)count;
    c->targets = fixture_get_ints(&c->file, &count, "%s.targets", name);
    c->segments = fixture_get_ints(&c->file, &count, "%s.segments", name);
    c->batch.segment_count = (int)count - 1;
    c->batch.ids = c->ids;
    c->batch.targets = c->targets;
    c->batch.segment_start = c->segments;
    c->param_count = rank_model_param_count(&c->config);
    make_model(c);
}

/* A model of llama.fixture or its like, and the sequence that it is trained on. */
static void llama_open(oracle_case *c, const char *name, const char *config)
{
    size_t count;
    *c = (oracle_case){.name = name};
    const bool experts = strstr(config, "experts") != NULL;
    const bool gemma3 = strstr(config, "gemma3") != NULL;
    const bool longrope = strstr(config, "longrope") != NULL;
    fixture_open(&c->file, experts    ? "experts.fixture"
                           : gemma3   ? "gemma3.fixture"
                           : longrope ? "phi3.fixture"
                                      : "llama.fixture");
    tiny_config(&c->config, config);
    c->ids = fixture_get_ints(&c->file, &count, "%s.ids", name);
    c->targets = fixture_get_ints(&c->file, &count, "%s.targets", name);
    c->segments = calloc(2, sizeof *c->segments);
    c->params = fixture_get(&c->file, &c->param_count, "%s.params", name);
    assert_int_equal(c->param_count, rank_model_param_count(&c->config));
    assert_non_null(c->segments);
    c->segments[1] = (int32_t)count;
    c->batch = (rank_batch){.token_count = (int)count,
                            .ids = c->ids,
                            .targets = c->targets,
                            .segment_count = 1,
                            .segment_start = c->segments};
    make_model(c);
}

static void case_close(oracle_case *c)
{
    rank_model_destroy(c->model);
    rank_device_close(&c->device);
    fixture_close(&c->file);
    free(c->ids);
    free(c->targets);
    free(c->segments);
    free(c->params);
    free(c->grads);
}

static void check_loss(double got, double expected)
{
    if (!(fabs(got - expected) <= LOSS_TOLERANCE * fabs(expected))) {
        fail_msg("the loss is %.9g, expected %.9g", got, expected);
    }
}

static int64_t count_targets(const rank_batch *batch)
{
    int64_t count = 0;
    for (int t = 0; t < batch->token_count; t++) {
        count += batch->targets[t] >= 0;
    }
    return count;
}

static void train(oracle_case *c)
{
    base_error error;
    rank_result result;
    const rank_hooks hooks = rank_hooks_flat(c->params);
    size_t count;
    assert_ok(rank_model_train(c->model, &hooks, &c->batch, c->grads, &result, &error), &error);
    float *expected = fixture_get(&c->file, &count, "%s.loss", c->name);
    check_loss(result.loss_sum, (double)expected[0]);
    if (count > 1) {
        check_loss(result.router_loss_sum, (double)expected[1]);
    }
    free(expected);
    assert_int_equal(result.target_count, count_targets(&c->batch));
}

static void check_forward(const oracle_case *c, rank_model *model, const int32_t *rows, int count,
                          const float *expected)
{
    base_error error;
    rank_result result;
    const rank_hooks hooks = rank_hooks_flat(c->params);
    size_t loss_count;
    const size_t logit_count = (size_t)count * (size_t)c->config.vocab_size;
    float *logits = malloc(logit_count * sizeof *logits);
    assert_non_null(logits);
    assert_ok(rank_model_forward(model, &hooks, &c->batch, &(rank_logits){rows, count, logits},
                                 &result, &error),
              &error);
    float *expected_loss = fixture_get(&c->file, &loss_count, "%s.loss", c->name);
    check_loss(result.loss_sum, (double)expected_loss[0]);
    assert_int_equal(result.target_count, count_targets(&c->batch));
    test_check_close("logits", logits, expected, logit_count, TENSOR_TOLERANCE);
    free(expected_loss);
    free(logits);
}

static void check_forward_both(const oracle_case *c, const int32_t *rows, int count,
                               const float *expected)
{
    base_error error;
    rank_model *small;
    assert_ok(rank_model_create(&(rank_model_options){.config = &c->config,
                                                      .device = &c->device,
                                                      .token_count_max = c->batch.token_count,
                                                      .training = false},
                                &small, &error),
              &error);
    check_forward(c, small, rows, count, expected);
    check_forward(c, c->model, rows, count, expected);
    rank_model_destroy(small);
}

static void check_all_grads(const oracle_case *c)
{
    size_t count;
    float *expected = fixture_get(&c->file, &count, "%s.grads", c->name);
    assert_int_equal(count, c->param_count);
    for (int i = 0; i < rank_model_tensor_count(&c->config); i++) {
        rank_tensor tensor;
        rank_model_tensor(&c->config, i, &tensor);
        test_check_close(tensor.name, c->grads + tensor.offset, expected + tensor.offset,
                         tensor.count, TENSOR_TOLERANCE);
    }
    free(expected);
}

static void check_whole(const char *name)
{
    oracle_case c;
    size_t count;
    case_open(&c, name);
    c.params = fixture_get(&c.file, &count, "%s.params", name);
    assert_int_equal(count, c.param_count);
    train(&c);
    check_all_grads(&c);

    float *expected = fixture_get(&c.file, &count, "%s.logits", name);
    const size_t vocab_size = (size_t)c.config.vocab_size;
    int32_t *rows = malloc((size_t)c.batch.token_count * sizeof *rows);
    assert_non_null(rows);
    for (int t = 0; t < c.batch.token_count; t++) {
        rows[t] = t;
    }
    check_forward_both(&c, rows, c.batch.token_count, expected);
    /* every third row alone */
    int few = 0;
    for (int t = 0; t < c.batch.token_count; t += 3, few++) {
        rows[few] = t;
        memmove(expected + (size_t)few * vocab_size, expected + (size_t)t * vocab_size,
                vocab_size * sizeof *expected);
    }
    check_forward_both(&c, rows, few, expected);
    free(rows);
    free(expected);
    case_close(&c);
}

static void a_tiny_model_is_pytorchs(void **state)
{
    (void)state;
    check_whole("tiny");
}

static void odd_sizes_are_pytorchs(void **state)
{
    (void)state;
    check_whole("odd");
}

static void check_norm(const oracle_case *c, const rank_tensor *tensor, double expected)
{
    double sum = 0.0;
    for (size_t i = 0; i < tensor->count; i++) {
        sum += (double)c->grads[tensor->offset + i] * (double)c->grads[tensor->offset + i];
    }
    if (!(fabs(sqrt(sum) - expected) <= NORM_TOLERANCE * expected)) {
        fail_msg("%s: gradient norm %.9g, expected %.9g", tensor->name, sqrt(sum), expected);
    }
}

static void check_samples(const oracle_case *c, const rank_tensor *tensor)
{
    size_t count;
    int32_t *at = fixture_get_ints(&c->file, &count, "%s.at.%s", c->name, tensor->name);
    float *expected = fixture_get(&c->file, &count, "%s.grads.%s", c->name, tensor->name);
    float *got = malloc(count * sizeof *got);
    assert_non_null(got);
    for (size_t i = 0; i < count; i++) {
        got[i] = c->grads[tensor->offset + (size_t)at[i]];
    }
    test_check_close(tensor->name, got, expected, count, TENSOR_TOLERANCE);
    free(got);
    free(at);
    free(expected);
}

static void the_default_model_is_pytorchs(void **state)
{
    (void)state;
    oracle_case c;
    size_t count;
    case_open(&c, "default");
    float *seed = fixture_get(&c.file, &count, "default.seed");
    c.params = malloc(c.param_count * sizeof *c.params);
    assert_non_null(c.params);
    rank_model_init(&c.config, (uint64_t)seed[0], c.params);
    train(&c);
    float *norms = fixture_get(&c.file, &count, "default.norms");
    assert_int_equal(count, rank_model_tensor_count(&c.config));
    for (int i = 0; i < rank_model_tensor_count(&c.config); i++) {
        rank_tensor tensor;
        rank_model_tensor(&c.config, i, &tensor);
        check_norm(&c, &tensor, (double)norms[i]);
        check_samples(&c, &tensor);
    }
    int32_t *rows = fixture_get_ints(&c.file, &count, "default.logit_rows");
    const int row_count = (int)count;
    float *expected = fixture_get(&c.file, &count, "default.logits");
    check_forward_both(&c, rows, row_count, expected);
    free(seed);
    free(norms);
    free(rows);
    free(expected);
    case_close(&c);
}

static void check_llama(const char *name, const char *config)
{
    oracle_case c;
    llama_open(&c, name, config);
    train(&c);
    check_all_grads(&c);
    case_close(&c);
}

static void llamas(void **state)
{
    (void)state;
    static const char *const names[] = {"tied",       "untied",       "llama3",        "qwen2",
                                        "qwen2-tied", "qwen3",        "qwen3-untied",  "smollm3",
                                        "phi3-long",  "gemma3",       "gemma3-linear", "mixtral",
                                        "qwen3-moe",  "qwen3-moe-raw"};
    for (int i = 0; i < TINY_CONFIGS - 1; i++) {
        check_llama(names[i], tiny_configs[i + 1]);
    }
    check_llama("phi3-short", TINY_PHI3_SHORT);
    check_llama("longrope", TINY_LLAMA_LONGROPE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llamas),
        cmocka_unit_test(a_tiny_model_is_pytorchs),
        cmocka_unit_test(odd_sizes_are_pytorchs),
        cmocka_unit_test(the_default_model_is_pytorchs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
