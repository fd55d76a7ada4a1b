/* Looks in the kernel's log and in the control group for out-of-memory kills, and at the processor time
 * of who was killed. Called by watch.c, and by agents for the ranks of their hosts. */
#include "job/oom.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/kernel_file.h"
#include "base/limits.h"

/* The limit's clock counts whole ticks. On a busy machine it is far ahead of the time that is
 * reported: 1 s was 0.68. */
enum { TIME_USED_PERCENT = 50 };

/* From here on a limit of version 1 means none. */
#define LIMIT_BYTES_MAX ((int64_t)1 << 60)

/* Takes the first group that is there: in version 2 a count includes those of all groups below. */
static bool take_kills(const char *directory, void *user)
{
    int64_t *kills = user;
    char path[2 * BASE_PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s/cgroup.procs", directory);
    return !base_kernel_number(kills, "oom_kill ", "%s/memory.events", directory) &&
           !base_kernel_number(kills, "oom_kill ", "%s/memory.oom_control", directory) &&
           access(path, F_OK) != 0;
}

int64_t launch_oom_kills(const char *root)
{
    int64_t kills = -1;
    base_cgroup_walk(root, "memory", take_kills, &kills);
    return kills;
}

void launch_oom_open(launch_oom *oom)
{
    oom->kills = launch_oom_kills("");
    oom->kmsg_fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (oom->kmsg_fd >= 0) {
        (void)lseek(oom->kmsg_fd, 0, SEEK_END);
    }
}

void launch_oom_close(launch_oom *oom)
{
    base_fd_close(&oom->kmsg_fd);
}

static bool take_limit(const char *directory, void *user)
{
    int64_t *least = user;
    int64_t limit = 0;
    if ((base_kernel_number(&limit, "", "%s/memory.max", directory) ||
         base_kernel_number(&limit, "", "%s/memory.limit_in_bytes", directory)) &&
        limit > 0 && limit < LIMIT_BYTES_MAX && (*least == 0 || limit < *least)) {
        *least = limit;
    }
    return true;
}

int64_t launch_oom_limit_bytes(const char *root)
{
    int64_t least = 0;
    base_cgroup_walk(root, "memory", take_limit, &least);
    return least;
}

launch_oom_said launch_oom_read(const char *record, pid_t pid)
{
    char wanted[64];
    (void)snprintf(wanted, sizeof wanted, "Killed process %d ", pid);
    if (strstr(record, wanted) == NULL || strstr(record, "emory") == NULL) {
        return LAUNCH_OOM_SAID_NOTHING;
    }
    return strstr(record, "Memory cgroup out of memory") != NULL ? LAUNCH_OOM_SAID_GROUP
                                                                 : LAUNCH_OOM_SAID_KERNEL;
}

/* What the kernel's log, which may be unreadable, says of the process. */
static launch_oom_said kmsg_says(const launch_oom *oom, pid_t pid)
{
    char record[2048];
    launch_oom_said said = LAUNCH_OOM_SAID_NOTHING;
    if (oom->kmsg_fd < 0) {
        return said;
    }
    for (;;) {
        const ssize_t got = read(oom->kmsg_fd, record, sizeof record - 1);
        if (got < 0 && (errno == EINTR || errno == EPIPE)) {
            continue;
        }
        if (got <= 0) {
            return said;
        }
        record[got] = '\0';
        const launch_oom_said here = launch_oom_read(record, pid);
        said = here != LAUNCH_OOM_SAID_NOTHING ? here : said;
    }
}

/* ": out of memory in this control group, whose limit is 512.0 MB (why)" */
static const char *group_reason(launch_oom *oom, const char *why)
{
    char limit[64] = "";
    const int64_t bytes = launch_oom_limit_bytes("");
    if (bytes > 0) {
        (void)snprintf(limit, sizeof limit, ", whose limit is %.1f MB", (double)bytes / 1e6);
    }
    (void)snprintf(oom->reason, sizeof oom->reason, ": out of memory in this control group%s (%s)",
                   limit, why);
    return oom->reason;
}

static int64_t to_ns(struct timeval time)
{
    return time.tv_sec * BASE_NS_PER_S + time.tv_usec * (int64_t)1000;
}

/* Whether a process that has ended, and is not reaped yet, used as much processor time as a hard limit
 * allows; it has the launcher's. What it has reaped counts, too: a program below its subreaper. */
static bool has_used_its_time(pid_t pid)
{
    struct rlimit limit;
    struct rusage usage;
    siginfo_t info = {0};
    if (getrlimit(RLIMIT_CPU, &limit) != 0 || limit.rlim_max == RLIM_INFINITY ||
        limit.rlim_max > INT32_MAX ||
        syscall(SYS_waitid, P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT, &usage) != 0 ||
        info.si_pid == 0) {
        return false;
    }
    return to_ns(usage.ru_utime) + to_ns(usage.ru_stime) >=
           (int64_t)limit.rlim_max * (BASE_NS_PER_S / 100 * TIME_USED_PERCENT);
}

const char *launch_oom_reason(launch_oom *oom, int signal_number, pid_t pid)
{
    if (signal_number != SIGKILL) {
        return "";
    }
    const launch_oom_said said = kmsg_says(oom, pid);
    if (said == LAUNCH_OOM_SAID_KERNEL) {
        return ": the kernel ran out of memory and chose it (its log says so)";
    }
    if (said == LAUNCH_OOM_SAID_GROUP) {
        return group_reason(oom, "the kernel's log says so");
    }
    const int64_t kills = launch_oom_kills("");
    if (kills > oom->kills && oom->kills >= 0) {
        oom->kills = kills;
        return group_reason(oom, "its oom_kill count rose");
    }
    return has_used_its_time(pid) ? LAUNCH_TIME_MOSTLY_USED_UP : "";
}
