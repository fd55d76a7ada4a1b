/* Binding near a GPU, with a sysfs of the test's own. Each case binds a process of its own, which
 * has a second thread. */
#include <errno.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "plugin/near.h"
#include "support.h"

#define PCI "0000:19:00.0"

static pthread_barrier_t both;
static cpu_set_t seen_by_other;

static void write_file(const char *name, const char *text)
{
    char path[BASE_PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s/bus/pci/devices/" PCI "/%s", test_shared_directory.path,
                   name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void make_sysfs(const char *cpus, const char *node)
{
    static const char *const parts[] = {"/bus", "/pci", "/devices", ("/" PCI)};
    char path[BASE_PATH_BYTES];
    size_t used = (size_t)snprintf(path, sizeof path, "%s", test_shared_directory.path);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        used += (size_t)snprintf(path + used, sizeof path - used, "%s", parts[i]);
        assert_true(mkdir(path, 0700) == 0 || errno == EEXIST);
    }
    write_file("local_cpulist", cpus);
    write_file("numa_node", node);
}

static void *other_thread(void *user)
{
    (void)user;
    (void)pthread_barrier_wait(&both); /* it is there */
    (void)pthread_barrier_wait(&both); /* the process is bound */
    (void)sched_getaffinity(0, sizeof seen_by_other, &seen_by_other);
    return NULL;
}

/* What a bound process has, as its exit status. */
enum { WRONG = 1, NO_THREAD = 2, AS_EXPECTED = 3 };

static int check(const char *device, const cpu_set_t *expected, int node, const char *why_not)
{
    pthread_t thread;
    rank_near near;
    cpu_set_t own;
    (void)pthread_barrier_init(&both, NULL, 2);
    if (pthread_create(&thread, NULL, other_thread, NULL) != 0) {
        return NO_THREAD;
    }
    (void)pthread_barrier_wait(&both);
    rank_near_bind(test_shared_directory.path, device, &near);
    (void)pthread_barrier_wait(&both);
    (void)pthread_join(thread, NULL);
    (void)sched_getaffinity(0, sizeof own, &own);
    int policy = -1;
    (void)syscall(SYS_get_mempolicy, &policy, NULL, 0UL, NULL, 0UL);
    const bool memory_as_said = policy < 0 || near.memory_near == (policy == MPOL_PREFERRED);
    const bool done =
        near.bound == (why_not == NULL) && near.numa_node == node && CPU_EQUAL(&own, expected) &&
        CPU_EQUAL(&seen_by_other, expected) &&
        (why_not == NULL ? near.why_not[0] == '\0' : strstr(near.why_not, why_not) != NULL) &&
        (!near.bound || CPU_EQUAL(&near.cpus, expected)) && memory_as_said;
    if (!done) {
        print_error("bound %d to %d, node %d, has %d, the other %d, policy %d: %s\n", near.bound,
                    CPU_COUNT(&near.cpus), near.numa_node, CPU_COUNT(&own),
                    CPU_COUNT(&seen_by_other), policy, near.why_not);
    }
    return done ? AS_EXPECTED : WRONG;
}

static void binds(const char *device, const cpu_set_t *expected, int node, const char *why_not)
{
    const pid_t child = fork();
    int status = 0;
    if (child == 0) {
        _exit(check(device, expected, node, why_not));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), AS_EXPECTED);
}

static int last_of(const cpu_set_t *set)
{
    int last = -1;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        last = CPU_ISSET(cpu, set) ? cpu : last;
    }
    return last;
}

static void it_is_bound_with_all_its_threads(void **state)
{
    cpu_set_t allowed;
    cpu_set_t one;
    char text[64];
    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    const int last = last_of(&allowed);
    CPU_ZERO(&one);
    CPU_SET(last, &one);
    (void)snprintf(text, sizeof text, "%d,%d-1023\n", last, last + 1);
    make_sysfs(text, "0\n");
    binds(PCI, &one, 0, NULL);
    make_sysfs(text, "-1\n");
    binds(PCI, &one, -1, NULL);
    (void)snprintf(text, sizeof text, "0-%d", last);
    make_sysfs(text, "3\n");
    binds(PCI, &allowed, 3, NULL);
}

static void it_stays_as_it_was(void **state)
{
    static const char *const lists[] = {"", "\n", "x", "0-", "3-1\n", "0;1", "-1", "99999\n"};
    cpu_set_t allowed;
    char text[64];
    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    (void)snprintf(text, sizeof text, "%d-1023\n", last_of(&allowed) + 1);
    make_sysfs(text, "1\n");
    binds(PCI, &allowed, 1, "it may use none of the CPUs near the GPU, ");
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        make_sysfs(lists[i], "none\n");
        binds(PCI, &allowed, -1, "the kernel does not say which CPUs are near the GPU");
    }
    binds("0000:20:00.0", &allowed, -1, "the kernel does not say which CPUs are near the GPU");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_bound_with_all_its_threads),
        cmocka_unit_test(it_stays_as_it_was),
    };
    return cmocka_run_group_tests(tests, test_shared_directory_make, test_shared_directory_remove);
}
