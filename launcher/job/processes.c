/* Looks whether there is room for a job's processes and threads. Called by cli.c, and by an agent that gets
 * its part. */
#include "job/processes.h"

#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/kernel_file.h"

/* Beyond the launcher's process: its threads. A rank has at most five besides its own (transport zmq). A
 * program has its subreaper; what it starts itself is not known. */
enum { OF_LAUNCHER = 5, OF_RANK = 6, OF_PROGRAM = 2 };

/* What this group leaves, if it has a limit. */
static bool take_left(const char *directory, void *user)
{
    int64_t *left = user;
    int64_t most = 0;
    int64_t now = 0;
    if (base_kernel_number(&most, "", "%s/pids.max", directory) &&
        base_kernel_number(&now, "", "%s/pids.current", directory)) {
        const int64_t here = most > now ? most - now : 0;
        *left = here < *left ? here : *left;
    }
    return true;
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
    int64_t left = INT64_MAX;
    base_cgroup_walk(root, "pids", take_left, &left);
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
