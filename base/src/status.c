/* Makes error messages: base_fail starts one, base_error_prepend puts a layer's context before it.
 * Called by every function that can fail. */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void base_message_format(char message[BASE_ERROR_MESSAGE_BYTES], const char *format, va_list args)
{
    (void)vsnprintf(message, BASE_ERROR_MESSAGE_BYTES, format, args);
}

void base_message_add_errno(char message[BASE_ERROR_MESSAGE_BYTES], int errno_value)
{
    char text[128] = "";
    const size_t length = strlen(message);
    (void)snprintf(message + length, BASE_ERROR_MESSAGE_BYTES - length, ": %s",
                   strerror_r(errno_value, text, sizeof text));
}

void base_message_prepend(char message[BASE_ERROR_MESSAGE_BYTES], const char *format, va_list args)
{
    char context[BASE_ERROR_MESSAGE_BYTES];
    (void)vsnprintf(context, sizeof context, format, args);
    char inner[BASE_ERROR_MESSAGE_BYTES];
    memcpy(inner, message, sizeof inner);
    inner[sizeof inner - 1] = '\0';
    (void)snprintf(message, BASE_ERROR_MESSAGE_BYTES, "%s: %s", context, inner);
}

/* In parentheses, so that status.h's macros for the analyser do not replace the names. */
base_status(base_fail)(base_error *reterr, base_status status, const char *format, ...)
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

base_status(base_fail_errno)(base_error *reterr, int errno_value, const char *format, ...)
{
    if (reterr != NULL) {
        va_list args;
        va_start(args, format);
        base_message_format(reterr->message, format, args);
        va_end(args);
        base_message_add_errno(reterr->message, errno_value);
        reterr->status = BASE_ERR_IO;
    }
    return BASE_ERR_IO;
}

base_status(base_error_prepend)(base_error *reterr, base_status status, const char *format, ...)
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
