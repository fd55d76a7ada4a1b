/* Whole files: read with a limit; written under a temporary name, then renamed.
 *
 * base_file_writer collects writes, and makes the file appear completely or not at all. Until
 * commit only "PATH.tmp" exists. Abandon, or a failed commit, removes it. Processes and threads
 * that write the same path take turns. One that would wait longer than some seconds fails. So does
 * one that finds a "PATH.tmp" of another user. A path that is not a plain file (/dev/null,
 * /dev/stdout, a pipe) is never replaced, but written to directly. A writer is for one thread at a
 * time. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct base_file_writer base_file_writer;

/* Reads all of path into *data, which is malloc'ed and the caller's. A NUL follows the last byte,
 * which *size_bytes does not count. BASE_ERR_LIMIT over size_bytes_max, BASE_ERR_NOTFOUND,
 * BASE_ERR_INVALID if the path is a directory or leads through a file, BASE_ERR_IO. */
BASE_MUST_CHECK base_status base_file_read(const char *path, size_t size_bytes_max, void **data,
                                           size_t *size_bytes, base_error *reterr);

/* The same for a file that has to be a regular one, as those of a checkpoint. Another is refused with
 * BASE_ERR_INVALID; a pipe that nobody writes to would be waited for. */
BASE_MUST_CHECK base_status base_file_read_regular(const char *path, size_t size_bytes_max,
                                                   void **data, size_t *size_bytes,
                                                   base_error *reterr);

/* The same from an open descriptor, from its current offset to its end. It stays open. Messages
 * call it `name`. */
BASE_MUST_CHECK base_status base_fd_read(int fd, const char *name, size_t size_bytes_max,
                                         void **data, size_t *size_bytes, base_error *reterr);

/* Closes the descriptor, which is -1 then, as it is where there is none. */
void base_fd_close(int *fd);

/* Opens /dev/null in place of standard descriptors that are closed. Otherwise another file could
 * get such a number and be written to. Call it first in main. */
void base_fd_open_standard(void);

/* Writes all of data to fd, also after short writes, EINTR and EAGAIN: it waits for room. Returns 0, or
 * the errno with which the descriptor refused. */
int base_fd_put(int fd, const void *data, size_t size_bytes);

/* The same with a message, which calls the file `name`. */
BASE_MUST_CHECK base_status base_fd_write(int fd, const char *name, const void *data,
                                          size_t size_bytes, base_error *reterr);

/* Makes path hold exactly data, through a temporary file in the same directory and a rename. If
 * path is a device or a pipe, writes data to it. */
BASE_MUST_CHECK base_status base_file_write(const char *path, const void *data, size_t size_bytes,
                                            base_error *reterr);

/* What base_file_write_as makes. */
typedef struct base_file_kind {
    /* The file has no other bits when it gets its name. 0: it has 0666 less the umask. */
    unsigned mode_max;
    /* The file and its name are on the disk when the call returns BASE_OK. If it fails, either the
     * old file has the name or the new one. */
    bool durable;
} base_file_kind;

/* base_file_write for a file of this kind. */
BASE_MUST_CHECK base_status base_file_write_as(const char *path, const base_file_kind *kind,
                                               const void *data, size_t size_bytes,
                                               base_error *reterr);

BASE_MUST_CHECK base_status base_file_writer_open(const char *path, base_file_writer **writer,
                                                  base_error *reterr);
BASE_MUST_CHECK base_status base_file_writer_put(base_file_writer *writer, const void *data,
                                                 size_t size_bytes, base_error *reterr);

/* Writes over bytes that were put already, from offset_bytes of the file on. BASE_ERR_INVALID: the path is no plain
 * file, and what was written to it cannot be changed. */
BASE_MUST_CHECK base_status base_file_writer_put_at(base_file_writer *writer, size_t offset_bytes,
                                                    const void *data, size_t size_bytes,
                                                    base_error *reterr);

/* From now on commit returns when the file and its name are on the disk. */
void base_file_writer_make_durable(base_file_writer *writer);

/* Closes the file and renames it. Frees the writer in every case. On failure nothing is left. */
BASE_MUST_CHECK base_status base_file_writer_commit(base_file_writer *writer, base_error *reterr);

/* Closes, removes the temporary file, frees. NULL is fine. */
void base_file_writer_abandon(base_file_writer *writer);

/* Whether a writer could write path now: opens one, and abandons it. A directory is refused; a FIFO is
 * not opened, or its reader would see an end too early. Ask it before long work whose result goes
 * there. */
BASE_MUST_CHECK base_status base_file_check_writable(const char *path, base_error *reterr);

/* Makes the directory and its parents if they are missing (mode 0777 without the umask).
 * BASE_ERR_INVALID: the path is empty, or too long. */
BASE_MUST_CHECK base_status base_mkdirs(const char *path, base_error *reterr);

#endif
