/* job/oom.h: out-of-memory kills of the process's group, of files of a pretended host. */
#include "job/oom.h"

#include "support.h"

static void put(const char *name, const char *text)
{
    test_directory_put(&test_shared_directory, name, text);
}

static int kills(void)
{
    return (int)launch_oom_kills(test_shared_directory.path);
}

static void only_the_nearest_group_counts(void **state)
{
    (void)state;
    assert_int_equal(kills(), -1);
    put("proc/self/cgroup", "0::/a/b\n");
    put("sys/fs/cgroup/a/memory.events", "max 1\noom_kill 4\noom_group_kill 7\n");
    assert_int_equal(kills(), 4); /* a container: its files are above the host's path */
    put("sys/fs/cgroup/a/b/cgroup.procs", "1\n");
    assert_int_equal(kills(), -1); /* the group exists and does not count memory */
    put("sys/fs/cgroup/a/b/memory.events", "oom 2\noom_kill 3\n");
    assert_int_equal(kills(), 3);
}

static void version_1_has_another_file(void **state)
{
    (void)state;
    put("proc/self/cgroup", "0::/\n9:memory:/host/path\n");
    put("sys/fs/cgroup/memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n");
    assert_int_equal(kills(), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(only_the_nearest_group_counts, test_shared_directory_make,
                                        test_shared_directory_remove),
        cmocka_unit_test_setup_teardown(version_1_has_another_file, test_shared_directory_make,
                                        test_shared_directory_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
