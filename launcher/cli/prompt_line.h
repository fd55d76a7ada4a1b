/* One line of requests: a prompt as plain text, or a JSON object. Pure. */
#ifndef LAUNCH_PROMPT_LINE_H
#define LAUNCH_PROMPT_LINE_H

#include <stddef.h>

#include "base/status.h"
#include "proto/request.h"

typedef enum launch_line_kind {
    LAUNCH_LINE_EMPTY,
    LAUNCH_LINE_REQUEST,
    LAUNCH_LINE_CANCEL,
} launch_line_kind;

/* Reads a line without its newline; a carriage return at its end is left out. If it begins with
 * '{', it is an object with a "prompt" or "prompt_token_ids" and options of the request, or with
 * the number of a request to "cancel". Every other line is a prompt.
 *
 * request: has the options that hold where the line says nothing. Of a cancel, its id becomes the
 * number. BASE_ERR_INVALID or BASE_ERR_LIMIT says what is wrong; *kind is then what it tried to be,
 * and of the request only the id is of use. */
BASE_MUST_CHECK base_status launch_prompt_line(const char *line, size_t line_bytes,
                                               proto_request *request, launch_line_kind *kind,
                                               base_error *reterr);

#endif
