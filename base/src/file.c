/* Reads whole files with a limit. Also plain descriptor I/O, and directories. Called wherever a
 * checkpoint, key, policy, receipt or record is read. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"

enum { READ_FIRST_BYTES = 16 * 1024 };

/* The size of the first buffer: the file's, if it has one. */
static size_t first_capacity(int fd, size_t size_bytes_max)
{
    struct stat info;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0 &&
        (uintmax_t)info.st_size < size_bytes_max) {
        return (size_t)info.st_size + 2;
    }
    return READ_FIRST_BYTES;
}

/* The system has refused to open or read the file. */
static base_status fail_to_read(base_error *reterr, int why, const char *verb, const char *path)
{
    const base_status status = why == ENOENT                     ? BASE_ERR_NOTFOUND
                               : why == EISDIR || why == ENOTDIR ? BASE_ERR_INVALID
                                                                 : BASE_ERR_IO;
    (void)base_fail_errno(reterr, why, "cannot %s %s", verb, path);
    if (reterr != NULL) {
        reterr->status = status;
    }
    return status;
}

base_status base_fd_read(int fd, const char *name, size_t size_bytes_max, void **data,
                         size_t *size_bytes, base_error *reterr)
{
    size_t capacity = first_capacity(fd, size_bytes_max);
    size_t used = 0;
    char *buffer = malloc(capacity);
    base_status status = BASE_OK;
    while (buffer != NULL) {
        const ssize_t got = read(fd, buffer + used, capacity - used - 1);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            status = fail_to_read(reterr, errno, "read", name);
            goto out;
        }
        used += (size_t)got;
        if (got == 0) {
            break;
        }
        if (used > size_bytes_max) {
            status = base_fail(reterr, BASE_ERR_LIMIT, "%s is larger than %zu bytes", name,
                               size_bytes_max);
            goto out;
        }
        if (used == capacity - 1) {
            char *larger = realloc(buffer, capacity * 2);
            if (larger == NULL) {
                status = base_fail(reterr, BASE_ERR_MEMORY, "no memory to read %s", name);
                goto out;
            }
            buffer = larger;
            capacity *= 2;
        }
    }
    if (buffer == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory to read %s", name);
    }
    buffer[used] = '\0';
    *data = buffer;
    *size_bytes = used;
    buffer = NULL;
out:
    free(buffer);
    return status;
}

base_status base_file_read(const char *path, size_t size_bytes_max, void **data, size_t *size_bytes,
                           base_error *reterr)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        return fail_to_read(reterr, errno, "open", path);
    }
    const base_status status = base_fd_read(fd, path, size_bytes_max, data, size_bytes, reterr);
    (void)close(fd);
    return status;
}

base_status base_file_read_regular(const char *path, size_t size_bytes_max, void **data,
                                   size_t *size_bytes, base_error *reterr)
{
    struct stat info;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0) {
        return fail_to_read(reterr, errno, "open", path);
    }
    const base_status status =
        fstat(fd, &info) == 0 && S_ISREG(info.st_mode)
            ? base_fd_read(fd, path, size_bytes_max, data, size_bytes, reterr)
            : base_fail(reterr, BASE_ERR_INVALID, "%s is not a regular file", path);
    (void)close(fd);
    return status;
}

void base_fd_close(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
        *fd = -1;
    }
}

void base_fd_open_standard(void)
{
    int fd = 0;
    do {
        fd = open("/dev/null", O_RDWR);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    base_fd_close(&fd);
}

int base_fd_put(int fd, const void *data, size_t size_bytes)
{
    const uint8_t *next = data;
    while (size_bytes > 0) {
        const ssize_t written = write(fd, next, size_bytes);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written < 0 && errno == EAGAIN) { /* others of this file have made it non-blocking */
            struct pollfd room = {.fd = fd, .events = POLLOUT};
            (void)poll(&room, 1, -1);
            continue;
        }
        if (written <= 0) {
            return written < 0 ? errno : ENOSPC;
        }
        next += written;
        size_bytes -= (size_t)written;
    }
    return 0;
}

base_status base_fd_write(int fd, const char *name, const void *data, size_t size_bytes,
                          base_error *reterr)
{
    const int reason = base_fd_put(fd, data, size_bytes);
    return reason == 0 ? BASE_OK : base_fail_errno(reterr, reason, "cannot write %s", name);
}

base_status base_mkdirs(const char *path, base_error *reterr)
{
    char partial[BASE_PATH_BYTES];
    if (path[0] == '\0') {
        return base_fail(reterr, BASE_ERR_INVALID, "a directory has no name");
    }
    if (snprintf(partial, sizeof partial, "%s", path) >= (int)sizeof partial) {
        return base_fail(reterr, BASE_ERR_INVALID, "the path is too long: %.80s…", path);
    }
    for (char *slash = partial + 1; *slash != '\0'; slash++) {
        if (*slash == '/') {
            *slash = '\0';
            if (mkdir(partial, 0777) != 0 && errno != EEXIST) {
                return base_fail_errno(reterr, errno, "cannot make the directory %s", partial);
            }
            *slash = '/';
        }
    }
    if (mkdir(partial, 0777) != 0 && errno != EEXIST) {
        return base_fail_errno(reterr, errno, "cannot make the directory %s", partial);
    }
    struct stat info;
    if (stat(partial, &info) != 0 || !S_ISDIR(info.st_mode)) {
        return base_fail(reterr, BASE_ERR_IO, "%s is there and is not a directory", partial);
    }
    return BASE_OK;
}
