/* rank/checkpoint.h: states saved and loaded, laid out as other libraries expect, and damaged ones
 * refused. */
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/safetensors.h"
#include "checkpoint/shards.h"
#include "model/gpt2/gpt2.h"
#include "rank/checkpoint.h"
#include "small_model.h"
#include "support.h"

static void a_saved_model_reads_back(void **state)
{
    (void)state;
    static const char *const PREFIXES[] = {"", "transformer."};
    base_error error;
    float *back = calloc(count, sizeof *back);
    assert_non_null(back);
    for (size_t i = 0; i < 2; i++) {
        const char *path = test_directory_path(&scratch, "a.safetensors");
        assert_ok(rank_safetensors_write(path, &SMALL, params, PREFIXES[i], RANK_FLOAT32, &error),
                  &error);
        memset(back, 0xff, count * sizeof *back);
        assert_ok(rank_safetensors_read(path, &SMALL, back, &error), &error);
        assert_memory_equal(back, params, count * sizeof *back);
    }
    free(back);
}

/* Models with many tensors have long headers. */
static void a_long_header_is_read(void **state)
{
    (void)state;
    enum { PADDING_BYTES = 2 << 20 };
    base_error error;
    uint8_t *bytes = NULL;
    size_t size_bytes = 0;
    uint64_t header_bytes = 0;
    float *back = calloc(count, sizeof *back);
    assert_non_null(back);
    const char *path = test_directory_path(&scratch, "a.safetensors");
    assert_ok(rank_safetensors_write(path, &SMALL, params, "", RANK_FLOAT32, &error), &error);
    bytes = test_file_read(path, &size_bytes);
    memcpy(&header_bytes, bytes, sizeof header_bytes);
    const size_t data = sizeof header_bytes + header_bytes;
    uint8_t *longer = malloc(size_bytes + PADDING_BYTES);
    assert_non_null(longer);
    memset(longer, ' ', size_bytes + PADDING_BYTES);
    memcpy(longer, bytes, data);
    memcpy(longer + data + PADDING_BYTES, bytes + data, size_bytes - data);
    header_bytes += PADDING_BYTES;
    memcpy(longer, &header_bytes, sizeof header_bytes);
    assert_ok(base_file_write(path, longer, size_bytes + PADDING_BYTES, &error), &error);
    assert_ok(rank_safetensors_read(path, &SMALL, back, &error), &error);
    assert_memory_equal(back, params, count * sizeof *back);
    free(longer);
    free(bytes);
    free(back);
}

/* The bytes are as the format's other libraries want them: header padded to 8 with spaces, tensors
 * in layout order, the data our array as it lies in memory. */
static void the_file_is_laid_out_in_order(void **state)
{
    (void)state;
    base_error error;
    base_safetensors parsed;
    uint8_t *bytes = NULL;
    size_t size_bytes = 0;
    const char *path = test_directory_path(&scratch, "a.safetensors");
    assert_ok(rank_safetensors_write(path, &SMALL, params, "", RANK_FLOAT32, &error), &error);
    bytes = test_file_read(path, &size_bytes);
    assert_ok(base_safetensors_parse(bytes, size_bytes, &parsed, &error), &error);
    assert_int_equal((parsed.data - bytes) % 8, 0);
    assert_int_equal(parsed.data_bytes, count * sizeof(float));
    assert_memory_equal(parsed.data, params, parsed.data_bytes);
    assert_int_equal(parsed.count, rank_model_tensor_count(&SMALL));
    for (size_t i = 0; i < parsed.count; i++) {
        rank_tensor tensor;
        rank_model_tensor(&SMALL, (int)i, &tensor);
        assert_string_equal(parsed.tensors[i].name, tensor.name);
        assert_string_equal(parsed.tensors[i].dtype, "F32");
        assert_int_equal(parsed.tensors[i].offset_bytes, tensor.offset * sizeof(float));
    }
    assert_string_equal(parsed.tensors[0].name, "wte.weight");
    assert_string_equal(parsed.tensors[parsed.count - 1].name, "ln_f.bias");
    base_safetensors_release(&parsed);
    free(bytes);
}

static void the_same_parameters_give_the_same_bytes(void **state)
{
    (void)state;
    base_error error;
    uint8_t *bytes[2] = {NULL, NULL};
    size_t size_bytes[2] = {0, 0};
    for (size_t i = 0; i < 2; i++) {
        const char *path = test_directory_path(&scratch, i == 0 ? "a" : "b");
        assert_ok(rank_safetensors_write(path, &SMALL, params, "", RANK_FLOAT32, &error), &error);
        bytes[i] = test_file_read(path, &size_bytes[i]);
    }
    assert_int_equal(size_bytes[0], size_bytes[1]);
    assert_memory_equal(bytes[0], bytes[1], size_bytes[0]);
    free(bytes[0]);
    free(bytes[1]);
}

static void another_models_state_is_refused(void **state)
{
    (void)state;
    base_error error;
    float *back = calloc(4 * count, sizeof *back);
    const char *path = test_directory_path(&scratch, "a.safetensors");
    assert_non_null(back);
    assert_ok(rank_safetensors_write(path, &SMALL, params, "", RANK_FLOAT32, &error), &error);
    struct {
        rank_model_config config;
        const char *reason;
    } cases[] = {{SMALL, "wte.weight"},
                 {SMALL, "wpe.weight"},
                 {SMALL, "no tensor h.2.ln_1.weight in it: it has 28, the model 40"}};
    cases[0].config.vocab_size++;
    cases[1].config.context++;
    cases[2].config.layers++;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        back[0] = 42;
        assert_status(rank_safetensors_read(path, &cases[i].config, back, &error),
                      BASE_ERR_INVALID);
        assert_non_null(strstr(error.message, path));
        assert_non_null(strstr(error.message, cases[i].reason));
        assert_true(back[0] == 42); /* untouched */
    }
    free(back);
}

static void damaged_files_are_refused(void **state)
{
    (void)state;
    static const char *const CHANGES[][3] = {
        {"h.1.mlp.c_fc.bias", "h.1.mlp.c_fc.bios", "no tensor h.1.mlp.c_fc.bias"},
        {"h.1.mlp.c_fc.bias", "h.0.mlp.c_fc.bias", "duplicate"},
        {"\"F32\"", "\"I32\"", "not F32"},
        {"\"shape\":[11,8]", "\"shape\":[8,11]", "another shape"},
    };
    base_error error;
    float *back = calloc(count, sizeof *back);
    const char *path = test_directory_path(&scratch, "a.safetensors");
    assert_non_null(back);
    for (size_t i = 0; i < sizeof CHANGES / sizeof CHANGES[0]; i++) {
        assert_ok(rank_safetensors_write(path, &SMALL, params, "", RANK_FLOAT32, &error), &error);
        test_file_change(path, CHANGES[i][0], CHANGES[i][1]);
        assert_status(rank_safetensors_read(path, &SMALL, back, &error), BASE_ERR_INVALID);
        if (strstr(error.message, CHANGES[i][2]) == NULL) {
            fail_msg("\"%s\" lacks \"%s\"", error.message, CHANGES[i][2]);
        }
    }
    free(back);
}

/* Adds a float32 tensor behind the others, as another program's checkpoint might have it. */
static void append_tensor(const char *path, const char *name, const size_t shape[2],
                          const float *values)
{
    base_error error;
    uint8_t *bytes = NULL;
    size_t size_bytes = 0;
    uint64_t header_bytes = 0;
    bytes = test_file_read(path, &size_bytes);
    memcpy(&header_bytes, bytes, sizeof header_bytes);
    const size_t data_at = sizeof header_bytes + header_bytes;
    const size_t begin = size_bytes - data_at;
    const size_t end = begin + shape[0] * shape[1] * sizeof *values;
    json_t *header = json_loadb((const char *)bytes + sizeof header_bytes, header_bytes, 0, NULL);
    assert_non_null(header);
    assert_int_equal(
        json_object_set_new(header, name,
                            json_pack("{s:s, s:[I, I], s:[I, I]}", "dtype", "F32", "shape",
                                      (json_int_t)shape[0], (json_int_t)shape[1], "data_offsets",
                                      (json_int_t)begin, (json_int_t)end)),
        0);
    char *text = json_dumps(header, JSON_COMPACT);
    assert_non_null(text);
    header_bytes = strlen(text);
    uint8_t *made = malloc(sizeof header_bytes + header_bytes + end);
    assert_non_null(made);
    memcpy(made, &header_bytes, sizeof header_bytes);
    memcpy(made + sizeof header_bytes, text, header_bytes);
    memcpy(made + sizeof header_bytes + header_bytes, bytes + data_at, begin);
    memcpy(made + sizeof header_bytes + header_bytes + begin, values, end - begin);
    assert_ok(base_file_write(path, made, sizeof header_bytes + header_bytes + end, &error),
              &error);
    free(made);
    free(text);
    json_decref(header);
    free(bytes);
}

/* Old GPT-2 checkpoints carry masks, and some the tied embedding under its second name. */
static void other_programs_checkpoints_are_read(void **state)
{
    (void)state;
    base_error error;
    float *back = calloc(count, sizeof *back);
    const char *path = test_directory_path(&scratch, "a.safetensors");
    const float mask[25] = {1.0f};
    assert_non_null(back);
    assert_ok(rank_safetensors_write(path, &SMALL, params, "", RANK_FLOAT32, &error), &error);
    append_tensor(path, "h.1.attn.bias", (const size_t[]){5, 5}, mask);
    append_tensor(path, "lm_head.weight", (const size_t[]){11, 8}, params);
    assert_ok(rank_safetensors_read(path, &SMALL, back, &error), &error);
    assert_memory_equal(back, params, count * sizeof *back);
    assert_ok(rank_safetensors_write(path, &SMALL, params, "", RANK_FLOAT32, &error), &error);
    append_tensor(path, "lm_head.weight", (const size_t[]){11, 8}, params + 1);
    assert_status(rank_safetensors_read(path, &SMALL, back, &error), BASE_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "wte.weight and lm_head.weight must hold the same"));
    assert_ok(rank_safetensors_write(path, &SMALL, params, "", RANK_FLOAT32, &error), &error);
    append_tensor(path, "h.0.attn.what", (const size_t[]){5, 5}, mask);
    assert_status(rank_safetensors_read(path, &SMALL, back, &error), BASE_ERR_INVALID);
    free(back);
}

/* The reader of ranks compares in pieces: a difference in the last one counts. */
static void a_rank_compares_the_whole_tied_embedding(void **state)
{
    enum { VOCAB = 2100, WIDTH = 8 }; /* 67 KB: more than a piece */
    (void)state;
    base_error error;
    rank_device device;
    rank_shards *shards = NULL;
    rank_model_config config = SMALL;
    const char *path = test_directory_path(&scratch, "tied.safetensors");
    config.vocab_size = VOCAB;
    const int32_t leaf = rank_tp_leaf_width(VOCAB);
    const rank_tp alone = {.ranks = 1, .vocab_count = rank_tp_first_leaf(1, 1) * leaf};
    float *values = malloc(rank_model_param_count(&config) * sizeof *values);
    assert_non_null(values);
    rank_model_init(&config, 7, values);
    assert_ok(rank_device_open("cpu", &device, &error), &error);
    const rank_shards_options options = {
        .config = &config, .device = &device, .tp = &alone, .type = RANK_FLOAT32};
    for (int other = 0; other < 2; other++) {
        assert_ok(rank_safetensors_write(path, &config, values, "", RANK_FLOAT32, &error), &error);
        values[VOCAB * WIDTH - 1] += (float)other; /* the embedding comes first */
        append_tensor(path, "lm_head.weight", (const size_t[]){VOCAB, WIDTH}, values);
        assert_status(rank_shards_load(&options, path, &shards, &error),
                      other == 0 ? BASE_OK : BASE_ERR_UNSUPPORTED);
        rank_shards_destroy(shards);
    }
    rank_device_close(&device);
    free(values);
}

static void every_truncated_file_is_refused(void **state)
{
    (void)state;
    static const rank_model_config TINY = {
        .family = &rank_gpt2, .vocab_size = 2, .width = 1, .layers = 1, .heads = 1, .context = 1};
    base_error error;
    float few[64];
    struct stat info;
    const char *path = test_directory_path(&scratch, "tiny");
    assert_true(rank_model_param_count(&TINY) <= 64);
    rank_model_init(&TINY, 1, few);
    assert_ok(rank_safetensors_write(path, &TINY, few, "", RANK_FLOAT32, &error), &error);
    assert_int_equal(stat(path, &info), 0);
    for (off_t size = info.st_size - 1; size >= 0; size--) {
        assert_int_equal(truncate(path, size), 0);
        assert_status(rank_safetensors_read(path, &TINY, few, &error), BASE_ERR_INVALID);
    }
}

static void a_full_disk_leaves_the_old_state(void **state)
{
    (void)state;
    base_error error;
    struct rlimit before;
    struct stat info;
    const char *path = test_directory_path(&scratch, "a.safetensors");
    assert_ok(rank_safetensors_write(path, &SMALL, params, "", RANK_FLOAT32, &error), &error);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit small = {.rlim_cur = 1024, .rlim_max = before.rlim_max};
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const base_status status =
        rank_safetensors_write(path, &SMALL, params, "transformer.", RANK_FLOAT32, &error);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(status, BASE_ERR_IO);
    assert_non_null(strstr(error.message, path));
    const off_t old_size = info.st_size;
    assert_int_equal(stat(path, &info), 0);
    assert_true(info.st_size == old_size);
    assert_int_not_equal(stat(test_directory_path(&scratch, "a.safetensors.tmp"), &info), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_saved_model_reads_back, make_scratch, remove_scratch),
        cmocka_unit_test_setup_teardown(a_long_header_is_read, make_scratch, remove_scratch),
        cmocka_unit_test_setup_teardown(the_file_is_laid_out_in_order, make_scratch,
                                        remove_scratch),
        cmocka_unit_test_setup_teardown(the_same_parameters_give_the_same_bytes, make_scratch,
                                        remove_scratch),
        cmocka_unit_test_setup_teardown(another_models_state_is_refused, make_scratch,
                                        remove_scratch),
        cmocka_unit_test_setup_teardown(damaged_files_are_refused, make_scratch, remove_scratch),
        cmocka_unit_test_setup_teardown(other_programs_checkpoints_are_read, make_scratch,
                                        remove_scratch),
        cmocka_unit_test_setup_teardown(a_rank_compares_the_whole_tied_embedding, make_scratch,
                                        remove_scratch),
        cmocka_unit_test_setup_teardown(every_truncated_file_is_refused, make_scratch,
                                        remove_scratch),
        cmocka_unit_test_setup_teardown(a_full_disk_leaves_the_old_state, make_scratch,
                                        remove_scratch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
