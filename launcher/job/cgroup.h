/* Files of the control group this process is in, version 2 or 1. One thread. */
#ifndef LAUNCH_CGROUP_H
#define LAUNCH_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads a control file of the process's own group (version 2: the unified one; version 1: that of
 * the controller), cut at size_bytes - 1. False where there is none. */
bool launch_cgroup_read(const char *controller, const char *name, char *text, size_t size_bytes);

/* Processes of the group that the kernel has killed for want of memory so far; -1: not known. */
int64_t launch_cgroup_oom_kills(void);

#endif
