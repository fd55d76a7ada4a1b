/* Finds the free memory of the host and of the control groups. Called by baseline.c to decide
 * whether whole models fit. */
#include "generate/free_memory.h"

#include <stdbool.h>
#include <stddef.h>

#include "base/cgroup.h"
#include "base/kernel_file.h"

/* The files of one version of control groups. */
typedef struct version {
    const char *limit;
    const char *used;
    const char *reclaimable; /* a key of memory.stat */
} version;

static const version versions[] = {
    {"memory.max", "memory.current", "inactive_file "},
    {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "},
};

/* Takes how much memory the group leaves, if it has a limit. */
static bool take_free(const char *directory, void *user)
{
    uint64_t *least = user;
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
        int64_t limit = 0;
        int64_t used = 0;
        int64_t reclaimable = 0;
        if (base_kernel_number(&limit, "", "%s/%s", directory, versions[i].limit) &&
            base_kernel_number(&used, "", "%s/%s", directory, versions[i].used)) {
            (void)base_kernel_number(&reclaimable, versions[i].reclaimable, "%s/memory.stat",
                                     directory);
            used -= reclaimable < used ? reclaimable : used;
            const uint64_t here = limit > used ? (uint64_t)(limit - used) : 0;
            *least = here < *least ? here : *least;
        }
    }
    return true;
}

uint64_t rank_free_memory_bytes(const char *root)
{
    int64_t kilobytes = 0;
    uint64_t least = UINT64_MAX;
    if (base_kernel_number(&kilobytes, "MemAvailable:", "%s/proc/meminfo", root)) {
        least = (uint64_t)kilobytes << 10;
    }
    base_cgroup_walk(root, "memory", take_free, &least);
    return least;
}
