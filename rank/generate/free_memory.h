/* How much memory this process can still allocate: what the host has, and what its control groups
 * allow. */
#ifndef RANK_GENERATE_FREE_MEMORY_H
#define RANK_GENERATE_FREE_MEMORY_H

#include <stdint.h>

/* The smallest of MemAvailable and, for the process's control group and those above it, the limit
 * minus the memory in use that cannot be reclaimed (memory.max in version 2, memory.limit_in_bytes
 * in version 1). Reads files below `root`/proc and `root`/sys/fs/cgroup. root is "", or a directory
 * in tests. UINT64_MAX: not known. */
uint64_t rank_free_memory_bytes(const char *root);

#endif
