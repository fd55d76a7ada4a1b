/* job/cgroup.h: quotas, of files of a pretended host. */
#include "job/cgroup.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "support.h"

static test_directory directory;

static int setup(void **state)
{
    (void)state;
    test_directory_make(&directory);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    test_directory_remove(&directory);
    return 0;
}

static void put(const char *name, const char *text)
{
    base_error error;
    char parent[BASE_PATH_BYTES];
    (void)snprintf(parent, sizeof parent, "%s", test_directory_path(&directory, name));
    *strrchr(parent, '/') = '\0';
    assert_ok(base_mkdirs(parent, &error), &error);
    assert_ok(base_file_write(test_directory_path(&directory, name), text, strlen(text), &error),
              &error);
}

static int quota(void)
{
    char root[BASE_PATH_BYTES];
    (void)snprintf(root, sizeof root, "%s", test_directory_path(&directory, "."));
    return launch_cgroup_cpu_quota(root);
}

static void quotas_are_rounded_up(void **state)
{
    (void)state;
    assert_int_equal(launch_quota_parse("max 100000\n"), 0);
    assert_int_equal(launch_quota_parse("200000 100000\n"), 2);
    assert_int_equal(launch_quota_parse("150000 100000"), 2);
    assert_int_equal(launch_quota_parse("1000 100000"), 1);
    assert_int_equal(launch_quota_parse("-1 100000"), 0);
    assert_int_equal(launch_quota_parse("100000 0"), 0);
    assert_int_equal(launch_quota_parse(""), 0);
}

static void a_group_above_limits_too(void **state)
{
    (void)state;
    assert_int_equal(quota(), 0); /* a host without such files */
    put("proc/self/cgroup", "0::/a/b\n");
    put("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    assert_int_equal(quota(), 0);
    put("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
    assert_int_equal(quota(), 2);
    put("sys/fs/cgroup/a/b/cpu.max", "50000 100000\n");
    assert_int_equal(quota(), 1);
    put("sys/fs/cgroup/a/b/cpu.max", "300000 100000\n");
    assert_int_equal(quota(), 2);
}

/* In a container of version 1 the line has the host's path, and the files are at the root. */
static void version_1_has_two_files(void **state)
{
    (void)state;
    put("proc/self/cgroup", "4:memory:/x\n1:cpu,cpuacct:/docker/c\n0::/\n");
    put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    assert_int_equal(quota(), 0);
    put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "250000\n");
    assert_int_equal(quota(), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quotas_are_rounded_up),
        cmocka_unit_test_setup_teardown(a_group_above_limits_too, setup, teardown),
        cmocka_unit_test_setup_teardown(version_1_has_two_files, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
