/* Whether the kernel killed a process because memory or its processor time ran out, as far as this host
 * knows. One thread. */
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

#define LAUNCH_TIME_USED_UP ": it has used up the processor time that ulimit -t allows"
#define LAUNCH_TIME_MOSTLY_USED_UP                                                                 \
    ": probably by ulimit -t, since it has used most of that processor time"

/* ": out of memory …" if memory ran out and the process was killed for it, LAUNCH_TIME_MOSTLY_USED_UP, or "". The
 * process is not reaped yet. */
const char *launch_oom_reason(launch_oom *oom, int signal_number, pid_t pid);

/* How many processes of this process's group the kernel has killed so far because memory ran out;
 * -1: not known. All paths are below root, which is "" but in tests. */
int64_t launch_oom_kills(const char *root);

#endif
