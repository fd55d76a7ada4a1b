/* Whether the kernel killed a process because memory or its processor time ran out, as far as this host
 * knows. One thread. */
#ifndef LAUNCH_OOM_H
#define LAUNCH_OOM_H

#include <stdint.h>
#include <sys/types.h>

typedef struct launch_oom {
    int kmsg_fd;   /* the kernel's log from here on; -1: not readable */
    int64_t kills; /* of the control group, so far */
    char reason[128];
} launch_oom;

/* Looks from now on. */
void launch_oom_open(launch_oom *oom);
void launch_oom_close(launch_oom *oom);

#define LAUNCH_TIME_USED_UP ": it has used up the processor time that ulimit -t allows"
#define LAUNCH_TIME_MOSTLY_USED_UP                                                                 \
    ": probably by ulimit -t, since it has used most of that processor time"

/* ": out of memory …" or ": the kernel ran out of memory …" if memory ran out and the process was killed for it, LAUNCH_TIME_MOSTLY_USED_UP, or "". The
 * process is not reaped yet. */
const char *launch_oom_reason(launch_oom *oom, int signal_number, pid_t pid);

/* How many processes of this process's group the kernel has killed so far because memory ran out;
 * -1: not known. All paths are below root, which is "" but in tests. */
int64_t launch_oom_kills(const char *root);

/* The smallest memory limit of this process's group and those above it; 0: there is none. */
int64_t launch_oom_limit_bytes(const char *root);

typedef enum launch_oom_said {
    LAUNCH_OOM_SAID_NOTHING = 0,
    LAUNCH_OOM_SAID_GROUP, /* a control group was at its limit */
    LAUNCH_OOM_SAID_KERNEL,
} launch_oom_said;

/* What a line of the kernel's log says of the process. */
launch_oom_said launch_oom_read(const char *record, pid_t pid);

#endif
