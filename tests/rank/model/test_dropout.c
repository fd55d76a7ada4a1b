/* Dropout in a model: where it is, that backward has forward's masks, and where there is none. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "philox.h"
#include "support.h"
#include "tiny.h"

static const double RATE = 0.25;

enum { SITE_BITS = 11, FEW_ROWS = 8 };

/* All rows go to both experts, so that a small change sends none elsewhere; the router's loss is left out. */
#define EVERY_EXPERT                                                                               \
    "{\"model_type\":\"mixtral\"," TINY_EXPERTS(                                                   \
        "0.0") "\"intermediate_size\":16,"                                                         \
               "\"num_local_experts\":2,\"num_experts_per_tok\":2}"

static void open_with(tiny *t, const char *config, double rate)
{
    tiny_open_as(t, config);
    t->config.dropout = rate;
    tiny_make_model(t, false);
}

/* Takes the model's rows in several chunks. */
static void open_in_chunks(tiny *t, const char *config)
{
    static rank_backend chunks;
    open_with(t, config, RATE);
    chunks = *t->device.backend;
    chunks.rows_at_once = FEW_ROWS;
    t->device.backend = &chunks;
    tiny_make_model(t, false);
}

static void fill(tiny *t)
{
    tiny_fill(t, (const int[]){24, 3, 11, 1, 0}, 5);
    for (int i = 0; i < t->batch.token_count; i += 3) {
        t->targets[i] = -1; /* so that the last layer leaves rows out */
    }
    t->batch.draw = (rank_batch_draw){.on = true, .seed = 35000, .step = 2, .slot = 5};
}

static void check_gradients(const char *config)
{
    tiny t;
    open_in_chunks(&t, config);
    fill(&t);
    (void)tiny_train(&t);
    tiny_check_gradients(&t, &t.config, t.params, 5, tiny_train);
    tiny_close(&t);
}

/* As those without dropout in test_gradient.c. */
static void gradients_are_differences(void **state)
{
    (void)state;
    for (int i = 0; i < TINY_DENSE_CONFIGS; i++) {
        check_gradients(tiny_configs[i]);
    }
    check_gradients(EVERY_EXPERT);
}

/* A tensor by its name. */
static float *param(const tiny *t, const char *name, size_t *count)
{
    rank_tensor tensor;
    for (int i = 0; i < rank_model_tensor_count(&t->config); i++) {
        rank_model_tensor(&t->config, i, &tensor);
        if (strcmp(tensor.name, name) == 0) {
            *count = tensor.count;
            return t->params + tensor.offset;
        }
    }
    fail_msg("no %s", name);
    return NULL;
}

static double dropped(const tiny *t, uint32_t site, size_t token, size_t column, double x)
{
    const rank_batch_draw *draw = &t->batch.draw;
    const test_mask mask = {draw->seed, draw->step, draw->slot << SITE_BITS | site,
                            (uint32_t)token};
    return (double)test_mask_word(&mask, column) < RATE * 0x1p32 ? 0.0 : x / (1.0 - RATE);
}

enum { WIDTH = 20, VOCAB = 37 };

/* The stream behind the last layer, where attention and MLP give their biases alone. */
static void expected_stream(const tiny *t, size_t token, double stream[WIDTH])
{
    static const char *const biases[] = {"h.0.attn.c_proj.bias", "h.0.mlp.c_proj.bias",
                                         "h.1.attn.c_proj.bias", "h.1.mlp.c_proj.bias"};
    size_t count;
    int segment = 0;
    while (t->segments[segment + 1] <= (int)token) {
        segment++;
    }
    const size_t position = token - (size_t)t->segments[segment];
    const float *wte = param(t, "wte.weight", &count) + (size_t)t->ids[token] * WIDTH;
    const float *wpe = param(t, "wpe.weight", &count) + position * WIDTH;
    for (size_t j = 0; j < WIDTH; j++) {
        stream[j] = dropped(t, 0, token, j, (double)wte[j] + (double)wpe[j]);
        for (uint32_t site = 0; site < 4; site++) {
            const float *bias = param(t, biases[site], &count);
            stream[j] += dropped(t, 1 + site, token, j, (double)bias[j]);
        }
    }
}

static double expected_loss(const tiny *t, size_t token)
{
    double stream[WIDTH];
    double logits[VOCAB];
    double mean = 0.0;
    double variance = 0.0;
    double sum = 0.0;
    size_t count;
    const float *weight = param(t, "ln_f.weight", &count);
    const float *bias = param(t, "ln_f.bias", &count);
    const float *wte = param(t, "wte.weight", &count);
    expected_stream(t, token, stream);
    for (size_t j = 0; j < WIDTH; j++) {
        mean += stream[j] / WIDTH;
    }
    for (size_t j = 0; j < WIDTH; j++) {
        variance += (stream[j] - mean) * (stream[j] - mean) / WIDTH;
    }
    for (size_t v = 0; v < VOCAB; v++) {
        logits[v] = 0.0;
        for (size_t j = 0; j < WIDTH; j++) {
            const double normal = (stream[j] - mean) / sqrt(variance + 1e-5);
            logits[v] +=
                (normal * (double)weight[j] + (double)bias[j]) * (double)wte[v * WIDTH + j];
        }
        sum += exp(logits[v]);
    }
    return log(sum) - logits[t->targets[token]];
}

/* The sites, tokens and columns of masks, and the scale: against another evaluation. With weights of zero it is
 * short. */
static void each_site_has_its_masks(void **state)
{
    (void)state;
    static const char *const weights[] = {"h.0.attn.c_proj.weight", "h.0.mlp.c_proj.weight",
                                          "h.1.attn.c_proj.weight", "h.1.mlp.c_proj.weight"};
    tiny t;
    double loss = 0.0;
    open_in_chunks(&t, NULL);
    for (size_t i = 0; i < sizeof weights / sizeof weights[0]; i++) {
        size_t count = 0;
        float *at = param(&t, weights[i], &count);
        memset(at, 0, count * sizeof *at);
    }
    fill(&t);
    for (size_t token = 0; token < (size_t)t.batch.token_count; token++) {
        loss += t.targets[token] >= 0 ? expected_loss(&t, token) : 0.0;
    }
    assert_true(fabs(tiny_train(&t) - loss) <= 1e-5 * loss);
    tiny_close(&t);
}

static void the_same_masks_are_drawn_again(void **state)
{
    (void)state;
    for (int i = 0; i < TINY_CONFIGS; i++) {
        tiny t;
        open_with(&t, tiny_configs[i], RATE);
        const size_t size_bytes = t.param_count * sizeof(float);
        float *kept = malloc(size_bytes);
        assert_non_null(kept);
        fill(&t);
        const double loss = tiny_train(&t);
        memcpy(kept, t.grads, size_bytes);
        t.batch.draw.step++;
        assert_true(tiny_train(&t) != loss);
        t.batch.draw.step--;
        tiny_make_model(&t, true); /* blocks are computed again in backward */
        assert_true(tiny_train(&t) == loss);
        assert_memory_equal(t.grads, kept, size_bytes);
        free(kept);
        tiny_close(&t);
    }
}

/* Evaluating drops nothing, whatever the batch says, and neither does training unless the batch says so. */
static void nothing_is_dropped_elsewhere(void **state)
{
    (void)state;
    base_error error;
    for (int i = 0; i < TINY_CONFIGS; i++) {
        tiny plain;
        tiny t;
        rank_result result;
        open_with(&plain, tiny_configs[i], 0.0);
        open_with(&t, tiny_configs[i], RATE);
        fill(&plain);
        fill(&t);
        const double loss = tiny_train(&plain);
        assert_true(tiny_train(&t) != loss);
        assert_ok(rank_model_forward(t.model, &t.hooks, &t.batch, NULL, &result, &error), &error);
        assert_true(result.loss_sum == loss);
        t.batch.draw.on = false;
        assert_true(tiny_train(&t) == loss);
        assert_memory_equal(t.grads, plain.grads, t.param_count * sizeof(float));
        tiny_close(&plain);
        tiny_close(&t);
    }
}

static void a_backend_without_it_is_refused(void **state)
{
    (void)state;
    base_error error;
    tiny t;
    rank_model *model = NULL;
    tiny_open(&t);
    rank_backend without = *t.device.backend;
    without.dropout = NULL;
    t.config.dropout = RATE;
    const rank_device device = {&without, t.device.queue};
    const rank_model_options options = {
        .config = &t.config, .device = &device, .token_count_max = 8, .training = true};
    assert_status(rank_model_create(&options, &model, &error), BASE_ERR_UNSUPPORTED);
    assert_has(error.message, "has no dropout");
    tiny_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_differences),
        cmocka_unit_test(each_site_has_its_masks),
        cmocka_unit_test(the_same_masks_are_drawn_again),
        cmocka_unit_test(nothing_is_dropped_elsewhere),
        cmocka_unit_test(a_backend_without_it_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
