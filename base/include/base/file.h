/* Whole files: read with a limit, written to a temporary name and renamed.
 *
 * base_file_writer gathers writes and makes the file appear whole or not at all: until commit only
 * "PATH.tmp" exists, and abandon (or a failed commit) removes it. Processes and threads that write
 * one path take turns; who waits longer than some seconds for another fails. What is no plain file
 * (/dev/null, /dev/stdout, a pipe) is never replaced: it is written into, at once. A writer is for
 * one thread at a time. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stddef.h>

#include "base/status.h"

typedef struct base_file_writer base_file_writer;

/* Reads all of path into *data (malloc'ed, the caller frees it; one NUL follows the last byte and
 * is not counted in *size_bytes). BASE_ERR_LIMIT over size_bytes_max, BASE_ERR_NOTFOUND,
 * BASE_ERR_IO. */
BASE_MUST_CHECK base_status base_file_read(const char *path, size_t size_bytes_max, void **data,
                                           size_t *size_bytes, base_error *reterr);

/* The same from an open descriptor, from its current offset to its end; it is not closed. `name`
 * stands for it in messages. */
BASE_MUST_CHECK base_status base_fd_read(int fd, const char *name, size_t size_bytes_max,
                                         void **data, size_t *size_bytes, base_error *reterr);

/* Whoever started a program may have closed its standard descriptors: opens /dev/null in their
 * places, so that nothing else lands there and is written to. For the beginning of main. */
void base_fd_open_standard(void);

/* Writes all of data to fd, through short writes and EINTR. */
BASE_MUST_CHECK base_status base_fd_write(int fd, const char *name, const void *data,
                                          size_t size_bytes, base_error *reterr);

/* Makes path hold exactly data: temporary file in the same directory, then rename; or gives data to
 * the device or pipe that path is. */
BASE_MUST_CHECK base_status base_file_write(const char *path, const void *data, size_t size_bytes,
                                            base_error *reterr);

BASE_MUST_CHECK base_status base_file_writer_open(const char *path, base_file_writer **writer,
                                                  base_error *reterr);
BASE_MUST_CHECK base_status base_file_writer_put(base_file_writer *writer, const void *data,
                                                 size_t size_bytes, base_error *reterr);

/* Closes and renames into place. Frees the writer in every case; on failure nothing is left. */
BASE_MUST_CHECK base_status base_file_writer_commit(base_file_writer *writer, base_error *reterr);

/* Closes, removes the temporary file, frees. NULL is fine. */
void base_file_writer_abandon(base_file_writer *writer);

/* Makes the directory and its parents where they are missing (mode 0777 less the umask). */
BASE_MUST_CHECK base_status base_mkdirs(const char *path, base_error *reterr);

#endif
