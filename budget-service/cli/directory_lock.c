/* Takes the lock of a service's directory, which a running service holds. Called by commands that
 * change keys (keys.c) or audit offline (offline_audit.c). */
#include "directory_lock.h"

#include <unistd.h>

#include "base/lock.h"
#include "base/path.h"
#include "budget/service_files.h"

base_status directory_lock(const char *dir, int *lock, base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    base_status status = base_path_join(dir, BUDGET_FILE_LOCK, path, reterr);
    if (status == BASE_OK) {
        status = base_lock_file(path, lock, reterr);
    }
    return status == BASE_ERR_BUSY ? base_fail(reterr, status, "the service of %s is running", dir)
                                   : status;
}

void directory_unlock(int lock)
{
    (void)close(lock);
}
