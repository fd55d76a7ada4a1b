/* base/cgroup.h: the groups that are visited, and their quotas, of files of a pretended host. */
#include "base/cgroup.h"

#include <stdio.h>
#include <string.h>

#include "support.h"

static int quota(void)
{
    return base_cgroup_cpu_quota(test_shared_directory.path);
}

/* What has been visited, below the root's /sys/fs/cgroup, and how many more may be. */
typedef struct visits {
    char text[256];
    int more;
} visits;

static bool note(const char *directory, void *user)
{
    visits *all = user;
    const size_t used = strlen(all->text);
    const char *from = strstr(directory, "/sys/fs/cgroup") + strlen("/sys/fs/cgroup");
    (void)snprintf(all->text + used, sizeof all->text - used, "[%s]", from);
    return --all->more > 0;
}

static void assert_visits(const char *controller, int count, const char *expected)
{
    visits all = {.more = count};
    base_cgroup_walk(test_shared_directory.path, controller, note, &all);
    assert_string_equal(all.text, expected);
}

static void groups_are_visited_from_below(void **state)
{
    (void)state;
    assert_visits("cpu", 9, ""); /* a host without such files */
    test_shared_put("proc/self/cgroup", "0::/a/b\n");
    assert_visits("cpu", 9, "[/a/b][/a][]");
    assert_visits("cpu", 2, "[/a/b][/a]");
    test_shared_put("proc/self/cgroup",
                    "no group\n4:cpuset:/s\n3:memory:/\n1:cpuacct,cpu:/x/y\n0::/\n");
    assert_visits("cpu", 9, "[/cpu/x/y][/cpu/x][/cpu][]");
    assert_visits("cpu", 3, "[/cpu/x/y][/cpu/x][/cpu]");
    assert_visits("memory", 9, "[/memory][]");
    assert_visits("pids", 9, "[]");
}

static void quotas_are_rounded_up(void **state)
{
    static const struct {
        const char *text;
        int cpus;
    } cases[] = {{"max 100000\n", 0},
                 {"200000 100000\n", 2},
                 {"150000 100000", 2},
                 {"1000 100000", 1},
                 {"-1 100000", 0},
                 {"100000 0", 0},
                 {"", 0},
                 {"\n", 0},
                 {"0 100000\n", 0},
                 {"100000\n", 0},
                 {"many\n", 0},
                 {"99999999999999 1\n", 0},
                 {"1023000 1000", 1023}};
    (void)state;
    test_shared_put("proc/self/cgroup", "0::/a\n");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        test_shared_put("sys/fs/cgroup/a/cpu.max", cases[i].text);
        assert_int_equal(quota(), cases[i].cpus);
    }
}

static void a_group_above_limits_too(void **state)
{
    (void)state;
    assert_int_equal(quota(), 0); /* a host without such files */
    test_shared_put("proc/self/cgroup", "0::/a/b\n");
    test_shared_put("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    assert_int_equal(quota(), 0);
    test_shared_put("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
    assert_int_equal(quota(), 2);
    test_shared_put("sys/fs/cgroup/a/b/cpu.max", "50000 100000\n");
    assert_int_equal(quota(), 1);
    test_shared_put("sys/fs/cgroup/a/b/cpu.max", "300000 100000\n");
    assert_int_equal(quota(), 2);
}

/* In a container of version 1 the line has the host's path, and the files are at the root. */
static void version_1_has_two_files(void **state)
{
    (void)state;
    test_shared_put("proc/self/cgroup", "4:memory:/x\n1:cpu,cpuacct:/docker/c\n0::/\n");
    test_shared_put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    test_shared_put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    assert_int_equal(quota(), 0);
    test_shared_put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "250000\n");
    assert_int_equal(quota(), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(groups_are_visited_from_below, test_shared_directory_make,
                                        test_shared_directory_remove),
        cmocka_unit_test_setup_teardown(quotas_are_rounded_up, test_shared_directory_make,
                                        test_shared_directory_remove),
        cmocka_unit_test_setup_teardown(a_group_above_limits_too, test_shared_directory_make,
                                        test_shared_directory_remove),
        cmocka_unit_test_setup_teardown(version_1_has_two_files, test_shared_directory_make,
                                        test_shared_directory_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
