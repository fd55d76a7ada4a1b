/* Makes libcoll's error messages, in the way of base/status.c. Called by every function of libcoll
 * that can fail. */
#include "ringfence/coll_error.h"

#include <stdarg.h>

/* The names stand in parentheses so that coll_error.h's macros for the analyser leave them alone. */
coll_status(coll_fail)(coll_error *reterr, coll_status status, const char *format, ...)
{
    if (reterr != NULL) {
        va_list args;
        va_start(args, format);
        base_message_format(reterr->message, format, args);
        va_end(args);
        reterr->status = status;
    }
    return status;
}

coll_status(coll_fail_errno)(coll_error *reterr, int errno_value, const char *format, ...)
{
    if (reterr != NULL) {
        va_list args;
        va_start(args, format);
        base_message_format(reterr->message, format, args);
        va_end(args);
        base_message_add_errno(reterr->message, errno_value);
        reterr->status = COLL_ERR_IO;
    }
    return COLL_ERR_IO;
}

coll_status(coll_error_prepend)(coll_error *reterr, coll_status status, const char *format, ...)
{
    if (reterr != NULL) {
        va_list args;
        va_start(args, format);
        base_message_prepend(reterr->message, format, args);
        va_end(args);
        reterr->status = status;
    }
    return status;
}
