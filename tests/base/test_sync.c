/* base/sync.h, and the durable files of base/file.h. Whether the disk has them no test can see. It is
 * seen which files are synced, and in which order with the rename. */
#include "base/sync.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "support.h"

static struct {
    char log[64]; /* f: a file was synced, d: a directory, r: a rename */
    bool sync_fails;
    bool readdir_fails;
} system_calls;

static void note(const char *what)
{
    (void)strncat(system_calls.log, what, sizeof system_calls.log - strlen(system_calls.log) - 1);
}

__attribute__((visibility("default"))) int fsync(int fd)
{
    struct stat info;
    note(fstat(fd, &info) == 0 && S_ISDIR(info.st_mode) ? "d" : "f");
    if (system_calls.sync_fails) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_fsync, fd);
}

__attribute__((visibility("default"))) int rename(const char *old, const char *new)
{
    note("r");
    return renameat(AT_FDCWD, old, AT_FDCWD, new);
}

__attribute__((visibility("default"))) struct dirent *readdir(DIR *dirp)
{
    static struct dirent *(*real)(DIR *);
    if (system_calls.readdir_fails) {
        errno = EIO;
        return NULL;
    }
    *(void **)&real = dlsym(RTLD_NEXT, "readdir");
    return real(dirp);
}

static int begin(void **state)
{
    (void)state;
    memset(&system_calls, 0, sizeof system_calls);
    return 0;
}

static void a_durable_file_is_on_disk_before_its_name(void **state)
{
    (void)state;
    base_error error;
    const base_file_kind kind = {.durable = true};
    const char *path = test_shared_path("durable");
    assert_ok(base_file_write_as(path, &kind, "x", 1, &error), &error);
    assert_string_equal(system_calls.log, "frd");
    assert_ok(base_file_write(path, "y", 1, &error), &error);
    assert_string_equal(system_calls.log, "frdr");
    assert_ok(base_file_write_as("/dev/null", &kind, "x", 1, &error), &error);
    assert_string_equal(system_calls.log, "frdr");
    system_calls.sync_fails = true;
    assert_status(base_file_write_as(path, &kind, "z", 1, &error), BASE_ERR_IO);
    assert_non_null(strstr(error.message, "to disk"));
    assert_string_equal(system_calls.log, "frdrf");
    assert_int_equal(access(test_shared_path("durable.tmp"), F_OK), -1);
}

static void the_directory_above_is_found(void **state)
{
    (void)state;
    base_error error;
    assert_ok(base_sync_parent(test_shared_path("x"), &error), &error);
    assert_ok(base_sync_parent("here", &error), &error);
    assert_ok(base_sync_parent("/tmp", &error), &error);
    assert_string_equal(system_calls.log, "ddd");
    assert_status(base_sync_parent(test_shared_path("none/x"), &error), BASE_ERR_IO);
    assert_non_null(strstr(error.message, "none to disk"));
}

static void a_directory_is_synced_with_all_files(void **state)
{
    (void)state;
    base_error error;
    test_directory directory;
    test_directory_make(&directory);
    assert_ok(base_file_write(test_directory_path(&directory, "a"), "", 0, &error), &error);
    assert_ok(base_file_write(test_directory_path(&directory, "b"), "", 0, &error), &error);
    (void)begin(NULL);
    assert_ok(base_sync_directory(directory.path, &error), &error);
    assert_int_equal(strlen(system_calls.log), 3);
    assert_non_null(strchr(system_calls.log, 'd'));
    system_calls.readdir_fails = true; /* which is not the end of the directory */
    assert_status(base_sync_directory(directory.path, &error), BASE_ERR_IO);
    system_calls.readdir_fails = false;
    system_calls.sync_fails = true;
    assert_status(base_sync_directory(directory.path, &error), BASE_ERR_IO);
    assert_status(base_sync_directory(test_directory_path(&directory, "none"), &error),
                  BASE_ERR_IO);
    system_calls.sync_fails = false;
    test_directory_remove(&directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_durable_file_is_on_disk_before_its_name, begin),
        cmocka_unit_test_setup(the_directory_above_is_found, begin),
        cmocka_unit_test_setup(a_directory_is_synced_with_all_files, begin),
    };
    return cmocka_run_group_tests(tests, test_shared_directory_make, test_shared_directory_remove);
}
