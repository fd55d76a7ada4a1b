/* Reads a file of lines in blocks, without a byte order mark at its begin. Memory is one block or the longest line, whichever is larger.
 *
 * Not thread safe. */
#ifndef RANK_DATA_LINES_H
#define RANK_DATA_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct rank_lines {
    const char *path; /* the caller's */
    int fd;
    char *buffer;
    size_t capacity;
    size_t start; /* in the buffer, of what no line has had */
    size_t end;
    bool at_end;      /* of the file */
    uint64_t number;  /* of the last line, from 1 */
    const char *line; /* that line without its newline, in the buffer; NULL: there is none */
    size_t line_bytes;
} rank_lines;

/* Opens a regular file to read. BASE_ERR_NOTFOUND, BASE_ERR_IO. */
BASE_MUST_CHECK base_status rank_lines_open_file(const char *path, int *fd, base_error *reterr);

BASE_MUST_CHECK base_status rank_lines_open(rank_lines *lines, const char *path,
                                            base_error *reterr);
/* Closes. Also takes a zeroed or half-opened one. */
void rank_lines_close(rank_lines *lines);

/* Reads the next line that is not blank into `line`, until the next call. The last one may lack its
 * newline. False at the end, or if *status is not BASE_OK: BASE_ERR_INVALID, with file and line, if it
 * is longer than RANK_DATA_LINE_BYTES_MAX. */
bool rank_lines_next(rank_lines *lines, base_status *status, base_error *reterr);

#endif
