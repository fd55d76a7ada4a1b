/* job/processes.h: groups of a pretended host, and a limit of this user's. */
#include "job/processes.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

enum { NOBODY = 65534 };

static int64_t left(void)
{
    char root[BASE_PATH_BYTES];
    const char *limit = NULL;
    (void)snprintf(root, sizeof root, "%s", test_shared_path("."));
    const int64_t found = launch_processes_left(root, &limit);
    if (found < 100) { /* else it may be this user's */
        assert_string_equal(limit, "pids.max of the control group");
    }
    return found;
}

static void a_group_above_limits_too(void **state)
{
    (void)state;
    assert_true(left() > 100); /* a host without such files */
    test_shared_put("proc/self/cgroup", "0::/a/b\n");
    test_shared_put("sys/fs/cgroup/a/b/pids.max", "max\n");
    test_shared_put("sys/fs/cgroup/a/b/pids.current", "3\n");
    assert_true(left() > 100);
    test_shared_put("sys/fs/cgroup/a/pids.max", "20\n");
    test_shared_put("sys/fs/cgroup/a/pids.current", "5\n");
    assert_int_equal(left(), 15);
    test_shared_put("sys/fs/cgroup/a/b/pids.max", "12\n");
    assert_int_equal(left(), 9);
    test_shared_put("sys/fs/cgroup/a/b/pids.current", "14\n");
    assert_int_equal(left(), 0);
}

/* In a container of version 1 the line has the host's path, and the files are at the root. */
static void version_1_has_a_line_of_its_own(void **state)
{
    (void)state;
    test_shared_put("proc/self/cgroup", "9:memory:/x\n8:pids:/docker/c\n");
    test_shared_put("sys/fs/cgroup/pids/pids.max", "30\n");
    test_shared_put("sys/fs/cgroup/pids/pids.current", "10\n");
    assert_int_equal(left(), 20);
}

/* In a process of its own, because it changes the user and a limit. */
static void a_users_limit_is_named(void **state)
{
    (void)state;
    int status = 0;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit none = {0, 0};
        base_error error;
        if ((getuid() == 0 && setuid(NOBODY) != 0) || setrlimit(RLIMIT_NPROC, &none) != 0) {
            _exit(2);
        }
        const bool refused = launch_processes_check(2, false, &error) == BASE_ERR_LIMIT;
        _exit(refused && strcmp(error.message,
                                "2 ranks need up to 17 more processes and threads, and ulimit -u "
                                "leaves room for 0: raise it, or start fewer ranks") == 0
                  ? 0
                  : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_group_above_limits_too, test_shared_directory_make,
                                        test_shared_directory_remove),
        cmocka_unit_test_setup_teardown(version_1_has_a_line_of_its_own, test_shared_directory_make,
                                        test_shared_directory_remove),
        cmocka_unit_test(a_users_limit_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
