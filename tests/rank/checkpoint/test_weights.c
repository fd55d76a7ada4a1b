/* Checkpoints in several files, with an index: both readers take them as one, and refuse an index
 * that does not say what its files hold. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/safetensors.h"
#include "checkpoint/shards.h"
#include "rank/checkpoint.h"
#include "small_model.h"
#include "support.h"

enum { PATH_BYTES = 4096, FILES = 3 };

static const char *const NAMES[FILES] = {"model-1.safetensors", "model-2.safetensors",
                                         "model-3.safetensors"};

static char whole[PATH_BYTES];
static char weights[PATH_BYTES]; /* what is given to readers; there is only an index beside it */

/* Writes every FILES-th tensor of the file `whole`, from the first-th on, to a file of its own, and
 * adds them to the map. */
static void write_part(const base_safetensors *parsed, size_t first, json_t *map)
{
    base_error error;
    json_t *header = json_object();
    uint8_t *data = malloc(parsed->data_bytes);
    size_t used = 0;
    assert_non_null(data);
    for (size_t i = first; i < parsed->count; i += FILES) {
        const base_safetensor *t = &parsed->tensors[i];
        json_t *shape = json_array();
        for (int d = 0; d < t->dims; d++) {
            assert_int_equal(json_array_append_new(shape, json_integer((json_int_t)t->shape[d])),
                             0);
        }
        memcpy(data + used, parsed->data + t->offset_bytes, t->size_bytes);
        json_t *entry =
            json_pack("{s:s, s:o, s:[I, I]}", "dtype", t->dtype, "shape", shape, "data_offsets",
                      (json_int_t)used, (json_int_t)(used + t->size_bytes));
        assert_int_equal(json_object_set_new(header, t->name, entry), 0);
        assert_int_equal(json_object_set_new(map, t->name, json_string(NAMES[first])), 0);
        used += t->size_bytes;
    }
    char *text = json_dumps(header, JSON_COMPACT);
    const uint64_t length = strlen(text);
    uint8_t *file = malloc(sizeof length + length + used);
    assert_non_null(file);
    memcpy(file, &length, sizeof length);
    memcpy(file + sizeof length, text, length);
    memcpy(file + sizeof length + length, data, used);
    assert_ok(base_file_write(test_directory_path(&scratch, NAMES[first]), file,
                              sizeof length + length + used, &error),
              &error);
    json_decref(header);
    free(text);
    free(data);
    free(file);
}

static void write_index(json_t *map)
{
    base_error error;
    json_t *index = json_pack("{s:{s:i}, s:O}", "metadata", "total_size", 1, "weight_map", map);
    char *text = json_dumps(index, JSON_INDENT(2));
    assert_ok(base_file_write(test_directory_path(&scratch, "model.safetensors.index.json"), text,
                              strlen(text), &error),
              &error);
    json_decref(index);
    free(text);
}

static json_t *cut_model(void)
{
    base_error error;
    size_t size_bytes = 0;
    base_safetensors parsed;
    json_t *map = json_object();
    assert_ok(rank_safetensors_write(whole, &SMALL, params, "", RANK_FLOAT32, &error), &error);
    void *bytes = test_file_read(whole, &size_bytes);
    assert_ok(base_safetensors_parse(bytes, size_bytes, &parsed, &error), &error);
    for (size_t i = 0; i < FILES; i++) {
        write_part(&parsed, i, map);
    }
    base_safetensors_release(&parsed);
    free(bytes);
    write_index(map);
    return map;
}

static int make_paths(void **state)
{
    (void)make_scratch(state);
    (void)snprintf(whole, sizeof whole, "%s", test_directory_path(&scratch, "whole.safetensors"));
    (void)snprintf(weights, sizeof weights, "%s",
                   test_directory_path(&scratch, "model.safetensors"));
    return 0;
}

static base_status try_load(const char *path, rank_shards **shards, base_error *error)
{
    rank_device device;
    const rank_tp tp = {.ranks = 1, .vocab_count = RANK_TP_LEAVES * 32};
    assert_ok(rank_device_open("cpu", &device, error), error);
    const base_status status = rank_shards_load(
        &(rank_shards_options){
            .config = &SMALL, .device = &device, .tp = &tp, .type = RANK_FLOAT32},
        path, shards, error);
    rank_device_close(&device);
    return status;
}

static rank_shards *load(const char *path)
{
    base_error error;
    rank_shards *shards = NULL;
    assert_ok(try_load(path, &shards, &error), &error);
    return shards;
}

static void several_files_are_one_checkpoint(void **state)
{
    (void)state;
    base_error error;
    float *back = calloc(count, sizeof *back);
    assert_non_null(back);
    json_decref(cut_model());
    assert_ok(rank_safetensors_read(weights, &SMALL, back, &error), &error);
    assert_memory_equal(back, params, count * sizeof *back);
    assert_ok(rank_shards_check(&SMALL, weights, &error), &error);
    rank_shards *one = load(whole);
    rank_shards *several = load(weights);
    const rank_hooks from_one = rank_shards_hooks(one);
    const rank_hooks from_several = rank_shards_hooks(several);
    for (int i = 0; i < rank_model_tensor_count(&SMALL); i++) {
        rank_tensor tensor;
        rank_model_tensor(&SMALL, i, &tensor);
        assert_memory_equal(from_several.need(from_several.weights, tensor.offset, tensor.count),
                            from_one.need(from_one.weights, tensor.offset, tensor.count),
                            tensor.count * sizeof *back);
    }
    rank_shards_destroy(one);
    rank_shards_destroy(several);
    free(back);
}

static void expect_refused(base_status wanted, const char *reason)
{
    base_error error;
    float *back = calloc(count, sizeof *back);
    assert_non_null(back);
    assert_status(rank_safetensors_read(weights, &SMALL, back, &error), wanted);
    if (strstr(error.message, reason) == NULL) {
        fail_msg("\"%s\" lacks \"%s\"", error.message, reason);
    }
    assert_status(rank_shards_check(&SMALL, weights, &error), wanted);
    assert_non_null(strstr(error.message, reason));
    free(back);
}

static void an_index_that_is_not_true_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *tensor; /* its entry becomes… */
        const char *file;   /* … this name; NULL: it has none */
        const char *reason;
    } CASES[] = {
        {"ln_f.bias", NULL, "says nothing of it"},
        {"ln_f.bias", "model-2.safetensors", "ln_f.bias is in"},
        {"ln_f.bias", "model-4.safetensors", "says model-4.safetensors"},
        {"ln_f.bias", "../model-1.safetensors", "no name of a file"},
        {"ln_f.bias", "", "no name of a file"},
        {"another", "model-1.safetensors", "says that 11 tensors are in model-1.safetensors"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        json_t *map = cut_model();
        if (CASES[i].file == NULL) {
            assert_int_equal(json_object_del(map, CASES[i].tensor), 0);
        } else {
            assert_int_equal(json_object_set_new(map, CASES[i].tensor, json_string(CASES[i].file)),
                             0);
        }
        write_index(map);
        json_decref(map);
        expect_refused(BASE_ERR_INVALID, CASES[i].reason);
    }
    static const char *const TEXTS[] = {"",
                                        "[]",
                                        "{}",
                                        "{\"weight_map\": []}",
                                        "{\"weight_map\": {}}",
                                        "{\"weight_map\": {\"a\": 1}}"};
    for (size_t i = 0; i < sizeof TEXTS / sizeof TEXTS[0]; i++) {
        base_error error;
        assert_ok(base_file_write(test_directory_path(&scratch, "model.safetensors.index.json"),
                                  TEXTS[i], strlen(TEXTS[i]), &error),
                  &error);
        expect_refused(BASE_ERR_INVALID, "model.safetensors.index.json");
    }
}

static void a_missing_or_damaged_file_is_named(void **state)
{
    (void)state;
    json_decref(cut_model());
    assert_int_equal(remove(test_directory_path(&scratch, NAMES[2])), 0);
    expect_refused(BASE_ERR_NOTFOUND, NAMES[2]);
    json_decref(cut_model());
    assert_int_equal(truncate(test_directory_path(&scratch, NAMES[1]), 100), 0);
    expect_refused(BASE_ERR_INVALID, NAMES[1]);
}

/* At any place of any tensor. What a training has saved of itself may have them. */
static void values_that_are_not_finite_are_refused(void **state)
{
    (void)state;
    static const float VALUES[] = {NAN, -NAN, INFINITY, -INFINITY};
    float *back = calloc(count, sizeof *back);
    assert_non_null(back);
    for (size_t at = 0; at < count; at++) {
        base_error error;
        rank_shards *shards = NULL;
        rank_tensor tensor = {.count = 0};
        const float before = params[at];
        params[at] = VALUES[at % 4];
        assert_ok(rank_safetensors_write(whole, &SMALL, params, "", RANK_FLOAT32, &error), &error);
        params[at] = before;
        for (int i = 0; at >= tensor.offset + tensor.count; i++) {
            rank_model_tensor(&SMALL, i, &tensor);
        }
        assert_status(rank_safetensors_read(whole, &SMALL, back, &error), BASE_ERR_INVALID);
        assert_non_null(strstr(error.message, whole));
        assert_non_null(strstr(error.message, tensor.name));
        assert_status(try_load(whole, &shards, &error), BASE_ERR_INVALID);
        assert_non_null(strstr(error.message, whole));
        assert_non_null(strstr(error.message, tensor.name));
        assert_ok(rank_safetensors_read_saved(whole, &SMALL, back, &error), &error);
        assert_false(isfinite(back[at]));
    }
    free(back);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(several_files_are_one_checkpoint, make_paths,
                                        remove_scratch),
        cmocka_unit_test_setup_teardown(an_index_that_is_not_true_is_refused, make_paths,
                                        remove_scratch),
        cmocka_unit_test_setup_teardown(a_missing_or_damaged_file_is_named, make_paths,
                                        remove_scratch),
        cmocka_unit_test_setup_teardown(values_that_are_not_finite_are_refused, make_paths,
                                        remove_scratch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
