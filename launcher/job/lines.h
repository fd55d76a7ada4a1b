/* Merges the lines of several ranks into one stream. Each line has its rank before it. A line that
 * several ranks write within a short time appears once, as "[ranks 0,1] …".
 *
 * Each line is held back for LAUNCH_LINE_WINDOW_MS, or until all ranks have written it. Lines keep
 * their order, and so do one rank's own lines. One thread. Memory is bounded. */
#ifndef LAUNCH_LINES_H
#define LAUNCH_LINES_H

#include <stdint.h>

#include "base/status.h"

typedef struct launch_lines launch_lines;

/* Called with a finished line, prefix included, without its newline. */
typedef void (*launch_lines_print)(void *user, int fd, const char *line, size_t line_bytes);

BASE_MUST_CHECK base_status launch_lines_create(int ranks, launch_lines_print print, void *user,
                                                launch_lines **lines, base_error *reterr);

/* Prints what is held back, then frees. NULL is fine. */
void launch_lines_destroy(launch_lines *lines);

/* Bytes a rank wrote to its stdout or stderr (fd: 1 or 2); they need not end with a line. */
void launch_lines_add(launch_lines *lines, int rank, int fd, const char *data, size_t size_bytes,
                      int64_t now_ns);

/* A rank's stream has ended. A last line without a newline counts as complete. */
void launch_lines_end(launch_lines *lines, int rank, int fd, int64_t now_ns);

/* Prints the lines whose time has come. */
void launch_lines_flush(launch_lines *lines, int64_t now_ns);

/* When launch_lines_flush is due; BASE_NO_DEADLINE when nothing is held back. */
int64_t launch_lines_deadline_ns(const launch_lines *lines);

#endif
