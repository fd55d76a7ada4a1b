/* Generated texts, put into the order of their prompts. One thread. */
#ifndef LAUNCH_OUTPUTS_H
#define LAUNCH_OUTPUTS_H

#include <stdint.h>

#include "base/status.h"
#include "proto/limits.h"

enum { LAUNCH_OUTPUTS_MAX = PROTO_PROMPTS_MAX };

typedef struct launch_output {
    char *prompt; /* NULL: has not come */
    char *text;
} launch_output;

typedef struct launch_outputs {
    launch_output *texts; /* (LAUNCH_OUTPUTS_MAX), by index; made with the first */
    uint64_t next;        /* texts [0, next) are there */
} launch_outputs;

/* Keeps copies. An index out of range, or one that came before, is BASE_ERR_INVALID. */
BASE_MUST_CHECK base_status launch_outputs_add(launch_outputs *outputs, uint64_t index,
                                               const char *prompt, const char *text,
                                               base_error *reterr);
void launch_outputs_fini(launch_outputs *outputs);

#endif
