/* A schedule played in time: when each task of each stage begins and ends.
 *
 * A stage runs its tasks in their order, each as soon as the stage is free and what the task needs
 * has arrived. A message takes hop_ns from one stage to another, and the sender goes on meanwhile.
 * The last stage's part of a tied gradient is taken by the first stage before each backward, in
 * tied_ns. Without hops, and with parts that take equally long, this gives the formula's bubble.
 *
 * Pure; thread safe. */
#ifndef LAUNCH_PIPELINE_TIMELINE_H
#define LAUNCH_PIPELINE_TIMELINE_H

#include <stddef.h>
#include <stdint.h>

#include "proto/pipeline.h"

enum {
    LAUNCH_PIPELINE_NS_MAX = 1000000000
}; /* of one task, and of a hop, in options: a second. A
                                               * step of 2^20 tasks that take 1000 s each fits in 63 bits */

/* What a micro-batch takes in a part of the model. */
typedef struct launch_pipeline_part {
    int64_t forward_ns;
    int64_t backward_ns;
    int64_t weights_ns; /* of it, the gradients of weights: of schedules that split backward */
} launch_pipeline_part;

typedef struct launch_pipeline_costs {
    const launch_pipeline_part *parts; /* number chunk · stages + stage is that stage's */
    int64_t hop_ns;                    /* a message between two stages */
    int64_t
        tied_ns; /* a tied gradient: the first part takes it when it needs it, and is idle meanwhile */
} launch_pipeline_costs;

typedef struct launch_pipeline_span {
    int64_t begin_ns;
    int64_t end_ns;
} launch_pipeline_span;

typedef struct launch_pipeline_result {
    int64_t step_ns;  /* from the first pass's begin to the last one's end */
    double bubble;    /* the share of stages × step_ns in which a stage is idle */
    int64_t messages; /* between different stages, of all micro-batches, both ways */
} launch_pipeline_result;

/* Fills spans[stage × tasks + index], stages × tasks of them, which the caller owns. */
void launch_pipeline_play(const proto_pipeline *pipeline, const launch_pipeline_costs *costs,
                          launch_pipeline_span *spans, launch_pipeline_result *result);

/* A schedule that has been played. */
typedef struct launch_pipeline_run {
    proto_pipeline pipeline;
    launch_pipeline_result result;
    launch_pipeline_span *spans; /* as launch_pipeline_play has left them */
} launch_pipeline_run;

enum { LAUNCH_PIPELINE_SPANS_MAX = 1 << 20 };

/* Checks the pipeline and plays it; launch_pipeline_run_fini frees it, also after a failure.
 * BASE_ERR_INVALID: there is no such schedule. BASE_ERR_LIMIT: too many tasks. */
BASE_MUST_CHECK base_status launch_pipeline_run_make(const proto_pipeline *pipeline,
                                                     const launch_pipeline_costs *costs,
                                                     launch_pipeline_run *run, base_error *reterr);
void launch_pipeline_run_fini(launch_pipeline_run *run);

#endif
