#include "record/out_folder.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "support.h"

static void put_file(const char *folder, const char *name)
{
    char path[BASE_PATH_BYTES];
    base_error error;
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_ok(base_file_write(path, "x", 1, &error), &error);
}

static int has_file(const char *folder, const char *name)
{
    char path[BASE_PATH_BYTES];
    struct stat info;
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return stat(path, &info) == 0;
}

static void records_are_kept_by_number(void **state)
{
    (void)state;
    test_folder place;
    base_error error;
    launch_out_folder folder;
    test_folder_make(&place);
    const char *out = test_folder_path(&place, "deep/out");
    for (int run = 0; run < 3; run++) {
        char mark[16];
        /* a slash at the end changes nothing */
        assert_ok(launch_out_folder_open(run == 1 ? test_folder_path(&place, "deep/out/") : out,
                                         false, &folder, &error),
                  &error);
        assert_string_equal(folder.path, out);
        assert_int_equal(folder.moved_to[0] != '\0', run > 0);
        assert_false(has_file(out, "timings.jsonl"));
        (void)snprintf(mark, sizeof mark, "mark%d", run);
        put_file(out, "timings.jsonl");
        put_file(out, mark);
        launch_out_folder_close(&folder);
    }
    assert_true(has_file(test_folder_path(&place, "deep/out.1"), "mark0"));
    assert_true(has_file(test_folder_path(&place, "deep/out.2"), "mark1"));
    assert_true(has_file(out, "mark2"));
    test_folder_remove(&place);
}

static void overwriting_removes_our_files_alone(void **state)
{
    (void)state;
    static const char *const OURS[] = {"manifest.json", "state-rank-12.safetensors",
                                       "model.safetensors.tmp", "report.html"};
    static const char *const THEIRS[] = {"notes.txt", "state-rank-x.safetensors", "my.tmp"};
    test_folder place;
    base_error error;
    launch_out_folder folder;
    test_folder_make(&place);
    for (size_t i = 0; i < sizeof OURS / sizeof OURS[0]; i++) {
        put_file(place.path, OURS[i]);
    }
    for (size_t i = 0; i < sizeof THEIRS / sizeof THEIRS[0]; i++) {
        put_file(place.path, THEIRS[i]);
    }
    assert_ok(launch_out_folder_open(place.path, true, &folder, &error), &error);
    assert_string_equal(folder.moved_to, "");
    launch_out_folder_close(&folder);
    for (size_t i = 0; i < sizeof OURS / sizeof OURS[0]; i++) {
        assert_false(has_file(place.path, OURS[i]));
    }
    for (size_t i = 0; i < sizeof THEIRS / sizeof THEIRS[0]; i++) {
        assert_true(has_file(place.path, THEIRS[i]));
    }
    test_folder_remove(&place);
}

static void other_peoples_folders_are_left_alone(void **state)
{
    (void)state;
    test_folder place;
    base_error error;
    launch_out_folder folder;
    test_folder_make(&place);
    put_file(place.path, "thesis.tex");
    assert_status(launch_out_folder_open(place.path, true, &folder, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.message, place.path));
    assert_true(has_file(place.path, "thesis.tex"));
    assert_status(
        launch_out_folder_open(test_folder_path(&place, "thesis.tex"), false, &folder, &error),
        BASE_ERR_IO);
    assert_status(launch_out_folder_open("", false, &folder, &error), BASE_ERR_INVALID);
    assert_status(launch_out_folder_open("/proc/nothing/here", false, &folder, &error),
                  BASE_ERR_IO);
    assert_non_null(strstr(error.message, "/proc/nothing"));
    test_folder_remove(&place);
}

/* Another process takes the folder; the refusal names it, and it is free once that process is
 * gone. */
static void a_folder_in_use_names_its_user(void **state)
{
    (void)state;
    test_folder place;
    base_error error;
    launch_out_folder folder;
    int ready[2];
    int leave[2];
    char byte = 0;
    test_folder_make(&place);
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(leave), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)close(leave[1]);
        const int taken = launch_out_folder_open(place.path, false, &folder, NULL) == BASE_OK;
        _exit(write(ready[1], taken ? "y" : "n", 1) == 1 && read(leave[0], &byte, 1) == 0 ? 0 : 1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(byte, 'y');
    assert_status(launch_out_folder_open(place.path, false, &folder, &error), BASE_ERR_BUSY);
    char pid[32];
    (void)snprintf(pid, sizeof pid, "process %ld", (long)child);
    assert_non_null(strstr(error.message, pid));

    int status = 1;
    (void)close(leave[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_ok(launch_out_folder_open(place.path, false, &folder, &error), &error);
    launch_out_folder_close(&folder);
    (void)close(leave[0]);
    (void)close(ready[0]);
    (void)close(ready[1]);
    test_folder_remove(&place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_are_kept_by_number),
        cmocka_unit_test(overwriting_removes_our_files_alone),
        cmocka_unit_test(other_peoples_folders_are_left_alone),
        cmocka_unit_test(a_folder_in_use_names_its_user),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
