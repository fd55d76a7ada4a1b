/* Finds the free memory of the host and of the control groups. Called where a job would allocate much: by rank/generate,
 * rank/train and coll-bench. */
#include "base/free_memory.h"

#include <stdbool.h>
#include <stddef.h>

#include "base/cgroup.h"
#include "base/kernel_file.h"

/* The files of one version of control groups. */
typedef struct version {
    const char *limit;
    const char *used;
    const char *inactive; /* keys of memory.stat: files that are cached */
    const char *active;
    const char *swap_limit;
    const char *swap_used;
    bool swap_has_memory; /* both count memory as well */
} version;

static const version versions[] = {
    {"memory.max", "memory.current", "inactive_file ", "active_file ", "memory.swap.max",
     "memory.swap.current", false},
    {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file ", "total_active_file ",
     "memory.memsw.limit_in_bytes", "memory.memsw.usage_in_bytes", true},
};

/* What has been found so far. */
typedef struct search {
    base_free_memory least;
    uint64_t swap_bytes; /* of the host */
} search;

static uint64_t difference(int64_t limit, int64_t used)
{
    return limit > used ? (uint64_t)(limit - used) : 0;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* What the group leaves of swap, beside `room` of memory. */
static uint64_t swap_of(const char *directory, const version *of, uint64_t swap_bytes,
                        uint64_t room)
{
    int64_t limit = 0;
    int64_t used = 0;
    if (!base_kernel_number(&limit, "", "%s/%s", directory, of->swap_limit) ||
        !base_kernel_number(&used, "", "%s/%s", directory, of->swap_used)) {
        return swap_bytes;
    }
    const uint64_t left = difference(limit, used);
    const uint64_t beside = !of->swap_has_memory ? left : left > room ? left - room : 0;
    return smaller(beside, swap_bytes);
}

/* Takes how much memory the group leaves, if it has a limit. */
static bool take_free(const char *directory, void *user)
{
    search *found = user;
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
        const version *of = &versions[i];
        int64_t limit = 0;
        int64_t used = 0;
        int64_t inactive = 0;
        int64_t active = 0;
        if (!base_kernel_number(&limit, "", "%s/%s", directory, of->limit) ||
            !base_kernel_number(&used, "", "%s/%s", directory, of->used)) {
            continue;
        }
        (void)base_kernel_number(&inactive, of->inactive, "%s/memory.stat", directory);
        (void)base_kernel_number(&active, of->active, "%s/memory.stat", directory);
        used -= inactive < used ? inactive : used;
        const uint64_t left = difference(limit, used);
        used -= active < used ? active : used;
        const uint64_t with_files = difference(limit, used);
        const uint64_t swap = swap_of(directory, of, found->swap_bytes, with_files);
        found->least.free_bytes = smaller(found->least.free_bytes, left);
        found->least.most_bytes = smaller(found->least.most_bytes, with_files + swap);
    }
    return true;
}

base_free_memory base_free_memory_find(const char *root)
{
    int64_t kilobytes = 0;
    search found = {.least = {.free_bytes = UINT64_MAX, .most_bytes = UINT64_MAX}};
    if (base_kernel_number(&kilobytes, "SwapFree:", "%s/proc/meminfo", root)) {
        found.swap_bytes = (uint64_t)kilobytes << 10;
    }
    if (base_kernel_number(&kilobytes, "MemAvailable:", "%s/proc/meminfo", root)) {
        found.least.free_bytes = (uint64_t)kilobytes << 10;
        found.least.most_bytes = found.least.free_bytes + found.swap_bytes;
    }
    base_cgroup_walk(root, "memory", take_free, &found);
    return found.least;
}

uint64_t base_free_memory_bytes(const char *root)
{
    return base_free_memory_find(root).free_bytes;
}
