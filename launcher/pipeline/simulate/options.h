/* pipeline-simulate's command line. */
#ifndef LAUNCH_PIPELINE_SIMULATE_OPTIONS_H
#define LAUNCH_PIPELINE_SIMULATE_OPTIONS_H

#include <stdbool.h>
#include <stdio.h>

#include "base/limits.h"
#include "base/status.h"

typedef struct pipeline_options {
    int stages;
    int micro_batches;
    int chunks;        /* of each stage, in the interleaved schedule */
    double forward_ms; /* of one stage and one micro-batch */
    double backward_ms;
    double weights_ms; /* of backward_ms, the gradients of weights; 0: half of it */
    double hop_ms;     /* a message between two stages */
    bool sweep;
    char plot_path[BASE_PATH_BYTES]; /* .svg; empty: none */
    bool help;
    bool version;
} pipeline_options;

void pipeline_options_help(FILE *stream);

/* BASE_ERR_INVALID and BASE_ERR_LIMIT name the option. */
BASE_MUST_CHECK base_status pipeline_options_parse(int argc, char **argv, pipeline_options *options,
                                                   base_error *reterr);

#endif
