/* A schedule played in time: when each task of each stage begins and ends.
 *
 * A stage runs its tasks in their order, each as soon as the stage is free and what the task needs
 * has arrived. A message takes hop_ns from one stage to another, and the sender goes on meanwhile.
 * Without hops this gives the formula's bubble.
 *
 * Pure; thread safe. */
#ifndef RANK_PARALLEL_PIPELINE_TIMELINE_H
#define RANK_PARALLEL_PIPELINE_TIMELINE_H

#include <stddef.h>
#include <stdint.h>

#include "parallel/pipeline/schedule.h"

enum { RANK_PIPELINE_NS_MAX = 1000000000 }; /* of one task, and of a hop: a second */

/* What one task takes, of one chunk. */
typedef struct rank_pipeline_costs {
    int64_t forward_ns;
    int64_t backward_ns;
    int64_t hop_ns; /* a message between two stages */
} rank_pipeline_costs;

typedef struct rank_pipeline_span {
    int64_t begin_ns;
    int64_t end_ns;
} rank_pipeline_span;

typedef struct rank_pipeline_result {
    int64_t step_ns;  /* from the first forward's begin to the last backward's end */
    double bubble;    /* the share of stages × step_ns in which a stage is idle */
    int64_t messages; /* between different stages, of all micro-batches, both ways */
} rank_pipeline_result;

/* Fills spans[stage × tasks + index], stages × tasks of them, which the caller owns. */
void rank_pipeline_play(const rank_pipeline *pipeline, const rank_pipeline_costs *costs,
                        rank_pipeline_span *spans, rank_pipeline_result *result);

#endif
