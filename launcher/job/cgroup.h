/* Files of the control group this process is in, version 2 or 1. One thread. */
#ifndef LAUNCH_CGROUP_H
#define LAUNCH_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads a control file of the process's own group, cut at size_bytes - 1: of the unified group in
 * version 2, of the controller's in version 1. False if there is none. */
bool launch_cgroup_read(const char *controller, const char *name, char *text, size_t size_bytes);

/* How many processes of the group the kernel has killed so far because memory ran out; -1: not
 * known. */
int64_t launch_cgroup_oom_kills(void);

#endif
