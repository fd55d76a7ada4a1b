/* Where the time of a pipeline's step went, stage by stage, and its bubble: measured, and as the
 * schedule has it. Means over the last half of the steps, as all figures of a record. */
#ifndef LAUNCH_STAGES_H
#define LAUNCH_STAGES_H

#include <jansson.h>

#include "proto/pipeline.h"
#include "record/run.h"

/* One stage in a mean step. */
typedef struct launch_stage_figures {
    int64_t first_layer;
    int64_t layers;
    double forward_ms;   /* of all micro-batches */
    double backward_ms;  /* the same */
    double neighbour_ms; /* waiting for messages of other stages */
    double bytes_sent;
    uint64_t held; /* micro-batches whose activations it kept at once, at most, in any step */
} launch_stage_figures;

typedef struct launch_stages {
    int count;
    launch_stage_figures stages[PROTO_PIPELINE_STAGES_MAX];
    /* Shares of stages × time in which a stage does not compute, from 0 to 1. */
    double bubble_measured; /* from stage 0's first forward to its last backward; NaN: no step */
    double bubble_played;   /* the schedule with the measured times, and messages that take none */
    double bubble_formula;  /* of stages that take equally long */
} launch_stages;

/* BASE_ERR_MEMORY. The job's ranks are stages. */
BASE_MUST_CHECK base_status launch_stages_measure(const launch_run *run, launch_stages *stages,
                                                  base_error *reterr);

/* The manifest's object; null if the run had no stages. NULL: no memory. */
json_t *launch_stages_json(const launch_run *run);

/* The report's section, and what the run shows in words. Nothing if it had no stages. */
void launch_stages_report(const launch_run *run, launch_text *text);
void launch_stages_lesson(const launch_run *run, launch_text *text);

#endif
