/* proto/pin.h: which files a job pins by digest, and which it refuses. */
#include "proto/pin.h"

#include <endian.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/safetensors.h"
#include "support.h"

enum { HEADER_BYTES = 16, TENSOR_BYTES = 64 };

static void put(const char *name, const void *data, size_t size_bytes)
{
    base_error error;
    assert_ok(base_file_write(test_shared_path(name), data, size_bytes, &error), &error);
}

static void put_text(const char *name, const char *text)
{
    put(name, text, strlen(text));
}

/* Not a readable file of tensors, but it has a length, a header and data. */
static void put_tensors(const char *name, char header, char rest)
{
    char file[sizeof(uint64_t) + HEADER_BYTES + TENSOR_BYTES];
    const uint64_t length = htole64(HEADER_BYTES);
    memcpy(file, &length, sizeof length);
    memset(file + sizeof length, header, HEADER_BYTES);
    memset(file + sizeof length + HEADER_BYTES, rest, TENSOR_BYTES);
    put(name, file, sizeof file);
}

static void put_checkpoint(void)
{
    put_text("config.json", "{}");
    put_tensors("model.safetensors", 'h', 'r');
}

static void name_files(proto_job *job)
{
    proto_job_defaults(job);
    put_text("train.jsonl", "train");
    put_text("heldout.jsonl", "heldout");
    put_text("tokenizer.json", "tokenizer");
    put_text("prompts", "prompts");
    put_checkpoint();
    (void)snprintf(job->data.train, sizeof job->data.train, "%s", test_shared_path("train.jsonl"));
    (void)snprintf(job->data.heldout, sizeof job->data.heldout, "%s",
                   test_shared_path("heldout.jsonl"));
    (void)snprintf(job->data.tokenizer, sizeof job->data.tokenizer, "%s",
                   test_shared_path("tokenizer.json"));
    (void)snprintf(job->infer.prompts, sizeof job->infer.prompts, "%s",
                   test_shared_path("prompts"));
    (void)snprintf(job->model.checkpoint, sizeof job->model.checkpoint, "%s",
                   test_shared_directory.path);
}

static void every_file_is_pinned(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *option;
    } files[] = {
        {"train.jsonl", "--data"},         {"heldout.jsonl", "--heldout"},
        {"tokenizer.json", "--tokenizer"}, {"prompts", "--prompts"},
        {"config.json", "--checkpoint"},
    };
    static proto_job job;
    base_error error;
    name_files(&job);
    assert_ok(proto_job_check_files(&job, &error), &error); /* nothing is pinned yet */
    assert_ok(proto_job_pin(&job, PROTO_PIN_ALL, &error), &error);
    assert_ok(proto_job_check(&job, &error), &error);
    assert_ok(proto_job_check_files(&job, &error), &error);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        put_text(files[i].name, "another");
        assert_status(proto_job_check_files(&job, &error), BASE_ERR_INVALID);
        assert_int_equal(strncmp(error.message, files[i].option, strlen(files[i].option)), 0);
        assert_non_null(strstr(error.message, "is not the file that the job names"));
        name_files(&(proto_job){.job = {.version = 0}});
        assert_ok(proto_job_check_files(&job, &error), &error);
    }
}

static void small_files_are_pinned_alone(void **state)
{
    (void)state;
    static proto_job job;
    base_error error;
    name_files(&job);
    assert_ok(proto_job_pin(&job, PROTO_PIN_SMALL, &error), &error);
    assert_int_equal(job.data.train_sha256[0], '\0');
    assert_int_equal(job.data.heldout_sha256[0], '\0');
    assert_int_equal(strlen(job.data.tokenizer_sha256), PROTO_DIGEST_HEX_BYTES - 1);
    assert_int_equal(strlen(job.infer.prompts_sha256), PROTO_DIGEST_HEX_BYTES - 1);
    assert_int_equal(strlen(job.model.checkpoint_sha256), PROTO_DIGEST_HEX_BYTES - 1);
}

/* A checkpoint's digest may leave out its weights; the list of its files does not. */
static void files_are_listed_by_all_of_their_bytes(void **state)
{
    (void)state;
    static proto_job job;
    base_error error;
    proto_file *files = NULL;
    proto_file *again = NULL;
    int count = 0;
    uint8_t digest[PROTO_DIGEST_BYTES];
    name_files(&job);
    assert_ok(proto_job_pin(&job, PROTO_PIN_ALL, &error), &error);
    assert_ok(proto_job_files(&job, &files, &count, &error), &error);
    assert_int_equal(count, 6);
    assert_string_equal(files[0].key, "data.train");
    assert_string_equal(files[0].name, "");
    assert_string_equal(files[0].path, job.data.train);
    assert_int_equal(files[0].size_bytes, strlen("train"));
    proto_sha256("train", strlen("train"), digest);
    assert_memory_equal(files[0].sha256, digest, sizeof digest);
    assert_string_equal(files[4].key, "model.checkpoint");
    assert_string_equal(files[4].name, "model.safetensors");
    put_tensors("model.safetensors", 'h', 'x');
    assert_ok(proto_job_check_files(&job, &error), &error);
    assert_ok(proto_job_files(&job, &again, &count, &error), &error);
    assert_int_equal(count, 6);
    assert_memory_not_equal(again[4].sha256, files[4].sha256, sizeof digest);
    free(again);
    free(files);
    (void)snprintf(job.data.heldout, sizeof job.data.heldout, "%s", test_shared_path("nowhere"));
    assert_status(proto_job_files(&job, &again, &count, &error), BASE_ERR_NOTFOUND);
    assert_int_equal(strncmp(error.message, "--heldout: cannot read ", 23), 0);
    put_checkpoint();
}

static bool changes(proto_verify verify, const uint8_t before[PROTO_DIGEST_BYTES])
{
    base_error error;
    uint8_t digest[PROTO_DIGEST_BYTES];
    assert_ok(proto_checkpoint_digest(test_shared_directory.path, verify, digest, &error), &error);
    return memcmp(digest, before, sizeof digest) != 0;
}

static void the_index_is_what_names_the_tensors(void **state)
{
    (void)state;
    base_error error;
    uint8_t index[PROTO_DIGEST_BYTES];
    uint8_t full[PROTO_DIGEST_BYTES];
    put_checkpoint();
    assert_ok(
        proto_checkpoint_digest(test_shared_directory.path, PROTO_VERIFY_INDEX, index, &error),
        &error);
    assert_ok(proto_checkpoint_digest(test_shared_directory.path, PROTO_VERIFY_FULL, full, &error),
              &error);
    put_tensors("model.safetensors", 'h', 'x'); /* other weights of the same names and shapes */
    assert_false(changes(PROTO_VERIFY_INDEX, index));
    assert_true(changes(PROTO_VERIFY_FULL, full));
    put_tensors("model.safetensors", 'x', 'r');
    assert_true(changes(PROTO_VERIFY_INDEX, index));
    put_checkpoint();
    put_text("generation_config.json", "{}");
    assert_true(changes(PROTO_VERIFY_INDEX, index));
    (void)remove(test_shared_path("generation_config.json"));
    assert_false(changes(PROTO_VERIFY_INDEX, index));
}

static void adapters_are_pinned_by_every_byte(void **state)
{
    (void)state;
    base_error error;
    proto_job job;
    proto_file *files = NULL;
    int count = 0;
    proto_job_defaults(&job);
    (void)snprintf(job.model.adapter, sizeof job.model.adapter, "%s", test_shared_directory.path);
    put_text("adapter_config.json", "{}");
    assert_status(proto_job_pin(&job, PROTO_PIN_SMALL, &error), BASE_ERR_NOTFOUND);
    assert_non_null(strstr(error.message, "adapter_model.safetensors"));
    put_tensors("adapter_model.safetensors", 'h', 'x');
    assert_ok(proto_job_pin(&job, PROTO_PIN_SMALL, &error), &error);
    assert_ok(proto_job_check_files(&job, &error), &error);
    assert_true(proto_job_reads(&job, "model.adapter"));
    assert_ok(proto_job_files(&job, &files, &count, &error), &error);
    assert_int_equal(count, 2);
    assert_string_equal(files[1].key, "model.adapter");
    assert_string_equal(files[1].name, "adapter_model.safetensors");
    free(files);
    put_tensors("adapter_model.safetensors", 'h', 'r');
    assert_status(proto_job_check_files(&job, &error), BASE_ERR_INVALID);
    assert_int_equal(strncmp(error.message, "--adapter: ", 11), 0);
}

/* A model that drafts is a checkpoint, too. */
static void a_model_that_drafts_is_pinned(void **state)
{
    (void)state;
    base_error error;
    proto_job job;
    proto_file *files = NULL;
    int count = 0;
    proto_job_defaults(&job);
    put_checkpoint();
    (void)snprintf(job.model.draft, sizeof job.model.draft, "%s", test_shared_directory.path);
    assert_ok(proto_job_pin(&job, PROTO_PIN_SMALL, &error), &error);
    assert_int_equal(strlen(job.model.draft_sha256), PROTO_DIGEST_HEX_BYTES - 1);
    assert_true(proto_job_reads(&job, "model.draft"));
    assert_ok(proto_job_files(&job, &files, &count, &error), &error);
    assert_true(count >= 2);
    assert_string_equal(files[0].key, "model.draft");
    free(files);
    put_text("config.json", "{\"other\":1}");
    assert_status(proto_job_check_files(&job, &error), BASE_ERR_INVALID);
    assert_int_equal(strncmp(error.message, "--draft: ", 9), 0);
    put_checkpoint();
}

static void shards_count_by_the_index(void **state)
{
    (void)state;
    static const char map[] = "{\"weight_map\":{\"b\":\"2.safetensors\",\"a\":\"1.safetensors\","
                              "\"c\":\"1.safetensors\"}}";
    base_error error;
    uint8_t digest[PROTO_DIGEST_BYTES];
    put_text("config.json", "{}");
    put_text("model.safetensors.index.json", map);
    put_tensors("1.safetensors", 'h', 'r');
    assert_status(
        proto_checkpoint_digest(test_shared_directory.path, PROTO_VERIFY_INDEX, digest, &error),
        BASE_ERR_NOTFOUND);
    assert_non_null(strstr(error.message, "2.safetensors"));
    put_tensors("2.safetensors", 'i', 'r');
    assert_ok(
        proto_checkpoint_digest(test_shared_directory.path, PROTO_VERIFY_INDEX, digest, &error),
        &error);
    put_tensors("2.safetensors", 'j', 'r');
    assert_true(changes(PROTO_VERIFY_INDEX, digest));

    static const char *const wrong[] = {"{}", "x", "{\"weight_map\":{}}",
                                        "{\"weight_map\":{\"a\":7}}",
                                        "{\"weight_map\":{\"a\":\"../a\"}}"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        put_text("model.safetensors.index.json", wrong[i]);
        if (proto_checkpoint_digest(test_shared_directory.path, PROTO_VERIFY_INDEX, digest,
                                    &error) != BASE_ERR_INVALID) {
            fail_msg("accepted: %s", wrong[i]);
        }
    }
    (void)remove(test_shared_path("model.safetensors.index.json"));
}

/* With every other file that a job can have. */
static void the_largest_checkpoint_is_listed(void **state)
{
    (void)state;
    enum { OTHERS = 7 };
    static proto_job job;
    base_error error;
    proto_file *files = NULL;
    int count = 0;
    name_files(&job);
    json_t *map = json_object();
    for (int i = 0; i < BASE_SAFETENSORS_FILES_MAX; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "%d.safetensors", i);
        put_tensors(name, 'h', 'r');
        assert_int_equal(json_object_set_new(map, name, json_string(name)), 0);
    }
    json_t *index = json_pack("{s:o}", "weight_map", map);
    char *text = json_dumps(index, JSON_COMPACT);
    put_text("model.safetensors.index.json", text);
    put_text("generation_config.json", "{}");
    assert_ok(proto_job_files(&job, &files, &count, &error), &error);
    assert_int_equal(count, BASE_SAFETENSORS_FILES_MAX + OTHERS);
    free(files);
    free(text);
    json_decref(index);
    (void)remove(test_shared_path("generation_config.json"));
    (void)remove(test_shared_path("model.safetensors.index.json"));
}

static void malformed_safetensors_files_are_refused(void **state)
{
    (void)state;
    base_error error;
    uint8_t digest[PROTO_DIGEST_BYTES];
    const struct {
        uint64_t length;
        base_status status;
    } cases[] = {{htole64(UINT64_MAX), BASE_ERR_LIMIT},
                 {htole64(INT64_MAX), BASE_ERR_LIMIT},
                 {htole64(1), BASE_ERR_INVALID}};
    put_checkpoint();
    put("model.safetensors", "short", 5);
    assert_status(
        proto_checkpoint_digest(test_shared_directory.path, PROTO_VERIFY_INDEX, digest, &error),
        BASE_ERR_INVALID);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        put("model.safetensors", &cases[i].length, sizeof cases[i].length);
        assert_status(
            proto_checkpoint_digest(test_shared_directory.path, PROTO_VERIFY_INDEX, digest, &error),
            cases[i].status);
        assert_non_null(strstr(error.message, "/model.safetensors: "));
    }
    (void)remove(test_shared_path("model.safetensors"));
    assert_int_equal(mkdir(test_shared_path("model.safetensors"), 0700), 0);
    assert_status(
        proto_checkpoint_digest(test_shared_directory.path, PROTO_VERIFY_INDEX, digest, &error),
        BASE_ERR_IO);
    assert_int_equal(remove(test_shared_path("model.safetensors")), 0);
    assert_status(
        proto_checkpoint_digest(test_shared_directory.path, PROTO_VERIFY_INDEX, digest, &error),
        BASE_ERR_NOTFOUND);
}

/* Not what it writes, nor where it looks for programs. */
static void only_what_a_job_names_is_read(void **state)
{
    (void)state;
    static const char *const keys[] = {"data.train", "data.heldout", "data.tokenizer",
                                       "model.checkpoint", "infer.prompts"};
    static const char *const others[] = {"output.directory",  "gpu.libraries", "train.steps",
                                         "data.train_sha256", "data",          ""};
    static proto_job job;
    name_files(&job);
    (void)snprintf(job.output.directory, sizeof job.output.directory, "/out");
    (void)snprintf(job.gpu.libraries, sizeof job.gpu.libraries, "/cuda");
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        assert_true(proto_job_reads(&job, keys[i]));
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_false(proto_job_reads(&job, others[i]));
    }
    job.data.heldout[0] = '\0';
    assert_false(proto_job_reads(&job, "data.heldout"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_file_is_pinned),
        cmocka_unit_test(small_files_are_pinned_alone),
        cmocka_unit_test(files_are_listed_by_all_of_their_bytes),
        cmocka_unit_test(only_what_a_job_names_is_read),
        cmocka_unit_test(the_index_is_what_names_the_tensors),
        cmocka_unit_test(adapters_are_pinned_by_every_byte),
        cmocka_unit_test(a_model_that_drafts_is_pinned),
        cmocka_unit_test(shards_count_by_the_index),
        cmocka_unit_test(the_largest_checkpoint_is_listed),
        cmocka_unit_test(malformed_safetensors_files_are_refused),
    };
    return cmocka_run_group_tests(tests, test_shared_directory_make, test_shared_directory_remove);
}
