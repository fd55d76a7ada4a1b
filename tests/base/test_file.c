/* base/file.h: whole files, writers in turns, full disks, devices, pipes and links. */
#include "base/file.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support.h"

static void only_regular_files_are_read_as_such(void **state)
{
    (void)state;
    base_error error;
    void *data = NULL;
    size_t size_bytes = 0;
    const char *path = test_shared_path("a");
    const char *link = test_shared_path("link");
    const char *pipe = test_shared_path("pipe");
    assert_ok(base_file_write(path, "text", 4, &error), &error);
    assert_int_equal(symlink("a", link), 0);
    assert_ok(base_file_read_regular(link, 4, &data, &size_bytes, &error), &error);
    assert_int_equal(size_bytes, 4);
    free(data);
    assert_status(base_file_read_regular(path, 3, &data, &size_bytes, &error), BASE_ERR_LIMIT);
    assert_int_equal(mkfifo(pipe, 0600), 0); /* nobody writes to it */
    const char *const others[] = {pipe, test_shared_directory.path, "/dev/zero"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_status(base_file_read_regular(others[i], 4, &data, &size_bytes, &error),
                      BASE_ERR_INVALID);
        assert_non_null(strstr(error.message, "is not a regular file"));
    }
    assert_status(base_file_read_regular(test_shared_path("none"), 4, &data, &size_bytes, &error),
                  BASE_ERR_NOTFOUND);
}

static _Atomic mode_t renamed_mode; /* of the file that was renamed last */

/* The writer's renames go through here. */
__attribute__((visibility("default"))) int rename(const char *old, const char *new)
{
    struct stat info;
    renamed_mode = stat(old, &info) == 0 ? info.st_mode : 0;
    return renameat(AT_FDCWD, old, AT_FDCWD, new);
}

static void a_file_comes_back(void **state)
{
    (void)state;
    base_error error;
    void *data = NULL;
    size_t size_bytes = 0;
    const char *path = test_shared_path("a");

    static char big[200 * 1024];
    memset(big, 'b', sizeof big);
    assert_ok(base_file_write(path, big, sizeof big, &error), &error);
    assert_ok(base_file_read(path, sizeof big, &data, &size_bytes, &error), &error);
    assert_int_equal(size_bytes, sizeof big);
    assert_memory_equal(data, big, sizeof big);
    free(data);

    assert_status(base_file_read(path, sizeof big - 1, &data, &size_bytes, &error), BASE_ERR_LIMIT);
    assert_status(base_file_read(test_shared_path("none"), 1, &data, &size_bytes, &error),
                  BASE_ERR_NOTFOUND);
    assert_status(base_file_read(test_shared_directory.path, 1, &data, &size_bytes, &error),
                  BASE_ERR_INVALID);
    assert_int_equal(error.status, BASE_ERR_INVALID);
    assert_status(base_file_read(test_shared_path("a/b"), 1, &data, &size_bytes, &error),
                  BASE_ERR_INVALID);
}

static void nothing_appears_before_commit(void **state)
{
    (void)state;
    base_error error;
    struct stat info;
    base_file_writer *writer = NULL;
    const char *path = test_shared_path("a");

    assert_ok(base_file_writer_open(path, &writer, &error), &error);
    assert_ok(base_file_writer_put(writer, "x", 1, &error), &error);
    assert_int_not_equal(stat(path, &info), 0);
    base_file_writer_abandon(writer);
    assert_int_not_equal(stat(path, &info), 0);
    assert_int_not_equal(stat(test_shared_path("a.tmp"), &info), 0);
}

/* Also what is still in the writer's buffer; the end stays where it was. */
static void a_beginning_is_written_last(void **state)
{
    (void)state;
    base_error error;
    base_file_writer *writer = NULL;
    void *data = NULL;
    size_t size_bytes = 0;
    const char *path = test_shared_path("a");
    assert_ok(base_file_writer_open(path, &writer, &error), &error);
    base_file_writer_make_durable(writer);
    assert_ok(base_file_writer_put(writer, "____-", 5, &error), &error);
    assert_ok(base_file_writer_put_at(writer, 1, "bcd", 3, &error), &error);
    assert_ok(base_file_writer_put(writer, "e", 1, &error), &error);
    assert_ok(base_file_writer_put_at(writer, 0, "a", 1, &error), &error);
    assert_ok(base_file_writer_commit(writer, &error), &error);
    assert_ok(base_file_read(path, 16, &data, &size_bytes, &error), &error);
    assert_string_equal(data, "abcd-e");
    assert_int_equal(size_bytes, 6);
    free(data);
    assert_ok(base_file_writer_open("/dev/null", &writer, &error), &error);
    assert_status(base_file_writer_put_at(writer, 0, "a", 1, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.message, "/dev/null"));
    base_file_writer_abandon(writer);
}

/* Also if a writer that was killed left a file that is more open. */
static void a_mode_is_there_before_the_name(void **state)
{
    (void)state;
    base_error error;
    struct stat info;
    const base_file_kind kind = {.mode_max = 0600};
    const char *path = test_shared_path("a");
    const char *temporary = test_shared_path("a.tmp");
    const mode_t mask = umask(0);
    assert_ok(base_file_write(temporary, "", 0, &error), &error);
    renamed_mode = 0;
    assert_ok(base_file_write_as(path, &kind, "x", 1, &error), &error);
    assert_int_equal(renamed_mode & 07777, 0600);
    (void)umask(mask);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0600);
}

typedef struct rival {
    const char *path;
    char letter;
    int failed;
} rival;

static void *write_often(void *user)
{
    enum { TIMES = 200, BYTES = 100 };
    rival *r = user;
    char text[BYTES];
    base_error error;
    memset(text, r->letter, sizeof text);
    for (int i = 0; i < TIMES; i++) {
        r->failed += base_file_write(r->path, text, sizeof text, &error) != BASE_OK;
    }
    return NULL;
}

/* The file has all of what the last writer wrote. */
static void writers_of_one_path_take_turns(void **state)
{
    (void)state;
    base_error error;
    pthread_t thread;
    struct stat info;
    void *text = NULL;
    size_t size_bytes = 0;
    const char *path = test_shared_path("a");
    rival one = {.path = path, .letter = '1'};
    rival two = {.path = path, .letter = '2'};
    assert_int_equal(pthread_create(&thread, NULL, write_often, &one), 0);
    (void)write_often(&two);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(one.failed + two.failed, 0);
    assert_ok(base_file_read(path, 4096, &text, &size_bytes, &error), &error);
    assert_int_equal(size_bytes, 100);
    assert_int_equal(strspn(text, *(char *)text == '1' ? "1" : "2"), size_bytes);
    free(text);
    assert_int_not_equal(stat(test_shared_path("a.tmp"), &info), 0);
}

static void expect_in_the_way(const char *path, const char *why)
{
    base_error error = {0};
    assert_status(base_file_write(path, "x", 1, &error), BASE_ERR_IO);
    assert_non_null(strstr(error.message, "a.tmp is in the way"));
    assert_non_null(strstr(error.message, why));
    assert_int_equal(access(path, F_OK), -1);
}

/* In /tmp anybody can lay them there. */
static void a_strange_temporary_file_is_not_taken_over(void **state)
{
    enum { NOBODY = 65534 };
    base_error error;
    struct stat info;
    (void)state;
    const char *path = test_shared_path("a");
    const char *temporary = test_shared_path("a.tmp");
    const char *other = test_shared_path("other");

    assert_int_equal(mkfifo(temporary, 0600), 0);
    expect_in_the_way(path, "not a plain file");
    assert_int_equal(unlink(temporary), 0);

    assert_ok(base_file_write(other, "text", 4, &error), &error);
    assert_int_equal(symlink(other, temporary), 0);
    expect_in_the_way(path, "not a plain file");
    assert_int_equal(unlink(temporary), 0);

    assert_int_equal(link(other, temporary), 0);
    expect_in_the_way(path, "a second name");
    assert_int_equal(stat(other, &info), 0);
    assert_int_equal(info.st_size, 4);

    assert_int_equal(unlink(other), 0); /* now it is one of a writer that was killed */
    assert_ok(base_file_write(path, "x", 1, &error), &error);
    assert_int_equal(unlink(path), 0);
    if (geteuid() == 0) { /* only root can give a file away */
        assert_ok(base_file_write(temporary, "", 0, &error), &error);
        assert_int_equal(chown(temporary, NOBODY, NOBODY), 0);
        expect_in_the_way(path, "another user");
    }
}

static void a_full_disk_is_reported(void **state)
{
    (void)state;
    base_error error;
    static char big[200 * 1024];
    assert_status(base_file_write("/proc/version", big, 1, &error), BASE_ERR_IO);
    assert_non_null(strstr(error.message, "/proc/version"));
    base_file_writer *writer = NULL;
    assert_status(base_file_writer_open("", &writer, &error), BASE_ERR_INVALID);
}

/* What is there stays, and nothing else appears. */
static void a_path_is_checked_before_it_is_written(void **state)
{
    (void)state;
    base_error error;
    struct stat info;
    const char *path = test_shared_path("a");
    assert_ok(base_file_check_writable(path, &error), &error);
    assert_int_not_equal(stat(path, &info), 0);
    assert_int_not_equal(stat(test_shared_path("a.tmp"), &info), 0);
    assert_ok(base_file_write(path, "old", 3, &error), &error);
    assert_ok(base_file_check_writable(path, &error), &error);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_size, 3);

    const char *pipe = test_shared_path("pipe");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_ok(base_file_check_writable(pipe, &error),
              &error); /* without a reader it does not wait */
    assert_status(base_file_check_writable(test_shared_directory.path, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.message, "is a directory"));
    assert_int_not_equal(base_file_check_writable(test_shared_path("none/a"), &error), BASE_OK);
    assert_non_null(strstr(error.message, "cannot write "));
}

/* For root a rename over them would succeed. */
static void devices_and_pipes_stay(void **state)
{
    (void)state;
    base_error error;
    struct stat info;
    char got[8] = "";
    base_file_writer *writer = NULL;

    const char *pipe = test_shared_path("pipe");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    const int reader = open(pipe, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(reader >= 0);
    assert_ok(base_file_write(pipe, "one", 3, &error), &error);
    assert_ok(base_file_writer_open(pipe, &writer, &error), &error);
    base_file_writer_abandon(writer);
    assert_int_equal(read(reader, got, sizeof got), 3);
    assert_memory_equal(got, "one", 3);
    assert_int_equal(lstat(pipe, &info), 0);
    assert_true(S_ISFIFO(info.st_mode));
    assert_int_equal(close(reader), 0);

    assert_int_equal(lstat("/dev/full", &info), 0);
    assert_true(S_ISCHR(info.st_mode)); /* otherwise the next line would write a file there */
    assert_status(base_file_write("/dev/full", "x", 1, &error), BASE_ERR_IO);
    assert_non_null(strstr(error.message, "/dev/full"));
    assert_int_equal(lstat("/dev/full", &info), 0);
    assert_true(S_ISCHR(info.st_mode));
}

/* As for /dev/stdout, when output goes to a file. */
static void links_of_the_system_are_followed(void **state)
{
    (void)state;
    base_error error;
    void *data = NULL;
    size_t size_bytes = 0;
    char name[64];
    const char *path = test_shared_path("out");
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, "a", 1), 1);
    (void)snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    assert_ok(base_file_write(name, "b", 1, &error), &error);
    assert_int_equal(close(fd), 0);
    assert_ok(base_file_read(path, 8, &data, &size_bytes, &error), &error);
    assert_int_equal(size_bytes, 2);
    assert_memory_equal(data, "ab", 2);
    free(data);
}

/* Also if the path to them leads through the system's own names. */
static void other_links_are_replaced(void **state)
{
    (void)state;
    base_error error;
    void *data = NULL;
    size_t size_bytes = 0;
    char name[PATH_MAX];
    const char *link = test_shared_path("link");
    assert_ok(base_file_write(test_shared_path("old"), "a", 1, &error), &error);
    assert_int_equal(symlink("old", link), 0);
    (void)snprintf(name, sizeof name, "/proc/self/root%s", link);
    assert_ok(base_file_write(name, "b", 1, &error), &error);
    assert_ok(base_file_read(link, 8, &data, &size_bytes, &error), &error);
    assert_int_equal(size_bytes, 1);
    assert_memory_equal(data, "b", 1);
    free(data);
}

static void directories_are_made_with_parents(void **state)
{
    (void)state;
    base_error error;
    const char *path = test_shared_path("a/b/c");
    assert_ok(base_mkdirs(path, &error), &error);
    assert_ok(base_mkdirs(path, &error), &error);
    assert_ok(base_file_write(test_shared_path("a/f"), "", 0, &error), &error);
    assert_status(base_mkdirs(test_shared_path("a/f"), &error), BASE_ERR_IO);
    assert_status(base_mkdirs("", &error), BASE_ERR_INVALID);
    assert_string_equal(error.message, "a directory has no name");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_IN_DIRECTORY(a_file_comes_back),
        TEST_IN_DIRECTORY(only_regular_files_are_read_as_such),
        TEST_IN_DIRECTORY(nothing_appears_before_commit),
        TEST_IN_DIRECTORY(a_beginning_is_written_last),
        TEST_IN_DIRECTORY(a_mode_is_there_before_the_name),
        TEST_IN_DIRECTORY(writers_of_one_path_take_turns),
        TEST_IN_DIRECTORY(a_strange_temporary_file_is_not_taken_over),
        cmocka_unit_test(a_full_disk_is_reported),
        TEST_IN_DIRECTORY(a_path_is_checked_before_it_is_written),
        TEST_IN_DIRECTORY(devices_and_pipes_stay),
        TEST_IN_DIRECTORY(links_of_the_system_are_followed),
        TEST_IN_DIRECTORY(other_links_are_replaced),
        TEST_IN_DIRECTORY(directories_are_made_with_parents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
