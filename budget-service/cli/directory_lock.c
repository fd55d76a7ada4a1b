/* Takes the lock of a service's directory, which a running service holds. Called by commands that
 * change keys (keys.c) or audit offline (offline_audit.c). */
#include "directory_lock.h"

#include <stdio.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/lock.h"

base_status directory_lock(const char *dir, int *lock, base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    if (snprintf(path, sizeof path, "%s/run/lock", dir) >= (int)sizeof path) {
        return base_fail(reterr, BASE_ERR_LIMIT, "the directory's name is too long: %s", dir);
    }
    const base_status status = base_lock_file(path, lock, reterr);
    return status == BASE_ERR_BUSY ? base_fail(reterr, status, "the service of %s is running", dir)
                                   : status;
}

void directory_unlock(int lock)
{
    (void)close(lock);
}
