/* How much memory this process can still allocate: what the host has, and what its control groups
 * allow. Thread safe. */
#ifndef BASE_FREE_MEMORY_H
#define BASE_FREE_MEMORY_H

#include <stdint.h>

/* Both are UINT64_MAX where nothing is known. */
typedef struct base_free_memory {
    uint64_t free_bytes; /* as base_free_memory_bytes */
    uint64_t most_bytes; /* with what the kernel can page out for it: all cached files, free swap */
} base_free_memory;

/* Reads files below `root`/proc and `root`/sys/fs/cgroup. root is "", or a directory in tests. */
base_free_memory base_free_memory_find(const char *root);

/* The smallest of MemAvailable and, for the process's control group and those above it, the limit
 * minus the memory in use that cannot be reclaimed (memory.max in version 2, memory.limit_in_bytes
 * in version 1). UINT64_MAX: not known. */
uint64_t base_free_memory_bytes(const char *root);

#endif
