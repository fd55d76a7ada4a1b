/* Makes network namespaces that stand for hosts, and runs programs on them. Used by the integration
 * and fault tests of several launchers. */
#include "hosts.h"

#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COMMAND_BYTES = 1024, MOUNTS_MAX = 2 };

static int outside = -1;
static int hosts[TEST_HOSTS_MAX];
static char mounts[MOUNTS_MAX][COMMAND_BYTES]; /* of hosts but the first: "size=1m DIRECTORY" */
static int mount_count;

static BASE_PRINTF(1, 2) bool run(const char *format, ...)
{
    char command[COMMAND_BYTES];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(command, sizeof command, format, args);
    va_end(args);
    return system(command) == 0; /* NOLINT(cert-env33-c): the commands are the test's own */
}

static bool make_host(int host)
{
    if (unshare(CLONE_NEWNET) != 0) {
        return false;
    }
    hosts[host] = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    return hosts[host] >= 0 &&
           run("ip link set lo up && ip addr add 10.77.0.%d/32 dev lo", host + 1);
}

/* nsenter's option for a host. */
static const char *enter(int host)
{
    static char text[2][64];
    static int turn;
    turn = 1 - turn;
    (void)snprintf(text[turn], sizeof text[turn], "--net=/proc/%d/fd/%d", (int)getpid(),
                   hosts[host]);
    return text[turn];
}

/* Joins two hosts directly: a bridge would be mute where the machine forwards nothing. */
static bool join_hosts(int a, int b)
{
    return run("nsenter %s ip link add to%d type veth peer name to%d netns /proc/%d/fd/%d",
               enter(a), b, a, (int)getpid(), hosts[b]) &&
           run("nsenter %s sh -c 'ip addr add fd77:%d%d::%d/64 dev to%d nodad; ip link set to%d up "
               "&& ip route add 10.77.0.%d/32 dev to%d src 10.77.0.%d'",
               enter(a), a, b, a + 1, b, b, b + 1, b, a + 1) &&
           run("nsenter %s sh -c 'ip addr add fd77:%d%d::%d/64 dev to%d nodad; ip link set to%d up "
               "&& ip route add 10.77.0.%d/32 dev to%d src 10.77.0.%d'",
               enter(b), a, b, b + 1, a, a, a + 1, a, b + 1);
}

void test_hosts_join_again(int a, const char *at_a, int b, const char *at_b)
{
    assert_true(run("nsenter %s ip link add %s type veth peer name %s netns /proc/%d/fd/%d",
                    enter(a), at_a, at_b, (int)getpid(), hosts[b]));
}

bool test_hosts_make(int count)
{
    if (geteuid() != 0 || !run("(command -v ip && command -v nsenter && command -v unshare && "
                               "command -v hostname) >/dev/null")) {
        return false;
    }
    outside = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    bool made = outside >= 0;
    for (int host = 0; host < count && made; host++) {
        made = make_host(host);
    }
    for (int a = 0; a < count && made; a++) {
        for (int b = a + 1; b < count && made; b++) {
            made = join_hosts(a, b);
        }
    }
    return (outside < 0 || setns(outside, CLONE_NEWNET) == 0) && made;
}

const char *test_hosts_cache(int host)
{
    char name[32];
    (void)snprintf(name, sizeof name, "cache-%d", host);
    return test_shared_path(name);
}

void test_hosts_mount(const char *size, const char *directory)
{
    assert_true(mount_count < MOUNTS_MAX);
    (void)snprintf(mounts[mount_count++], COMMAND_BYTES, "size=%s %s", size, directory);
}

void test_hosts_unmount_all(void)
{
    mount_count = 0;
}

static int start(test_program *program, int host, const char *hosts_file,
                 const char *const *arguments, bool fed)
{
    static const char script[] =
        "hostname \"$1\" && if [ -n \"$2\" ]; then mount --bind \"$2\" /etc/hosts; fi && "
        "for m in \"$3\" \"$4\"; do "
        "if [ -n \"$m\" ]; then mount -t tmpfs -o ${m%% *} none \"${m#* }\"; fi; done && "
        "shift 4 && exec \"$@\"";
    const char *all[TEST_PROGRAM_ARGS_MAX] = {
        "/usr/bin/nsenter", enter(host), "unshare", "--uts", "--mount", "sh", "-c", script, "sh"};
    char name[32];
    char cache[COMMAND_BYTES];
    size_t count = 9;
    (void)snprintf(name, sizeof name, "host-%d", host);
    (void)snprintf(cache, sizeof cache, "XDG_CACHE_HOME=%s", test_hosts_cache(host));
    all[count++] = name;
    all[count++] = hosts_file != NULL ? hosts_file : "";
    for (int i = 0; i < MOUNTS_MAX; i++) {
        all[count++] = host > 0 && i < mount_count ? mounts[i] : "";
    }
    for (size_t i = 0; arguments[i] != NULL; i++) {
        assert_true(count + 1 < TEST_PROGRAM_ARGS_MAX);
        all[count++] = arguments[i];
    }
    all[count] = NULL;
    const char *const variables[] = {cache, NULL};
    if (fed) {
        return test_program_start_fed(program, all, variables);
    }
    test_program_start(program, all, variables);
    return -1;
}

void test_hosts_start(test_program *program, int host, const char *hosts_file,
                      const char *const *arguments)
{
    (void)start(program, host, hosts_file, arguments, false);
}

int test_hosts_start_fed(test_program *program, int host, const char *const *arguments)
{
    return start(program, host, NULL, arguments, true);
}

bool test_hosts_slow(int a, int b, const char *rate)
{
    return run("nsenter %s tc qdisc replace dev to%d root tbf rate %s burst 32k latency 4s",
               enter(a), b, rate);
}

void test_hosts_fast(int a, int b)
{
    assert_true(run("nsenter %s tc qdisc del dev to%d root", enter(a), b));
}

bool test_hosts_run(int host, const char *command)
{
    return run("nsenter %s sh -c '%s'", enter(host), command);
}

void test_hosts_enter(int host)
{
    assert_int_equal(setns(host >= 0 ? hosts[host] : outside, CLONE_NEWNET), 0);
}

void test_hosts_link(int a, int b, bool up)
{
    assert_true(run("nsenter %s ip link set to%d %s", enter(a), b, up ? "up" : "down"));
    if (up) { /* the route went with the link */
        assert_true(run("nsenter %s ip route add 10.77.0.%d/32 dev to%d src 10.77.0.%d", enter(a),
                        b + 1, b, a + 1));
    }
}

/* Lines of a table of this thread's host whose field number `field` is one of `values`. */
static int count_lines(const char *table, int field, const char *values)
{
    char path[64];
    char line[512];
    int count = 0;
    (void)snprintf(path, sizeof path, "/proc/thread-self/net/%s", table);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return 0; /* as tcp6 without IPv6 */
    }
    while (fgets(line, sizeof line, file) != NULL) {
        char *rest = line;
        const char *word = NULL;
        for (int i = 0; i <= field; i++) {
            word = strtok_r(i == 0 ? line : NULL, " \n", &rest);
        }
        count += word != NULL && strstr(values, word) != NULL ? 1 : 0;
    }
    (void)fclose(file);
    return count;
}

void test_hosts_assert_no_sockets(int count)
{
    static const char open_states[] = "01 0A"; /* established, listening */
    for (int host = 0; host < count; host++) {
        test_hosts_enter(host);
        const int left = count_lines("tcp", 3, open_states) + count_lines("tcp6", 3, open_states) +
                         count_lines("unix", 3, "00010000"); /* the flag of those that listen */
        test_hosts_enter(-1);
        assert_int_equal(left, 0);
    }
}

int test_hosts_skip(int count)
{
    if (test_hosts_make(count)) {
        return 0;
    }
    (void)fprintf(stderr, "skipped: needs root, network namespaces, ip, nsenter and unshare\n");
    return TEST_EXIT_SKIPPED;
}
