/* Locks between processes: flock(2) on an open file or directory. They end with the descriptor, so
 * nothing is left behind by a process that is killed. A descriptor that a child has inherited holds
 * the lock as well. */
#ifndef BASE_LOCK_H
#define BASE_LOCK_H

#include "base/status.h"

/* Takes it, or says BASE_ERR_BUSY at once. `name` stands for it in messages. */
BASE_MUST_CHECK base_status base_lock_try(int fd, const char *name, base_error *reterr);

/* Waits for it, without a deadline. */
BASE_MUST_CHECK base_status base_lock_wait(int fd, const char *name, base_error *reterr);

/* Gives it back; fd stays open. */
void base_lock_drop(int fd);

/* Opens path, made with mode 0600 where it is missing, never through a link, and takes its lock:
 * *fd is the caller's to close, which gives the lock back. On failure *fd is untouched;
 * BASE_ERR_BUSY: another process has it. */
BASE_MUST_CHECK base_status base_lock_file(const char *path, int *fd, base_error *reterr);

#endif
