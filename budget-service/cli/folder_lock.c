#include "folder_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/limits.h"

base_status folder_lock(const char *dir, int *lock, base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    if (snprintf(path, sizeof path, "%s/run/lock", dir) >= (int)sizeof path) {
        return base_fail(reterr, BASE_ERR_LIMIT, "the folder's name is too long: %s", dir);
    }
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return base_fail_errno(reterr, errno, "cannot open %s", path);
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        (void)close(fd);
        return base_fail(reterr, BASE_ERR_BUSY, "the service of %s is running", dir);
    }
    *lock = fd;
    return BASE_OK;
}

void folder_unlock(int lock)
{
    (void)close(lock);
}
