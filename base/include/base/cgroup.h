/* The control groups that this process is in, of version 1, version 2 or a host with both. A limit of a
 * group holds for everything below it. All paths are below `root`, which is "" but in tests. Thread
 * safe. */
#ifndef BASE_CGROUP_H
#define BASE_CGROUP_H

#include <stdbool.h>

/* Looks at one group, whose control files are in `directory`; it may not be there. False: no more. */
typedef bool base_cgroup_visit(const char *directory, void *user);

/* Visits the process's group for `controller` ("cpu"), then all above it up to the root. In a container
 * the group has the host's path, while its files are at the root. A host with both versions names a
 * group of each; the one without the controller has no files for it. */
void base_cgroup_walk(const char *root, const char *controller, base_cgroup_visit *visit,
                      void *user);

/* The smallest whole number of CPUs that covers the quota, of the process's group and all above it.
 * 0: there is none, or none below the CPUs that an affinity mask can have. */
int base_cgroup_cpu_quota(const char *root);

#endif
