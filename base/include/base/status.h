/* Status codes and the error that explains them.
 *
 * Every function that can fail returns a base_status: BASE_OK (0) or a negative code, which the
 * caller must look at. The words are in a base_error of the caller's, passed last; it may be NULL.
 * Whoever fails first writes the message (base_fail); each layer above may put its context in front
 * of it, once (base_error_prepend). Messages have a fixed size and are cut, never overrun.
 *
 * A base_error is plain data: not shared between threads without the caller's own lock. */
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

#include <stddef.h>

#if defined(__GNUC__)
#define BASE_MUST_CHECK __attribute__((warn_unused_result))
#define BASE_PRINTF(format_index, first_arg)                                                       \
    __attribute__((format(printf, format_index, first_arg)))
#define BASE_NORETURN __attribute__((noreturn))
#else
#define BASE_MUST_CHECK
#define BASE_PRINTF(format_index, first_arg)
#define BASE_NORETURN
#endif

typedef enum base_status {
    BASE_OK = 0,
    BASE_ERR_INVALID = -1,     /* an argument, a file or a message does not say what it must */
    BASE_ERR_IO = -2,          /* the system refused: errno is in the message */
    BASE_ERR_MEMORY = -3,      /* out of memory */
    BASE_ERR_TIMEOUT = -4,     /* the deadline passed */
    BASE_ERR_ABORTED = -5,     /* somebody else ended the job */
    BASE_ERR_MISMATCH = -6,    /* ranks disagree on an operation */
    BASE_ERR_PEER = -7,        /* a peer is gone or broke the protocol */
    BASE_ERR_LIMIT = -8,       /* a named limit would be passed */
    BASE_ERR_UNSUPPORTED = -9, /* known, but not to be had here */
    BASE_ERR_STATE = -10,      /* called at the wrong time: a failed communicator, say */
    BASE_ERR_AUTH = -11,       /* a wrong or missing key */
    BASE_ERR_BUSY = -12,       /* taken by another process */
    BASE_ERR_NOTFOUND = -13,   /* no such file, key, tensor */
} base_status;

enum {
    BASE_ERROR_MESSAGE_BYTES = 1024, /* with the final NUL */
};

typedef struct base_error {
    base_status status;
    char message[BASE_ERROR_MESSAGE_BYTES];
} base_error;

/* Writes status and a printf message into reterr (NULL: nothing is written) and returns status, so
 * that a failing path reads `return base_fail(reterr, BASE_ERR_IO, "cannot open %s", path)`. */
base_status base_fail(base_error *reterr, base_status status, const char *format, ...)
    BASE_PRINTF(3, 4);

/* The same with ": " and the text of the errno value at the end of the message. */
base_status base_fail_errno(base_error *reterr, int errno_value, const char *format, ...)
    BASE_PRINTF(3, 4);

/* Puts "context: " in front of the message and returns the status unchanged. */
base_status base_error_prepend(base_error *reterr, base_status status, const char *format, ...)
    BASE_PRINTF(3, 4);

#ifdef __clang_analyzer__
/* The analyser does not look into status.c: here it sees that a failure is never BASE_OK. */
#define base_fail(reterr, status, ...) ((void)base_fail(reterr, status, __VA_ARGS__), (status))
#define base_fail_errno(reterr, errno_value, ...)                                                  \
    ((void)base_fail_errno(reterr, errno_value, __VA_ARGS__), BASE_ERR_IO)
#define base_error_prepend(reterr, status, ...)                                                    \
    ((void)base_error_prepend(reterr, status, __VA_ARGS__), (status))
#endif

/* The status as one word, "timeout" say; never NULL. */
const char *base_status_name(base_status status);

#endif
