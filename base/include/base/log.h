/* Log lines for people, on stderr. Only the top level of a program logs, each error once. Libraries
 * return errors instead.
 *
 * One line is one write(2), so lines of several processes do not mix. Thread safe. The prefix
 * ("launcher: ", "rank 1: ") is set once, before other threads start. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stddef.h>

#include "base/status.h"

typedef enum base_log_level {
    BASE_LOG_ERROR = 0,
    BASE_LOG_WARNING = 1,
    BASE_LOG_INFO = 2,
} base_log_level;

enum { BASE_LOG_LINE_BYTES = 2048, BASE_LOG_PREFIX_BYTES = 64 };

/* Copies prefix (cut at BASE_LOG_PREFIX_BYTES). */
void base_log_init(const char *prefix);

/* From now on each line begins with the time: "2026-01-02T03:04:05Z ". Before other threads start. */
void base_log_with_time(void);

void base_log(base_log_level level, const char *format, ...) BASE_PRINTF(2, 3);

/* From now on each line, newline included, goes to `put` instead of stderr; NULL: to stderr again. Other
 * threads do not log meanwhile. */
void base_log_redirect(void (*put)(const char *line, size_t bytes));

#endif
