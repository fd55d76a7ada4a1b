/* Free memory as files of a pretended host and its control groups have it. */
#include "base/free_memory.h"
#include "support.h"

static uint64_t get(void)
{
    return base_free_memory_bytes(test_shared_directory.path);
}

static void nothing_is_known_of_a_host_without_files(void **state)
{
    (void)state;
    assert_true(get() == UINT64_MAX);
    test_shared_put("proc/meminfo",
                    "MemTotal: 9000 kB\nMemFree: 10 kB\nMemAvailable:    8000 kB\n");
    assert_true(get() == 8000 * 1024);
}

static void a_group_and_those_above_it_limit(void **state)
{
    (void)state;
    test_shared_put("proc/meminfo", "MemAvailable:    8000 kB\n");
    test_shared_put("proc/self/cgroup", "0::/a/b\n");
    test_shared_put("sys/fs/cgroup/a/b/memory.max", "max\n");
    test_shared_put("sys/fs/cgroup/a/b/memory.current", "1000\n");
    assert_true(get() == 8000 * 1024);
    test_shared_put("sys/fs/cgroup/a/memory.max", "500000\n");
    test_shared_put("sys/fs/cgroup/a/memory.current", "200000\n");
    assert_true(get() == 300000);
    test_shared_put("sys/fs/cgroup/a/memory.stat",
                    "anon 1\ninactive_file 150000\n"); /* can be reclaimed */
    assert_true(get() == 450000);
    test_shared_put("sys/fs/cgroup/a/b/memory.max", "40000\n");
    assert_true(get() == 39000);
    test_shared_put("sys/fs/cgroup/a/b/memory.current", "50000\n");
    assert_true(get() == 0);
}

static void version_one_and_containers_limit_too(void **state)
{
    (void)state;
    test_shared_put("proc/meminfo", "MemAvailable:    8000 kB\n");
    test_shared_put("proc/self/cgroup", "7:cpu,cpuacct:/x\n5:memory:/of/the/host\n0::/\n");
    test_shared_put("sys/fs/cgroup/memory/memory.limit_in_bytes", "70000\n");
    test_shared_put("sys/fs/cgroup/memory/memory.usage_in_bytes", "60000\n");
    assert_true(get() == 10000);
}

/* What the kernel can page out for it: cached files that are in use, and swap, of which a group may get less. */
static void swap_and_cached_files_are_most(void **state)
{
    (void)state;
    const char *root = test_shared_directory.path;
    assert_true(base_free_memory_find(root).most_bytes == UINT64_MAX);
    test_shared_put("proc/meminfo",
                    "MemAvailable:    8000 kB\nSwapTotal: 3000 kB\nSwapFree:     2000 kB\n");
    assert_true(base_free_memory_find(root).free_bytes == 8000 * 1024);
    assert_true(base_free_memory_find(root).most_bytes == 10000 * 1024);
    test_shared_put("proc/self/cgroup", "0::/a\n");
    test_shared_put("sys/fs/cgroup/a/memory.max", "500000\n");
    test_shared_put("sys/fs/cgroup/a/memory.current", "400000\n");
    test_shared_put("sys/fs/cgroup/a/memory.stat", "inactive_file 50000\nactive_file 70000\n");
    assert_true(base_free_memory_find(root).free_bytes == 150000);
    assert_true(base_free_memory_find(root).most_bytes == 220000 + 2000 * 1024);
    test_shared_put("sys/fs/cgroup/a/memory.swap.max", "9000\n");
    test_shared_put("sys/fs/cgroup/a/memory.swap.current", "1000\n");
    assert_true(base_free_memory_find(root).most_bytes == 228000);
    test_shared_put("sys/fs/cgroup/a/memory.swap.max", "0\n");
    assert_true(base_free_memory_find(root).most_bytes == 220000);
}

/* There the limit of swap is one of memory and swap together. */
static void version_one_has_one_limit_of_both(void **state)
{
    (void)state;
    const char *root = test_shared_directory.path;
    test_shared_put("proc/meminfo", "MemAvailable:    8000 kB\nSwapFree:     2000 kB\n");
    test_shared_put("proc/self/cgroup", "5:memory:/of/the/host\n");
    test_shared_put("sys/fs/cgroup/memory/memory.limit_in_bytes", "70000\n");
    test_shared_put("sys/fs/cgroup/memory/memory.usage_in_bytes", "60000\n");
    test_shared_put("sys/fs/cgroup/memory/memory.memsw.limit_in_bytes", "90000\n");
    test_shared_put("sys/fs/cgroup/memory/memory.memsw.usage_in_bytes", "65000\n");
    assert_true(base_free_memory_find(root).free_bytes == 10000);
    assert_true(base_free_memory_find(root).most_bytes == 25000);
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
        cmocka_unit_test_setup_teardown(swap_and_cached_files_are_most, test_shared_directory_make,
                                        test_shared_directory_remove),
        cmocka_unit_test_setup_teardown(version_one_has_one_limit_of_both,
                                        test_shared_directory_make, test_shared_directory_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
