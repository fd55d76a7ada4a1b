/* What a layout of ranks should need and take: memory, the bill of all exchanges, the bubble, a
 * step's time, and money. An estimate from the shape of the model and the figures of a device;
 * docs/PARALLELISM.md has the formulas. */
#ifndef LAUNCH_PLAN_ESTIMATE_H
#define LAUNCH_PLAN_ESTIMATE_H

#include "pipeline/timeline.h"
#include "plan/adapters.h"
#include "plan/device.h"
#include "plan/model.h"

/* What is to be computed, on what. */
typedef struct launch_ask {
    launch_model model;
    launch_device device;
    bool decode;    /* a token for each sequence; else a step of training */
    bool recompute; /* of training: blocks keep their inputs alone, as of --recompute */
    int64_t zero;   /* of training: what replicas shard, as of --zero: 0 to PROTO_ZERO_PARAMETERS */
    int64_t
        local_steps; /* of training: of each replica alone, between two exchanges; 0 and 1: none is */
    proto_optimizer optimizer; /* of training */
    launch_adapters adapters;  /* of training: with a rank, of a model that is frozen beside them */
    proto_precision precision;
    proto_weights weights;    /* of decoding: matrices are of the precision, or in blocks */
    double efficiency;        /* share of the peak that products reach */
    double memory_efficiency; /* share of the memory's bandwidth that reading reaches */
    int64_t batch;            /* sequences of a micro-batch; of a decoding step on each replica */
    int64_t global_batch;     /* sequences of a training step, on all ranks */
    proto_pipeline_kind schedule;
    int64_t chunks;
} launch_ask;

/* ranks = data · context_ranks · tensor · pipeline. Rank 0's neighbours share its tensors, then come those
 * that share its tokens, then replicas, then stages: what exchanges most is nearest. Of replicas those in a row may
 * share out the experts. */
typedef struct launch_layout {
    int64_t data;
    int64_t tensor;
    int64_t pipeline;
    int64_t context_ranks; /* that share the tokens of a micro-batch */
    int64_t expert_ranks;  /* replicas that have some whole experts each; 0 and 1: each has all */
} launch_layout;

typedef enum launch_memory {
    LAUNCH_MEMORY_WEIGHTS,
    LAUNCH_MEMORY_GRADIENTS,
    LAUNCH_MEMORY_OPTIMIZER,
    LAUNCH_MEMORY_ACTIVATIONS,
    LAUNCH_MEMORY_CACHE,
    LAUNCH_MEMORY_WORK,
    LAUNCH_MEMORY_COUNT,
} launch_memory;

const char *launch_memory_name(launch_memory use);

/* One kind of exchange, of the rank with most of it, in one step. */
typedef struct launch_bill_row {
    const char *what;
    const char *operation; /* all_reduce, reduce_scatter, all_gather, all_to_all, send */
    int64_t ranks;         /* that take part */
    bool between_hosts;
    double times;
    double payload_bytes; /* of one */
    double sent_bytes;    /* by the rank, of all */
    double took_s;        /* of all, one after the other */
} launch_bill_row;

enum { LAUNCH_BILL_ROWS_MAX = 15 };

/* Flags with which a training would fit that does not, and its total_bytes then. */
typedef struct launch_way {
    int64_t zero; /* as of launch_layout_zero */
    bool recompute;
    double total_bytes;
} launch_way;

enum { LAUNCH_WAYS_MAX = 2 };

typedef struct launch_estimate {
    launch_layout layout;
    launch_pipeline_run run;                  /* of training: the stages' tasks in time */
    int stage;                                /* whose ranks hold most */
    double memory_bytes[LAUNCH_MEMORY_COUNT]; /* of such a rank */
    double total_bytes;
    bool fits;
    int way_count; /* 0 if it fits, or cannot be made to */
    launch_way ways[LAUNCH_WAYS_MAX];
    int row_count;
    launch_bill_row rows[LAUNCH_BILL_ROWS_MAX];
    double tokens;              /* of a step, on all ranks */
    double forward_s;           /* one micro-batch's, of the slowest stage: products */
    double compute_s;           /* of the slowest stage: products, or reading the weights */
    double repeated_s;          /* of that: what backward computes again */
    double merge_s;             /* adding its micro-batches' gradients up */
    double tensor_s;            /* its all-reduces, which nothing hides */
    double context_s;           /* its all-to-alls of heads, which nothing hides */
    double expert_s;            /* its all-to-alls of experts' rows, which nothing hides */
    double waiting_s;           /* its bubble and what the stages' sends add */
    double gradients_s;         /* adding up the replicas' gradients */
    double gradients_exposed_s; /* what backward does not hide of it */
    double optimizer_s;
    double newton_schulz_s;      /* of that: the products of Muon */
    double parameters_s;         /* gathering what ZeRO has sharded, or Muon has shared out */
    double parameters_exposed_s; /* what computing does not hide of it */
    double step_s;
} launch_estimate;

int64_t launch_layout_ranks(const launch_layout *layout);

/* Copies of the model: ranks that have the same parameters, and add up their gradients. */
int64_t launch_layout_copies(const launch_layout *layout);

/* Ranks that share out the experts: 1 if each has all. */
int64_t launch_layout_expert_ranks(const launch_layout *layout);

/* The stage of ZeRO that this layout has: none with one copy, where there is nothing to shard. */
int64_t launch_layout_zero(const launch_ask *ask, const launch_layout *layout);

/* Steps of training between two exchanges: 1 unless replicas take local ones. */
int64_t launch_ask_local_steps(const launch_ask *ask);

/* The highest stage that it can have: 1 where stages of layers follow each other, where ranks share out experts, and of
 * adapters. */
int64_t launch_layout_zero_most(const launch_ask *ask, const launch_layout *layout);

/* BASE_ERR_INVALID: the model cannot be laid out so; the message says what it divides by. */
BASE_MUST_CHECK base_status launch_layout_check(const launch_ask *ask, const launch_layout *layout,
                                                base_error *reterr);

/* BASE_ERR_INVALID: as launch_layout_check. BASE_ERR_LIMIT: more than is played. launch_estimate_fini frees what it holds, also after a failure. */
BASE_MUST_CHECK base_status launch_estimate_make(const launch_ask *ask, const launch_layout *layout,
                                                 launch_estimate *estimate, base_error *reterr);
void launch_estimate_fini(launch_estimate *estimate);

/* What a search has found. */
typedef struct launch_found {
    launch_estimate *estimates; /* (count), the fastest first; those that do not fit last */
    int count;
    int left_out;                       /* layouts that are not possible, */
    launch_layout left_out_one;         /* the first of them, which has most replicas, */
    char why[BASE_ERROR_MESSAGE_BYTES]; /* and why it is not */
} launch_found;

/* The layouts of so many ranks. A number of `wanted` that is not 0 is kept, and its context_ranks, which
 * are not 0. Without its expert_ranks all numbers of these are tried with which the layout is possible. Only the first estimate has a timeline. launch_found_fini frees what it holds, also after a
 * failure. BASE_ERR_INVALID: no layout is possible; the message is of the first one tried. */
BASE_MUST_CHECK base_status launch_plan_search(const launch_ask *ask, int64_t ranks,
                                               const launch_layout *wanted, launch_found *found,
                                               base_error *reterr);
void launch_found_fini(launch_found *found);

#endif
