/* A file of prompts: each line of plain text is one, empty lines are none; in FILE.jsonl each line
 * is an object with a "prompt". */
#ifndef PROTO_PROMPTS_H
#define PROTO_PROMPTS_H

#include <stddef.h>

#include "base/status.h"

enum { PROTO_PROMPTS_FILE_BYTES_MAX = 64 << 20 };

typedef struct proto_prompts {
    char **texts; /* (count) */
    size_t count;
} proto_prompts;

/* Reads and checks all of it. BASE_ERR_INVALID and BASE_ERR_LIMIT name the line: it is no object
 * with a "prompt", not UTF-8, empty in a .jsonl file, or longer than PROTO_PROMPT_BYTES_MAX; no
 * prompt at all, or more than PROTO_PROMPTS_MAX. Blocks as long as reading takes. */
BASE_MUST_CHECK base_status proto_prompts_read(const char *path, proto_prompts *prompts,
                                               base_error *reterr);

/* An empty one is fine. */
void proto_prompts_fini(proto_prompts *prompts);

#endif
