/* Fields of a completion's body that decide nothing here: those that are ignored, and those that may only say what
 * holds anyway. Clients send many of them without being asked. docs/SERVE.md lists them. Pure. */
#ifndef LAUNCH_OTHER_FIELDS_H
#define LAUNCH_OTHER_FIELDS_H

#include <stdbool.h>

#include "base/status.h"

struct json_t;

/* chat: of a chat's body. BASE_ERR_INVALID: there is no such field, or what it says does not hold: the message says
 * what it may be. */
BASE_MUST_CHECK base_status launch_other_field(const char *key, const struct json_t *value,
                                               bool chat, base_error *reterr);

#endif
