/* Reads a file line by line in blocks. Called by data.c and by pairs.c. */
#include "lines.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/utf8.h"
#include "limits.h"

base_status rank_lines_open_file(const char *path, int *fd, base_error *reterr)
{
    struct stat info;
    /* without blocking: opening a FIFO would wait for a writer */
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (*fd < 0) {
        const base_status status = errno == ENOENT ? BASE_ERR_NOTFOUND : BASE_ERR_IO;
        (void)base_fail_errno(reterr, errno, "cannot open %s", path);
        if (reterr != NULL) {
            reterr->status = status;
        }
        return status;
    }
    if (fstat(*fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        (void)close(*fd);
        *fd = -1;
        return base_fail(reterr, BASE_ERR_IO, "%s is not a regular file", path);
    }
    return BASE_OK;
}

base_status rank_lines_open(rank_lines *lines, const char *path, base_error *reterr)
{
    *lines = (rank_lines){.path = path, .fd = -1, .capacity = RANK_DATA_READ_BYTES};
    lines->buffer = malloc(lines->capacity);
    const base_status status =
        lines->buffer != NULL ? rank_lines_open_file(path, &lines->fd, reterr)
                              : base_fail(reterr, BASE_ERR_MEMORY, "no memory to read %s", path);
    if (status != BASE_OK) {
        rank_lines_close(lines);
    }
    return status;
}

void rank_lines_close(rank_lines *lines)
{
    if (lines->buffer != NULL && lines->fd >= 0) {
        (void)close(lines->fd);
    }
    free(lines->buffer);
    memset(lines, 0, sizeof *lines);
}

static base_status too_long(const rank_lines *lines, uint64_t number, base_error *reterr)
{
    return base_fail(reterr, BASE_ERR_INVALID,
                     "%s:%" PRIu64 ": longer than %d bytes: cut it into several lines", lines->path,
                     number, (int)RANK_DATA_LINE_BYTES_MAX);
}

/* Makes room for another block behind `end`: moves the rest to the front, and grows. */
static base_status make_room(rank_lines *lines, base_error *reterr)
{
    memmove(lines->buffer, lines->buffer + lines->start, lines->end - lines->start);
    lines->end -= lines->start;
    lines->start = 0;
    if (lines->end > RANK_DATA_LINE_BYTES_MAX) {
        return too_long(lines, lines->number + 1, reterr);
    }
    if (lines->capacity - lines->end < RANK_DATA_READ_BYTES) {
        char *larger = realloc(lines->buffer, 2 * lines->capacity);
        if (larger == NULL) {
            return base_fail(reterr, BASE_ERR_MEMORY, "no memory to read %s", lines->path);
        }
        lines->buffer = larger;
        lines->capacity *= 2;
    }
    return BASE_OK;
}

static base_status read_block(rank_lines *lines, base_error *reterr)
{
    const base_status status = make_room(lines, reterr);
    if (status != BASE_OK) {
        return status;
    }
    ssize_t got = -1;
    do {
        got = read(lines->fd, lines->buffer + lines->end, lines->capacity - lines->end);
    } while (got < 0 && errno == EINTR);
    if (got < 0) {
        return base_fail_errno(reterr, errno, "cannot read %s", lines->path);
    }
    lines->at_end = got == 0;
    lines->end += (size_t)got;
    return BASE_OK;
}

static base_status take_line(rank_lines *lines, base_error *reterr)
{
    size_t searched = 0;
    lines->line = NULL;
    lines->line_bytes = 0;
    for (;;) {
        const char *from = lines->buffer + lines->start;
        const size_t left = lines->end - lines->start;
        const char *newline = memchr(from + searched, '\n', left - searched);
        if (newline == NULL && !lines->at_end) {
            searched = left;
            const base_status status = read_block(lines, reterr);
            if (status != BASE_OK) {
                return status;
            }
            continue;
        }
        if (newline == NULL && left == 0) {
            return BASE_OK;
        }
        lines->number++;
        lines->line = from;
        lines->line_bytes = newline == NULL ? left : (size_t)(newline - from);
        lines->start += lines->line_bytes + (newline != NULL);
        const size_t mark_bytes = lines->number == 1 ? base_utf8_mark(from, lines->line_bytes) : 0;
        lines->line += mark_bytes;
        lines->line_bytes -= mark_bytes;
        if (lines->line_bytes > RANK_DATA_LINE_BYTES_MAX) {
            return too_long(lines, lines->number, reterr);
        }
        return BASE_OK;
    }
}

static bool is_blank(const char *line, size_t line_bytes)
{
    size_t at = 0;
    while (at < line_bytes && (line[at] == ' ' || line[at] == '\t' || line[at] == '\r')) {
        at++;
    }
    return at == line_bytes;
}

bool rank_lines_next(rank_lines *lines, base_status *status, base_error *reterr)
{
    do {
        *status = take_line(lines, reterr);
    } while (*status == BASE_OK && lines->line != NULL && is_blank(lines->line, lines->line_bytes));
    return *status == BASE_OK && lines->line != NULL;
}
