/* Pipeline schedules: the order in which a stage runs the forwards and backwards of one step.
 *
 * A pipeline cuts a model's layers into stages, one for each rank, and a step into micro-batches.
 * A stage may have several chunks of layers: chunk c of stage s is then part c · stages + s of the
 * model. A micro-batch goes forward through all parts, and backward through them in reverse.
 *
 * All three schedules are one rule. A stage first runs `warm_up` forwards, then one forward and one
 * backward in turns, and at the end the backwards that are left:
 *
 *     warm-up    F F F    steady    F B F B F B    cool-down    B B B
 *
 * Only warm_up differs (launch_pipeline_warm_up). A stage's gradients are added up in the order of the
 * micro-batches in every schedule, so the schedule does not change their bits.
 *
 * Sources: GPipe: Huang et al., arXiv:1811.06965. 1F1B: Narayanan et al., "PipeDream", SOSP 2019,
 * with a flush at the end of each step. Interleaved: Narayanan et al., "Efficient Large-Scale
 * Language Model Training on GPU Clusters Using Megatron-LM", arXiv:2104.04473, section 2.2.
 *
 * Pure; thread safe. */
#ifndef LAUNCH_PIPELINE_SCHEDULE_H
#define LAUNCH_PIPELINE_SCHEDULE_H

#include <stdbool.h>

#include "base/status.h"

enum {
    LAUNCH_PIPELINE_STAGES_MAX = 64,
    LAUNCH_PIPELINE_CHUNKS_MAX = 16,
    LAUNCH_PIPELINE_PARTS_MAX = LAUNCH_PIPELINE_STAGES_MAX * LAUNCH_PIPELINE_CHUNKS_MAX,
    LAUNCH_PIPELINE_MICRO_BATCHES_MAX = 65536,
};

typedef enum launch_pipeline_kind {
    LAUNCH_PIPELINE_GPIPE, /* all forwards, then all backwards */
    LAUNCH_PIPELINE_1F1B,  /* backward as soon as possible, so that few activations are held */
    LAUNCH_PIPELINE_INTERLEAVED, /* 1F1B over chunks: a shorter bubble, and more messages */
} launch_pipeline_kind;

enum { LAUNCH_PIPELINE_KINDS = LAUNCH_PIPELINE_INTERLEAVED + 1 };

typedef struct launch_pipeline {
    launch_pipeline_kind kind;
    int stages;        /* 1 … LAUNCH_PIPELINE_STAGES_MAX */
    int chunks;        /* of layers in each stage; more than 1 only if interleaved */
    int micro_batches; /* of a step; a multiple of the stages if interleaved */
} launch_pipeline;

/* One forward or backward of one chunk, for one micro-batch. */
typedef struct launch_pipeline_task {
    bool backward;
    int chunk;       /* 0 … chunks - 1 */
    int micro_batch; /* 0 … micro_batches - 1 */
} launch_pipeline_task;

/* "gpipe", "1f1b", "interleaved"; NULL behind the last one. */
const char *launch_pipeline_name(int kind);

/* BASE_ERR_INVALID: a number is out of its range, or does not fit the schedule. The functions below
 * are for what passes. */
BASE_MUST_CHECK base_status launch_pipeline_check(const launch_pipeline *pipeline,
                                                  base_error *reterr);

/* A stage's tasks in one step: a forward and a backward for each chunk and micro-batch. */
int launch_pipeline_tasks(const launch_pipeline *pipeline);

/* The forwards that a stage runs before its first backward. */
int launch_pipeline_warm_up(const launch_pipeline *pipeline, int stage);

/* The task at `index`, 0 … tasks - 1, of a stage; and where a task stands. */
launch_pipeline_task launch_pipeline_task_at(const launch_pipeline *pipeline, int stage, int index);
int launch_pipeline_index_of(const launch_pipeline *pipeline, int stage,
                             const launch_pipeline_task *task);

/* The task that must be done before `task` of `stage` can begin: the same micro-batch's forward of
 * the part before, or its backward of the part behind; the last part's backward needs its own
 * forward. *before_stage has the stage of it. False: the first part's forward, which needs none. */
bool launch_pipeline_needs(const launch_pipeline *pipeline, int stage,
                           const launch_pipeline_task *task, int *before_stage,
                           launch_pipeline_task *before);

/* The most chunks' activations that a stage holds at a time: forwards whose backward is not done. */
int launch_pipeline_held(const launch_pipeline *pipeline, int stage);

/* The bubble by the papers' formula: the share of a step in which a stage is idle, if all chunks
 * take equally long and messages no time. With p stages, m micro-batches and v chunks it is
 *
 *     (p − 1) / (v · m + p − 1)
 *
 * The papers also give the bubble in units of the work, (p − 1) / (v · m). */
double launch_pipeline_bubble(const launch_pipeline *pipeline);

#endif
