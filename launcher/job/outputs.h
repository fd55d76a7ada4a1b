/* Generated texts, put into the order of their prompts. One thread. */
#ifndef LAUNCH_OUTPUTS_H
#define LAUNCH_OUTPUTS_H

#include <stdint.h>

#include "base/status.h"
#include "proto/limits.h"

enum { LAUNCH_OUTPUTS_MAX = PROTO_PROMPTS_MAX };

typedef struct launch_output {
    char *prompt; /* NULL: not received yet */
    char *text;
} launch_output;

typedef struct launch_outputs {
    launch_output *texts; /* (LAUNCH_OUTPUTS_MAX), by index; allocated with the first text */
    uint64_t next;        /* texts [0, next) have been received */
} launch_outputs;

/* Keeps copies. An index that is out of range or was received before is BASE_ERR_INVALID. */
BASE_MUST_CHECK base_status launch_outputs_add(launch_outputs *outputs, uint64_t index,
                                               const char *prompt, const char *text,
                                               base_error *reterr);
void launch_outputs_fini(launch_outputs *outputs);

#endif
