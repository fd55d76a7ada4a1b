/* libcoll's errors inside this project: how they are made, and how they become base's errors, and
 * base's errors become these. Not installed. Any thread.
 *
 * What fails first writes the message (coll_fail); each layer above may put its context in front of
 * it, once (coll_error_prepend), as with base/status.h. */
#ifndef RINGFENCE_COLL_ERROR_H
#define RINGFENCE_COLL_ERROR_H

#include <stdio.h>

#include "base/status.h"
#include "coll/status.h"

_Static_assert((int)COLL_ERROR_MESSAGE_BYTES == (int)BASE_ERROR_MESSAGE_BYTES,
               "a message of base fits");
_Static_assert((int)COLL_ERR_INVALID == (int)BASE_ERR_INVALID &&
                   (int)COLL_ERR_IO == (int)BASE_ERR_IO &&
                   (int)COLL_ERR_MEMORY == (int)BASE_ERR_MEMORY &&
                   (int)COLL_ERR_TIMEOUT == (int)BASE_ERR_TIMEOUT &&
                   (int)COLL_ERR_ABORTED == (int)BASE_ERR_ABORTED &&
                   (int)COLL_ERR_MISMATCH == (int)BASE_ERR_MISMATCH &&
                   (int)COLL_ERR_PEER == (int)BASE_ERR_PEER &&
                   (int)COLL_ERR_LIMIT == (int)BASE_ERR_LIMIT &&
                   (int)COLL_ERR_UNSUPPORTED == (int)BASE_ERR_UNSUPPORTED &&
                   (int)COLL_ERR_STATE == (int)BASE_ERR_STATE &&
                   (int)COLL_ERR_AUTH == (int)BASE_ERR_AUTH &&
                   (int)COLL_ERR_BUSY == (int)BASE_ERR_BUSY &&
                   (int)COLL_ERR_NOTFOUND == (int)BASE_ERR_NOTFOUND,
               "a status of base means the same here");

/* Writes status and a printf message into reterr (NULL: nothing is written) and returns status. */
coll_status coll_fail(coll_error *reterr, coll_status status, const char *format, ...)
    BASE_PRINTF(3, 4);

/* The same, COLL_ERR_IO, with ": " and the text of the errno value at the end of the message. */
coll_status coll_fail_errno(coll_error *reterr, int errno_value, const char *format, ...)
    BASE_PRINTF(3, 4);

/* Puts "context: " in front of the message and returns the status unchanged. */
coll_status coll_error_prepend(coll_error *reterr, coll_status status, const char *format, ...)
    BASE_PRINTF(3, 4);

#ifdef __clang_analyzer__
/* The analyser does not look into error.c: here it sees that a failure is never COLL_OK. */
#define coll_fail(reterr, status, ...) ((void)coll_fail(reterr, status, __VA_ARGS__), (status))
#define coll_fail_errno(reterr, errno_value, ...)                                                  \
    ((void)coll_fail_errno(reterr, errno_value, __VA_ARGS__), COLL_ERR_IO)
#define coll_error_prepend(reterr, status, ...)                                                    \
    ((void)coll_error_prepend(reterr, status, __VA_ARGS__), (status))
#endif

/* What a function of libcoll returned; `error`, which has its message, is read on failure only:
 *
 *     coll_error error;
 *     status = coll_to_base(coll_barrier(comm, &error), &error, reterr);
 */
static inline base_status coll_to_base(coll_status status, const coll_error *error,
                                       base_error *reterr)
{
    if (status != COLL_OK && reterr != NULL) {
        reterr->status = (base_status)status;
        (void)snprintf(reterr->message, sizeof reterr->message, "%s", error->message);
    }
    return (base_status)status;
}

/* The same in the other direction. */
static inline coll_status coll_from_base(base_status status, const base_error *error,
                                         coll_error *reterr)
{
    if (status != BASE_OK && reterr != NULL) {
        reterr->status = (coll_status)status;
        (void)snprintf(reterr->message, sizeof reterr->message, "%s", error->message);
    }
    return (coll_status)status;
}

#endif
