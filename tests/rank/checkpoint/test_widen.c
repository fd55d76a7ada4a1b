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

/* The file at `from`, its numbers cut to their upper halves, in `to`. */
static void write_bfloat16(const char *from, const char *to)
{
    base_error error;
    void *bytes = NULL;
    size_t size_bytes = 0;
    base_safetensors parsed;
    assert_ok(base_file_read(from, 1 << 20, &bytes, &size_bytes, &error), &error);
    assert_ok(base_safetensors_parse(bytes, size_bytes, &parsed, &error), &error);
    json_t *header = json_object();
    uint8_t *data = malloc(parsed.data_bytes / 2);
    assert_non_null(data);
    for (size_t i = 0; i < parsed.count; i++) {
        const base_safetensor *t = &parsed.tensors[i];
        json_t *shape = json_array();
        for (int d = 0; d < t->dims; d++) {
            assert_int_equal(json_array_append_new(shape, json_integer((json_int_t)t->shape[d])),
                             0);
        }
        json_t *entry = json_pack("{s:s, s:o, s:[I, I]}", "dtype", "BF16", "shape", shape,
                                  "data_offsets", (json_int_t)t->offset_bytes / 2,
                                  (json_int_t)(t->offset_bytes + t->size_bytes) / 2);
        assert_int_equal(json_object_set_new(header, t->name, entry), 0);
    }
    for (size_t i = 0; i < parsed.data_bytes / 4; i++) {
        memcpy(data + 2 * i, parsed.data + 4 * i + 2, 2);
    }
    char *text = json_dumps(header, JSON_COMPACT);
    const uint64_t length = strlen(text);
    FILE *file = fopen(to, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(&length, sizeof length, 1, file), 1);
    assert_int_equal(fwrite(text, 1, length, file), length);
    assert_int_equal(fwrite(data, 1, parsed.data_bytes / 2, file), parsed.data_bytes / 2);
    assert_int_equal(fclose(file), 0);
    base_safetensors_release(&parsed);
    json_decref(header);
    free(text);
    free(data);
    free(bytes);
}

/* This rank's shards, which have the same elements. */
static void check_shards(const char *path, const float *cut)
{
    base_error error;
    rank_device device;
    rank_shards *shards = NULL;
    assert_ok(rank_device_open("cpu", &device, &error), &error);
    const rank_tp tp = {.ranks = 1, .vocab_count = RANK_TP_LEAVES * 32};
    assert_ok(rank_shards_load(&(rank_shards_options){&SMALL, &device, &tp, RANK_FLOAT32}, path,
                               &shards, &error),
              &error);
    const rank_hooks hooks = rank_shards_hooks(shards);
    for (int i = 0; i < rank_model_tensor_count(&SMALL); i++) {
        rank_tensor tensor;
        rank_model_tensor(&SMALL, i, &tensor);
        if (tensor.pack == RANK_TENSOR_PLAIN) {
            const float *at = hooks.need(hooks.weights, tensor.offset, tensor.count);
            assert_memory_equal(at, cut + tensor.offset, tensor.count * sizeof *at);
        } else if (tensor.pack == RANK_TENSOR_PACKED) { /* one panel: rows of RANK_PANEL */
            const float *at = hooks.need(hooks.weights, tensor.offset, tensor.count);
            const size_t columns = tensor.shape[1] < RANK_PANEL ? tensor.shape[1] : RANK_PANEL;
            for (size_t row = 0; row < tensor.shape[0]; row++) {
                assert_memory_equal(at + row * RANK_PANEL,
                                    cut + tensor.offset + row * tensor.shape[1],
                                    columns * sizeof *at);
            }
        }
    }
    rank_shards_destroy(shards);
    rank_device_close(&device);
}

static void a_model_in_bfloat16_is_read(void **state)
{
    (void)state;
    base_error error;
    test_directory scratch;
    char wide[4096];
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
    (void)snprintf(wide, sizeof wide, "%s", test_directory_path(&scratch, "wide.safetensors"));
    (void)snprintf(narrow, sizeof narrow, "%s", test_directory_path(&scratch, "half.safetensors"));
    assert_ok(rank_safetensors_write(wide, &SMALL, params, "", &error), &error);
    write_bfloat16(wide, narrow);
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = 0;
        memcpy(&bits, &params[i], sizeof bits);
        bits &= 0xffff0000;
        memcpy(&cut[i], &bits, sizeof bits);
    }
    assert_ok(rank_safetensors_read(narrow, &SMALL, back, &error), &error);
    assert_memory_equal(back, cut, count * sizeof *back);

    check_shards(narrow, cut);
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
