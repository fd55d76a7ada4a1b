/* A small model with parameters and batches. Used by the tests of models. */
#include "tiny.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "difference.h"
#include "model/family.h"
#include "random.h"
#include "support.h"

const char *const tiny_configs[TINY_CONFIGS] = {
    NULL,         TINY_LLAMA_TIED, TINY_LLAMA_LINEAR, TINY_LLAMA_LLAMA3,
    TINY_QWEN2,   TINY_QWEN2_TIED, TINY_QWEN3,        TINY_QWEN3_UNTIED,
    TINY_SMOLLM3, TINY_PHI3,       TINY_GEMMA3,       TINY_GEMMA3_LINEAR,
    TINY_MIXTRAL, TINY_QWEN3_MOE,  TINY_QWEN3_MOE_RAW};

void tiny_config(rank_model_config *config, const char *text)
{
    base_error error;
    if (text == NULL) {
        *config = (rank_model_config){.family = rank_family_default(),
                                      .vocab_size = 37,
                                      .width = 20,
                                      .layers = 2,
                                      .heads = 2,
                                      .context = 24};
        return;
    }
    json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(object);
    const rank_family *family =
        rank_family_find(json_string_value(json_object_get(object, "model_type")));
    assert_non_null(family);
    assert_ok(family->configure(object, config, &error), &error);
    json_decref(object);
}

void tiny_open(tiny *t)
{
    tiny_open_as(t, NULL);
}

void tiny_open_as(tiny *t, const char *config)
{
    base_error error;
    *t = (tiny){.model = NULL};
    tiny_config(&t->config, config);
    t->param_count = rank_model_param_count(&t->config);
    t->params = malloc(t->param_count * sizeof *t->params);
    t->grads = malloc(t->param_count * sizeof *t->grads);
    assert_non_null(t->params);
    assert_non_null(t->grads);
    rank_model_init(&t->config, 3, t->params);
    for (int i = 0; i < rank_model_tensor_count(&t->config); i++) {
        rank_tensor tensor;
        rank_model_tensor(&t->config, i, &tensor);
        for (size_t j = 0; j < tensor.count; j++) {
            float *value = &t->params[tensor.offset + j];
            *value = tensor.dims == 2 ? *value * 12.0f : *value + (float)(j % 5) * 0.1f;
        }
    }
    assert_ok(rank_device_open("cpu", &t->device, &error), &error);
    t->hooks = rank_hooks_flat(t->params);
    tiny_make_model(t, false);
}

void tiny_make_model(tiny *t, bool recompute)
{
    base_error error;
    rank_model_destroy(t->model);
    assert_ok(rank_model_create(&(rank_model_options){.config = &t->config,
                                                      .device = &t->device,
                                                      .token_count_max = TINY_TOKENS_MAX,
                                                      .training = true,
                                                      .recompute = recompute},
                                &t->model, &error),
              &error);
}

void tiny_close(tiny *t)
{
    rank_model_destroy(t->model);
    rank_device_close(&t->device);
    free(t->params);
    free(t->grads);
}

void tiny_fill(tiny *t, const int *lengths, uint64_t seed)
{
    int tokens = 0;
    int segments = 0;
    for (; lengths[segments] > 0; segments++) {
        assert_true(segments < TINY_SEGMENTS_MAX);
        t->segments[segments] = tokens;
        tokens += lengths[segments];
    }
    t->segments[segments] = tokens;
    assert_true(tokens <= TINY_TOKENS_MAX);
    for (int i = 0; i < tokens; i++) {
        t->ids[i] = (int32_t)test_random_below(&seed, (uint32_t)t->config.vocab_size);
        t->targets[i] = (int32_t)test_random_below(&seed, (uint32_t)t->config.vocab_size);
    }
    t->batch = (rank_batch){.token_count = tokens,
                            .ids = t->ids,
                            .targets = t->targets,
                            .segment_count = segments,
                            .segment_start = t->segments};
}

double tiny_train(tiny *t)
{
    base_error error;
    rank_result result;
    for (size_t i = 0; i < t->param_count; i++) {
        t->grads[i] = NAN;
    }
    assert_ok(rank_model_train(t->model, &t->hooks, &t->batch, t->grads, &result, &error), &error);
    return result.loss_sum;
}

double tiny_loss(tiny *t)
{
    base_error error;
    rank_result result;
    assert_ok(rank_model_forward(t->model, &t->hooks, &t->batch, NULL, &result, &error), &error);
    return result.loss_sum;
}

static double slope(tiny *t, float *param, float step, double (*loss)(tiny *t))
{
    const float kept = *param;
    *param = kept + step;
    const double up = loss(t);
    *param = kept - step;
    const double down = loss(t);
    *param = kept;
    return (up - down) / (2.0 * (double)step);
}

/* The loss is summed in double, but made in float32: its error of about 1e-7 of 100 divided by the step bounds what
 * differences can show, hence 1 % of the tensor's largest gradient. */
static void check_tensor(tiny *t, const rank_tensor *tensor, const float *grads, float *params,
                         size_t samples, double (*loss)(tiny *t))
{
    const float step = 0x1p-7f;
    const double largest = test_largest(grads, tensor->count);
    assert_true(largest > 0.0);
    for (size_t i = 0; i < tensor->count; i += tensor->count / samples + 1) {
        const double whole = slope(t, &params[i], step, loss);
        const double half = slope(t, &params[i], step / 2, loss);
        const double difference =
            (4.0 * half - whole) / 3.0; /* Richardson: the step's square falls out */
        if (!(fabs(difference - (double)grads[i]) <= 1e-2 * largest)) {
            fail_msg("%s[%zu]: gradient %g, by differences %g", tensor->name, i, (double)grads[i],
                     difference);
        }
    }
}

void tiny_check_gradients(tiny *t, const rank_model_config *config, float *params, size_t samples,
                          double (*loss)(tiny *t))
{
    float *grads = malloc(t->param_count * sizeof *grads);
    assert_non_null(grads);
    memcpy(grads, t->grads, t->param_count * sizeof *grads);
    for (int i = 0; i < rank_model_tensor_count(config); i++) {
        rank_tensor tensor;
        rank_model_tensor(config, i, &tensor);
        check_tensor(t, &tensor, grads + tensor.offset, params + tensor.offset, samples, loss);
    }
    free(grads);
}

double tiny_difference(const float *a, const float *b, size_t count)
{
    return test_worst_difference(a, b, count, 1) / test_largest(b, count);
}
