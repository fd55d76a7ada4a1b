/* Checkpoints whose numbers have 16 bits: both readers widen them exactly. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/safetensors.h"
#include "checkpoint/shards.h"
#include "checkpoint/widen.h"
#include "model/gpt2/gpt2.h"
#include "rank/checkpoint.h"
#include "support.h"

static const rank_model_config SMALL = {
    .family = &rank_gpt2, .vocab_size = 11, .width = 8, .layers = 2, .heads = 2, .context = 5};

/* The number that a half stands for, by the definition of its fields. */
static float half_value(unsigned bits)
{
    const int exponent = (int)(bits >> 10 & 31);
    const float mantissa = (float)(bits & 1023);
    const float sign = bits & 0x8000 ? -1.0f : 1.0f;
    return exponent == 0 ? sign * ldexpf(mantissa, -24)
                         : sign * ldexpf(1024.0f + mantissa, exponent - 25);
}

static void every_half_and_bfloat16_is_exact(void **state)
{
    (void)state;
    const base_safetensor half = {.dtype = "F16"};
    const base_safetensor bfloat16 = {.dtype = "BF16"};
    for (unsigned i = 0; i < 1U << 16; i++) {
        const uint16_t bits = (uint16_t)i;
        float value = 0.0f;
        uint32_t wide = 0;
        rank_widen(&bfloat16, &bits, 1, &value);
        memcpy(&wide, &value, sizeof wide);
        assert_int_equal(wide, i << 16);
        rank_widen(&half, &bits, 1, &value);
        if ((i & 0x7c00) != 0x7c00) {
            const float expected = half_value(i);
            assert_memory_equal(&value, &expected, sizeof value);
        } else {
            assert_true((i & 0x3ff) == 0 ? isinf(value) && (value < 0) == (i >= 0x8000)
                                         : isnan(value));
        }
    }
}

static void check_element(const void *array, size_t i, rank_type type, float expected)
{
    uint32_t bits = 0;
    memcpy(&bits, &expected, sizeof bits);
    if (type == RANK_BFLOAT16) {
        assert_int_equal(((const rank_bfloat16 *)array)[i], bits >> 16);
    } else {
        assert_memory_equal((const float *)array + i, &expected, sizeof expected);
    }
}

/* This rank's shards in a type of matrices, which have the same elements. */
static void check_shards(const char *path, rank_type type, const float *cut)
{
    base_error error;
    rank_device device;
    rank_shards *shards = NULL;
    assert_ok(rank_device_open("cpu", &device, &error), &error);
    const rank_tp tp = {.ranks = 1, .vocab_count = RANK_TP_LEAVES * 32};
    assert_ok(
        rank_shards_load(
            &(rank_shards_options){.config = &SMALL, .device = &device, .tp = &tp, .type = type},
            path, &shards, &error),
        &error);
    const rank_hooks hooks = rank_shards_hooks(shards);
    for (int i = 0; i < rank_model_tensor_count(&SMALL); i++) {
        rank_tensor tensor;
        rank_model_tensor(&SMALL, i, &tensor);
        if (tensor.pack == RANK_TENSOR_PLAIN) {
            const float *at = hooks.need(hooks.weights, tensor.offset, tensor.count);
            assert_memory_equal(at, cut + tensor.offset, tensor.count * sizeof *at);
        } else if (tensor.pack == RANK_TENSOR_PACKED) { /* one panel: rows of RANK_PANEL */
            const void *at = hooks.need(hooks.weights, tensor.offset, tensor.count);
            const size_t columns = tensor.shape[1] < RANK_PANEL ? tensor.shape[1] : RANK_PANEL;
            for (size_t k = 0; k < tensor.shape[0] * columns; k++) {
                const size_t row = k / columns;
                check_element(at, row * RANK_PANEL + k % columns, type,
                              cut[tensor.offset + row * tensor.shape[1] + k % columns]);
            }
        }
    }
    rank_shards_destroy(shards);
    rank_device_close(&device);
}

/* Matrices are rounded as they are read: those of a file are those of the same numbers in memory. */
static void check_blocks(const char *path, float *params, rank_type type)
{
    base_error error;
    rank_device device;
    rank_shards *shards[2] = {NULL, NULL};
    rank_hooks hooks[2];
    rank_flat_params flat = {&SMALL, params};
    const rank_tensor_source source = rank_flat_source(&flat);
    assert_ok(rank_device_open("cpu", &device, &error), &error);
    const rank_tp tp = {.ranks = 1, .vocab_count = RANK_TP_LEAVES * 32};
    const rank_shards_options options = {
        .config = &SMALL, .device = &device, .tp = &tp, .type = type};
    assert_ok(rank_shards_load(&options, path, &shards[0], &error), &error);
    assert_ok(rank_shards_create(&options, &source, &shards[1], &error), &error);
    size_t bytes = 0;
    for (int i = 0; i < 2; i++) {
        hooks[i] = rank_shards_hooks(shards[i]);
        assert_int_equal(rank_shards_bytes(shards[i]), rank_shards_plan(&options));
    }
    for (int i = 0; i < rank_model_tensor_count(&SMALL); i++) {
        rank_tensor tensor;
        rank_model_tensor(&SMALL, i, &tensor);
        const float *read = hooks[0].need(hooks[0].weights, tensor.offset, tensor.count);
        const float *made = hooks[1].need(hooks[1].weights, tensor.offset, tensor.count);
        const size_t count =
            tensor.pack == RANK_TENSOR_PLAIN
                ? tensor.count * sizeof *read
                : rank_numbers_bytes(tensor.cut.kind == RANK_CUT_VOCAB ? RANK_INT8 : type,
                                     tensor.count / 32 * 32);
        assert_memory_equal(read, made, count);
        bytes += count;
    }
    assert_true(bytes > 0 && bytes <= rank_shards_bytes(shards[0]));
    rank_shards_destroy(shards[0]);
    rank_shards_destroy(shards[1]);
    rank_device_close(&device);
}

static void a_model_in_bfloat16_is_read(void **state)
{
    (void)state;
    base_error error;
    test_directory scratch;
    rank_type type = RANK_FLOAT32;
    char narrow[4096];
    const size_t count = rank_model_param_count(&SMALL);
    float *params = malloc(count * sizeof *params);
    float *cut = calloc(count, sizeof *cut);
    float *back = calloc(count, sizeof *back);
    assert_non_null(params);
    assert_non_null(cut);
    assert_non_null(back);
    test_directory_make(&scratch);
    rank_model_init(&SMALL, 7, params);
    (void)snprintf(narrow, sizeof narrow, "%s", test_directory_path(&scratch, "half.safetensors"));
    assert_ok(rank_safetensors_write(narrow, &SMALL, params, "", RANK_BFLOAT16, &error), &error);
    for (size_t i = 0; i < count; i++) {
        rank_bfloat16 half = 0;
        rank_narrow(&params[i], 1, &half);
        const uint32_t bits = (uint32_t)half << 16;
        memcpy(&cut[i], &bits, sizeof bits);
    }
    assert_ok(rank_safetensors_read(narrow, &SMALL, back, &error), &error);
    assert_memory_equal(back, cut, count * sizeof *back);

    assert_ok(rank_shards_type(&SMALL, narrow, &type, &error), &error);
    assert_int_equal(type, RANK_BFLOAT16);
    check_shards(narrow, RANK_BFLOAT16, cut);
    check_shards(narrow, RANK_FLOAT32, cut);
    check_blocks(narrow, cut, RANK_INT8);
    check_blocks(narrow, cut, RANK_INT4);
    assert_ok(rank_safetensors_write(narrow, &SMALL, params, "", RANK_FLOAT32, &error), &error);
    assert_ok(rank_shards_type(&SMALL, narrow, &type, &error), &error);
    assert_int_equal(type, RANK_FLOAT32);
    test_directory_remove(&scratch);
    free(params);
    free(cut);
    free(back);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_half_and_bfloat16_is_exact),
        cmocka_unit_test(a_model_in_bfloat16_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
