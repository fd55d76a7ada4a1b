/* Log lines on stderr, one write(2) each. Called by the mains and top levels of the programs;
 * libraries return errors instead. */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"

static char log_prefix[BASE_LOG_PREFIX_BYTES];
static bool log_with_time;
static void (*log_put)(const char *line, size_t bytes); /* NULL: stderr */

void base_log_init(const char *prefix)
{
    (void)snprintf(log_prefix, sizeof log_prefix, "%s", prefix);
}

void base_log_with_time(void)
{
    log_with_time = true;
}

/* The time and the prefix. Returns their length. */
static int begin_line(char line[BASE_LOG_LINE_BYTES], const char *mark)
{
    struct tm utc;
    size_t length = 0;
    const time_t now = time(NULL);
    if (log_with_time && gmtime_r(&now, &utc) != NULL) {
        length = strftime(line, BASE_LOG_LINE_BYTES, "%Y-%m-%dT%H:%M:%SZ ", &utc);
    }
    return (int)length +
           snprintf(line + length, BASE_LOG_LINE_BYTES - length, "%s%s", log_prefix, mark);
}

void base_log_redirect(void (*put)(const char *line, size_t bytes))
{
    log_put = put;
}

void base_log(base_log_level level, const char *format, ...)
{
    static const char *const marks[] = {"error: ", "warning: ", ""};
    char line[BASE_LOG_LINE_BYTES];
    int length = begin_line(line, marks[level]);
    va_list args;
    va_start(args, format);
    const int body = vsnprintf(line + length, sizeof line - (size_t)length, format, args);
    va_end(args);
    if (body > 0) {
        length += body;
    }
    if ((size_t)length > sizeof line - 2) {
        length = (int)sizeof line - 2;
    }
    line[length] = '\0';
    base_text_escape(line, sizeof line - 1);
    length = (int)strlen(line);
    line[length++] = '\n';
    const int errno_before = errno;
    if (log_put != NULL) {
        log_put(line, (size_t)length);
    } else {
        (void)base_fd_put(STDERR_FILENO, line,
                          (size_t)length); /* stderr is gone: nothing can be logged */
    }
    errno = errno_before;
}
