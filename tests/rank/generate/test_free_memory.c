/* Free memory as files of a pretended host and its control groups have it. */
#include "generate/free_memory.h"
#include "support.h"

static void put(const char *name, const char *text)
{
    test_directory_put(&test_shared_directory, name, text);
}

static uint64_t get(void)
{
    return rank_free_memory_bytes(test_shared_directory.path);
}

static void nothing_is_known_of_a_host_without_files(void **state)
{
    (void)state;
    assert_true(get() == UINT64_MAX);
    put("proc/meminfo", "MemTotal: 9000 kB\nMemFree: 10 kB\nMemAvailable:    8000 kB\n");
    assert_true(get() == 8000 * 1024);
}

static void a_group_and_those_above_it_limit(void **state)
{
    (void)state;
    put("proc/meminfo", "MemAvailable:    8000 kB\n");
    put("proc/self/cgroup", "0::/a/b\n");
    put("sys/fs/cgroup/a/b/memory.max", "max\n");
    put("sys/fs/cgroup/a/b/memory.current", "1000\n");
    assert_true(get() == 8000 * 1024);
    put("sys/fs/cgroup/a/memory.max", "500000\n");
    put("sys/fs/cgroup/a/memory.current", "200000\n");
    assert_true(get() == 300000);
    put("sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 150000\n"); /* can be reclaimed */
    assert_true(get() == 450000);
    put("sys/fs/cgroup/a/b/memory.max", "40000\n");
    assert_true(get() == 39000);
    put("sys/fs/cgroup/a/b/memory.current", "50000\n");
    assert_true(get() == 0);
}

static void version_one_and_containers_limit_too(void **state)
{
    (void)state;
    put("proc/meminfo", "MemAvailable:    8000 kB\n");
    put("proc/self/cgroup", "7:cpu,cpuacct:/x\n5:memory:/of/the/host\n0::/\n");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "70000\n");
    put("sys/fs/cgroup/memory/memory.usage_in_bytes", "60000\n");
    assert_true(get() == 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_is_known_of_a_host_without_files,
                                        test_shared_directory_make, test_shared_directory_remove),
        cmocka_unit_test_setup_teardown(a_group_and_those_above_it_limit,
                                        test_shared_directory_make, test_shared_directory_remove),
        cmocka_unit_test_setup_teardown(version_one_and_containers_limit_too,
                                        test_shared_directory_make, test_shared_directory_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
