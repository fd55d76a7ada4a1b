/* Locks between processes, by flock(2). Called for files, records, the ledger and the service. */
#include "base/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static base_status take(int fd, int how, const char *name, base_error *reterr)
{
    int taken = -1;
    do {
        taken = flock(fd, how);
    } while (taken != 0 && errno == EINTR);
    if (taken == 0) {
        return BASE_OK;
    }
    return errno == EWOULDBLOCK
               ? base_fail(reterr, BASE_ERR_BUSY, "%s is locked by another process", name)
               : base_fail_errno(reterr, errno, "cannot lock %s", name);
}

base_status base_lock_try(int fd, const char *name, base_error *reterr)
{
    return take(fd, LOCK_EX | LOCK_NB, name, reterr);
}

base_status base_lock_wait(int fd, const char *name, base_error *reterr)
{
    return take(fd, LOCK_EX, name, reterr);
}

void base_lock_drop(int fd)
{
    (void)flock(fd, LOCK_UN);
}

base_status base_lock_file(const char *path, int *fd, base_error *reterr)
{
    const int made = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (made < 0) {
        return base_fail_errno(reterr, errno, "cannot open %s", path);
    }
    const base_status status = base_lock_try(made, path, reterr);
    if (status != BASE_OK) {
        (void)close(made);
        return status;
    }
    *fd = made;
    return BASE_OK;
}

bool base_lock_is_named(int fd, const char *path)
{
    struct stat by_fd;
    struct stat by_name;
    return fstat(fd, &by_fd) == 0 && lstat(path, &by_name) == 0 && by_fd.st_ino == by_name.st_ino &&
           by_fd.st_dev == by_name.st_dev;
}
