/* fsync by path. Called after what has to outlive a loss of power: the budget's state, secrets,
 * checkpoints. */
#include "base/sync.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"

/* Returns 0, or the errno. */
static int sync_at(int directory_fd, const char *name)
{
    const int fd = openat(directory_fd, name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0) {
        return errno;
    }
    const int reason = fsync(fd) == 0 ? 0 : errno;
    (void)close(fd);
    return reason;
}

base_status base_sync_parent(const char *path, base_error *reterr)
{
    char directory[BASE_PATH_BYTES];
    const char *slash = strrchr(path, '/');
    const int length = slash == NULL || slash == path ? 1 : (int)(slash - path);
    if (snprintf(directory, sizeof directory, "%.*s", length, slash == NULL ? "." : path) >=
        (int)sizeof directory) {
        return base_fail(reterr, BASE_ERR_INVALID, "the path is too long: %.80s…", path);
    }
    const int reason = sync_at(AT_FDCWD, directory);
    return reason == 0 ? BASE_OK
                       : base_fail_errno(reterr, reason, "cannot write %s to disk", directory);
}

/* With ".", which is the directory itself. Returns 0, or the errno. */
static int sync_entries(DIR *entries)
{
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(entries);
        if (entry == NULL) {
            return errno; /* 0 at the end */
        }
        const int reason =
            strcmp(entry->d_name, "..") == 0 ? 0 : sync_at(dirfd(entries), entry->d_name);
        if (reason != 0) {
            return reason;
        }
    }
}

base_status base_sync_directory(const char *path, base_error *reterr)
{
    DIR *entries = opendir(path);
    const int reason = entries == NULL ? errno : sync_entries(entries);
    if (entries != NULL) {
        (void)closedir(entries);
    }
    return reason == 0 ? BASE_OK : base_fail_errno(reterr, reason, "cannot write %s to disk", path);
}
