/* Pipeline schedules: the order in which a stage runs the forwards and backwards of one step.
 *
 * A pipeline cuts a model's layers into stages, one for each rank, and a step into micro-batches.
 * A stage may have several chunks of layers: chunk c of stage s is then part c · stages + s of the
 * model. A micro-batch goes forward through all parts, and backward through them in reverse.
 *
 * All schedules are one rule. A stage first runs `warm_up` forwards, then one forward and one
 * backward in turns, and at the end the backwards that are left:
 *
 *     warm-up    F F F    steady    F B F B F B    cool-down    B B B
 *
 * gpipe, 1f1b and interleaved differ only in warm_up. zb-h1 is 1f1b whose backward is in two passes: B makes the
 * gradients of activations, for which the stage before waits, and W those of weights, for which nobody
 * does. Stage s runs the W of a micro-batch behind the B of the s-th one after it, and the W that are left at the end:
 *
 *     stage 0    F F F B W F B W B W B W        stage 2    F B F B F B W F B W B W W W
 *
 * So B comes earlier on the last stages, and W fills their bubble. A stage's gradients are added up in
 * the order of the micro-batches in every schedule, so the schedule does not change their bits.
 *
 * Sources: GPipe: Huang et al., arXiv:1811.06965. 1F1B: Narayanan et al., "PipeDream", SOSP 2019,
 * with a flush at the end of each step. Interleaved: Narayanan et al., "Efficient Large-Scale
 * Language Model Training on GPU Clusters Using Megatron-LM", arXiv:2104.04473, section 2.2. ZB-H1: Qi et al., "Zero
 * Bubble Pipeline Parallelism", arXiv:2401.10241, section 2.1.
 *
 * Pure; thread safe. */
#ifndef PROTO_PIPELINE_H
#define PROTO_PIPELINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

enum {
    PROTO_PIPELINE_STAGES_MAX = 64,
    PROTO_PIPELINE_CHUNKS_MAX = 16,
    PROTO_PIPELINE_PARTS_MAX = PROTO_PIPELINE_STAGES_MAX * PROTO_PIPELINE_CHUNKS_MAX,
    PROTO_PIPELINE_MICRO_BATCHES_MAX = 65536,
};

typedef enum proto_pipeline_kind {
    PROTO_PIPELINE_GPIPE,       /* all forwards, then all backwards */
    PROTO_PIPELINE_1F1B,        /* backward as soon as possible, so that few activations are held */
    PROTO_PIPELINE_INTERLEAVED, /* 1F1B over chunks: a shorter bubble, and more messages */
    PROTO_PIPELINE_ZB_H1, /* 1F1B with a split backward: a shorter bubble, and more activations */
} proto_pipeline_kind;

enum { PROTO_PIPELINE_KINDS = PROTO_PIPELINE_ZB_H1 + 1 };

typedef struct proto_pipeline {
    proto_pipeline_kind kind;
    int stages;        /* 1 … PROTO_PIPELINE_STAGES_MAX */
    int chunks;        /* of layers in each stage; more than 1 only if interleaved */
    int micro_batches; /* of a step; a multiple of the stages if interleaved */
} proto_pipeline;

typedef enum proto_pipeline_pass {
    PROTO_PIPELINE_FORWARD,
    PROTO_PIPELINE_BACKWARD, /* of zb-h1: the gradients of activations alone (B) */
    PROTO_PIPELINE_WEIGHTS,  /* of zb-h1 only: the gradients of weights (W) */
} proto_pipeline_pass;

enum { PROTO_PIPELINE_PASSES = PROTO_PIPELINE_WEIGHTS + 1 };

/* One pass through one chunk, for one micro-batch. */
typedef struct proto_pipeline_task {
    proto_pipeline_pass pass;
    int chunk;       /* 0 … chunks - 1 */
    int micro_batch; /* 0 … micro_batches - 1 */
} proto_pipeline_task;

/* "gpipe", "1f1b", "interleaved", "zb-h1"; NULL behind the last one. */
const char *proto_pipeline_name(int kind);

/* Whether its backward is in two passes. */
bool proto_pipeline_splits(const proto_pipeline *pipeline);

/* BASE_ERR_INVALID: a number is out of its range, or does not fit the schedule. The functions below
 * are for what passes. */
BASE_MUST_CHECK base_status proto_pipeline_check(const proto_pipeline *pipeline,
                                                 base_error *reterr);

/* The shape of a model that is cut into stages. */
typedef struct proto_pipeline_model {
    int64_t layers;
    int64_t width;
    int64_t vocab_size;
    int64_t context;
} proto_pipeline_model;

/* The layers of one of at most `layers` stages, 1 or more. The last one also has the output, so it
 * gets fewer: as many as make the slowest stage fastest. The first ones have a layer more if it
 * does not come out even. */
int64_t proto_pipeline_layers(const proto_pipeline_model *model, int stages, int stage);

/* A stage's tasks in one step: the two or three passes for each chunk and micro-batch. */
int proto_pipeline_tasks(const proto_pipeline *pipeline);

/* The task at `index`, 0 … tasks - 1, of a stage; and where a task stands. */
proto_pipeline_task proto_pipeline_task_at(const proto_pipeline *pipeline, int stage, int index);
int proto_pipeline_index_of(const proto_pipeline *pipeline, int stage,
                            const proto_pipeline_task *task);

/* Forwards alone, of any number of batches: the task at `index`, 0 … batches · chunks - 1, the same on every stage.
 * As in a step, as many batches as there are stages go through a chunk before the next chunk's turn; the last ones
 * may be fewer. */
proto_pipeline_task proto_pipeline_forward_at(const proto_pipeline *pipeline, int batches,
                                              int index);

/* The task that must be done before `task` of `stage` can begin: the same micro-batch's forward of
 * the part before, or its backward of the part behind; the last part's backward needs its own
 * forward, and the gradients of weights the backward of the same part. *before_stage has the stage of it. False: the
 * first part's forward, which needs none. */
bool proto_pipeline_needs(const proto_pipeline *pipeline, int stage,
                          const proto_pipeline_task *task, int *before_stage,
                          proto_pipeline_task *before);

/* The most chunks' activations that a stage holds at a time: forwards whose last pass is not done. */
int proto_pipeline_held(const proto_pipeline *pipeline, int stage);

/* The most micro-batches whose activations it holds of one chunk. The sum over the chunks may be more,
 * as these do not have the most at the same time. */
int proto_pipeline_held_of(const proto_pipeline *pipeline, int stage, int chunk);

/* The bubble by the papers' formula: the share of a step in which a stage is idle, if all chunks
 * take equally long and messages no time. With p stages, m micro-batches and v chunks it is
 *
 *     (p − 1) / (v · m + p − 1)
 *
 * In zb-h1 a stage is idle for (p − 1) (F + B − W), for passes that take F, B and W, of which W is no longer than the
 * others: with three equal ones the share is
 *
 *     (p − 1) / (3 m + p − 1)
 *
 * With m < p micro-batches only m − 1 of each stage's W can be put off, and the idle time is (p − 1) (F + B) −
 * (m − 1) W. The papers also give the bubble in units of the work, (p − 1) / (v · m). */
double proto_pipeline_bubble(const proto_pipeline *pipeline);

#endif
