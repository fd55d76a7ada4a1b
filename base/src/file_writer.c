/* Writes files whole: under PATH.tmp first, then renamed. Called wherever a checkpoint, key, policy,
 * receipt or record is written. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/lock.h"
#include "base/sync.h"

enum {
    WRITER_BUFFER_BYTES = 64 * 1024,
    TEMPORARY_PATH_BYTES = BASE_PATH_BYTES + 32,
};

#define TURN_NS (5 * BASE_NS_PER_S) /* how long a writer waits for another one of the same path */

struct base_file_writer {
    int fd;
    bool durable;
    bool in_place; /* the path is written to directly, and never renamed or removed */
    size_t used_bytes;
    char path[BASE_PATH_BYTES];
    char temporary[TEMPORARY_PATH_BYTES];
    uint8_t buffer[WRITER_BUFFER_BYTES];
};

/* Whether path is a name for a descriptor that is open already: /dev/stdout, /dev/fd/3,
 * /proc/self/fd/3. Other files below /dev (in /dev/shm, say) are like any others. */
static bool names_descriptor(const char *path)
{
    if (strcmp(path, "/dev/stdout") == 0 || strcmp(path, "/dev/stderr") == 0) {
        return true;
    }
    const char *number = strrchr(path, '/');
    return number != NULL && number - path >= 3 && strncmp(number - 3, "/fd", 3) == 0 &&
           (strncmp(path, "/dev/", 5) == 0 || strncmp(path, "/proc/", 6) == 0) &&
           number[1] != '\0' && strspn(number + 1, "0123456789") == strlen(number + 1);
}

/* Whether path is a device, a pipe, a socket or an open file. A rename over it would remove it. */
static bool is_no_plain_file(const char *path)
{
    struct stat info;
    if (lstat(path, &info) != 0) {
        return false;
    }
    const bool link = S_ISLNK(info.st_mode);
    if (link && stat(path, &info) != 0) {
        return false;
    }
    if (S_ISREG(info.st_mode)) {
        return link && names_descriptor(path);
    }
    return !S_ISDIR(info.st_mode);
}

/* Why somebody else may have a hand in a temporary file that was there already; NULL: nobody. Its
 * owner could write to it after the rename, and a second name shows that it is another file, too. */
static const char *why_not_ours(const struct stat *info)
{
    return !S_ISREG(info->st_mode)     ? "it is not a plain file"
           : info->st_uid != geteuid() ? "it belongs to another user"
           : info->st_nlink > 1        ? "it has a second name"
                                       : NULL;
}

/* Opens the temporary file of a writer that works on it, or was killed. *fd is -1 if it has gone. */
static base_status open_existing(const char *path, int *fd, base_error *reterr)
{
    struct stat info;
    *fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    const int reason = errno;
    const bool seen = *fd >= 0 ? fstat(*fd, &info) == 0 : lstat(path, &info) == 0;
    const char *why = seen ? why_not_ours(&info) : NULL;
    if (why != NULL) {
        base_fd_close(fd);
        return base_fail(reterr, BASE_ERR_IO, "%s is in the way, and %s: remove it", path, why);
    }
    return *fd >= 0 || reason == ENOENT ? BASE_OK
                                        : base_fail_errno(reterr, reason, "cannot open %s", path);
}

/* An empty temporary file for this writer alone. Writers of one path take turns. The file of a
 * writer that was killed is taken over. The owner of a file that we made is not asked for: some file
 * systems give all files to one user. */
static base_status open_temporary(const base_file_writer *writer, int *fd, base_error *reterr)
{
    const char *path = writer->temporary;
    const int64_t deadline_ns = base_deadline_after_ns(TURN_NS);
    do {
        *fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (*fd < 0 && errno != EEXIST) {
            return base_fail_errno(reterr, errno, "cannot write %s", writer->path);
        }
        const base_status status = *fd < 0 ? open_existing(path, fd, reterr) : BASE_OK;
        if (status != BASE_OK) {
            return base_error_prepend(reterr, status, "cannot write %s", writer->path);
        }
        if (*fd < 0) {
            continue;
        }
        const bool busy = base_lock_try(*fd, path, NULL) == BASE_ERR_BUSY;
        if (!busy && base_lock_is_named(*fd, path) && ftruncate(*fd, 0) == 0) {
            return BASE_OK;
        }
        (void)close(*fd);
        if (busy) {
            (void)nanosleep(&(struct timespec){.tv_nsec = BASE_NS_PER_MS}, NULL);
        }
    } while (base_now_ns() < deadline_ns);
    return base_fail_errno(reterr, EBUSY, "cannot write %s", writer->path);
}

static base_status open_in_place(const char *path, int *fd, base_error *reterr)
{
    *fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY);
    return *fd >= 0 ? BASE_OK : base_fail_errno(reterr, errno, "cannot write %s", path);
}

/* Ends this writer's turn. */
static void end_turn(int fd)
{
    if (fd >= 0) {
        base_lock_drop(fd); /* a child that was forked meanwhile has the descriptor, too */
        (void)close(fd);
    }
}

/* Takes the bits that mode_max lacks from the temporary file, which has its name only afterwards. */
static base_status restrict_mode(const base_file_writer *writer, mode_t mode_max,
                                 base_error *reterr)
{
    struct stat info;
    return fstat(writer->fd, &info) == 0 && fchmod(writer->fd, info.st_mode & mode_max) == 0
               ? BASE_OK
               : base_fail_errno(reterr, errno, "cannot restrict %s to mode %04o", writer->path,
                                 (unsigned)mode_max);
}

base_status base_file_writer_open(const char *path, base_file_writer **writer, base_error *reterr)
{
    base_file_writer *made = malloc(sizeof *made);
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory to write %s", path);
    }
    made->used_bytes = 0;
    made->durable = false;
    const int length = snprintf(made->path, sizeof made->path, "%s", path);
    if (length == 0 || length >= (int)sizeof made->path) {
        free(made);
        return length == 0
                   ? base_fail(reterr, BASE_ERR_INVALID, "a file has no name")
                   : base_fail(reterr, BASE_ERR_INVALID, "the path is too long: %.80s…", path);
    }
    (void)snprintf(made->temporary, sizeof made->temporary, "%s.tmp", path);
    made->in_place = is_no_plain_file(path);
    const base_status status = made->in_place ? open_in_place(path, &made->fd, reterr)
                                              : open_temporary(made, &made->fd, reterr);
    if (status != BASE_OK) {
        free(made);
        return status;
    }
    *writer = made;
    return BASE_OK;
}

static base_status writer_flush(base_file_writer *writer, base_error *reterr)
{
    const size_t used_bytes = writer->used_bytes;
    writer->used_bytes = 0;
    return base_fd_write(writer->fd, writer->path, writer->buffer, used_bytes, reterr);
}

base_status base_file_writer_put(base_file_writer *writer, const void *data, size_t size_bytes,
                                 base_error *reterr)
{
    if (size_bytes > sizeof writer->buffer - writer->used_bytes) {
        const base_status status = writer_flush(writer, reterr);
        if (status != BASE_OK) {
            return status;
        }
    }
    if (size_bytes > sizeof writer->buffer) {
        return base_fd_write(writer->fd, writer->path, data, size_bytes, reterr);
    }
    if (size_bytes > 0) {
        memcpy(writer->buffer + writer->used_bytes, data, size_bytes);
        writer->used_bytes += size_bytes;
    }
    return BASE_OK;
}

base_status base_file_writer_put_at(base_file_writer *writer, size_t offset_bytes, const void *data,
                                    size_t size_bytes, base_error *reterr)
{
    const uint8_t *at = data;
    base_status status =
        writer->in_place
            ? base_fail(reterr, BASE_ERR_INVALID,
                        "%s is no plain file, and is written only forwards", writer->path)
            : writer_flush(writer, reterr);
    while (status == BASE_OK && size_bytes > 0) {
        const ssize_t put = pwrite(writer->fd, at, size_bytes, (off_t)offset_bytes);
        if (put < 0 && errno != EINTR) {
            status = base_fail_errno(reterr, errno, "cannot write %s", writer->path);
        }
        const size_t done = put > 0 ? (size_t)put : 0;
        at += done;
        offset_bytes += done;
        size_bytes -= done;
    }
    return status;
}

void base_file_writer_make_durable(base_file_writer *writer)
{
    writer->durable = true;
}

base_status base_file_writer_commit(base_file_writer *writer, base_error *reterr)
{
    base_status status = writer_flush(writer, reterr);
    const bool durable = writer->durable && !writer->in_place;
    if (status == BASE_OK && durable && fsync(writer->fd) != 0) {
        status = base_fail_errno(reterr, errno, "cannot write %s to disk", writer->path);
    }
    const int turn = fcntl(writer->fd, F_DUPFD_CLOEXEC, 0);
    if (close(writer->fd) != 0 && status == BASE_OK) {
        status = base_fail_errno(reterr, errno, "cannot write %s", writer->path);
    }
    if (status == BASE_OK && !writer->in_place && rename(writer->temporary, writer->path) != 0) {
        status = base_fail_errno(reterr, errno, "cannot write %s", writer->path);
    }
    if (status != BASE_OK && !writer->in_place) {
        (void)unlink(writer->temporary);
    }
    if (status == BASE_OK && durable) {
        status = base_sync_parent(writer->path, reterr);
    }
    end_turn(turn);
    free(writer);
    return status;
}

void base_file_writer_abandon(base_file_writer *writer)
{
    if (writer == NULL) {
        return;
    }
    if (!writer->in_place) {
        (void)unlink(writer->temporary);
    }
    end_turn(writer->fd);
    free(writer);
}

base_status base_file_check_writable(const char *path, base_error *reterr)
{
    base_file_writer *writer = NULL;
    struct stat there;
    const bool exists = stat(path, &there) == 0;
    if (exists && S_ISDIR(there.st_mode)) {
        return base_fail(reterr, BASE_ERR_INVALID, "%s is a directory", path);
    }
    if (exists && S_ISFIFO(there.st_mode)) {
        return BASE_OK;
    }
    const base_status status = base_file_writer_open(path, &writer, reterr);
    base_file_writer_abandon(writer);
    return status;
}

base_status base_file_write_as(const char *path, const base_file_kind *kind, const void *data,
                               size_t size_bytes, base_error *reterr)
{
    base_file_writer *writer = NULL;
    base_status status = base_file_writer_open(path, &writer, reterr);
    if (status != BASE_OK) {
        return status;
    }
    writer->durable = kind->durable;
    if (kind->mode_max != 0 && !writer->in_place) {
        status = restrict_mode(writer, kind->mode_max, reterr);
    }
    if (status == BASE_OK) {
        status = base_file_writer_put(writer, data, size_bytes, reterr);
    }
    if (status != BASE_OK) {
        base_file_writer_abandon(writer);
        return status;
    }
    return base_file_writer_commit(writer, reterr);
}

base_status base_file_write(const char *path, const void *data, size_t size_bytes,
                            base_error *reterr)
{
    return base_file_write_as(path, &(base_file_kind){0}, data, size_bytes, reterr);
}
