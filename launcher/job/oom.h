/* Whether a process was killed because memory ran out, as far as this host knows. One thread. */
#ifndef LAUNCH_OOM_H
#define LAUNCH_OOM_H

#include <stdint.h>
#include <sys/types.h>

typedef struct launch_oom {
    int kmsg_fd;   /* the kernel's log from here on; -1: not readable */
    int64_t kills; /* of the control group, so far */
} launch_oom;

/* Looks from now on. */
void launch_oom_open(launch_oom *oom);
void launch_oom_close(launch_oom *oom);

/* ": out of memory …" if memory ran out and the process was killed for it, or "". */
const char *launch_oom_reason(launch_oom *oom, int signal_number, pid_t pid);

/* How many processes of this process's group the kernel has killed so far because memory ran out;
 * -1: not known. All paths are below root, which is "" but in tests. */
int64_t launch_oom_kills(const char *root);

#endif
