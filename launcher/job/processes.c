/* Looks whether there is room for a job's processes and threads. Called by cli.c, and by an agent that gets
 * its part. */
#include "job/processes.h"

#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"

/* Beyond the launcher's process: its threads. A rank has at most five besides its own (transport zmq). A
 * program has its subreaper; what it starts itself is not known. */
enum { OF_LAUNCHER = 5, OF_RANK = 6, OF_PROGRAM = 2 };

/* The number in a file; -1: none, or "max". */
static int64_t read_number(const char *path)
{
    char text[32] = "";
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return -1;
    }
    const bool got = fgets(text, sizeof text, file) != NULL;
    (void)fclose(file);
    return got && isdigit((unsigned char)text[0]) ? strtoll(text, NULL, 10) : -1;
}

static int64_t less(int64_t one, int64_t other)
{
    return one < other ? one : other;
}

/* What a group and those above it leave. Cuts `group` up. In a container of version 1 the group has the
 * host's path, but its files are at the root, which is read last. */
static int64_t left_by_groups(const char *root, const char *directory, char *group)
{
    int64_t left = INT64_MAX;
    for (;;) {
        char path[2 * BASE_PATH_BYTES];
        (void)snprintf(path, sizeof path, "%s%s%s/pids.max", root, directory, group);
        const int64_t most = read_number(path);
        (void)snprintf(path, sizeof path, "%s%s%s/pids.current", root, directory, group);
        const int64_t now = read_number(path);
        if (most >= 0 && now >= 0) {
            left = less(left, most > now ? most - now : 0);
        }
        char *slash = strrchr(group, '/');
        if (slash == NULL) {
            return left;
        }
        *slash = '\0';
    }
}

/* By the lines of /proc/self/cgroup: "0::/a/b" in version 2, "8:pids:/a/b" in version 1. */
static int64_t left_by_control_groups(const char *root)
{
    char path[BASE_PATH_BYTES];
    char line[BASE_PATH_BYTES];
    int64_t left = INT64_MAX;
    (void)snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        char *names = strchr(line, ':');
        if (names != NULL && strncmp(names, "::", 2) == 0) {
            left = less(left, left_by_groups(root, "/sys/fs/cgroup", names + 2));
        } else if (names != NULL && strncmp(names, ":pids:", 6) == 0) {
            left = less(left, left_by_groups(root, "/sys/fs/cgroup/pids", names + 6));
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return left;
}

/* The user's processes and threads that /proc shows. */
static int64_t count_own(void)
{
    const uid_t own = getuid();
    int64_t count = 0;
    DIR *processes = opendir("/proc");
    struct dirent *entry = NULL;
    while (processes != NULL && (entry = readdir(processes)) != NULL) {
        char path[300];
        struct stat info;
        (void)snprintf(path, sizeof path, "/proc/%s/task", entry->d_name);
        if (isdigit((unsigned char)entry->d_name[0]) && stat(path, &info) == 0 &&
            info.st_uid == own && info.st_nlink > 2) {
            count += (int64_t)info.st_nlink - 2; /* a directory for each */
        }
    }
    if (processes != NULL) {
        (void)closedir(processes);
    }
    return count;
}

int64_t launch_processes_left(const char *root, const char **limit)
{
    struct rlimit of_user;
    int64_t left = left_by_control_groups(root);
    *limit = "pids.max of the control group";
    /* root is not limited */
    if (getuid() != 0 && getrlimit(RLIMIT_NPROC, &of_user) == 0 &&
        of_user.rlim_cur <= (rlim_t)INT32_MAX) {
        const int64_t most = (int64_t)of_user.rlim_cur;
        const int64_t own = count_own();
        const int64_t left_to_user = most > own ? most - own : 0;
        if (left_to_user < left) {
            left = left_to_user;
            *limit = "ulimit -u";
        }
    }
    return left;
}

base_status launch_processes_check(int64_t ranks, bool program, base_error *reterr)
{
    const char *limit = NULL;
    const int64_t needed = OF_LAUNCHER + ranks * (program ? OF_PROGRAM : OF_RANK);
    const int64_t left = launch_processes_left("", &limit);
    return left >= needed
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_LIMIT,
                           "%" PRId64 " ranks need up to %" PRId64 " more processes and threads, "
                           "and %s leaves room for %" PRId64 ": raise it, or start fewer ranks",
                           ranks, needed, limit, left);
}
