/* The inside of rank/ddp.h: what the files of this directory share. ddp.c runs a step, ddp_device.c
 * does its all-reduces on a device, ddp_make.c makes and frees the object, ddp_params.c keeps
 * the ranks' parameters equal, and ddp_zero.c does what ZeRO adds. */
#ifndef RANK_PARALLEL_DDP_PARTS_H
#define RANK_PARALLEL_DDP_PARTS_H

#include "parallel/ddp/norm.h"
#include "rank/ddp.h"

enum {
    RANK_DDP_ALGORITHM_BYTES = 128,
    RANK_DDP_SLICE_BYTES = 16 << 20, /* of a broadcast */
};

/* One range of the gradient array and its operation. */
typedef struct rank_ddp_bucket {
    size_t offset;
    size_t count;
    size_t missing; /* elements that are not ready yet in this step */
    coll_op *op;
    rank_signal *full; /* on a device */
} rank_ddp_bucket;

/* The device writes it and the host reads it. */
typedef struct rank_ddp_found {
    uint8_t digest[RANK_DIGEST_BYTES]; /* of what was shared last */
    double largest_difference;
    bool equal;
} rank_ddp_found;

/* Where a step is on a device, for its clock. */
typedef struct rank_ddp_clock {
    rank_signal *begun;    /* forward of the first micro-batch comes next */
    rank_signal *computed; /* backward of the last one has ended */
    rank_signal *reducing; /* the first all-reduce comes next */
    rank_signal *reduced;  /* the last one has ended */
} rank_ddp_clock;

/* What ZeRO adds. */
typedef struct rank_ddp_shards {
    rank_zero_cut cut;     /* count 0: there are none */
    coll_op **gathers;     /* of the parameters, a unit each */
    rank_norm_range *mine; /* this rank's pieces of the gradients, one of each unit */
} rank_ddp_shards;

struct rank_ddp {
    coll_comm *comm;
    rank_device device;
    rank_queue *reduces; /* of the all-reduces: device's queue on the CPU, else one of its own */
    size_t param_count;
    size_t bucket_elements;
    rank_ddp_shards shards;
    int micro_batches;
    bool bracketed;
    int micro_batch; /* the current one */
    rank_leaf_plan plan;
    coll_arena *arena;                  /* NULL on a device */
    float *levels[RANK_DDP_LEVELS_MAX]; /* 0: exchanged, in the arena or NCCL's; the others are
                                         * private */
    size_t waiting_bytes;               /* of levels from 1 on */
    rank_ddp_bucket *buckets;           /* from the end of the array to its start */
    size_t bucket_count;
    size_t started_count; /* on a device: whose signals are set */
    bool reducing;        /* on a device: the all-reduces of this step are enqueued */
    rank_graphs *graphs;
    int64_t inside_ns; /* time of this step inside collective calls */
    rank_ddp_clock clock;
    uint64_t busy_ns; /* coll_device_busy_ns at the end of the last step */
    rank_ddp_found *found;
    uint8_t initial_digest[RANK_DIGEST_BYTES];
    char algorithm[RANK_DDP_ALGORITHM_BYTES];
    base_status failed;
    base_error error;
};

/* ---- ddp.c ---- */

/* Keeps the first failure, whose text is in ddp->error. */
void rank_ddp_keep(rank_ddp *ddp, base_status status);

/* ---- ddp_params.c ---- */

/* Collective: `count` floats of rank 0, at `at` on all ranks. */
BASE_MUST_CHECK base_status rank_ddp_broadcast(const rank_ddp *ddp, float *at, size_t count,
                                               base_error *reterr);

/* Collective: BASE_ERR_MISMATCH if a rank's bytes are not rank 0's. */
BASE_MUST_CHECK base_status rank_ddp_check_same(rank_ddp *ddp, const float *values, size_t count,
                                                const char *what, base_error *reterr);

/* ---- ddp_zero.c ---- */

bool rank_ddp_is_sharded(const rank_ddp *ddp);

/* Elements of every rank's piece of the unit. counts has room for all ranks. */
void rank_ddp_piece_counts(const rank_ddp *ddp, size_t unit, size_t *counts);

/* Makes what ZeRO adds, for these parameters. */
BASE_MUST_CHECK base_status rank_ddp_make_shards(rank_ddp *ddp, float *params, base_error *reterr);
void rank_ddp_free_shards(rank_ddp *ddp);

/* ---- ddp_device.c ---- */

/* Whether all-reduces run on a queue of their own. */
bool rank_ddp_on_device(const rank_ddp *ddp);

/* The all-reduces' stream; NULL on the CPU. */
void *rank_ddp_stream(const rank_ddp *ddp);

/* Opens that queue, the device's collectives and its clock, and allocates levels[0] for them. */
BASE_MUST_CHECK base_status rank_ddp_open_device(rank_ddp *ddp, size_t size_bytes,
                                                 base_error *reterr);

/* Sets the signal of every bucket that is full, in order from the end. */
void rank_ddp_signal_full(rank_ddp *ddp);

/* Enqueues all of a step's all-reduces, if its buckets' signals are set. */
void rank_ddp_reduce_on_device(rank_ddp *ddp);

/* Enqueues them if that was not done, and waits for them. */
void rank_ddp_finish_on_device(rank_ddp *ddp);

/* The step's times by the device's clock, once its queues have been waited for. */
void rank_ddp_take_device_times(rank_ddp *ddp, rank_ddp_times *times);

/* Frees what rank_ddp_open_device has opened, but for the memory. */
void rank_ddp_close_device(rank_ddp *ddp);

#endif
