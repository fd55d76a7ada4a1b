/* Runs another program to its end, without a shell, with a time limit. Blocks. The program starts with all
 * signals unblocked and at their defaults: a launcher ignores SIGPIPE, and a child would inherit that. */
#ifndef BASE_CHILD_H
#define BASE_CHILD_H

#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"

/* A child that leads a process group of its own. When it ends, or is ended, so does what is left of
 * the group. */
typedef struct base_child_group {
    int stop_fd;      /* if this is closed at its other end, the child must end as well; -1: none */
    int64_t grace_ns; /* so long it may go on then */
    /* Holds the child's number while it lives, for who has to end it after this process; NULL: nowhere. */
    volatile pid_t *leader;
} base_child_group;

typedef struct base_child {
    const char *program;     /* a path; without a slash it is looked for in PATH */
    const char *const *argv; /* ends with NULL */
    int stdin_fd;            /* -1: /dev/null, as for the next two */
    int stdout_fd;
    int stderr_fd;
    int64_t timeout_ns;            /* then it is killed; BASE_NO_DEADLINE: never */
    const base_child_group *group; /* NULL: it is in the caller's group */
} base_child;

/* *wait_status is waitpid's. BASE_ERR_NOTFOUND: there is no such program. BASE_ERR_IO: it could not be
 * started, was killed because it could not be watched, or nothing says how it ended (the caller ignores
 * SIGCHLD). BASE_ERR_TIMEOUT: it was killed, because its time
 * was over. BASE_ERR_ABORTED: it was killed, because the other end of stop_fd was closed. */
BASE_MUST_CHECK base_status base_child_run(const base_child *child, int *wait_status,
                                           base_error *reterr);

/* Kills all children of this process until there is none, and reaps each. In a process that is a
 * subreaper (PR_SET_CHILD_SUBREAPER) those are all its descendants in the end, whatever group or session
 * they made for themselves. Blocks until timeout_ns is over. BASE_ERR_TIMEOUT: some are left, because they
 * are another user's (a setuid program), cannot end now (uninterruptible), or fork faster than they are
 * killed. BASE_ERR_UNSUPPORTED: the kernel does not list children, and some may be left. Makes only
 * system calls that are safe after a fork. */
BASE_MUST_CHECK base_status base_child_kill_all(int64_t timeout_ns);

#endif
