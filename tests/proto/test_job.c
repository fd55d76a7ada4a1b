/* proto/job.h: JOB.json read and written canonically, its limits, and its paths. */
#include "proto/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "job_set.h"
#include "support.h"

static char *default_text(void)
{
    base_error error;
    proto_job job;
    char *text = NULL;
    size_t text_bytes = 0;
    proto_job_defaults(&job);
    assert_ok(proto_job_write(&job, "", &text, &text_bytes, &error), &error);
    assert_int_equal(text_bytes, strlen(text));
    return text;
}

static base_status parse_alone(const char *text, base_error *error)
{
    proto_job job;
    return proto_job_parse(text, strlen(text), &job, error);
}

static void a_job_comes_back(void **state)
{
    (void)state;
    base_error error;
    proto_job job;
    proto_job parsed;
    char *text = NULL;
    size_t text_bytes = 0;
    proto_job_defaults(&job);
    job.train.learning_rate = 0.1; /* not exact in binary */
    job.infer.eval = true;
    job.job.seed = INT64_C(4503599627370496);
    (void)snprintf(job.data.train, sizeof job.data.train, "/data/é \"x\".jsonl");
    (void)snprintf(job.infer.prompts, sizeof job.infer.prompts, "below/the root.jsonl");
    assert_ok(proto_job_write(&job, "", &text, &text_bytes, &error), &error);
    assert_ok(proto_job_parse(text, text_bytes, &parsed, &error), &error);

    char *again = NULL;
    assert_true(parsed.train.learning_rate == 0.1);
    assert_true(parsed.infer.eval);
    assert_true(parsed.job.seed == job.job.seed);
    assert_string_equal(parsed.data.train, job.data.train);
    assert_string_equal(parsed.infer.prompts, "below/the root.jsonl");
    assert_ok(proto_job_write(&parsed, "", &again, &text_bytes, &error), &error);
    assert_string_equal(again, text);
    free(again);
    free(text);
}

static void the_text_is_canonical(void **state)
{
    (void)state;
    char *text = default_text();
    assert_null(strchr(text, ' '));
    assert_null(strchr(text, '\n'));
    static const char begins[] =
        "{\"data\":{\"heldout\":\"\",\"heldout_sha256\":\"\",\"loss_on\":\"correction\",";
    assert_true(strncmp(text, begins, sizeof begins - 1) == 0);
    assert_non_null(strstr(text, "\"job\":{\"mode\":\"ddp-cpu\",\"seed\":35000,\"version\":2,"
                                 "\"world_size\":2},"));
    free(text);
}

static void errors_name_what_is_wrong(void **state)
{
    (void)state;
    static const test_change changes[] = {
        {"\"batch\":16", "\"batch\":0", "batch"},
        {"\"batch\":16", "\"batch\":\"16\"", "batch"},
        {"\"batch\":16", "\"batch\":16.5", "batch"},
        {"\"batch\":16", "\"batch\":65536,\"batch\":1", "batch"},
        {"\"batch\":16,", "", "\"train.batch\" is missing"},
        {"\"batch\":16", "\"batches\":16", "batches"},
        {"\"beta1\":0.9", "\"beta1\":1.0", "beta1"},
        {"\"epsilon\":", "\"epsilon\":0.0,\"x\":", "x"},
        {"\"heads\":4", "\"heads\":3", "multiple of model.heads 3"},
        {"\"context\":64", "\"context\":65536,\"a\":1", "a"},
        {"\"mode\":\"ddp-cpu\"", "\"mode\":\"magic\"", "'magic'"},
        {"\"mode\":\"ddp-cpu\"", "\"mode\":\"ddp\"", "'ddp'"},
        {"\"mode\":\"ddp-cpu\"", "\"mode\":\"ddp-tpu\"", "'ddp-tpu'"},
        {"\"directory\":\"\"", "\"directory\":\"../elsewhere\"",
         "output.directory: '../elsewhere'"},
        {"\"version\":2,", "", "key \"job.version\" is missing"},
        {"\"version\":2", "\"version\":3", "job.version: 3: must be 2"},
        {"\"version\":2", "\"version\":2,\"steps\":100", "unknown key \"job.steps\""},
        {"{\"data\"", "{\"steps\":100,\"data\"", "unknown key \"steps\""},
        {"{\"data\"", "{\"train.steps\":100,\"data\"", "unknown key \"train.steps\""},
        {"\"output\":{\"directory\":\"\"}", "\"output\":\"\"", "output must be an object"},
        {"\"output\":{\"directory\":\"\"},", "", "\"output.directory\" is missing"},
        {"\"baseline\":false", "\"baseline\":true", "infer.baseline"},
        {"\"temperature\":0.0", "\"temperature\":-1.0", "infer.temperature"},
        {"\"temperature\":0.0", "\"temperature\":0.0001", "infer.temperature 0.0001"},
        {"\"temperature\":0.0", "\"temperature\":1001.0", "infer.temperature"},
        {"\"top_p\":1.0", "\"top_p\":0.0", "infer.top_p"},
        {"\"top_p\":1.0", "\"top_p\":1.5", "infer.top_p"},
        {"\"top_p\":1.0", "\"top_p\":0.5", "infer.top_p without infer.temperature"},
        {"\"top_k\":0", "\"top_k\":1025", "infer.top_k"},
        {"\"top_k\":0", "\"top_k\":3", "infer.top_k without infer.temperature"},
        {"\"sampling_seed\":0", "\"sampling_seed\":-1", "infer.sampling_seed"},
        {"\"eval\":false", "\"eval\":0", "eval"},
        {"\"steps\":100", "\"steps\":9223372036854775808", "JOB.json"},
        {"\"world_size\":2", "\"world_size\":4097", "world_size"},
        {"}", "", "JOB.json"},
        {"}", "} x", "JOB.json"},
    };
    char *text = default_text();
    test_changes_are_refused(text, changes, sizeof changes / sizeof changes[0], parse_alone);
    free(text);
}

/* How many checkpoints are kept may be left open, but none cannot be kept. */
static void zero_is_no_value_where_it_means_absent(void **state)
{
    (void)state;
    proto_job job;
    base_error error;
    proto_job_defaults(&job);
    assert_int_equal(job.train.keep, 0);
    assert_ok(proto_job_check(&job, &error), &error);
    assert_status(test_job_set(&job, "train.keep", "0", &error), BASE_ERR_INVALID);
    assert_ok(test_job_set(&job, "train.keep", "1", &error), &error);
}

static proto_job job_of_stages(int ranks, int stages, int tensor)
{
    proto_job job;
    proto_job_defaults(&job);
    job.job.mode = PROTO_MODE_PP_CPU;
    job.job.world_size = ranks;
    job.parallel.stages = stages;
    job.parallel.tensor = tensor;
    return job;
}

/* Ranks in a row share a stage, then come the other stages of their pipeline. */
static void each_rank_has_a_place(void **state)
{
    (void)state;
    base_error error;
    const proto_job job = job_of_stages(8, 2, 2);
    assert_ok(proto_job_check(&job, &error), &error);
    assert_int_equal(proto_job_replicas(&job), 2);
    for (int rank = 0; rank < 8; rank++) {
        const proto_place place = proto_job_place(&job, rank);
        assert_int_equal(place.part, rank % 2);
        assert_int_equal(place.stage, rank / 2 % 2);
        assert_int_equal(place.replica, rank / 4);
    }
    const proto_job one = job_of_stages(8, 0, 4);
    assert_ok(proto_job_check(&one, &error), &error);
    assert_int_equal(proto_job_stages(&one), 2);
    assert_int_equal(proto_job_replicas(&one), 1);
    assert_int_equal(proto_job_place(&one, 7).stage, 1);
    assert_int_equal(proto_job_place(&one, 7).part, 3);
}

/* What has one chunk on each stage is not interleaved. */
static void the_schedule_of_a_job(void **state)
{
    static const struct {
        int ranks, stages, chunks;
        proto_pipeline schedule;
    } cases[] = {
        {4, 2, 0, {PROTO_PIPELINE_INTERLEAVED, 2, 2, 6}},
        {2, 0, 4, {PROTO_PIPELINE_INTERLEAVED, 2, 4, 6}},
        {3, 0, 2, {PROTO_PIPELINE_INTERLEAVED, 3, 2, 6}},
        {2, 0, 1, {PROTO_PIPELINE_1F1B, 2, 1, 6}},
        {2, 1, 4, {PROTO_PIPELINE_1F1B, 1, 1, 6}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        base_error error;
        proto_job job = job_of_stages(cases[i].ranks, cases[i].stages, 0);
        job.model.layers = 8;
        job.train.micro_batches = 6;
        job.parallel.pipeline = PROTO_PIPELINE_INTERLEAVED;
        job.parallel.chunks = cases[i].chunks;
        assert_ok(proto_job_check(&job, &error), &error);
        const proto_pipeline made = proto_job_pipeline(&job);
        assert_int_equal(made.kind, cases[i].schedule.kind);
        assert_int_equal(made.stages, cases[i].schedule.stages);
        assert_int_equal(made.chunks, cases[i].schedule.chunks);
        assert_int_equal(made.micro_batches, cases[i].schedule.micro_batches);
    }
    base_error error;
    proto_job job = job_of_stages(4, 0, 0);
    job.model.layers = 8;
    job.train.micro_batches = 6;
    job.parallel.pipeline = PROTO_PIPELINE_INTERLEAVED;
    assert_status(proto_job_check(&job, &error), BASE_ERR_INVALID);
    assert_has(error.message, "train.micro_batches 6 must be a multiple of the 4 stages");
    job.train.micro_batches = 8;
    job.parallel.chunks = 3;
    assert_status(proto_job_check(&job, &error), BASE_ERR_INVALID);
    assert_has(error.message, "parallel.chunks 3: each chunk of the 4 stages has a layer at least");
    job.parallel.pipeline = PROTO_PIPELINE_GPIPE;
    assert_status(proto_job_check(&job, &error), BASE_ERR_INVALID);
    assert_has(error.message, "parallel.chunks 3 goes with parallel.pipeline interleaved");
}

/* A default model has 4 heads, a width of 128 and 512 tokens. */
static void ranks_share_what_can_be_cut(void **state)
{
    static const struct {
        int ranks, stages, tensor;
        int width, heads, vocab_size; /* 0: as it is */
        const char *message;          /* NULL: it can be cut */
    } cases[] = {
        {2, 0, 2, 0, 0, 0, NULL},
        {4, 1, 4, 0, 0, 0, NULL},
        {16, 1, 16, 256, 16, 0, NULL},
        {2, 1, 1, 127, 1, 0, NULL}, /* nothing is cut */
        {3, 0, 3, 0, 0, 0, "parallel.tensor 3: must be 1, 2, 4, 8 or 16"},
        {17, 0, 17, 0, 0, 0, "parallel.tensor: 17: must be a whole number from 0 to 16"},
        {8, 1, 8, 0, 0, 0,
         "parallel.tensor 8: a model of 4 heads cannot be cut between 8 ranks; it can between "
         "1, 2, 4"},
        {8, 1, 8, 80, 8, 0,
         "parallel.tensor 8: a model of width 80, whose MLP is cut by 16 columns, cannot be cut "
         "between 8 ranks; it can between "
         "1, 2, 4"},
        {2, 1, 2, 90, 2, 0,
         "parallel.tensor 2: a model of width 90, whose MLP is cut by 16 columns, cannot be cut "
         "between 2 ranks; it can between 1"},
        {4, 1, 4, 0, 0, 384,
         "parallel.tensor 4: a vocabulary of 384 tokens cannot be cut between 4 ranks; it can "
         "between 1, 2"},
        {6, 0, 4, 0, 0, 0, "parallel.tensor 4 does not divide job.world_size 6"},
        {8, 3, 2, 0, 0, 0,
         "parallel.stages 3 times parallel.tensor does not divide job.world_size 8"},
        {8, 0, 2, 0, 0, 0, "job.world_size / parallel.tensor 4: each stage has a layer at least"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        base_error error = {.message = ""};
        proto_job job = job_of_stages(cases[i].ranks, cases[i].stages, cases[i].tensor);
        job.model.width = cases[i].width > 0 ? cases[i].width : job.model.width;
        job.model.heads = cases[i].heads > 0 ? cases[i].heads : job.model.heads;
        job.model.vocab_size = cases[i].vocab_size > 0 ? cases[i].vocab_size : job.model.vocab_size;
        const base_status status = proto_job_check(&job, &error);
        if (status != (cases[i].message == NULL ? BASE_OK : BASE_ERR_INVALID) ||
            (cases[i].message != NULL && strstr(error.message, cases[i].message) == NULL)) {
            fail_msg("case %zu: %s", i, error.message);
        }
    }
}

/* Each rank has an id at least. Of 16 leaves of 32 ids the last four begin at 384. */
static void each_rank_has_a_part_of_the_vocabulary(void **state)
{
    (void)state;
    for (int vocab_size = 2; vocab_size <= 600; vocab_size++) {
        base_error error = {.message = ""};
        proto_job job = job_of_stages(4, 1, 4);
        job.model.vocab_size = vocab_size;
        const int leaf = vocab_size <= 512 ? 32 : 64;
        const bool fits = vocab_size > 12 * leaf;
        assert_status(proto_job_check(&job, &error), fits ? BASE_OK : BASE_ERR_INVALID);
    }
    base_error error = {.message = ""};
    proto_job job = job_of_stages(4, 1, 4);
    job.model.vocab_size = 384;
    /* of a checkpoint's model only the rank knows what its heads and its MLP are */
    (void)snprintf(job.model.checkpoint, sizeof job.model.checkpoint, "/models/some");
    job.model.heads = 3;
    assert_status(proto_job_check(&job, &error), BASE_ERR_INVALID);
    assert_has(error.message, "parallel.tensor 4: a vocabulary of 384 tokens cannot be cut between "
                              "4 ranks; it can between 1, 2");
    job.model.vocab_size = 385;
    assert_ok(proto_job_check(&job, &error), &error);
}

static void expect_gpu_job(const char *key, const char *value, base_status expected)
{
    base_error error = {.message = ""};
    proto_job job;
    proto_job_defaults(&job);
    job.job.mode = PROTO_MODE_DDP_NCCL;
    assert_ok(test_job_set(&job, key, value, &error), &error);
    if (proto_job_check(&job, &error) != expected) {
        fail_msg("%s %s: %s", key, value, error.message);
    }
    job.job.mode = PROTO_MODE_DDP_CPU; /* which has no GPUs */
    const bool of_both = strcmp(value, "direct") == 0 || strcmp(value, "ring") == 0;
    assert_status(proto_job_check(&job, &error), of_both ? BASE_OK : BASE_ERR_INVALID);
}

static void modes_on_gpus_have_fields_of_their_own(void **state)
{
    (void)state;
    expect_gpu_job("gpu.devices", "0", BASE_OK);
    expect_gpu_job("gpu.devices", "3,0,GPU-8d5c0f9e-0001-0203-0405-060708090a0b", BASE_OK);
    expect_gpu_job("gpu.devices", "0,", BASE_ERR_INVALID);
    expect_gpu_job("gpu.devices", ",0", BASE_ERR_INVALID);
    expect_gpu_job("gpu.devices", "0,1,0", BASE_ERR_INVALID);
    expect_gpu_job("gpu.devices", "0;1", BASE_ERR_INVALID);
    expect_gpu_job("gpu.exact", "true", BASE_OK);
    expect_gpu_job("gpu.precision", "tf32", BASE_OK);
    expect_gpu_job("gpu.precision", "bfloat16", BASE_OK);
    expect_gpu_job("gpu.nccl_native", "true", BASE_OK);
    expect_gpu_job("gpu.shared", "true", BASE_ERR_INVALID); /* 100 steps */
    expect_gpu_job("parallel.algorithm", "native", BASE_OK);
    expect_gpu_job("parallel.algorithm", "direct", BASE_OK);
    expect_gpu_job("parallel.algorithm", "ring", BASE_ERR_INVALID);
}

static void exact_products_have_float32_only(void **state)
{
    (void)state;
    base_error error;
    proto_job job;
    proto_job_defaults(&job);
    job.job.mode = PROTO_MODE_DDP_NCCL;
    job.gpu.exact = true;
    assert_ok(proto_job_check(&job, &error), &error);
    job.gpu.precision = PROTO_PRECISION_TF32;
    assert_status(proto_job_check(&job, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.message, "--precision"));
    assert_non_null(strstr(error.message, "--exact"));
}

static void each_rank_has_its_gpu(void **state)
{
    (void)state;
    base_error error;
    proto_job job;
    char device[PROTO_DEVICE_BYTES];
    proto_job_defaults(&job);
    job.job.mode = PROTO_MODE_DDP_NCCL;
    assert_int_equal(proto_job_device_count(&job), 0);
    proto_job_device(&job, 3, device);
    assert_string_equal(device, "3");
    assert_ok(test_job_set(&job, "gpu.devices", "2,GPU-0a,1", &error), &error);
    assert_int_equal(proto_job_device_count(&job), 3);
    proto_job_device(&job, 0, device);
    assert_string_equal(device, "2");
    proto_job_device(&job, 1, device);
    assert_string_equal(device, "GPU-0a");
    proto_job_device(&job, 2, device);
    assert_string_equal(device, "1");
    assert_ok(proto_job_check_devices(&job, 3, &error), &error);
    assert_status(proto_job_check_devices(&job, 4, &error), BASE_ERR_INVALID);
    job.gpu.shared = true;
    proto_job_device(&job, 2, device);
    assert_string_equal(device, "2");
    assert_ok(proto_job_check_devices(&job, 4, &error), &error);
}

static void limits_are_enforced_on_both_sides(void **state)
{
    (void)state;
    base_error error;
    proto_job job;
    char *text = NULL;
    size_t text_bytes = 0;
    proto_job_defaults(&job);
    job.train.batch = 65536;
    job.model.context = 65536; /* each in range, together too many tokens */
    assert_status(proto_job_write(&job, "", &text, &text_bytes, &error), BASE_ERR_INVALID);
    proto_job_defaults(&job);
    memcpy(job.data.train, "/\xff", 3);
    assert_status(proto_job_write(&job, "", &text, &text_bytes, &error), BASE_ERR_INVALID);

    char *big = calloc(1, PROTO_JOB_BYTES_MAX + 1);
    assert_non_null(big);
    assert_status(proto_job_parse(big, PROTO_JOB_BYTES_MAX + 1, &job, &error), BASE_ERR_LIMIT);
    free(big);
}

static void a_field_is_set_from_a_text(void **state)
{
    (void)state;
    base_error error;
    proto_job job;
    proto_job_defaults(&job);
    assert_ok(test_job_set(&job, "train.steps", "7", &error), &error);
    assert_ok(test_job_set(&job, "train.learning_rate", "1e-3", &error), &error);
    assert_ok(test_job_set(&job, "parallel.transport", "zmq", &error), &error);
    assert_ok(test_job_set(&job, "infer.eval", "true", &error), &error);
    assert_int_equal(job.train.steps, 7);
    assert_true(job.train.learning_rate == 1e-3);
    assert_int_equal(job.parallel.transport, PROTO_TRANSPORT_ZMQ);
    assert_true(job.infer.eval);

    static const char *const wrong[][2] = {
        {"train.steps", "7x"},
        {"train.steps", ""},
        {"train.steps", "0"},
        {"train.steps", "1e3"},
        {"train.steps", "99999999999999999999"},
        {"train.learning_rate", "x"},
        {"train.beta1", "1"},
        {"train.clip_norm", "nan"},
        {"train.clip_norm", "inf"},
        {"parallel.transport", "udp"},
        {"parallel.tcp_auth", "none"},
        {"infer.eval", "yes"},
        {"output.directory", ""},
        {"job.mode", "ddp-tpu"},
        {"job.version", "1"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        if (test_job_set(&job, wrong[i][0], wrong[i][1], &error) != BASE_ERR_INVALID) {
            fail_msg("%s = '%s' was accepted", wrong[i][0], wrong[i][1]);
        }
    }
}

/* A path below the root is written relative to it, and found below another root. */
static void paths_follow_the_root(void **state)
{
    (void)state;
    base_error error;
    proto_job job;
    proto_job parsed;
    char *text = NULL;
    size_t text_bytes = 0;
    proto_job_defaults(&job);
    (void)snprintf(job.data.train, sizeof job.data.train, "/srv/data/train.jsonl");
    (void)snprintf(job.data.heldout, sizeof job.data.heldout, "/srv2/heldout.jsonl");
    (void)snprintf(job.output.directory, sizeof job.output.directory, "/srv");
    assert_ok(proto_job_write(&job, "/srv", &text, &text_bytes, &error), &error);
    assert_ok(proto_job_parse(text, text_bytes, &parsed, &error), &error);
    assert_string_equal(parsed.data.train, "data/train.jsonl");
    assert_string_equal(parsed.data.heldout, "/srv2/heldout.jsonl");
    assert_string_equal(parsed.output.directory, "/srv");
    assert_string_equal(parsed.data.tokenizer, "");
    free(text);

    proto_job unrooted = parsed;
    assert_status(proto_job_resolve(&unrooted, "", &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.message, "data.train is data/train.jsonl"));
    assert_status(proto_job_resolve(&unrooted, "relative", &error), BASE_ERR_INVALID);
    assert_ok(proto_job_resolve(&parsed, "/elsewhere", &error), &error);
    assert_string_equal(parsed.data.train, "/elsewhere/data/train.jsonl");
    assert_string_equal(parsed.data.heldout, "/srv2/heldout.jsonl");
    assert_string_equal(parsed.data.tokenizer, "");
}

/* The seeds of the fuzzer are jobs that parse. */
static void the_corpus_is_read(void **state)
{
    (void)state;
    static const char *const seeds[] = {CORPUS "/every_key_bench_nccl",
                                        CORPUS "/every_key_ddp_nccl",
                                        CORPUS "/every_key_pp_cpu",
                                        CORPUS "/every_key_requests",
                                        CORPUS "/every_key_tp_cpu",
                                        CORPUS "/every_key_zero",
                                        CORPUS "/gate_check",
                                        CORPUS "/stages",
                                        CORPUS "/train"};
    for (size_t i = 0; i < sizeof seeds / sizeof seeds[0]; i++) {
        base_error error;
        proto_job job;
        void *text = NULL;
        size_t text_bytes = 0;
        assert_ok(base_file_read(seeds[i], PROTO_JOB_BYTES_MAX, &text, &text_bytes, &error),
                  &error);
        if (proto_job_parse(text, text_bytes, &job, &error) != BASE_OK) {
            fail_msg("%s: %s", seeds[i], error.message);
        }
        free(text);
    }
}

/* Under their keys, wherever they were before; what was not named stays so. */
static void paths_move_to_where_files_were_fetched(void **state)
{
    (void)state;
    static proto_job job;
    base_error error;
    char long_directory[BASE_PATH_BYTES];
    proto_job_defaults(&job);
    (void)snprintf(job.data.train, sizeof job.data.train, "/data/train.jsonl");
    (void)snprintf(job.model.checkpoint, sizeof job.model.checkpoint, "models/train.jsonl");
    (void)snprintf(job.output.directory, sizeof job.output.directory, "out");
    (void)snprintf(job.gpu.libraries, sizeof job.gpu.libraries, "/usr/cuda");
    assert_ok(proto_job_relocate(&job, "/cache/runs/1", &error), &error);
    assert_string_equal(job.data.train, "/cache/runs/1/data.train/train.jsonl");
    assert_string_equal(job.model.checkpoint, "/cache/runs/1/model.checkpoint/train.jsonl");
    assert_string_equal(job.output.directory, "/cache/runs/1/output.directory/out");
    assert_string_equal(job.gpu.libraries, "/usr/cuda");
    assert_string_equal(job.data.heldout, "");
    memset(long_directory, 'a', sizeof long_directory - 1);
    long_directory[sizeof long_directory - 1] = '\0';
    assert_status(proto_job_relocate(&job, long_directory, &error), BASE_ERR_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_comes_back),
        cmocka_unit_test(the_text_is_canonical),
        cmocka_unit_test(errors_name_what_is_wrong),
        cmocka_unit_test(a_field_is_set_from_a_text),
        cmocka_unit_test(zero_is_no_value_where_it_means_absent),
        cmocka_unit_test(each_rank_has_a_place),
        cmocka_unit_test(the_schedule_of_a_job),
        cmocka_unit_test(ranks_share_what_can_be_cut),
        cmocka_unit_test(each_rank_has_a_part_of_the_vocabulary),
        cmocka_unit_test(modes_on_gpus_have_fields_of_their_own),
        cmocka_unit_test(exact_products_have_float32_only),
        cmocka_unit_test(each_rank_has_its_gpu),
        cmocka_unit_test(limits_are_enforced_on_both_sides),
        cmocka_unit_test(paths_follow_the_root),
        cmocka_unit_test(paths_move_to_where_files_were_fetched),
        cmocka_unit_test(the_corpus_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
