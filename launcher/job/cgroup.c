/* Reads files of this process's control group, version 1 or 2. Called by affinity.c for the CPU
 * quota, and by watch.c and job_run.c to recognize an out-of-memory kill. */
#include "job/cgroup.h"

#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"

static bool read_text(const char *path, char *text, size_t size_bytes)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    const ssize_t got = read(fd, text, size_bytes - 1);
    (void)close(fd);
    text[got > 0 ? got : 0] = '\0';
    return got > 0;
}

/* Whether `wanted` is one of the comma-separated names. */
static bool has_name(const char *names, const char *wanted)
{
    const size_t length = strlen(wanted);
    for (const char *at = names; at != NULL; at = strchr(at, ',')) {
        at += *at == ',' ? 1 : 0;
        if (strncmp(at, wanted, length) == 0 && (at[length] == ',' || at[length] == '\0')) {
            return true;
        }
    }
    return false;
}

/* Splits a line of /proc/self/cgroup, "ID:CONTROLLERS:PATH". In version 2 controllers are "". */
static bool split_line(char *line, char **controllers, char **group)
{
    line[strcspn(line, "\n")] = '\0';
    *controllers = strchr(line, ':');
    *group = *controllers != NULL ? strchr(*controllers + 1, ':') : NULL;
    if (*group == NULL) {
        return false;
    }
    *(*group)++ = '\0';
    (*controllers)++;
    return true;
}

/* Reads the file of the group that one line of /proc/self/cgroup names. */
static bool read_from(char *line, const char *controller, const char *name, char *text,
                      size_t size_bytes)
{
    char path[BASE_PATH_BYTES];
    char *controllers = NULL;
    char *group = NULL;
    if (!split_line(line, &controllers, &group)) {
        return false;
    }
    if (controllers[0] == '\0') { /* version 2 */
        (void)snprintf(path, sizeof path, "/sys/fs/cgroup%s/%s", group, name);
        return read_text(path, text, size_bytes);
    }
    if (!has_name(controllers, controller)) {
        return false;
    }
    (void)snprintf(path, sizeof path, "/sys/fs/cgroup/%s%s/%s", controller, group, name);
    if (read_text(path, text, size_bytes)) {
        return true;
    }
    /* inside a container the line has the host's path, but the files are at the root */
    (void)snprintf(path, sizeof path, "/sys/fs/cgroup/%s/%s", controller, name);
    return read_text(path, text, size_bytes);
}

/* Reads a control file of the process's own group, cut at size_bytes - 1: of the unified group in
 * version 2, of the controller's in version 1. False if there is none. */
static bool read_own(const char *controller, const char *name, char *text, size_t size_bytes)
{
    char line[BASE_PATH_BYTES];
    bool found = false;
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (file == NULL) {
        return false;
    }
    while (!found && fgets(line, sizeof line, file) != NULL) {
        found = read_from(line, controller, name, text, size_bytes);
    }
    (void)fclose(file);
    return found;
}

int launch_quota_parse(const char *text)
{
    char *end = NULL;
    const long long quota_us = strtoll(text, &end, 10);
    if (end == text || quota_us <= 0) {
        return 0;
    }
    const long long period_us = strtoll(end, NULL, 10);
    if (period_us <= 0) {
        return 0;
    }
    const long long cpus = (quota_us + period_us - 1) / period_us;
    return cpus < CPU_SETSIZE ? (int)cpus : 0;
}

/* Of one group: cpu.max in version 2, two files in version 1. */
static int quota_of_group(const char *root, const char *directory, const char *group)
{
    char path[2 * BASE_PATH_BYTES];
    char text[96];
    char quota[32];
    char period[32];
    (void)snprintf(path, sizeof path, "%s%s%s/cpu.max", root, directory, group);
    if (read_text(path, text, sizeof text)) {
        return launch_quota_parse(text);
    }
    (void)snprintf(path, sizeof path, "%s%s%s/cpu.cfs_quota_us", root, directory, group);
    if (!read_text(path, quota, sizeof quota)) {
        return 0;
    }
    (void)snprintf(path, sizeof path, "%s%s%s/cpu.cfs_period_us", root, directory, group);
    if (!read_text(path, period, sizeof period)) {
        return 0;
    }
    (void)snprintf(text, sizeof text, "%s %s", quota, period);
    return launch_quota_parse(text);
}

/* In a container of version 1 the group has the host's path, but its files are at the root, which is
 * read last. */
static int quota_of_groups(const char *root, const char *directory, char *group)
{
    int smallest = 0;
    for (;;) {
        const int quota = quota_of_group(root, directory, group);
        smallest = quota > 0 && (smallest == 0 || quota < smallest) ? quota : smallest;
        char *slash = strrchr(group, '/');
        if (slash == NULL) {
            return smallest;
        }
        *slash = '\0';
    }
}

int launch_cgroup_cpu_quota(const char *root)
{
    char path[BASE_PATH_BYTES];
    char line[BASE_PATH_BYTES];
    char *controllers = NULL;
    char *group = NULL;
    int smallest = 0;
    (void)snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (!split_line(line, &controllers, &group) ||
            (controllers[0] != '\0' && !has_name(controllers, "cpu"))) {
            continue;
        }
        const char *directory = controllers[0] == '\0' ? "/sys/fs/cgroup" : "/sys/fs/cgroup/cpu";
        const int quota = quota_of_groups(root, directory, group);
        smallest = quota > 0 && (smallest == 0 || quota < smallest) ? quota : smallest;
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return smallest;
}

int64_t launch_cgroup_oom_kills(void)
{
    char text[512];
    if (!read_own("memory", "memory.events", text, sizeof text) &&
        !read_own("memory", "memory.oom_control", text, sizeof text)) {
        return -1;
    }
    for (char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n' ? 1 : 0;
        if (strncmp(line, "oom_kill ", 9) == 0) {
            return strtoll(line + 9, NULL, 10);
        }
    }
    return -1;
}
