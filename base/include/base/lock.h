/* Locks between processes: flock(2) on an open file or directory. A lock ends with its descriptor,
 * so a killed process leaves nothing behind. A child that inherits the descriptor holds the lock as
 * well. */
#ifndef BASE_LOCK_H
#define BASE_LOCK_H

#include <stdbool.h>

#include "base/status.h"

/* Takes the lock, or returns BASE_ERR_BUSY at once. Messages call it `name`. */
BASE_MUST_CHECK base_status base_lock_try(int fd, const char *name, base_error *reterr);

/* Waits for the lock, without a deadline. */
BASE_MUST_CHECK base_status base_lock_wait(int fd, const char *name, base_error *reterr);

/* Releases the lock; fd stays open. */
void base_lock_drop(int fd);

/* Opens path and takes its lock. Makes the file with mode 0600 if it is missing, and never follows
 * a link. *fd is the caller's; closing it releases the lock. On failure *fd is unchanged.
 * BASE_ERR_BUSY: another process has the lock. */
BASE_MUST_CHECK base_status base_lock_file(const char *path, int *fd, base_error *reterr);

/* Whether the open file still has its name. A holder that removes or renames a locked file leaves
 * whoever opened it before with a lock that nobody else will meet. */
bool base_lock_is_named(int fd, const char *path);

#endif
