/* Finds the free memory of the host and of the control groups. Called by baseline.c to decide
 * whether whole models fit. */
#include "generate/free_memory.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"

enum { LINE_BYTES = BASE_PATH_BYTES };

/* The number after `key` in a file of lines "KEY NUMBER"; with an empty key, the file's first
 * number. False if there is none, as in memory.max without a limit ("max"). */
static bool read_number(const char *path, const char *key, uint64_t *number)
{
    char line[LINE_BYTES];
    bool found = false;
    FILE *file = fopen(path, "re");
    while (!found && file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, key, strlen(key)) == 0) {
            const char *from = line + strlen(key);
            char *end = NULL;
            *number = strtoull(from, &end, 10);
            found = end != from;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return found;
}

/* The files of one version of control groups. */
typedef struct version {
    const char *directory; /* below root */
    const char *limit;
    const char *used;
    const char *reclaimable; /* a key of memory.stat */
} version;

static const version versions[] = {
    {"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file "},
    {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
     "total_inactive_file "},
};

static bool read_of_group(const char *root, const version *of, const char *group, const char *name,
                          const char *key, uint64_t *number)
{
    char path[2 * BASE_PATH_BYTES];
    const int length = snprintf(path, sizeof path, "%s%s%s/%s", root, of->directory, group, name);
    return length > 0 && (size_t)length < sizeof path && read_number(path, key, number);
}

/* How much memory the group leaves; UINT64_MAX: it has no limit. */
static uint64_t free_of_group(const char *root, const version *of, const char *group)
{
    uint64_t limit = 0;
    uint64_t used = 0;
    uint64_t reclaimable = 0;
    if (!read_of_group(root, of, group, of->limit, "", &limit) ||
        !read_of_group(root, of, group, of->used, "", &used)) {
        return UINT64_MAX;
    }
    (void)read_of_group(root, of, group, "memory.stat", of->reclaimable, &reclaimable);
    used -= reclaimable < used ? reclaimable : used;
    return limit > used ? limit - used : 0;
}

/* The smallest of the group and all above it, since a limit holds for everything below. In a
 * container the group has the host's path, but its files are at the root, which is read last. */
static uint64_t free_of_groups(const char *root, const version *of, char *group)
{
    uint64_t least = UINT64_MAX;
    for (;;) {
        const uint64_t here = free_of_group(root, of, group);
        least = here < least ? here : least;
        char *slash = strrchr(group, '/');
        if (slash == NULL) {
            return least;
        }
        *slash = '\0';
    }
}

/* Whether a line of /proc/self/cgroup, "ID:CONTROLLERS:PATH", names the group that limits
 * memory. */
static bool takes_memory(char *line, const version **of, char **group)
{
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':');
    char *path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (path == NULL) {
        return false;
    }
    *path = '\0';
    *group = path + 1;
    *of = &versions[controllers[1] == '\0' ? 0 : 1];
    return controllers[1] == '\0' || strcmp(controllers + 1, "memory") == 0;
}

uint64_t rank_free_memory_bytes(const char *root)
{
    char path[BASE_PATH_BYTES];
    char line[LINE_BYTES];
    uint64_t kilobytes = 0;
    uint64_t least = UINT64_MAX;
    (void)snprintf(path, sizeof path, "%s/proc/meminfo", root);
    if (read_number(path, "MemAvailable:", &kilobytes)) {
        least = kilobytes << 10;
    }
    (void)snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        const version *of = NULL;
        char *group = NULL;
        if (takes_memory(line, &of, &group)) {
            const uint64_t here = free_of_groups(root, of, group);
            least = here < least ? here : least;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return least;
}
