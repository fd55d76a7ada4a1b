/* Starts real training jobs and reads what they leave. Used by the integration and fault tests. */
#include "training.h"

#include <fcntl.h>
#include <ftw.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "proto/checkpoints.h"

enum { FILE_BYTES_MAX = 64 << 20 };

static const char *const small_model[] = {
    LAUNCHER_PATH, "--width",      "32",        "--layers",  "1",  "--heads",
    "2",           "--batch",      "2",         "--context", "64", "--steps",
    "6",           "--no-scaling", "--no-bind", "--timeout", "40",
};

void training_start(training_run *run, const test_directory *directory, const char *name,
                    const char *const *flags)
{
    const char *arguments[TEST_PROGRAM_ARGS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < sizeof small_model / sizeof small_model[0]; i++) {
        arguments[count++] = small_model[i];
    }
    (void)snprintf(run->out, sizeof run->out, "%s", test_directory_path(directory, name));
    arguments[count++] = "--out";
    arguments[count++] = run->out;
    for (size_t i = 0; flags[i] != NULL; i++) {
        assert_true(i < TRAINING_FLAGS_MAX);
        arguments[count++] = flags[i];
    }
    arguments[count] = NULL;
    test_program_start(&run->program, arguments, FLAGS());
}

void training_expect(training_run *run, const test_directory *directory, const char *name,
                     int exit_code, const char *const *flags)
{
    training_start(run, directory, name, flags);
    const int got = test_program_wait(&run->program);
    if (got != exit_code) {
        fail_msg("%s ended with %d, not %d:\n%s%s", name, got, exit_code,
                 run->program.text[TEST_STDOUT], run->program.text[TEST_STDERR]);
    }
    test_program_assert_no_children();
}

void training_expect_refused(training_run *run, const char *const *flags, const char *says)
{
    training_expect(run, &test_shared_directory, "refused", 2, flags);
    const char *err = run->program.text[TEST_STDERR];
    assert_has(err, says);
    assert_ptr_equal(strchr(err, '\n'), err + strlen(err) - 1); /* one line */
    assert_int_not_equal(access(run->out, F_OK), 0);
}

void *training_file(const training_run *run, const char *file, size_t *size_bytes)
{
    char path[BASE_PATH_BYTES + 64];
    (void)snprintf(path, sizeof path, "%s/%s", run->out, file);
    return test_file_read(path, size_bytes);
}

void training_assert_same_file(const training_run *a, const char *file_a, const training_run *b,
                               const char *file_b)
{
    size_t size_a = 0;
    size_t size_b = 0;
    void *data_a = training_file(a, file_a, &size_a);
    void *data_b = training_file(b, file_b, &size_b);
    if (size_a != size_b || memcmp(data_a, data_b, size_a) != 0) {
        fail_msg("%s/%s and %s/%s differ", a->out, file_a, b->out, file_b);
    }
    free(data_a);
    free(data_b);
}

static const char *walked; /* the directory whose files are counted */
static size_t files;

static int count_file(const char *path, const struct stat *info, int kind, struct FTW *place)
{
    const char *name = path + strlen(walked);
    (void)info;
    const bool below = strncmp(name, "/checkpoints/", 13) == 0;
    files += (kind == FTW_F && !below) || (place->level == 1 && strcmp(name, "/checkpoints") == 0);
    return 0;
}

void training_assert_other_file(const training_run *a, const training_run *b, const char *file)
{
    size_t size_a = 0;
    size_t size_b = 0;
    void *data_a = training_file(a, file, &size_a);
    void *data_b = training_file(b, file, &size_b);
    assert_int_equal(size_a, size_b);
    assert_memory_not_equal(data_a, data_b, size_a);
    free(data_a);
    free(data_b);
}

void training_assert_files(const test_program *dry, const char *directory)
{
    char names[4096];
    size_t count = 0;
    const char *line = strstr(dry->text[TEST_STDOUT], "\nfiles: ");
    assert_non_null(line);
    assert_true(sscanf(line, "\nfiles: %4095[^\n]", names) == 1);
    for (char *rest = NULL, *name = strtok_r(names, " ", &rest); name != NULL;
         name = strtok_r(NULL, " ", &rest)) {
        char path[BASE_PATH_BYTES];
        (void)snprintf(path, sizeof path, "%s/%s", directory, name);
        if (access(path, F_OK) != 0) {
            fail_msg("a dry run names %s, and there is none", path);
        }
        count++;
    }
    walked = directory;
    files = 0;
    assert_int_equal(nftw(directory, count_file, 8, FTW_PHYS), 0);
    if (files != count) {
        fail_msg("a dry run names %zu files, and %zu are in %s", count, files, directory);
    }
}

void training_assert_same_model(const training_run *a, const training_run *b)
{
    training_assert_same_file(a, "model.safetensors", b, "model.safetensors");
    training_assert_same_file(a, "state-rank-0.safetensors", b, "state-rank-0.safetensors");
}

json_t *training_json(const training_run *run, const char *file)
{
    char *text = training_file(run, file, NULL);
    json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    free(text);
    assert_non_null(object);
    return object;
}

json_t *training_manifest(const training_run *run)
{
    return training_json(run, "manifest.json");
}

void training_assert_equivalent(const training_run *run)
{
    json_t *manifest = training_manifest(run);
    assert_true(json_is_true(json_object_get(manifest, "byte_equivalent")));
    json_decref(manifest);
}

const json_t *training_row(const json_t *of, const char *list, const char *key, const char *name)
{
    size_t i = 0;
    const json_t *row = NULL;
    json_array_foreach(json_object_get(of, list), i, row)
    {
        if (strcmp(json_string_value(json_object_get(row, key)), name) == 0) {
            return row;
        }
    }
    fail_msg("no %s in %s", name, list);
    return NULL;
}

json_t *training_timings(const char *directory)
{
    char path[BASE_PATH_BYTES + 64];
    json_t *rows = json_array();
    (void)snprintf(path, sizeof path, "%s/timings.jsonl", directory);
    char *text = test_file_read(path, NULL);
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        assert_int_equal(
            json_array_append_new(rows, json_loads(line, JSON_REJECT_DUPLICATES, NULL)), 0);
    }
    free(text);
    return rows;
}

double training_last(const training_run *run, const char *key)
{
    size_t i = 0;
    const json_t *row = NULL;
    double last = NAN;
    json_t *rows = training_timings(run->out);
    json_array_foreach(rows, i, row)
    {
        const json_t *value = json_object_get(row, key);
        last = json_is_number(value) ? json_number_value(value) : last;
    }
    json_decref(rows);
    return last;
}

void training_wait_checkpoint(const training_run *run, uint64_t step)
{
    const int64_t deadline_ns = base_deadline_after_ns(120 * BASE_NS_PER_S);
    bool found = false;
    uint64_t newest = 0;
    base_error error;
    do {
        (void)usleep(1000);
        if (base_now_ns() > deadline_ns) {
            fail_msg("%s has no checkpoint of %d steps", run->out, (int)step);
        }
        assert_ok(proto_checkpoints_newest(run->out, &found, &newest, &error), &error);
    } while (!found || newest < step);
}

void training_gate_at(uint64_t step)
{
    static const char any_order[] = "verify_asan_link_order=0"; /* of the libraries */
    const char *const options = getenv("ASAN_OPTIONS");
    char text[256];
    if (step == 0) {
        assert_int_equal(unsetenv("LD_PRELOAD"), 0);
        return;
    }
    if (TEST_HAS_ASAN && (options == NULL || strstr(options, any_order) == NULL)) {
        (void)snprintf(text, sizeof text, "%s:%s", options != NULL ? options : "", any_order);
        assert_int_equal(setenv("ASAN_OPTIONS", text, 1), 0);
    }
    (void)snprintf(text, sizeof text, "%d", (int)step);
    assert_int_equal(setenv("GATE_STEP", text, 1), 0);
    assert_int_equal(setenv("LD_PRELOAD", GATE_LIBRARY, 1), 0);
}

void training_open_gate(const training_run *run)
{
    base_error error;
    char path[BASE_PATH_BYTES + 8];
    (void)snprintf(path, sizeof path, "%s/go", run->out);
    assert_ok(base_file_write(path, "", 0, &error), &error);
}

static int list_ranks(pid_t launcher, pid_t *ranks, int ranks_max)
{
    char path[64];
    char text[512] = "";
    int count = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", launcher, launcher);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    const ssize_t got = read(fd, text, sizeof text - 1);
    (void)close(fd);
    text[got > 0 ? got : 0] = '\0';
    char *at = text;
    while (count < ranks_max) { /* by rising pid, which is the ranks' order */
        char *end = NULL;
        const long pid = strtol(at, &end, 10);
        if (end == at) {
            break;
        }
        ranks[count++] = (pid_t)pid;
        at = end;
    }
    return count;
}

pid_t training_rank_pid(const training_run *run, int rank)
{
    pid_t ranks[8] = {0};
    assert_true(list_ranks(run->program.pid, ranks, 8) > rank);
    return ranks[rank];
}

void training_expect_killed(training_run *run, int rank)
{
    char name[32];
    test_program_wait_text(&run->program, TEST_STDERR, "step ");
    assert_int_equal(kill(training_rank_pid(run, rank), SIGKILL), 0);
    assert_int_equal(test_program_wait(&run->program), 128 + SIGKILL);
    test_program_assert_no_children();
    (void)snprintf(name, sizeof name, "rank %d", rank);
    assert_has(run->program.text[TEST_STDERR], name);
}
