/* job/oom.h: out-of-memory kills of the process's group, of files of a pretended host. */
#include "job/oom.h"

#include "support.h"

static int kills(void)
{
    return (int)launch_oom_kills(test_shared_directory.path);
}

static void only_the_nearest_group_counts(void **state)
{
    (void)state;
    assert_int_equal(kills(), -1);
    test_shared_put("proc/self/cgroup", "0::/a/b\n");
    test_shared_put("sys/fs/cgroup/a/memory.events", "max 1\noom_kill 4\noom_group_kill 7\n");
    assert_int_equal(kills(), 4); /* a container: its files are above the host's path */
    test_shared_put("sys/fs/cgroup/a/b/cgroup.procs", "1\n");
    assert_int_equal(kills(), -1); /* the group exists and does not count memory */
    test_shared_put("sys/fs/cgroup/a/b/memory.events", "oom 2\noom_kill 3\n");
    assert_int_equal(kills(), 3);
}

static void version_1_has_another_file(void **state)
{
    (void)state;
    test_shared_put("proc/self/cgroup", "0::/\n9:memory:/host/path\n");
    test_shared_put("sys/fs/cgroup/memory/memory.oom_control",
                    "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n");
    assert_int_equal(kills(), 5);
}

static void the_smallest_limit_above_counts(void **state)
{
    (void)state;
    const char *root = test_shared_directory.path;
    test_shared_put("proc/self/cgroup", "0::/a/b\n9:memory:/c\n");
    test_shared_put("sys/fs/cgroup/a/b/memory.max", "max\n");
    assert_int_equal(launch_oom_limit_bytes(root), 0);
    test_shared_put("sys/fs/cgroup/memory/c/memory.limit_in_bytes", "9223372036854771712\n");
    assert_int_equal(launch_oom_limit_bytes(root), 0);
    test_shared_put("sys/fs/cgroup/a/memory.max", "512000000\n");
    assert_int_equal(launch_oom_limit_bytes(root), 512000000);
    test_shared_put("sys/fs/cgroup/a/b/memory.max", "100000000\n");
    assert_int_equal(launch_oom_limit_bytes(root), 100000000);
}

static void the_log_tells_a_groups_limit_from_the_hosts(void **state)
{
    (void)state;
    assert_int_equal(launch_oom_read("3,1,2,-;Out of memory: Killed process 42 (rank) total", 42),
                     LAUNCH_OOM_SAID_KERNEL);
    assert_int_equal(
        launch_oom_read("3,1,2,-;Memory cgroup out of memory: Killed process 42 (r", 42),
        LAUNCH_OOM_SAID_GROUP);
    assert_int_equal(
        launch_oom_read("3,1,2,-;Memory cgroup out of memory: Killed process 421 (r", 42),
        LAUNCH_OOM_SAID_NOTHING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(only_the_nearest_group_counts, test_shared_directory_make,
                                        test_shared_directory_remove),
        cmocka_unit_test_setup_teardown(version_1_has_another_file, test_shared_directory_make,
                                        test_shared_directory_remove),
        cmocka_unit_test_setup_teardown(the_smallest_limit_above_counts, test_shared_directory_make,
                                        test_shared_directory_remove),
        cmocka_unit_test(the_log_tells_a_groups_limit_from_the_hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
