/* Files of the control group this process is in, version 2 or 1. One thread. */
#ifndef LAUNCH_CGROUP_H
#define LAUNCH_CGROUP_H

#include <stdint.h>

/* The smallest whole number of CPUs that covers "QUOTA PERIOD" (version 2's cpu.max); 0 for "max". */
int launch_quota_parse(const char *text);

/* The smallest such quota of the process's group and all above it, since a limit holds for everything
 * below; 0: there is none. All paths are below root, which is "" but in tests. */
int launch_cgroup_cpu_quota(const char *root);

/* How many processes of the group the kernel has killed so far because memory ran out; -1: not
 * known. */
int64_t launch_cgroup_oom_kills(void);

#endif
