/* Generated texts, put together from their parts and into the order of their prompts. One thread. */
#ifndef LAUNCH_OUTPUTS_H
#define LAUNCH_OUTPUTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "proto/limits.h"

enum { LAUNCH_OUTPUTS_MAX = PROTO_PROMPTS_MAX };

typedef struct launch_output {
    char *text; /* NULL: nothing has come yet, or it was released */
    uint32_t bytes;
    uint32_t room;
    int rank; /* that sends it */
    bool whole;
} launch_output;

typedef struct launch_outputs {
    launch_output *texts; /* (LAUNCH_OUTPUTS_MAX), by index; allocated with the first text */
    uint64_t next;        /* texts [0, next) are whole */
} launch_outputs;

/* A part of a text. */
typedef struct launch_output_part {
    uint64_t index;
    const char *text;
    bool more; /* parts of it follow */
} launch_output_part;

/* Keeps a copy of the part. BASE_ERR_INVALID: an index that is out of range, or of a text that is whole, or another
 * rank's; BASE_ERR_LIMIT: a text of more than PROTO_OUTPUT_BYTES_MAX. */
BASE_MUST_CHECK base_status launch_outputs_add(launch_outputs *outputs, int rank,
                                               const launch_output_part *part, base_error *reterr);

/* Frees the memory of a text that is whole. */
void launch_outputs_release(launch_outputs *outputs, uint64_t index);
void launch_outputs_fini(launch_outputs *outputs);

#endif
