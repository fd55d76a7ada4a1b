/* How functions fail: they make a status and its message (base/error.h) and pass them up.
 *
 * The function that fails first writes the message (base_fail). Each layer above may put its
 * context before it, once (base_error_prepend). Messages have a fixed size. Longer ones are cut,
 * never overrun. */
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

#include <stddef.h>

#include "base/error.h"

#if defined(__GNUC__)
#define BASE_PRINTF(format_index, first_arg)                                                       \
    __attribute__((format(printf, format_index, first_arg)))
#define BASE_NORETURN __attribute__((noreturn))
#else
#define BASE_PRINTF(format_index, first_arg)
#define BASE_NORETURN
#endif

/* Writes status and a printf message into reterr (NULL: nothing is written) and returns status, so
 * that a failing path reads `return base_fail(reterr, BASE_ERR_IO, "cannot open %s", path)`. */
base_status base_fail(base_error *reterr, base_status status, const char *format, ...)
    BASE_PRINTF(3, 4);

/* The same, with ": " and the text of the errno value after the message. */
base_status base_fail_errno(base_error *reterr, int errno_value, const char *format, ...)
    BASE_PRINTF(3, 4);

/* Puts "context: " before the message and returns the status unchanged. */
base_status base_error_prepend(base_error *reterr, base_status status, const char *format, ...)
    BASE_PRINTF(3, 4);

#ifdef __clang_analyzer__
/* The analyser does not look into status.c. This tells it that a failure is never BASE_OK. */
#define base_fail(reterr, status, ...) ((void)base_fail(reterr, status, __VA_ARGS__), (status))
#define base_fail_errno(reterr, errno_value, ...)                                                  \
    ((void)base_fail_errno(reterr, errno_value, __VA_ARGS__), BASE_ERR_IO)
#define base_error_prepend(reterr, status, ...)                                                    \
    ((void)base_error_prepend(reterr, status, __VA_ARGS__), (status))
#endif

/* The status as one word, such as "timeout". Never NULL. */
const char *base_status_name(base_status status);

#endif
