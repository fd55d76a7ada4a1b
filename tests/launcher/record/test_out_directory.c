/* record/out_directory.h: older records kept, removed or refused, and locks between jobs. */
#include "record/out_directory.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "support.h"

static void put_file(const char *directory, const char *name)
{
    char path[BASE_PATH_BYTES];
    base_error error;
    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    assert_ok(base_file_write(path, "x", 1, &error), &error);
}

static int has_file(const char *directory, const char *name)
{
    char path[BASE_PATH_BYTES];
    struct stat info;
    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    return stat(path, &info) == 0;
}

/* Opens the directory and clears it, as a job does that gets ready. */
static base_status take(const char *path, bool overwrite, launch_out_directory *directory,
                        base_error *reterr)
{
    const launch_out_options options = {.path = path, .overwrite = overwrite};
    const base_status status = launch_out_directory_open(&options, directory, reterr);
    return status == BASE_OK ? launch_out_directory_clear(directory, reterr) : status;
}

static void what_cannot_be_made_has_a_way_out(void **state)
{
    (void)state;
    base_error error;
    launch_out_directory directory;
    put_file(test_shared_path("."), "plain");
    assert_int_not_equal(take(test_shared_path("plain/out"), false, &directory, &error), BASE_OK);
    assert_has(error.message, "plain/out: ");
    assert_has(error.message, "; name another one with --out DIR");
}

static void records_are_kept_by_number(void **state)
{
    (void)state;
    base_error error;
    launch_out_directory directory;
    const char *out = test_shared_path("deep/out");
    for (int run = 0; run < 3; run++) {
        char mark[16];
        /* a slash at the end changes nothing */
        assert_ok(take(run == 1 ? test_shared_path("deep/out/") : out, false, &directory, &error),
                  &error);
        assert_string_equal(directory.path, out);
        assert_int_equal(directory.moved_to[0] != '\0', run > 0);
        assert_false(has_file(out, "timings.jsonl"));
        (void)snprintf(mark, sizeof mark, "mark%d", run);
        put_file(out, "timings.jsonl");
        put_file(out, mark);
        launch_out_directory_close(&directory);
    }
    assert_true(has_file(test_shared_path("deep/out.1"), "mark0"));
    assert_true(has_file(test_shared_path("deep/out.2"), "mark1"));
    assert_true(has_file(out, "mark2"));
}

static void overwriting_removes_our_files_alone(void **state)
{
    (void)state;
    static const char *const OURS[] = {"manifest.json", "state-rank-12.safetensors",
                                       "model.safetensors.tmp", "report.html"};
    static const char *const THEIRS[] = {"notes.txt", "state-rank-x.safetensors", "my.tmp"};
    base_error error;
    launch_out_directory directory;
    for (size_t i = 0; i < sizeof OURS / sizeof OURS[0]; i++) {
        put_file(test_shared_directory.path, OURS[i]);
    }
    for (size_t i = 0; i < sizeof THEIRS / sizeof THEIRS[0]; i++) {
        put_file(test_shared_directory.path, THEIRS[i]);
    }
    assert_ok(take(test_shared_directory.path, true, &directory, &error), &error);
    assert_string_equal(directory.moved_to, "");
    launch_out_directory_close(&directory);
    for (size_t i = 0; i < sizeof OURS / sizeof OURS[0]; i++) {
        assert_false(has_file(test_shared_directory.path, OURS[i]));
    }
    for (size_t i = 0; i < sizeof THEIRS / sizeof THEIRS[0]; i++) {
        assert_true(has_file(test_shared_directory.path, THEIRS[i]));
    }
}

static void other_peoples_directories_are_left_alone(void **state)
{
    (void)state;
    base_error error;
    launch_out_directory directory;
    put_file(test_shared_directory.path, "thesis.tex");
    assert_status(take(test_shared_directory.path, true, &directory, &error), BASE_ERR_INVALID);
    assert_has(error.message, test_shared_directory.path);
    assert_true(has_file(test_shared_directory.path, "thesis.tex"));
    assert_status(take(test_shared_path("thesis.tex"), false, &directory, &error), BASE_ERR_IO);
    assert_status(take("", false, &directory, &error), BASE_ERR_INVALID);
    assert_status(take("/proc/nothing/here", false, &directory, &error), BASE_ERR_IO);
    assert_has(error.message, "/proc/nothing");
}

/* Another process takes the directory. The refusal names it, and the directory is free when that
 * process has ended. */
static void a_directory_in_use_names_its_user(void **state)
{
    (void)state;
    base_error error;
    launch_out_directory directory;
    int ready[2];
    int leave[2];
    char byte = 0;
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(leave), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)close(leave[1]);
        const int taken = take(test_shared_directory.path, false, &directory, NULL) == BASE_OK;
        _exit(write(ready[1], taken ? "y" : "n", 1) == 1 && read(leave[0], &byte, 1) == 0 ? 0 : 1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(byte, 'y');
    assert_status(take(test_shared_directory.path, false, &directory, &error), BASE_ERR_BUSY);
    char pid[32];
    (void)snprintf(pid, sizeof pid, "process %ld", (long)child);
    assert_has(error.message, pid);

    int status = 1;
    (void)close(leave[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_ok(take(test_shared_directory.path, false, &directory, &error), &error);
    launch_out_directory_close(&directory);
    (void)close(leave[0]);
    (void)close(ready[0]);
    (void)close(ready[1]);
}

static size_t count_entries(const char *path)
{
    size_t count = 0;
    DIR *entries = opendir(path);
    assert_non_null(entries);
    while (readdir(entries) != NULL) {
        count++;
    }
    (void)closedir(entries);
    return count - 2;
}

static void a_job_that_never_begins_leaves_no_trace(void **state)
{
    (void)state;
    base_error error;
    launch_out_directory directory;
    const char *out = test_shared_path("a/b/out");
    const launch_out_options options = {.path = out, .overwrite = true};
    assert_ok(launch_out_directory_open(&options, &directory, &error), &error);
    assert_int_equal(count_entries(out), 0);
    launch_out_directory_discard(&directory);
    launch_out_directory_close(&directory);
    assert_int_equal(count_entries(test_shared_directory.path), 0);

    assert_ok(base_mkdirs(out, &error), &error); /* an older record */
    put_file(out, "manifest.json");
    assert_ok(launch_out_directory_open(&options, &directory, &error), &error);
    launch_out_directory_discard(&directory);
    launch_out_directory_close(&directory);
    assert_true(has_file(out, "manifest.json"));
    assert_int_equal(count_entries(test_shared_path("a/b")), 1);
}

/* Nothing of an older run stays beside a new one's files: its failure's page would be taken for theirs. */
static void all_files_of_a_run_are_replaced(void **state)
{
    (void)state;
    static const char *const names[] = {
        "manifest.json",
        "flight.html",
        "flight-rank-12.json",
        "timings-before-8.jsonl",
        "rank-0.log",
        "state-rank-3.safetensors.part",
        "state-rank-1.safetensors.tmp",
    };
    base_error error;
    launch_out_directory directory;
    const char *out = test_shared_path("out");
    assert_ok(base_mkdirs(out, &error), &error);
    put_file(out, "flight-rank-.json"); /* not ours */
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        put_file(out, names[i]);
    }
    assert_ok(take(out, true, &directory, &error), &error);
    assert_int_equal(count_entries(out), 1);
    launch_out_directory_close(&directory);
}

/* A training that goes on with fewer ranks: the states of the others are of an older step. */
static void states_of_ranks_that_are_gone_are_dropped(void **state)
{
    (void)state;
    base_error error;
    launch_out_directory directory;
    const char *out = test_shared_path("out");
    const launch_out_options options = {.path = out, .goes_on = true};
    assert_ok(base_mkdirs(out, &error), &error);
    put_file(out, "manifest.json");
    put_file(out, "state-rank-1.safetensors");
    put_file(out, "state-rank-2.safetensors");
    put_file(out, "state-rank-10.safetensors");
    assert_ok(launch_out_directory_open(&options, &directory, &error), &error);
    assert_ok(launch_out_directory_drop_states(&directory, 2, &error), &error);
    launch_out_directory_close(&directory);
    assert_true(has_file(out, "state-rank-1.safetensors"));
    assert_int_equal(count_entries(out), 2);
}

/* A checkpoint and a tokenizer in the directory can be read all the time, and are not lost. */
static void inputs_stay_readable(void **state)
{
    (void)state;
    for (int overwrite = 0; overwrite < 2; overwrite++) {
        base_error error;
        launch_out_directory directory;
        struct stat info;
        char old[BASE_PATH_BYTES];
        const char *out = test_shared_path(overwrite != 0 ? "replaced" : "moved");
        char deep[BASE_PATH_BYTES + 8];
        (void)snprintf(deep, sizeof deep, "%s/deep", out);
        assert_ok(base_mkdirs(deep, &error), &error);
        (void)snprintf(old, sizeof old, "%s%s", out, overwrite != 0 ? "" : ".1");
        put_file(out, "manifest.json");
        put_file(out, "model.safetensors");
        put_file(out, "tokenizer.json");
        put_file(out, "deep/data.jsonl");
        char inputs[4][BASE_PATH_BYTES + 64];
        (void)snprintf(inputs[0], sizeof inputs[0], "%s/model.safetensors", out);
        (void)snprintf(inputs[1], sizeof inputs[1], "%s/./tokenizer.json", out);
        (void)snprintf(inputs[2], sizeof inputs[2], "%s/deep/data.jsonl", out);
        (void)snprintf(inputs[3], sizeof inputs[3], "%s/elsewhere.jsonl",
                       test_shared_directory.path);
        const char *const list[] = {inputs[0], inputs[1], inputs[2], inputs[3]};
        const launch_out_options options = {
            .path = out, .overwrite = overwrite != 0, .inputs = list, .input_count = 4};
        assert_ok(launch_out_directory_open(&options, &directory, &error), &error);
        assert_ok(launch_out_directory_clear(&directory, &error), &error);
        assert_false(has_file(out, "manifest.json"));
        for (int i = 0; i < 3; i++) {
            assert_int_equal(access(inputs[i], R_OK), 0);
        }
        put_file(out, "model.safetensors"); /* the new one, under its name */
        launch_out_directory_finish(&directory);
        launch_out_directory_close(&directory);
        assert_int_equal(lstat(inputs[0], &info), 0);
        assert_true(S_ISREG(info.st_mode));
        assert_true(has_file(old, "tokenizer.json"));
        assert_true(has_file(old, "deep/data.jsonl"));
        assert_int_equal(count_entries(out), overwrite != 0 ? 3 : 1);
    }
}

static void overwriting_an_input_is_refused(void **state)
{
    (void)state;
    base_error error;
    launch_out_directory directory;
    const char *out = test_shared_path("out");
    const char *timings = test_shared_path("out/timings.jsonl");
    const char *logs = test_shared_path("out/logs");
    assert_ok(base_mkdirs(out, &error), &error);
    put_file(out, "timings.jsonl");
    launch_out_options options = {.path = out, .inputs = &timings, .input_count = 1};
    assert_status(launch_out_directory_open(&options, &directory, &error), BASE_ERR_INVALID);
    assert_has(error.message, timings);
    options = (launch_out_options){.path = out, .log_dir = logs};
    assert_status(launch_out_directory_open(&options, &directory, &error), BASE_ERR_INVALID);
    assert_has(error.message, "--log-dir");
    options.overwrite = true;
    assert_ok(launch_out_directory_open(&options, &directory, &error), &error);
    launch_out_directory_close(&directory);
    assert_true(has_file(out, "timings.jsonl"));
}

/* Adapters in place of their model, or beside another one, would be of no use. */
static void adapters_and_models_do_not_mix(void **state)
{
    (void)state;
    base_error error;
    launch_out_directory directory;
    const char *out = test_shared_path("out");
    char below[BASE_PATH_BYTES];
    char model[BASE_PATH_BYTES];
    const char *const inputs[] = {model};
    assert_ok(base_mkdirs(out, &error), &error);
    (void)snprintf(model, sizeof model, "%s/model.safetensors", out);
    for (int overwrite = 0; overwrite < 2; overwrite++) {
        put_file(out, "manifest.json");
        put_file(out, "model.safetensors");
        launch_out_options options = {.path = out,
                                      .overwrite = overwrite != 0,
                                      .needs_model = true,
                                      .inputs = inputs,
                                      .input_count = 1};
        assert_status(launch_out_directory_open(&options, &directory, &error), BASE_ERR_INVALID);
        assert_has(error.message, model);
        assert_true(has_file(out, "model.safetensors"));
    }
    put_file(out, "adapter_config.json");
    put_file(out, "adapter_model.safetensors");
    (void)snprintf(below, sizeof below, "%s/adapter", out);
    assert_ok(base_mkdirs(below, &error), &error);
    put_file(out, "adapter/adapter_config.json");
    put_file(out, "adapter/adapter_model.safetensors");
    put_file(out, "adapter/generation_config.json");
    put_file(out, "chat_template.jinja");
    const launch_out_options options = {.path = out, .overwrite = true};
    assert_ok(launch_out_directory_open(&options, &directory, &error), &error);
    assert_ok(launch_out_directory_clear(&directory, &error), &error);
    launch_out_directory_finish(&directory);
    launch_out_directory_close(&directory);
    assert_int_equal(count_entries(out), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN_DIRECTORY(what_cannot_be_made_has_a_way_out),
        TEST_IN_DIRECTORY(records_are_kept_by_number),
        TEST_IN_DIRECTORY(overwriting_removes_our_files_alone),
        TEST_IN_DIRECTORY(other_peoples_directories_are_left_alone),
        TEST_IN_DIRECTORY(a_directory_in_use_names_its_user),
        TEST_IN_DIRECTORY(a_job_that_never_begins_leaves_no_trace),
        TEST_IN_DIRECTORY(all_files_of_a_run_are_replaced),
        TEST_IN_DIRECTORY(states_of_ranks_that_are_gone_are_dropped),
        TEST_IN_DIRECTORY(inputs_stay_readable),
        TEST_IN_DIRECTORY(adapters_and_models_do_not_mix),
        TEST_IN_DIRECTORY(overwriting_an_input_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
