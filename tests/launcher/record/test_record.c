/* record/record.h: timings, restarts, refused steps, and disks that fill up. The manifest is in
 * test_manifest.c. */
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
#include "proto/checkpoints.h"
#include "record/steps.h"
#include "sample.h"
#include "support.h"

static void every_step_is_a_line(void **state)
{
    (void)state;
    static sample made;
    size_t lines = 0;
    sample_make(&made, "out", 2, 20);
    sample_write(&made, 20);
    char *text = sample_text(&made, "timings.jsonl");
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        json_t *row = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
        assert_non_null(row);
        const launch_step step = sample_step(&made, lines / 2, (int)(lines % 2));
        sample_assert_near(sample_number(row, "step"), (double)step.step);
        sample_assert_near(sample_number(row, "rank"), step.rank);
        sample_assert_near(sample_number(row, "loss"), step.loss);
        sample_assert_near(sample_number(row, "loss_global"), step.loss_global);
        sample_assert_near(sample_number(row, "tokens"), (double)step.times.tokens);
        sample_assert_near(sample_number(row, "compute_ms") * 1e6, (double)step.times.compute_ns);
        sample_assert_near(sample_number(row, "compute_cpu_ms") * 1e6,
                           (double)step.times.compute_cpu_ns);
        sample_assert_near(sample_number(row, "allreduce_ms") * 1e6,
                           (double)step.times.allreduce_ns);
        sample_assert_near(sample_number(row, "allreduce_exposed_ms") * 1e6,
                           (double)step.times.allreduce_exposed_ns);
        sample_assert_near(sample_number(row, "optimizer_ms") * 1e6,
                           (double)step.times.optimizer_ns);
        sample_assert_near(sample_number(row, "step_ms") * 1e6, (double)step.times.step_ns);
        sample_assert_near(sample_number(row, "bytes_sent"), (double)step.times.bytes_sent);
        sample_assert_near(sample_number(row, "epoch"), (double)step.epoch);
        sample_assert_near(sample_number(row, "learning_rate"), step.learning_rate);
        sample_assert_near(sample_number(row, "grad_norm"), step.grad_norm);
        json_decref(row);
        lines++;
    }
    assert_int_equal(lines, 40);
    free(text);
}

/* Of ranks that share batches each line has the time of their exchanges, also where there was none. */
static void context_ranks_have_a_time_in_every_line(void **state)
{
    (void)state;
    static sample made;
    for (int ranks = 1; ranks <= 2; ranks++) {
        sample_make(&made, ranks > 1 ? "shared" : "alone", 2, 2);
        made.job.parallel.context_ranks = ranks;
        launch_record *record = sample_begin(&made, 0);
        for (int rank = 0; rank < 2; rank++) {
            launch_step step = sample_step(&made, 0, rank);
            step.times.context_ns = rank * 1250000;
            sample_add(record, &step);
        }
        sample_end(&made, record);
        char *text = sample_text(&made, "timings.jsonl");
        const char *end = strchr(text, '\n');
        assert_non_null(end);
        json_t *first = json_loadb(text, (size_t)(end - text), 0, NULL);
        json_t *second = json_loads(end + 1, JSON_DISABLE_EOF_CHECK, NULL);
        if (ranks > 1) {
            sample_assert_near(sample_number(first, "context_ms"), 0.0);
            sample_assert_near(sample_number(second, "context_ms"), 1.25);
        } else {
            assert_null(json_object_get(first, "context_ms"));
        }
        json_decref(first);
        json_decref(second);
        free(text);
    }
}

/* The same of ranks that share out experts. */
static void expert_ranks_have_a_time_in_every_line(void **state)
{
    (void)state;
    static sample made;
    for (int ranks = 1; ranks <= 2; ranks++) {
        sample_make(&made, ranks > 1 ? "experts" : "alone", 2, 1);
        made.job.parallel.expert_ranks = ranks;
        launch_record *record = sample_begin(&made, 0);
        launch_step step = sample_step(&made, 0, 0);
        step.times.expert_ns = 1250000;
        step.times.expert_rows = 768;
        sample_add(record, &step);
        sample_end(&made, record);
        char *text = sample_text(&made, "timings.jsonl");
        json_t *line = json_loads(text, JSON_DISABLE_EOF_CHECK, NULL);
        if (ranks > 1) {
            sample_assert_near(sample_number(line, "expert_ms"), 1.25);
            sample_assert_near(sample_number(line, "expert_rows"), 768);
        } else {
            assert_null(json_object_get(line, "expert_ms"));
            assert_null(json_object_get(line, "expert_rows"));
        }
        json_decref(line);
        free(text);
    }
}

static void report_steps(launch_record *record, const sample *made, uint64_t first, uint64_t end)
{
    for (uint64_t step = first; step < end; step++) {
        for (int rank = 0; rank < 2; rank++) {
            launch_step step_of_rank = sample_step(made, step, rank);
            if (made->job.job.mode == PROTO_MODE_PP_CPU) {
                step_of_rank.stage_number = rank;
                step_of_rank.stage = (launch_stage_step){.forward_ns = 1234567 + (int64_t)step,
                                                         .backward_ns = 2345678 + rank,
                                                         .neighbour_ns = 345678,
                                                         .span_ns = 4567890 - (int64_t)step,
                                                         .held = 1 + (uint64_t)rank};
            }
            sample_add(record, &step_of_rank);
        }
    }
}

/* A job that was started again continues from its checkpoint. The record has every step once. */
static void a_record_continues_after_a_restart(void **state)
{
    (void)state;
    static sample made;
    base_error error;
    sample_make(&made, "out", 2, 9);
    launch_record *record = sample_begin(&made, 3); /* of an earlier run */
    launch_step step = sample_step(&made, 0, 0);
    assert_status(sample_report(record, &step, &error), BASE_ERR_INVALID);
    assert_has(error.message, "reported step 0, expected 3");
    report_steps(record, &made, 3, 7);
    step = sample_step(&made, 7, 0); /* one rank came further */
    sample_add(record, &step);
    assert_ok(launch_record_begin(record, 5, &error), &error);
    report_steps(record, &made, 5, 9);
    assert_ok(launch_record_finish(record, &made.end, &error), &error);
    assert_status(launch_record_begin(record, 9, &error), BASE_ERR_STATE);
    launch_record_close(record);

    char *text = sample_text(&made, "timings.jsonl");
    int line = 0;
    for (char *at = text; *at != '\0'; at = strchr(at, '\n') + 1, line++) {
        char expected[64];
        (void)snprintf(expected, sizeof expected, "{\"step\": %d, \"rank\": %d,", 3 + line / 2,
                       line % 2);
        assert_memory_equal(at, expected, strlen(expected));
    }
    assert_int_equal(line, 2 * 6);
    free(text);
    json_t *manifest = sample_load(made.options.out, "manifest.json");
    sample_assert_near(sample_number(manifest, "steps"), 6);
    sample_assert_near(sample_number(json_object_get(manifest, "measured_over"), "last_step"), 8);
    json_decref(manifest);
}

static size_t count_lines(const char *text)
{
    size_t lines = 0;
    for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++) {
        lines++;
    }
    return lines;
}

/* The job was shared out among fewer ranks, and then among all again: each step is in one file, and the figures are
 * of the last ones. */
static void an_attempt_may_have_other_ranks(void **none)
{
    (void)none;
    static sample made;
    base_error error;
    sample_make(&made, "out", 2, 9);
    launch_record *record = sample_begin(&made, 0);
    report_steps(record, &made, 0, 5);
    proto_job fewer = made.job;
    fewer.job.world_size = 1;
    fewer.train.micro_batches = 2;
    char state[BASE_PATH_BYTES + 32];
    (void)snprintf(state, sizeof state, "%s/state-rank-1.safetensors", made.out);
    assert_ok(base_file_write(state, "", 0, &error), &error); /* of a rank that there is no more */
    assert_ok(launch_record_share_out(record, &fewer, 3, &error), &error);
    assert_int_not_equal(access(state, F_OK), 0);
    assert_ok(launch_record_begin(record, 3, &error), &error);
    assert_has(launch_record_notes(record), "timings.jsonl begins after step 3");
    assert_int_equal(launch_record_steps(record)->world_size, 1);
    for (uint64_t i = 3; i < 7; i++) {
        const launch_step step = sample_step(&made, i, 0);
        sample_add(record, &step);
    }
    assert_ok(launch_record_share_out(record, &fewer, 5, &error), &error); /* the same ones */
    assert_ok(launch_record_begin(record, 5, &error), &error);
    assert_string_equal(launch_record_notes(record), "");
    const launch_step step = sample_step(&made, 5, 0);
    sample_add(record, &step);
    assert_ok(launch_record_share_out(record, &made.job, 6, &error), &error);
    assert_ok(launch_record_begin(record, 6, &error), &error);
    report_steps(record, &made, 6, 9);
    assert_ok(launch_record_finish(record, &made.end, &error), &error);
    launch_record_close(record);

    char *text = sample_text(&made, "timings-before-3.jsonl");
    assert_int_equal(count_lines(text), 2 * 3);
    free(text);
    text = sample_text(&made, "timings-before-6.jsonl");
    assert_int_equal(count_lines(text), 3);
    free(text);
    text = sample_text(&made, "timings.jsonl");
    assert_int_equal(count_lines(text), 2 * 3);
    free(text);
    json_t *manifest = sample_load(made.options.out, "manifest.json");
    sample_assert_near(sample_number(manifest, "world_size"), 2);
    sample_assert_near(sample_number(manifest, "steps"), 3);
    sample_assert_near(sample_number(manifest, "attempts"), 4);
    json_decref(manifest);
}

/* Opens the record of a job with --resume, whose checkpoint is of `first`, and writes the steps from there
 * up to `end`. Returns timings.jsonl, which the caller frees. */
static char *go_on(sample *made, uint64_t first, uint64_t end)
{
    base_error error;
    char path[BASE_PATH_BYTES];
    made->job.train.resume = true;
    made->job.train.save_every = 1;
    assert_ok(proto_checkpoint_path(made->options.out, first, path, &error), &error);
    assert_ok(base_mkdirs(path, &error), &error);
    launch_record *record = sample_begin(made, first);
    assert_null(strstr(launch_record_notes(record), "an earlier run")); /* nothing was moved */
    report_steps(record, made, first, end);
    sample_end(made, record);
    char *text = sample_text(made, "timings.jsonl");
    return text;
}

static void write_steps(const sample *made, uint64_t steps)
{
    launch_record *record = sample_begin(made, 0);
    report_steps(record, made, 0, steps);
    sample_end(made, record);
}

static char *uninterrupted(uint64_t steps)
{
    static sample made;
    sample_make(&made, "whole", 2, (int)steps);
    made.job.job.mode = PROTO_MODE_PP_CPU;
    write_steps(&made, steps);
    return sample_text(&made, "timings.jsonl");
}

/* timings.jsonl of a training that went on is that of one that did not stop, byte for byte. What is cut, of
 * other ranks, or missing before the checkpoint leaves the rest. */
static void a_training_that_goes_on_keeps_its_record(void **state)
{
    (void)state;
    static sample made;
    base_error error;
    char path[BASE_PATH_BYTES];
    char *whole = uninterrupted(9);
    sample_make(&made, "out", 2, 9);
    made.job.job.mode = PROTO_MODE_PP_CPU;
    write_steps(&made, 7);
    char *text = go_on(&made, 5, 9); /* two more steps were done after the checkpoint */
    assert_string_equal(text, whole);
    json_t *manifest = sample_load(made.options.out, "manifest.json");
    sample_assert_near(sample_number(manifest, "steps"), 9);
    sample_assert_near(sample_number(manifest, "resumed_at_step"), 5);
    sample_assert_near(sample_number(manifest, "attempts"), 1);
    json_decref(manifest);

    text[strlen(text) - 10] = '\0'; /* killed while it wrote its last line */
    (void)snprintf(path, sizeof path, "%s/timings.jsonl", made.options.out);
    assert_ok(base_file_write(path, text, strlen(text), &error), &error);
    free(text);
    text = go_on(&made, 8, 9);
    assert_string_equal(text, whole);
    free(text);

    made.job.job.mode = PROTO_MODE_DDP_CPU; /* whose steps have no stages */
    text = go_on(&made, 6, 9);
    assert_memory_equal(text, "{\"step\": 6, \"rank\": 0", 21);
    free(text);
    made.job.job.mode = PROTO_MODE_PP_CPU;

    static const char *const others[] = {"", "{\"step\": 0}\n", "{\"step\": 0, \"rank\": 2}\n",
                                         "{\"step\": 0, \"rank\": 0}\n", "no JSON\n"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_ok(base_file_write(path, others[i], strlen(others[i]), &error), &error);
        text = go_on(&made, 8, 9);
        assert_ptr_equal(strstr(whole, text), whole + strlen(whole) - strlen(text));
        assert_memory_equal(text, "{\"step\": 8, \"rank\": 0", 21);
        free(text);
    }
    size_t text_bytes = 0;
    void *aside = NULL; /* what could not be gone on with is not lost: the first of them */
    (void)snprintf(path, sizeof path, "%s/timings-before-8.jsonl", made.options.out);
    assert_ok(base_file_read(path, 1 << 20, &aside, &text_bytes, &error), &error);
    assert_int_equal(text_bytes, strlen(others[1]));
    assert_memory_equal(aside, others[1], text_bytes);
    free(aside);
    free(whole);
}

/* Another program's form of the lines is not lost, and nor are steps that the file lacks when a job starts
 * again. */
static void lines_that_cannot_be_kept_are_not_dropped(void **state)
{
    (void)state;
    static const char changed[] = "{\"step\":0,\"rank\":0}\n{\"step\":0,\"rank\":1}\n";
    static sample made;
    base_error error;
    char path[BASE_PATH_BYTES];
    sample_make(&made, "out", 2, 9);
    write_steps(&made, 1);
    (void)snprintf(path, sizeof path, "%s/timings.jsonl", made.options.out);
    assert_ok(base_file_write(path, changed, sizeof changed - 1, &error), &error);
    free(go_on(&made, 1, 2));
    char *aside = sample_text(&made, "timings-before-1.jsonl");
    assert_string_equal(aside, changed);
    free(aside);

    sample_make(&made, "out", 2, 9);
    launch_record *record = sample_begin(&made, 0);
    report_steps(record, &made, 0, 7);
    assert_int_equal(truncate(path, 0), 0);
    assert_status(launch_record_begin(record, 5, &error), BASE_ERR_IO);
    assert_has(error.message, "cannot write");
    launch_record_close(record);
}

static void nonsense_from_a_rank_is_refused(void **state)
{
    (void)state;
    static sample made;
    base_error error;
    sample_make(&made, "out", 2, 20);
    launch_record *record = sample_begin(&made, 0);
    launch_step step = sample_step(&made, 0, 2);
    assert_status(sample_report(record, &step, &error), BASE_ERR_INVALID);
    step = sample_step(&made, 0, -1);
    assert_status(sample_report(record, &step, &error), BASE_ERR_INVALID);
    step = sample_step(&made, 1, 0);
    assert_status(sample_report(record, &step, &error), BASE_ERR_INVALID);
    step = sample_step(&made, 0, 0);
    step.loss = NAN;
    step.grad_norm = INFINITY;
    sample_add(record, &step);
    assert_status(sample_report(record, &step, &error), BASE_ERR_INVALID);
    launch_record_close(record);

    json_t *row = sample_load(made.options.out, "timings.jsonl");
    assert_true(json_is_null(json_object_get(row, "loss")));
    assert_true(json_is_null(json_object_get(row, "grad_norm")));
    json_decref(row);
}

/* The file system takes no more than 16 KiB a file. Sooner or later an error names the file, and
 * there is no half manifest. */
static void a_full_disk_is_an_error_that_names_the_file(void **state)
{
    (void)state;
    static sample made;
    base_error error = {0};
    struct rlimit before;
    sample_make(&made, "out", 2, 2000);
    launch_record *record = sample_begin(&made, 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit small = {.rlim_cur = 16 * 1024, .rlim_max = before.rlim_max};
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    base_status status = BASE_OK;
    for (int i = 0; status == BASE_OK && i < 4000; i++) {
        const launch_step step = sample_step(&made, (uint64_t)(i / 2), i % 2);
        status = sample_report(record, &step, &error);
    }
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(status, BASE_ERR_IO);
    assert_has(error.message, "out/timings.jsonl: File too large");
    /* reported once is enough */
    assert_ok(launch_record_finish(record, &made.end, &error), &error);
    assert_false(launch_record_is_whole(record));
    launch_record_close(record);
    char *lines = sample_text(&made, "timings.jsonl"); /* all of them whole */
    const size_t lines_bytes = strlen(lines);
    assert_in_range(lines_bytes, 12 * 1024, 16 * 1024);
    assert_int_equal(lines[lines_bytes - 1], '\n');
    free(lines);
    json_t *manifest =
        sample_load(made.options.out, "manifest.json"); /* what could be written, was */
    json_decref(manifest);
}

/* Small enough to stay in the stream's buffer. The error comes at the end. */
static void a_late_full_disk_is_an_error_too(void **state)
{
    (void)state;
    static sample made;
    base_error error = {0};
    struct rlimit before;
    struct stat info;
    sample_make(&made, "out", 2, 20);
    launch_record *record = sample_begin(&made, 0);
    const launch_step step = sample_step(&made, 0, 0);
    sample_add(record, &step);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit none = {.rlim_cur = 0, .rlim_max = before.rlim_max};
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    const base_status status = launch_record_finish(record, &made.end, &error);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(status, BASE_ERR_IO);
    assert_has(error.message, ": File too large");
    assert_has(error.message, made.options.out);
    assert_has(error.message, "this run has no manifest.json: ");
    assert_false(launch_record_is_whole(record));
    assert_int_not_equal(stat(test_shared_path("out/manifest.json"), &info), 0);
    assert_int_not_equal(stat(test_shared_path("out/manifest.json.tmp"), &info), 0);
    launch_record_close(record);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN_DIRECTORY(every_step_is_a_line),
        TEST_IN_DIRECTORY(context_ranks_have_a_time_in_every_line),
        TEST_IN_DIRECTORY(expert_ranks_have_a_time_in_every_line),
        TEST_IN_DIRECTORY(a_record_continues_after_a_restart),
        TEST_IN_DIRECTORY(an_attempt_may_have_other_ranks),
        TEST_IN_DIRECTORY(a_training_that_goes_on_keeps_its_record),
        TEST_IN_DIRECTORY(lines_that_cannot_be_kept_are_not_dropped),
        TEST_IN_DIRECTORY(nonsense_from_a_rank_is_refused),
        TEST_IN_DIRECTORY(a_full_disk_is_an_error_that_names_the_file),
        TEST_IN_DIRECTORY(a_late_full_disk_is_an_error_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
