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
    memcpy(job.data.chat_date, "2026-11-30T09:05", PROTO_CHAT_DATE_BYTES);
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
    assert_string_equal(parsed.data.chat_date, "2026-11-30T09:05");
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
        {"\"top_p\":1.0", "\"min_p\":0.5,\"top_p\":1.0", "infer.min_p without infer.temperature"},
        {"\"top_p\":1.0", "\"min_p\":1.5,\"top_p\":1.0", "infer.min_p"},
        {"\"top_p\":1.0", "\"presence_penalty\":2.5,\"top_p\":1.0", "infer.presence_penalty"},
        {"\"top_p\":1.0", "\"frequency_penalty\":-3.0,\"top_p\":1.0", "infer.frequency_penalty"},
        {"\"repetition_penalty\":1.0", "\"repetition_penalty\":0.0", "infer.repetition_penalty"},
        {"\"top_k\":0", "\"top_k\":1025", "infer.top_k"},
        {"\"top_k\":0", "\"top_k\":3", "infer.top_k without infer.temperature"},
        {"\"sampling_seed\":0", "\"sampling_seed\":-1", "infer.sampling_seed"},
        {"\"eval\":false", "\"eval\":0", "eval"},
        {"\"heldout\":\"\"", "\"chat_date\":\"today\",\"heldout\":\"\"", "data.chat_date"},
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

/* A date is typed in several forms, and written in one. */
static void a_chat_date_is_a_day_that_there_is(void **state)
{
    (void)state;
    static const char *const typed[][2] = {
        {"2026-11-30", "2026-11-30T00:00"},       {"2026-11-30T09:05", "2026-11-30T09:05"},
        {"2024-02-29", "2024-02-29T00:00"},       {"1000-01-01", "1000-01-01T00:00"},
        {"9999-12-31T23:59", "9999-12-31T23:59"}, {"1969-12-31T23:59", "1969-12-31T23:59"},
    };
    static const char *const wrong[] = {
        "",
        "2026-02-29",
        "2026-13-01",
        "2026-11-31T09:05",
        "2026-11-30T24:00",
        "2026-1-2",
        "2026-11-30T",
        "2026-11-30T09:60",
        "2026-11-30T9:05",
        "2026-11-30T09:05Z",
        "2026-11-30 ",
        " 2026-11-30",
        "0999-01-01",
        "999-01-01",
        "10000-01-01",
        "Today",
        "2026-11-30T09:05:00",
        "30.11.2026",
        "2026-11-30T09:05T00:00",
    };
    base_error error;
    char date[PROTO_CHAT_DATE_BYTES];
    struct tm when;
    for (size_t i = 0; i < sizeof typed / sizeof typed[0]; i++) {
        assert_ok(proto_chat_date_resolve(typed[i][0], date, &error), &error);
        assert_string_equal(date, typed[i][1]);
        assert_true(proto_chat_date_read(date, &when));
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_status(proto_chat_date_resolve(wrong[i], date, &error), BASE_ERR_INVALID);
        assert_false(proto_chat_date_read(wrong[i], &when));
    }
    assert_true(proto_chat_date_read("2026-11-30T09:05", &when));
    assert_int_equal(when.tm_wday, 1);
    assert_int_equal(when.tm_yday, 333);
    const time_t now = time(NULL);
    assert_ok(proto_chat_date_resolve("today", date, &error), &error);
    assert_true(proto_chat_date_read(date, &when));
    assert_int_equal(when.tm_hour, 0);
    assert_in_range(timegm(&when), now - 24 * 3600, now + 60);
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
        {"train.dropout", "1"},
        {"train.dropout", "-0.1"},
        {"train.dropout", "nan"},
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
                                        CORPUS "/every_key_local",
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
        size_t text_bytes = 0;
        void *text = test_file_read(seeds[i], &text_bytes);
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
        cmocka_unit_test(a_chat_date_is_a_day_that_there_is),
        cmocka_unit_test(a_field_is_set_from_a_text),
        cmocka_unit_test(zero_is_no_value_where_it_means_absent),
        cmocka_unit_test(limits_are_enforced_on_both_sides),
        cmocka_unit_test(paths_follow_the_root),
        cmocka_unit_test(paths_move_to_where_files_were_fetched),
        cmocka_unit_test(the_corpus_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
