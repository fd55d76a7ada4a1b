/* A file of prompts. Each line of plain text is a prompt, and empty lines are none. In a file of JSON
 * lines (base_path_has_json_lines) each is an object with a "prompt". */
#ifndef PROTO_PROMPTS_H
#define PROTO_PROMPTS_H

#include <stddef.h>

#include "base/status.h"

enum { PROTO_PROMPTS_FILE_BYTES_MAX = 64 << 20 };

typedef struct proto_prompts {
    char **texts; /* (count) */
    size_t count;
} proto_prompts;

/* Reads and checks the whole file. BASE_ERR_INVALID and BASE_ERR_LIMIT name the line: it is not an
 * object with a "prompt", not UTF-8, empty in one of these, or longer than PROTO_PROMPT_BYTES_MAX.
 * No prompt at all, or more than PROTO_PROMPTS_MAX, is also an error. Blocks as long as reading
 * takes. */
BASE_MUST_CHECK base_status proto_prompts_read(const char *path, proto_prompts *prompts,
                                               base_error *reterr);

/* Frees. Empty prompts are fine. */
void proto_prompts_fini(proto_prompts *prompts);

#endif
