/* base/lock.h: one holder at a time among processes, no link followed, and a waiter gets it. */
#include "base/lock.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

static void one_at_a_time(void **state)
{
    (void)state;
    base_error error;
    int first = -1;
    int second = -1;
    struct stat info;
    const char *path = test_shared_path("lock");
    assert_ok(base_lock_file(path, &first, &error), &error);
    assert_int_equal(fstat(first, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_status(base_lock_file(path, &second, &error), BASE_ERR_BUSY);
    assert_non_null(strstr(error.message, "lock is locked by another process"));
    assert_int_equal(second, -1);
    (void)close(first);
    assert_ok(base_lock_file(path, &second, &error), &error);
    base_lock_drop(second);
    assert_ok(base_lock_file(path, &first, &error), &error);
    (void)close(first);
    (void)close(second);
}

static void a_removed_lock_is_known(void **state)
{
    (void)state;
    base_error error;
    int first = -1;
    int second = -1;
    const char *path = test_shared_path("named");
    assert_ok(base_lock_file(path, &first, &error), &error);
    assert_true(base_lock_is_named(first, path));
    assert_int_equal(unlink(path), 0);
    assert_false(base_lock_is_named(first, path));
    assert_ok(base_lock_file(path, &second, &error), &error);
    assert_false(base_lock_is_named(first, path));
    assert_true(base_lock_is_named(second, path));
    (void)close(first);
    (void)close(second);
}

static void no_link_is_followed(void **state)
{
    (void)state;
    base_error error;
    int fd = -1;
    const char *link = test_shared_path("link");
    assert_int_equal(symlink("elsewhere", link), 0);
    assert_status(base_lock_file(link, &fd, &error), BASE_ERR_IO);
    assert_int_not_equal(access(test_shared_path("elsewhere"), F_OK), 0);
}

/* When the holder ends, the process that waits gets the lock. */
static void a_waiting_process_gets_the_lock(void **state)
{
    (void)state;
    base_error error;
    int ready[2];
    int fd = -1;
    char byte = 0;
    const char *path = test_shared_path("waited");
    assert_int_equal(pipe(ready), 0);
    const pid_t holder = fork();
    assert_true(holder >= 0);
    if (holder == 0) {
        int held = -1;
        if (base_lock_file(path, &held, NULL) != BASE_OK || write(ready[1], "x", 1) != 1) {
            _exit(1);
        }
        (void)pause();
        _exit(0);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_status(base_lock_file(path, &fd, &error), BASE_ERR_BUSY);
    const int waiting = open(path, O_RDWR | O_CLOEXEC);
    assert_true(waiting >= 0);
    assert_int_equal(kill(holder, SIGKILL), 0);
    assert_ok(base_lock_wait(waiting, path, &error), &error);
    assert_int_equal(waitpid(holder, NULL, 0), holder);
    (void)close(waiting);
    (void)close(ready[0]);
    (void)close(ready[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_at_a_time),
        cmocka_unit_test(a_removed_lock_is_known),
        cmocka_unit_test(no_link_is_followed),
        cmocka_unit_test(a_waiting_process_gets_the_lock),
    };
    return cmocka_run_group_tests(tests, test_shared_directory_make, test_shared_directory_remove);
}
