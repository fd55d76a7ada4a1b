/* record/record.h: timings, manifest, figures computed by hand, and disks that fill up. */
#include "record/record.h"

#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "sample.h"
#include "support.h"

static json_t *load(const char *directory, const char *name)
{
    char path[BASE_PATH_BYTES];
    json_error_t flaw;
    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    json_t *object = json_load_file(path, JSON_REJECT_DUPLICATES, &flaw);
    if (object == NULL) {
        fail_msg("%s: %s", path, flaw.text);
    }
    return object;
}

/* The record of a made-up run: its manifest, which the caller releases. */
static json_t *manifest_of(sample *made, uint64_t steps)
{
    sample_write(made, steps);
    return load(made->options.out, "manifest.json");
}

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value)) {
        fail_msg("%s is no number", key);
    }
    return json_number_value(value);
}

static void assert_near(double value, double expected)
{
    if (!(fabs(value - expected) <= 1e-6 * fabs(expected))) {
        fail_msg("%.9g, expected %.9g", value, expected);
    }
}

static void every_step_is_a_line(void **state)
{
    (void)state;
    static sample made;
    test_directory scratch;
    base_error error;
    void *text = NULL;
    size_t text_bytes = 0;
    size_t lines = 0;
    test_directory_make(&scratch);
    sample_make(&made, test_directory_path(&scratch, "out"), 2, 20);
    sample_write(&made, 20);
    assert_ok(base_file_read(test_directory_path(&scratch, "out/timings.jsonl"), 1 << 20, &text,
                             &text_bytes, &error),
              &error);
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        json_t *row = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
        assert_non_null(row);
        const launch_step step = sample_step(&made, lines / 2, (int)(lines % 2));
        assert_near(number(row, "step"), (double)step.step);
        assert_near(number(row, "rank"), step.rank);
        assert_near(number(row, "loss"), step.loss);
        assert_near(number(row, "loss_global"), step.loss_global);
        assert_near(number(row, "tokens"), (double)step.tokens);
        assert_near(number(row, "compute_ms") * 1e6, (double)step.compute_ns);
        assert_near(number(row, "compute_cpu_ms") * 1e6, (double)step.compute_cpu_ns);
        assert_near(number(row, "allreduce_ms") * 1e6, (double)step.allreduce_ns);
        assert_near(number(row, "allreduce_exposed_ms") * 1e6, (double)step.allreduce_exposed_ns);
        assert_near(number(row, "optimizer_ms") * 1e6, (double)step.optimizer_ns);
        assert_near(number(row, "step_ms") * 1e6, (double)step.step_ns);
        assert_near(number(row, "bytes_sent"), (double)step.bytes_sent);
        assert_near(number(row, "epoch"), (double)step.epoch);
        assert_near(number(row, "learning_rate"), step.learning_rate);
        assert_near(number(row, "grad_norm"), step.grad_norm);
        json_decref(row);
        lines++;
    }
    assert_int_equal(lines, 40);
    free(text);
    test_directory_remove(&scratch);
}

static const struct {
    const char *key;
    json_type type;
} FIELDS[] = {
    {"seed", JSON_INTEGER},
    {"lab", JSON_STRING},
    {"backend", JSON_STRING},
    {"world_size", JSON_INTEGER},
    {"model_params", JSON_INTEGER},
    {"steps", JSON_INTEGER},
    {"allreduce_p50_ms", JSON_REAL},
    {"allreduce_p95_ms", JSON_REAL},
    {"tokens_per_sec_1proc", JSON_REAL},
    {"tokens_per_sec_2proc", JSON_REAL},
    {"byte_equivalent", JSON_TRUE},
    {"lesson_notes", JSON_STRING},
    {"argv", JSON_ARRAY},
    {"git_commit", JSON_STRING},
    {"compiler", JSON_STRING},
    {"compiler_flags", JSON_STRING},
    {"host", JSON_STRING},
    {"kernel", JSON_STRING},
    {"cpus_allowed", JSON_INTEGER},
    {"data", JSON_OBJECT},
    {"model", JSON_OBJECT},
    {"training", JSON_OBJECT},
    {"started_by", JSON_STRING},
    {"rerun", JSON_STRING},
    {"max_abs_difference", JSON_REAL},
    {"step_ms", JSON_OBJECT},
    {"mean_step", JSON_OBJECT},
    {"compute_ms", JSON_OBJECT},
    {"allreduce_ms", JSON_OBJECT},
    {"allreduce_exposed_ms", JSON_OBJECT},
    {"optimizer_ms", JSON_OBJECT},
    {"started_at", JSON_STRING},
    {"ended_at", JSON_STRING},
    {"exit_status", JSON_INTEGER},
    {"message", JSON_NULL},
    {"unbound_because", JSON_NULL},
    {"scaling_failed", JSON_ARRAY},
    {"transport", JSON_STRING},
    {"algorithm", JSON_STRING},
    {"instruction_set", JSON_STRING},
    {"matrix_library", JSON_STRING},
    {"eval", JSON_NULL},
    {"ranks", JSON_ARRAY},
    {"scaling", JSON_ARRAY},
};

static void the_manifest_has_its_fields(void **state)
{
    (void)state;
    static sample made;
    test_directory scratch;
    test_directory_make(&scratch);
    sample_make(&made, test_directory_path(&scratch, "out"), 2, 20);
    made.ranks[1].bound = true;
    CPU_SET(3, &made.ranks[1].cpus);
    CPU_SET(7, &made.ranks[1].cpus);
    json_t *manifest = manifest_of(&made, 20);
    for (size_t i = 0; i < sizeof FIELDS / sizeof FIELDS[0]; i++) {
        const json_t *value = json_object_get(manifest, FIELDS[i].key);
        if (value == NULL || json_typeof(value) != FIELDS[i].type) {
            fail_msg("%s is %s", FIELDS[i].key, value == NULL ? "missing" : "of another type");
        }
    }
    assert_string_equal(json_string_value(json_object_get(manifest, "lab")), "01-ddp-on-cpu");
    assert_string_equal(json_string_value(json_object_get(manifest, "backend")),
                        "ringfence-shm-direct");
    assert_string_equal(json_string_value(json_object_get(manifest, "rerun")),
                        "build/release/bin/launcher --ranks 2 --mode ddp-cpu --out "
                        "'my experiment'\\''s <out>'");
    const json_t *rank = json_array_get(json_object_get(manifest, "ranks"), 1);
    assert_memory_equal(json_string_value(json_object_get(rank, "params_sha256")), "abababab", 8);
    assert_near(number(rank, "pid"), 4243);
    const json_t *cpus = json_object_get(rank, "cpus");
    assert_int_equal(json_array_size(cpus), 2);
    assert_int_equal(json_integer_value(json_array_get(cpus, 1)), 7);
    rank = json_array_get(json_object_get(manifest, "ranks"), 0);
    assert_true(json_is_null(json_object_get(rank, "cpus")));
    json_decref(manifest);
    test_directory_remove(&scratch);
}

/* The figures are those of steps 2 and 3 of 4, computed by hand. */
static void the_last_half_is_measured(void **state)
{
    (void)state;
    static const int64_t STEP_MS[4][2] = {{900, 900}, {900, 900}, {10, 20}, {40, 30}};
    static sample made;
    test_directory scratch;
    base_error error;
    launch_record *record = NULL;
    test_directory_make(&scratch);
    sample_make(&made, test_directory_path(&scratch, "out"), 2, 4);
    assert_ok(launch_record_open(&made.options, &record, &error), &error);
    assert_ok(launch_record_begin(record, 0, &error), &error);
    for (int i = 0; i < 8; i++) {
        launch_step step = sample_step(&made, (uint64_t)(i / 2), i % 2);
        step.step_ns = STEP_MS[i / 2][i % 2] * 1000000;
        step.allreduce_ns = step.step_ns / 10;
        step.allreduce_exposed_ns = 0;
        step.compute_ns = step.step_ns / 2;
        step.optimizer_ns = 0;
        step.tokens = 600;
        assert_ok(launch_record_step(record, &step, &error), &error);
    }
    assert_ok(launch_record_finish(record, &made.end, &error), &error);
    assert_status(launch_record_finish(record, &made.end, &error), BASE_ERR_STATE);
    launch_record_close(record);

    json_t *manifest = load(made.options.out, "manifest.json");
    assert_near(number(manifest, "tokens_per_sec_2proc"), 4 * 600 / 0.06);
    assert_near(number(manifest, "tokens_per_sec_1proc"), 96400);
    assert_near(number(manifest, "allreduce_p50_ms"), 2.5);
    assert_near(number(manifest, "allreduce_p95_ms"), 3.85);
    assert_near(number(json_object_get(manifest, "step_ms"), "median"), 30);
    assert_near(number(json_object_get(manifest, "step_ms"), "mean"), 30);
    json_decref(manifest);
    test_directory_remove(&scratch);
}

/* Stopped before the first step: no rank has reported, and nothing is measured. */
static void report_steps(launch_record *record, const sample *made, uint64_t first, uint64_t end)
{
    base_error error;
    for (uint64_t step = first; step < end; step++) {
        for (int rank = 0; rank < 2; rank++) {
            const launch_step told = sample_step(made, step, rank);
            assert_ok(launch_record_step(record, &told, &error), &error);
        }
    }
}

/* A job that was started again continues from its checkpoint. The record has every step once. */
static void a_record_continues_after_a_restart(void **state)
{
    (void)state;
    static sample made;
    test_directory scratch;
    base_error error;
    launch_record *record = NULL;
    void *text = NULL;
    size_t text_bytes = 0;
    char path[BASE_PATH_BYTES];
    test_directory_make(&scratch);
    sample_make(&made, test_directory_path(&scratch, "out"), 2, 9);
    assert_ok(launch_record_open(&made.options, &record, &error), &error);
    assert_ok(launch_record_begin(record, 3, &error), &error); /* of an earlier run */
    launch_step step = sample_step(&made, 0, 0);
    assert_status(launch_record_step(record, &step, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.message, "reported step 0, expected 3"));
    report_steps(record, &made, 3, 7);
    step = sample_step(&made, 7, 0); /* one rank came further */
    assert_ok(launch_record_step(record, &step, &error), &error);
    assert_ok(launch_record_begin(record, 5, &error), &error);
    report_steps(record, &made, 5, 9);
    assert_ok(launch_record_finish(record, &made.end, &error), &error);
    assert_status(launch_record_begin(record, 9, &error), BASE_ERR_STATE);
    launch_record_close(record);

    (void)snprintf(path, sizeof path, "%s/timings.jsonl", made.options.out);
    assert_ok(base_file_read(path, 1 << 20, &text, &text_bytes, &error), &error);
    int line = 0;
    for (char *at = text; *at != '\0'; at = strchr(at, '\n') + 1, line++) {
        char expected[64];
        (void)snprintf(expected, sizeof expected, "{\"step\": %d, \"rank\": %d,", 3 + line / 2,
                       line % 2);
        assert_memory_equal(at, expected, strlen(expected));
    }
    assert_int_equal(line, 2 * 6);
    free(text);
    json_t *manifest = load(made.options.out, "manifest.json");
    assert_near(number(manifest, "steps"), 6);
    assert_near(number(json_object_get(manifest, "measured_over"), "last_step"), 8);
    json_decref(manifest);
    test_directory_remove(&scratch);
}

static void unmeasured_figures_are_null(void **state)
{
    (void)state;
    static const char *const NULLS[] = {"allreduce_p50_ms",
                                        "allreduce_p95_ms",
                                        "tokens_per_sec_1proc",
                                        "tokens_per_sec_2proc",
                                        "byte_equivalent",
                                        "max_abs_difference",
                                        "tokens_per_sec",
                                        "loss_last",
                                        "transport",
                                        "eval"};
    static sample made;
    test_directory scratch;
    test_directory_make(&scratch);
    sample_make(&made, test_directory_path(&scratch, "out"), 2, 20);
    made.end =
        (launch_record_end){.exit_status = 137, .message = "rank 1 was killed by \xff SIGKILL"};
    json_t *manifest = manifest_of(&made, 0);
    for (size_t i = 0; i < sizeof NULLS / sizeof NULLS[0]; i++) {
        if (!json_is_null(json_object_get(manifest, NULLS[i]))) {
            fail_msg("%s is not null", NULLS[i]);
        }
    }
    assert_near(number(manifest, "exit_status"), 137);
    assert_string_equal(json_string_value(json_object_get(manifest, "message")),
                        "rank 1 was killed by � SIGKILL");
    assert_string_equal(json_string_value(json_object_get(manifest, "backend")), "ringfence");
    json_decref(manifest);
    test_directory_remove(&scratch);
}

static void one_differing_rank_is_seen(void **state)
{
    (void)state;
    static sample made;
    test_directory scratch;
    test_directory_make(&scratch);
    sample_make(&made, test_directory_path(&scratch, "out"), 3, 4);
    made.ranks[2].params_sha256[31] ^= 1;
    made.ranks[2].max_abs_difference = 0.25;
    json_t *manifest = manifest_of(&made, 4);
    assert_true(json_is_false(json_object_get(manifest, "byte_equivalent")));
    assert_near(number(manifest, "max_abs_difference"), 0.25);
    json_decref(manifest);

    made.ranks[1].finished = false; /* a rank that never finished: not known */
    manifest = manifest_of(&made, 4);
    assert_true(json_is_null(json_object_get(manifest, "byte_equivalent")));
    json_decref(manifest);
    test_directory_remove(&scratch);
}

static void nonsense_from_a_rank_is_refused(void **state)
{
    (void)state;
    static sample made;
    test_directory scratch;
    base_error error;
    launch_record *record = NULL;
    test_directory_make(&scratch);
    sample_make(&made, test_directory_path(&scratch, "out"), 2, 20);
    assert_ok(launch_record_open(&made.options, &record, &error), &error);
    assert_ok(launch_record_begin(record, 0, &error), &error);
    launch_step step = sample_step(&made, 0, 2);
    assert_status(launch_record_step(record, &step, &error), BASE_ERR_INVALID);
    step = sample_step(&made, 0, -1);
    assert_status(launch_record_step(record, &step, &error), BASE_ERR_INVALID);
    step = sample_step(&made, 1, 0);
    assert_status(launch_record_step(record, &step, &error), BASE_ERR_INVALID);
    step = sample_step(&made, 0, 0);
    step.loss = NAN;
    step.grad_norm = INFINITY;
    assert_ok(launch_record_step(record, &step, &error), &error);
    assert_status(launch_record_step(record, &step, &error), BASE_ERR_INVALID);
    launch_record_close(record);

    json_t *row = load(made.options.out, "timings.jsonl");
    assert_true(json_is_null(json_object_get(row, "loss")));
    assert_true(json_is_null(json_object_get(row, "grad_norm")));
    json_decref(row);
    test_directory_remove(&scratch);
}

/* The file system takes no more than 16 KiB a file. Sooner or later an error names the file, and
 * there is no half manifest. */
static void a_full_disk_is_an_error_that_names_the_file(void **state)
{
    (void)state;
    static sample made;
    test_directory scratch;
    base_error error = {0};
    launch_record *record = NULL;
    struct rlimit before;
    test_directory_make(&scratch);
    sample_make(&made, test_directory_path(&scratch, "out"), 2, 2000);
    assert_ok(launch_record_open(&made.options, &record, &error), &error);
    assert_ok(launch_record_begin(record, 0, &error), &error);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit small = {.rlim_cur = 16 * 1024, .rlim_max = before.rlim_max};
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    base_status status = BASE_OK;
    for (int i = 0; status == BASE_OK && i < 4000; i++) {
        const launch_step step = sample_step(&made, (uint64_t)(i / 2), i % 2);
        status = launch_record_step(record, &step, &error);
    }
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(status, BASE_ERR_IO);
    assert_non_null(strstr(error.message, "out/timings.jsonl: File too large"));
    /* reported once is enough */
    assert_ok(launch_record_finish(record, &made.end, &error), &error);
    assert_false(launch_record_is_whole(record));
    launch_record_close(record);
    void *lines = NULL; /* all of them whole */
    size_t lines_bytes = 0;
    assert_ok(base_file_read(test_directory_path(&scratch, "out/timings.jsonl"), 1 << 20, &lines,
                             &lines_bytes, &error),
              &error);
    assert_in_range(lines_bytes, 12 * 1024, 16 * 1024);
    assert_int_equal(((char *)lines)[lines_bytes - 1], '\n');
    free(lines);
    json_t *manifest = load(made.options.out, "manifest.json"); /* what could be written, was */
    json_decref(manifest);
    test_directory_remove(&scratch);
}

/* Small enough to stay in the stream's buffer. The error comes at the end. */
static void a_late_full_disk_is_an_error_too(void **state)
{
    (void)state;
    static sample made;
    test_directory scratch;
    base_error error = {0};
    launch_record *record = NULL;
    struct rlimit before;
    struct stat info;
    test_directory_make(&scratch);
    sample_make(&made, test_directory_path(&scratch, "out"), 2, 20);
    assert_ok(launch_record_open(&made.options, &record, &error), &error);
    assert_ok(launch_record_begin(record, 0, &error), &error);
    const launch_step step = sample_step(&made, 0, 0);
    assert_ok(launch_record_step(record, &step, &error), &error);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit none = {.rlim_cur = 0, .rlim_max = before.rlim_max};
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    const base_status status = launch_record_finish(record, &made.end, &error);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(status, BASE_ERR_IO);
    assert_non_null(strstr(error.message, ": File too large"));
    assert_non_null(strstr(error.message, made.options.out));
    assert_non_null(strstr(error.message, "this run has no manifest.json: "));
    assert_false(launch_record_is_whole(record));
    assert_int_not_equal(stat(test_directory_path(&scratch, "out/manifest.json"), &info), 0);
    assert_int_not_equal(stat(test_directory_path(&scratch, "out/manifest.json.tmp"), &info), 0);
    launch_record_close(record);
    test_directory_remove(&scratch);
}

/* Seconds of the day of "2026-01-02T03:04:05.678Z". */
static double seconds_of(const json_t *manifest, const char *key)
{
    const char *text = json_string_value(json_object_get(manifest, key));
    char *end = strchr(text, 'T');
    double seconds = 0;
    for (int i = 0; i < 3; i++) {
        assert_non_null(end);
        assert_int_equal(*end, i == 0 ? 'T' : ':');
        seconds = 60 * seconds + strtod(end + 1, &end);
    }
    assert_string_equal(end, "Z");
    return seconds;
}

static void wall_seconds_is_end_less_start(void **state)
{
    (void)state;
    static sample made;
    test_directory scratch;
    test_directory_make(&scratch);
    sample_make(&made, test_directory_path(&scratch, "out"), 2, 20);
    made.end.job_seconds = 1234.5; /* of the job: something else */
    json_t *manifest = manifest_of(&made, 20);
    double wall = seconds_of(manifest, "ended_at") - seconds_of(manifest, "started_at");
    wall += wall < 0 ? 24 * 3600 : 0;
    /* the record has milliseconds */
    assert_true(fabs(number(manifest, "wall_seconds") - wall) < 0.003);
    assert_near(number(manifest, "job_seconds"), 1234.5);
    json_decref(manifest);
    test_directory_remove(&scratch);
}

static void the_data_file_is_identified(void **state)
{
    (void)state;
    static sample made;
    test_directory scratch;
    base_error error;
    test_directory_make(&scratch);
    const char *data = test_directory_path(&scratch, "data.jsonl");
    assert_ok(base_file_write(data, "abc", 3, &error), &error);
    sample_make(&made, test_directory_path(&scratch, "out"), 1, 4);
    (void)snprintf(made.job.data.train, sizeof made.job.data.train, "%s/./data.jsonl",
                   scratch.path);
    assert_int_equal(chdir(scratch.path), 0);
    json_t *manifest = manifest_of(&made, 4);
    assert_int_equal(chdir("/"), 0);
    const json_t *entry = json_object_get(manifest, "data");
    assert_string_equal(json_string_value(json_object_get(entry, "path")), "data.jsonl");
    assert_string_equal(json_string_value(json_object_get(entry, "sha256")),
                        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    json_decref(manifest);
    test_directory_remove(&scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_step_is_a_line),
        cmocka_unit_test(the_manifest_has_its_fields),
        cmocka_unit_test(the_last_half_is_measured),
        cmocka_unit_test(a_record_continues_after_a_restart),
        cmocka_unit_test(unmeasured_figures_are_null),
        cmocka_unit_test(one_differing_rank_is_seen),
        cmocka_unit_test(nonsense_from_a_rank_is_refused),
        cmocka_unit_test(a_full_disk_is_an_error_that_names_the_file),
        cmocka_unit_test(a_late_full_disk_is_an_error_too),
        cmocka_unit_test(wall_seconds_is_end_less_start),
        cmocka_unit_test(the_data_file_is_identified),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
