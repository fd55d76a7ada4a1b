/* Finds the control groups of this process, and their CPU quota. Called by the launcher for quota and
 * out-of-memory kills, by libcoll for the quota, and by ranks for free memory. */
#include "base/cgroup.h"

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/kernel_file.h"
#include "base/limits.h"

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

void base_cgroup_walk(const char *root, const char *controller, base_cgroup_visit *visit,
                      void *user)
{
    char path[3 * BASE_PATH_BYTES];
    char line[BASE_PATH_BYTES];
    char *controllers = NULL;
    char *group = NULL;
    bool more = true;
    (void)snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    while (more && file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (!split_line(line, &controllers, &group) ||
            (controllers[0] != '\0' && !has_name(controllers, controller))) {
            continue;
        }
        const char *slash = controllers[0] != '\0' ? "/" : "";
        const char *below = controllers[0] != '\0' ? controller : "";
        group += strcmp(group, "/") == 0 ? 1 : 0;
        for (char *end = group + strlen(group); more && end != NULL; end = strrchr(group, '/')) {
            *end = '\0';
            (void)snprintf(path, sizeof path, "%s/sys/fs/cgroup%s%s%s", root, slash, below, group);
            more = visit(path, user);
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
}

/* cpu.max in version 2, "QUOTA PERIOD"; two files in version 1. False: no quota. */
static bool read_quota(const char *directory, int64_t *quota_us, int64_t *period_us)
{
    char text[96];
    char *end = NULL;
    if (base_kernel_line(text, sizeof text, "%s/cpu.max", directory)) {
        *quota_us = strtoll(text, &end, 10);
        *period_us = strtoll(end, NULL, 10);
    } else if (!base_kernel_number(quota_us, "", "%s/cpu.cfs_quota_us", directory) ||
               !base_kernel_number(period_us, "", "%s/cpu.cfs_period_us", directory)) {
        return false;
    }
    return *quota_us > 0 && *period_us > 0;
}

static bool take_quota(const char *directory, void *user)
{
    int *smallest = user;
    int64_t quota_us = 0;
    int64_t period_us = 0;
    if (!read_quota(directory, &quota_us, &period_us)) {
        return true;
    }
    const int64_t cpus = quota_us / period_us + (quota_us % period_us != 0 ? 1 : 0);
    if (cpus < CPU_SETSIZE && (*smallest == 0 || cpus < *smallest)) {
        *smallest = (int)cpus;
    }
    return true;
}

int base_cgroup_cpu_quota(const char *root)
{
    int smallest = 0;
    base_cgroup_walk(root, "cpu", take_quota, &smallest);
    return smallest;
}
