#include "base/file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "support.h"

static void a_file_comes_back(void **state)
{
    (void)state;
    test_folder folder;
    base_error error;
    void *data = NULL;
    size_t size_bytes = 0;
    test_folder_make(&folder);
    const char *path = test_folder_path(&folder, "a");

    static char big[200 * 1024];
    memset(big, 'b', sizeof big);
    assert_ok(base_file_write(path, big, sizeof big, &error), &error);
    assert_ok(base_file_read(path, sizeof big, &data, &size_bytes, &error), &error);
    assert_int_equal(size_bytes, sizeof big);
    assert_memory_equal(data, big, sizeof big);
    free(data);

    assert_status(base_file_read(path, sizeof big - 1, &data, &size_bytes, &error), BASE_ERR_LIMIT);
    assert_status(base_file_read(test_folder_path(&folder, "none"), 1, &data, &size_bytes, &error),
                  BASE_ERR_NOTFOUND);
    test_folder_remove(&folder);
}

static void nothing_appears_before_commit(void **state)
{
    (void)state;
    test_folder folder;
    base_error error;
    struct stat info;
    base_file_writer *writer = NULL;
    test_folder_make(&folder);
    const char *path = test_folder_path(&folder, "a");

    assert_ok(base_file_writer_open(path, &writer, &error), &error);
    assert_ok(base_file_writer_put(writer, "x", 1, &error), &error);
    assert_int_not_equal(stat(path, &info), 0);
    base_file_writer_abandon(writer);
    assert_int_not_equal(stat(path, &info), 0);
    assert_int_not_equal(stat(test_folder_path(&folder, "a.tmp"), &info), 0);
    test_folder_remove(&folder);
}

static void a_full_disk_is_reported(void **state)
{
    (void)state;
    base_error error;
    static char big[200 * 1024];
    assert_status(base_file_write("/proc/version", big, 1, &error), BASE_ERR_IO);
    assert_non_null(strstr(error.message, "/proc/version"));
}

static void folders_are_made_with_parents(void **state)
{
    (void)state;
    test_folder folder;
    base_error error;
    test_folder_make(&folder);
    const char *path = test_folder_path(&folder, "a/b/c");
    assert_ok(base_mkdirs(path, &error), &error);
    assert_ok(base_mkdirs(path, &error), &error);
    assert_ok(base_file_write(test_folder_path(&folder, "a/f"), "", 0, &error), &error);
    assert_status(base_mkdirs(test_folder_path(&folder, "a/f"), &error), BASE_ERR_IO);
    test_folder_remove(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_comes_back),
        cmocka_unit_test(nothing_appears_before_commit),
        cmocka_unit_test(a_full_disk_is_reported),
        cmocka_unit_test(folders_are_made_with_parents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
