/* Names and finds the checkpoints of a training. The launcher and rank 0 use it. */
#include "proto/checkpoints.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/path.h"

static const char PREFIX[] = "step-";
static const char REMOVED[] = PROTO_CHECKPOINTS_DIRECTORY "/removed";
enum { DIGITS = 9, DIGITS_MAX = 18 };

base_status proto_checkpoint_path(const char *out, uint64_t step, char path[BASE_PATH_BYTES],
                                  base_error *reterr)
{
    char name[64];
    (void)snprintf(name, sizeof name, "%s/%s%0*" PRIu64, PROTO_CHECKPOINTS_DIRECTORY, PREFIX,
                   DIGITS, step);
    return base_path_join(out, name, path, reterr);
}

bool proto_checkpoint_step(const char *name, uint64_t *step)
{
    if (strncmp(name, PREFIX, strlen(PREFIX)) != 0) {
        return false;
    }
    name += strlen(PREFIX);
    const size_t digits = strspn(name, "0123456789");
    if (digits < DIGITS || digits > DIGITS_MAX || name[digits] != '\0') {
        return false;
    }
    *step = strtoull(name, NULL, 10);
    return true;
}

/* Which of a directory's checkpoints a caller wants: the newest, or the oldest and how many there are. */
typedef struct listing {
    int64_t count;
    uint64_t newest;
    uint64_t oldest;
} listing;

/* Of the checkpoints before `end`. */
static base_status list(const char *out, uint64_t end, listing *found, base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    const struct dirent *entry = NULL;
    *found = (listing){.count = 0};
    const base_status status = base_path_join(out, PROTO_CHECKPOINTS_DIRECTORY, path, reterr);
    if (status != BASE_OK) {
        return status;
    }
    DIR *entries = opendir(path);
    if (entries == NULL) {
        return errno == ENOENT
                   ? BASE_OK
                   : base_fail_errno(reterr, errno, "cannot read the directory %s", path);
    }
    while ((entry = readdir(entries)) != NULL) {
        uint64_t step = 0;
        if (!proto_checkpoint_step(entry->d_name, &step) || step >= end) {
            continue;
        }
        found->newest = found->count == 0 || step > found->newest ? step : found->newest;
        found->oldest = found->count == 0 || step < found->oldest ? step : found->oldest;
        found->count++;
    }
    (void)closedir(entries);
    return BASE_OK;
}

/* A disk that is not mounted holds no checkpoint, and nobody wants to begin anew for that. */
static base_status refuse_lost_link(const char *out, base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    struct stat info;
    const base_status status = base_path_join(out, PROTO_CHECKPOINTS_DIRECTORY, path, reterr);
    return status == BASE_OK && stat(path, &info) != 0 && errno == ENOENT && lstat(path, &info) == 0
               ? base_fail(reterr, BASE_ERR_NOTFOUND,
                           "%s is a link that leads nowhere: is its disk mounted?", path)
               : status;
}

base_status proto_checkpoints_newest(const char *out, bool *found, uint64_t *step,
                                     base_error *reterr)
{
    return proto_checkpoints_newest_before(out, UINT64_MAX, found, step, reterr);
}

base_status proto_checkpoints_newest_before(const char *out, uint64_t end, bool *found,
                                            uint64_t *step, base_error *reterr)
{
    listing all;
    *found = false;
    base_status status = refuse_lost_link(out, reterr);
    if (status == BASE_OK) {
        status = list(out, end, &all, reterr);
    }
    *found = status == BASE_OK && all.count > 0;
    *step = *found ? all.newest : 0;
    return status;
}

/* Removes a directory and the files in it. One that is not there is fine; of a link to one the link alone
 * goes. */
static base_status remove_directory(const char *path, base_error *reterr)
{
    const struct dirent *entry = NULL;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *entries = fd >= 0 ? fdopendir(fd) : NULL;
    if (entries == NULL) {
        const int reason = errno;
        base_fd_close(&fd);
        const bool gone = reason == ENOENT || (reason == ENOTDIR && unlink(path) == 0);
        return gone ? BASE_OK
                    : base_fail_errno(reterr, reason, "cannot read the directory %s", path);
    }
    bool removed = true;
    while (removed && (entry = readdir(entries)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            removed = unlinkat(fd, entry->d_name, 0) == 0;
        }
    }
    removed = removed && rmdir(path) == 0;
    const int reason = errno;
    (void)closedir(entries);
    return removed ? BASE_OK : base_fail_errno(reterr, reason, "cannot remove %s", path);
}

static base_status remove_named(const char *out, const char *name, base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    const base_status status = base_path_join(out, name, path, reterr);
    return status == BASE_OK ? remove_directory(path, reterr) : status;
}

/* Half a checkpoint never has a checkpoint's name, so it loses that first. */
static base_status remove_checkpoint(const char *out, uint64_t step, base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    char removed[BASE_PATH_BYTES];
    base_status status = proto_checkpoint_path(out, step, path, reterr);
    if (status == BASE_OK) {
        status = base_path_join(out, REMOVED, removed, reterr);
    }
    if (status == BASE_OK && rename(path, removed) != 0) {
        status = base_fail_errno(reterr, errno, "cannot remove %s", path);
    }
    return status == BASE_OK ? remove_directory(removed, reterr) : status;
}

base_status proto_checkpoint_discard_partial(const char *out, base_error *reterr)
{
    const base_status status =
        remove_named(out, PROTO_CHECKPOINTS_DIRECTORY "/" PROTO_CHECKPOINT_PARTIAL, reterr);
    return status == BASE_OK ? remove_named(out, REMOVED, reterr) : status;
}

/* Removes what is left of writing, and the directory, if it is empty and no link. */
static base_status remove_rest(const char *out, base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    base_status status = proto_checkpoint_discard_partial(out, reterr);
    if (status == BASE_OK) {
        status = base_path_join(out, PROTO_CHECKPOINTS_DIRECTORY, path, reterr);
    }
    if (status == BASE_OK && rmdir(path) != 0 && errno != ENOENT && errno != ENOTEMPTY &&
        errno != ENOTDIR) {
        status = base_fail_errno(reterr, errno, "cannot remove %s", path);
    }
    return status;
}

base_status proto_checkpoints_prune(const char *out, int64_t keep, base_error *reterr)
{
    listing all;
    base_status status = remove_named(out, REMOVED, reterr); /* of one that was killed meanwhile */
    if (status == BASE_OK) {
        status = list(out, UINT64_MAX, &all, reterr);
    }
    while (status == BASE_OK && all.count > keep) {
        status = remove_checkpoint(out, all.oldest, reterr);
        if (status == BASE_OK) {
            status = list(out, UINT64_MAX, &all, reterr);
        }
    }
    return status == BASE_OK && keep == 0 ? remove_rest(out, reterr) : status;
}
