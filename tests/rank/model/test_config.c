/* The layout of the parameters, their first values, and configurations that are refused. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/config_read.h"
#include "model/gpt2/gpt2.h"
#include "proto/limits.h"
#include "rank/model.h"
#include "support.h"

/* Vocabulary, width, layers, heads, context. */
#define CONFIG(v, c, l, h, t)                                                                      \
    {                                                                                              \
        .family = &rank_gpt2, .vocab_size = (v), .width = (c), .layers = (l), .heads = (h),        \
        .context = (t)                                                                             \
    }

static const rank_model_config standard = CONFIG(512, 128, 2, 4, 64);

static void the_layout_is_gpt2s(void **state)
{
    (void)state;
    static const char *const names[] = {"wte.weight",
                                        "wpe.weight",
                                        "h.0.ln_1.weight",
                                        "h.0.ln_1.bias",
                                        "h.0.attn.c_attn.weight",
                                        "h.0.attn.c_attn.bias",
                                        "h.0.attn.c_proj.weight",
                                        "h.0.attn.c_proj.bias",
                                        "h.0.ln_2.weight",
                                        "h.0.ln_2.bias",
                                        "h.0.mlp.c_fc.weight",
                                        "h.0.mlp.c_fc.bias",
                                        "h.0.mlp.c_proj.weight",
                                        "h.0.mlp.c_proj.bias",
                                        "h.1.ln_1.weight"};
    rank_tensor tensor;
    assert_int_equal(rank_model_param_count(&standard), 470528);
    assert_int_equal(rank_model_tensor_count(&standard), 28);
    size_t end = 0;
    for (int i = 0; i < 28; i++) {
        rank_model_tensor(&standard, i, &tensor);
        assert_int_equal(tensor.offset, end);
        assert_int_equal(tensor.count, tensor.shape[0] * (tensor.dims == 2 ? tensor.shape[1] : 1));
        assert_int_equal(tensor.decay, tensor.dims == 2);
        if (i < 15) {
            assert_string_equal(tensor.name, names[i]);
        }
        end += tensor.count;
    }
    assert_int_equal(end, 470528);
    assert_string_equal(tensor.name, "ln_f.bias");
    rank_model_tensor(&standard, 4, &tensor);
    assert_int_equal(tensor.shape[0], 128);
    assert_int_equal(tensor.shape[1], 384);
}

static uint64_t fnv(const void *data, size_t size_bytes)
{
    const unsigned char *bytes = data;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < size_bytes; i++) {
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

static void first_values_never_change(void **state)
{
    (void)state;
    float *params = malloc(470528 * sizeof *params);
    assert_non_null(params);
    rank_model_init(&standard, 35000, params);
    assert_int_equal(fnv(params, 470528 * sizeof *params), UINT64_C(0xb02d03ea9a968a95));
    rank_model_init(&standard, 35001, params);
    assert_int_not_equal(fnv(params, 470528 * sizeof *params), UINT64_C(0xb02d03ea9a968a95));
    free(params);
}

static void check_deviation(const float *values, size_t count, double expected)
{
    double sum = 0.0;
    double squares = 0.0;
    double largest = 0.0;
    for (size_t i = 0; i < count; i++) {
        sum += (double)values[i];
        squares += (double)values[i] * (double)values[i];
        largest = fmax(largest, fabs((double)values[i]));
    }
    const double n = (double)count;
    assert_true(fabs(sum / n) < 5.0 * expected / sqrt(n));
    assert_true(fabs(sqrt(squares / n) / expected - 1.0) < 5.0 / sqrt(2.0 * n));
    assert_true(largest > 3.0 * expected && largest < 6.0 * expected);
}

static void first_values_have_gpt2s_deviations(void **state)
{
    (void)state;
    float *params = malloc(470528 * sizeof *params);
    assert_non_null(params);
    rank_model_init(&standard, 7, params);
    for (int i = 0; i < rank_model_tensor_count(&standard); i++) {
        rank_tensor tensor;
        rank_model_tensor(&standard, i, &tensor);
        const float *values = params + tensor.offset;
        if (tensor.dims == 2) {
            const int residual = strstr(tensor.name, "c_proj") != NULL;
            check_deviation(values, tensor.count, residual ? 0.01 : 0.02);
            continue;
        }
        const int norm = strstr(tensor.name, "ln_") && strstr(tensor.name, "weight");
        for (size_t j = 0; j < tensor.count; j++) {
            assert_true(values[j] == (norm ? 1.0f : 0.0f));
        }
    }
    free(params);
}

static void wrong_configurations_are_refused(void **state)
{
    (void)state;
    static const struct {
        rank_model_config config;
        const char *word;
    } wrong[] = {
        {CONFIG(0, 128, 2, 4, 64), "vocabulary"},       {CONFIG(512, 0, 2, 4, 64), "width"},
        {CONFIG(512, 128, 0, 4, 64), "layers"},         {CONFIG(512, 128, 2, 0, 64), "heads"},
        {CONFIG(512, 128, 2, 3, 64), "multiple"},       {CONFIG(512, 128, 2, 4, -1), "context"},
        {CONFIG(1 << 30, 128, 2, 4, 64), "vocabulary"},
    };
    base_error error;
    rank_device device;
    assert_ok(rank_device_open("cpu", &device, &error), &error);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        rank_model *model;
        assert_status(rank_model_config_check(&wrong[i].config, &error), BASE_ERR_INVALID);
        assert_non_null(strstr(error.message, wrong[i].word));
        assert_status(rank_model_create(&(rank_model_options){.config = &wrong[i].config,
                                                              .device = &device,
                                                              .token_count_max = 64,
                                                              .training = true},
                                        &model, &error),
                      BASE_ERR_INVALID);
        assert_null(model);
    }
    rank_model *model;
    assert_status(rank_model_create(&(rank_model_options){.config = &standard,
                                                          .device = &device,
                                                          .token_count_max = 0,
                                                          .training = true},
                                    &model, &error),
                  BASE_ERR_INVALID);
    rank_model_destroy(NULL);
    rank_device_close(&device);
}

/* What a job may ask for is what a model may be. */
static void limits_are_those_of_jobs(void **state)
{
    (void)state;
    assert_int_equal(RANK_VOCAB_MAX, PROTO_VOCAB_MAX);
    assert_int_equal(RANK_WIDTH_MAX, PROTO_WIDTH_MAX);
    assert_int_equal(RANK_LAYERS_MAX, PROTO_LAYERS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_are_those_of_jobs),
        cmocka_unit_test(the_layout_is_gpt2s),
        cmocka_unit_test(first_values_never_change),
        cmocka_unit_test(first_values_have_gpt2s_deviations),
        cmocka_unit_test(wrong_configurations_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
