/* A small model with parameters and batches. Used by the tests of models. */
#include "tiny.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>

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

double tiny_difference(const float *a, const float *b, size_t count)
{
    return test_worst_difference(a, b, count, 1) / test_largest(b, count);
}
