/* Network namespaces that stand for hosts, joined by a bridge. Used by tests of several hosts. */
#include "netns.h"

#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

enum { COMMAND_BYTES = 512 };

static int outside = -1;
static int hosts[NETNS_HOSTS_MAX];

static BASE_PRINTF(2, 0) bool run_command(const char *before, const char *format, va_list args)
{
    char command[COMMAND_BYTES];
    char shell[] = "/bin/sh";
    char flag[] = "-c";
    char *argv[] = {shell, flag, command, NULL};
    pid_t pid = 0;
    int status = -1;
    const int used = snprintf(command, sizeof command, "%s", before);
    (void)vsnprintf(command + used, sizeof command - (size_t)used, format, args);
    return posix_spawn(&pid, shell, NULL, NULL, argv, environ) == 0 &&
           waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool netns_run(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const bool good = run_command("", format, args);
    va_end(args);
    return good;
}

bool netns_run_on(int host, const char *format, ...)
{
    char before[64];
    va_list args;
    (void)snprintf(before, sizeof before, "nsenter --net=/proc/%d/fd/%d ", (int)getpid(),
                   hosts[host]);
    va_start(args, format);
    const bool good = run_command(before, format, args);
    va_end(args);
    return good;
}

bool netns_begin(void)
{
    if (geteuid() != 0 || unshare(CLONE_NEWNET) != 0) {
        return false;
    }
    outside = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    return outside >= 0 && netns_run("ip link set lo up && ip link add bridge type bridge && "
                                     "ip link set bridge up && nsenter --version >/dev/null");
}

bool netns_make(int host, int n)
{
    if (unshare(CLONE_NEWNET) != 0) {
        return false;
    }
    hosts[host] = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    /* An address need not first be found to be nobody else's. */
    return hosts[host] >= 0 && setns(outside, CLONE_NEWNET) == 0 &&
           netns_run("ip link add v%d type veth peer name port netns /proc/%d/fd/%d", host,
                     (int)getpid(), hosts[host]) &&
           netns_run("ip link set v%d master bridge up", host) &&
           netns_run_on(host,
                        "sh -c 'ip link set lo up && ip addr add fd00::%d/64 dev port nodad && "
                        "ip addr add fe80::%d/64 dev port nodad && ip link set port up'",
                        n, n);
}

bool netns_enter(int host)
{
    return setns(hosts[host], CLONE_NEWNET) == 0;
}
