/* libcoll's errors inside this project: each of the two kinds of error stands for the other, and they
 * are made in the same way. Not installed. Any thread. */
#ifndef RINGFENCE_COLL_ERROR_H
#define RINGFENCE_COLL_ERROR_H

#include <stddef.h>

#include "base/status.h"
#include "coll/status.h"

_Static_assert(sizeof(coll_error) == sizeof(base_error) &&
                   offsetof(coll_error, status) == offsetof(base_error, status) &&
                   offsetof(coll_error, message) == offsetof(base_error, message),
               "an error of base has the same bytes");
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

/* Where libcoll is to write an error that its caller knows as base's; NULL: nowhere. The status is cast:
 *
 *     status = (base_status)coll_barrier(comm, coll_error_of(reterr));
 */
static inline coll_error *coll_error_of(base_error *reterr)
{
    return (coll_error *)reterr;
}

/* The same in the other direction. */
static inline base_error *base_error_of(coll_error *reterr)
{
    return (base_error *)reterr;
}

/* As base_fail, base_fail_errno and base_error_prepend of base/status.h. */
#define coll_fail(reterr, status, ...)                                                             \
    ((coll_status)base_fail(base_error_of(reterr), (base_status)(status), __VA_ARGS__))
#define coll_fail_errno(reterr, errno_value, ...)                                                  \
    ((coll_status)base_fail_errno(base_error_of(reterr), errno_value, __VA_ARGS__))
#define coll_error_prepend(reterr, status, ...)                                                    \
    ((coll_status)base_error_prepend(base_error_of(reterr), (base_status)(status), __VA_ARGS__))

#endif
