/* Makes error messages: base_fail starts one, base_error_prepend puts a layer's context before it.
 * Called by every function that can fail. */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

/* In parentheses, so that status.h's macros for the analyser do not replace the names. */
base_status(base_fail)(base_error *reterr, base_status status, const char *format, ...)
{
    if (reterr != NULL) {
        va_list args;
        va_start(args, format);
        (void)vsnprintf(reterr->message, sizeof reterr->message, format, args);
        va_end(args);
        reterr->status = status;
    }
    return status;
}

base_status(base_fail_errno)(base_error *reterr, int errno_value, const char *format, ...)
{
    if (reterr != NULL) {
        char text[128] = "";
        va_list args;
        va_start(args, format);
        (void)vsnprintf(reterr->message, sizeof reterr->message, format, args);
        va_end(args);
        base_text_append(reterr->message, sizeof reterr->message, ": %s",
                         strerror_r(errno_value, text, sizeof text));
        reterr->status = BASE_ERR_IO;
    }
    return BASE_ERR_IO;
}

base_status(base_error_prepend)(base_error *reterr, base_status status, const char *format, ...)
{
    if (reterr != NULL) {
        char context[BASE_ERROR_MESSAGE_BYTES];
        char inner[BASE_ERROR_MESSAGE_BYTES];
        va_list args;
        va_start(args, format);
        (void)vsnprintf(context, sizeof context, format, args);
        va_end(args);
        memcpy(inner, reterr->message, sizeof inner);
        inner[sizeof inner - 1] = '\0';
        (void)snprintf(reterr->message, sizeof reterr->message, "%s: %s", context, inner);
        reterr->status = status;
    }
    return status;
}

const char *base_status_name(base_status status)
{
    switch (status) {
    case BASE_OK:
        return "ok";
    case BASE_ERR_INVALID:
        return "invalid";
    case BASE_ERR_IO:
        return "input/output error";
    case BASE_ERR_MEMORY:
        return "out of memory";
    case BASE_ERR_TIMEOUT:
        return "timeout";
    case BASE_ERR_ABORTED:
        return "aborted";
    case BASE_ERR_MISMATCH:
        return "mismatch";
    case BASE_ERR_PEER:
        return "peer failed";
    case BASE_ERR_LIMIT:
        return "limit exceeded";
    case BASE_ERR_UNSUPPORTED:
        return "unsupported";
    case BASE_ERR_STATE:
        return "wrong state";
    case BASE_ERR_AUTH:
        return "not authenticated";
    case BASE_ERR_BUSY:
        return "busy";
    case BASE_ERR_NOTFOUND:
        return "not found";
    }
    return "unknown status";
}
