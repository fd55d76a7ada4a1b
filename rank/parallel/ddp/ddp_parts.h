/* The inside of rank/ddp.h: what the files of this directory share. ddp.c runs a step, ddp_device.c
 * does its all-reduces on a device, ddp_make.c makes and frees the object, ddp_params.c keeps
 * the ranks' parameters equal, ddp_zero.c does what ZeRO adds, ddp_window.c gathers parameters of
 * its stage 3, ddp_apart.c knows which ranks have the same, and ddp_units.c what ZeRO cuts between them. */
#ifndef RANK_PARALLEL_DDP_PARTS_H
#define RANK_PARALLEL_DDP_PARTS_H

#include "parallel/ddp/norm.h"
#include "rank/ddp.h"

enum {
    RANK_DDP_ALGORITHM_BYTES = 128,
    RANK_DDP_SLICE_BYTES = 16 << 20, /* of a broadcast */
    /* Units that are being reduced at one time, if their memory goes back to the system. */
    RANK_DDP_UNDER_WAY_MAX = 8,
};

/* An operation on the host. */
typedef struct rank_ddp_op {
    coll_op *op;
    rank_trace_span under_way; /* what a trace says of it; begin_ns 0: it is not under way */
} rank_ddp_op;

/* One range of the gradient array and its operation. */
typedef struct rank_ddp_bucket {
    size_t offset;
    size_t count;
    size_t missing;  /* elements that are not ready yet in this step */
    coll_comm *comm; /* of the ranks that add it up */
    rank_ddp_op op;
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

/* An array that ZeRO cuts into units. */
typedef struct rank_ddp_units {
    size_t count;
    size_t elements; /* of a unit, as wished */
    coll_comm *comm; /* of all ranks; NULL: it is a plan */
    int rank;
    int ranks;
    rank_ddp_apart apart;
} rank_ddp_units;

/* One of them. */
typedef struct rank_ddp_unit {
    size_t number; /* among all units */
    coll_comm *comm;
    rank_zero_cut cut; /* of the stretch that the ranks of comm have alike, */
    size_t index;      /* and which of its units this is */
    rank_zero_range all;
    rank_zero_range mine;
    size_t place; /* of mine in this rank's shard */
} rank_ddp_unit;

/* What ZeRO adds. */
typedef struct rank_ddp_shards {
    int stage;
    rank_ddp_units units;
    size_t unit_count;    /* of the gathers; 0: they are not made */
    rank_zero_cut cut;    /* without ranges apart; count 0: there are no shards */
    rank_ddp_op *gathers; /* of the parameters, a unit each */
    rank_norm_range
        *mine; /* this rank's sums: in stage 1 a piece of each unit, later all of its shard */
    size_t mine_count;
    rank_ddp_part *parts; /* from stage 2 on */
    int part_count;
    /* From stage 2 on. The levels of rank_ddp have level 0 alone, of which a rank uses what is not
     * reduced yet. Units are those of `buckets`, in that order. */
    float *sums[RANK_DDP_LEVELS_MAX]; /* of this rank's shard */
    size_t taken_count;               /* units whose sums were taken out of level 0 */
    size_t used_bytes_max;            /* of level 0 */
} rank_ddp_shards;

typedef enum rank_ddp_unit_state {
    RANK_DDP_UNIT_ABSENT,
    RANK_DDP_UNIT_UNDER_WAY,
    RANK_DDP_UNIT_PRESENT
} rank_ddp_unit_state;

/* Stage 3: the parameters of the parts that passes are at. */
typedef struct rank_ddp_window {
    coll_arena *shard; /* this rank's parameters: peers read them there */
    coll_arena *all;   /* addresses for all parameters, and memory for units that are not absent */
    rank_ddp_unit_state *units;
    int position; /* of the pass; -1: it has not begun */
    int limit;    /* where the pass ends, or its forward */
    size_t used_bytes;
    size_t used_bytes_max;
} rank_ddp_window;

struct rank_ddp {
    coll_comm *comm;
    rank_device device;
    rank_queue *reduces; /* of the all-reduces: device's queue on the CPU, else one of its own */
    size_t param_count;
    size_t bucket_elements;
    rank_ddp_shards shards;
    rank_ddp_window window;
    int micro_batches;
    bool bracketed;
    bool local;
    bool ranks_first;
    rank_ddp_apart apart;
    rank_norm_range
        *counted; /* with ranges apart: of the sums, what this rank counts in the norm */
    size_t counted_count;
    int micro_batch; /* the current one */
    rank_leaf_plan plan;
    coll_arena *arena;                  /* NULL on a device */
    float *levels[RANK_DDP_LEVELS_MAX]; /* 0: exchanged, in the arena or NCCL's; the others are
                                         * private */
    size_t waiting_bytes;               /* of levels from 1 on */
    rank_ddp_bucket *buckets;           /* from the end of the array to its start */
    size_t bucket_count;
    size_t started_count; /* on a device: whose signals are set */
    size_t done_count;    /* of the first of these it is known that they are done */
    bool reducing;        /* on a device: the all-reduces of this step are enqueued */
    rank_graphs *graphs;
    rank_trace *trace;
    int64_t inside_ns;     /* time of this step inside collective calls, */
    int64_t waited_ns;     /* and of waiting for them before backward has ended, */
    int64_t waited_cpu_ns; /* in this thread's CPU time */
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

/* Collective over comm: `count` floats of rank 0, at `at` on all ranks. */
BASE_MUST_CHECK base_status rank_ddp_broadcast(const rank_ddp *ddp, coll_comm *comm, float *at,
                                               size_t count, base_error *reterr);

/* Values that are compared. */
typedef struct rank_ddp_values {
    coll_comm *comm;
    const float *at;
    size_t count;
    const char *what;
} rank_ddp_values;

/* Collective: BASE_ERR_MISMATCH if a rank's bytes are not rank 0's. */
BASE_MUST_CHECK base_status rank_ddp_check_same(rank_ddp *ddp, const rank_ddp_values *values,
                                                base_error *reterr);

/* Starts an operation on the host, tests one, or waits for it, and counts the time. Does nothing after a
 * failure. */
void rank_ddp_start(rank_ddp *ddp, rank_ddp_op *op);
bool rank_ddp_is_done(rank_ddp *ddp, rank_ddp_op *op);
void rank_ddp_wait(rank_ddp *ddp, rank_ddp_op *op);

/* ---- ddp_apart.c ---- */

/* A range of the array that the same ranks have alike. */
typedef struct rank_ddp_stretch {
    size_t offset;
    size_t end;
    coll_comm *comm; /* of these ranks */
    bool apart;      /* it is one of the ranges apart */
} rank_ddp_stretch;

/* The one that has this element; `all`: the ranks that have alike what is not apart. The last one, or without ranges
 * apart the only one, has no end. Pure. */
rank_ddp_stretch rank_ddp_stretch_of(const rank_ddp_apart *apart, coll_comm *all, size_t element);

/* Takes the options over, once there is memory for gradients. */
BASE_MUST_CHECK base_status rank_ddp_make_apart(rank_ddp *ddp, const rank_ddp_options *options,
                                                base_error *reterr);
void rank_ddp_free_apart(rank_ddp *ddp);

/* ---- ddp_units.c ---- */

rank_ddp_units rank_ddp_units_make(const rank_ddp_options *options, int rank, int ranks);

/* Goes on to the next unit. Begins with zeros. False behind the last one; `place` and `mine` then are still that one's. */
bool rank_ddp_next_unit(const rank_ddp_units *units, rank_ddp_unit *unit);

/* The unit that has the element. `number` and `place` are not known. */
rank_ddp_unit rank_ddp_unit_of(const rank_ddp_units *units, size_t element);

/* Elements of the unit's pieces. counts has room for all ranks. */
void rank_ddp_piece_counts(const rank_ddp_unit *unit, size_t *counts);

/* ddp_make.c: elements of a bucket. */
size_t rank_ddp_wished_elements(const rank_ddp_options *options);

/* ---- ddp_zero.c ---- */

bool rank_ddp_is_sharded(const rank_ddp *ddp);

/* Whether this rank keeps only its shard of the gradients: stages 2 and 3. */
bool rank_ddp_shards_gradients(const rank_ddp *ddp);

/* Takes the sums of units that are reduced, until no more than `most` are under way. */
void rank_ddp_take_units(rank_ddp *ddp, size_t most);

/* Counts what level 0 holds when backward has got down to this offset. */
void rank_ddp_count_used(rank_ddp *ddp, size_t offset);

/* Bytes of level 0 that a rank uses at one time at most, from stage 2 on. */
size_t rank_ddp_plan_used(const rank_ddp_options *options, const rank_zero_cut *cut);

/* Makes what ZeRO adds, for these parameters. */
BASE_MUST_CHECK base_status rank_ddp_make_shards(rank_ddp *ddp, const rank_ddp_options *options,
                                                 float *params, base_error *reterr);
void rank_ddp_free_shards(rank_ddp *ddp);

/* ---- ddp_window.c: stage 3. In every other stage these do nothing. ---- */

/* Makes the memory of a shard and of the window. */
BASE_MUST_CHECK base_status rank_ddp_make_window(rank_ddp *ddp, base_error *reterr);
void rank_ddp_free_window(rank_ddp *ddp);

/* Bytes of gathered parameters at one time at most. Pure. */
size_t rank_ddp_plan_window(const rank_ddp_options *options, const rank_zero_cut *cut);

/* A pass ends: gathers what it has not asked for, as other ranks did, and drops all. */
void rank_ddp_window_end(rank_ddp *ddp);

/* Forward has ended. */
void rank_ddp_window_turn(rank_ddp *ddp);

/* Backward has made gradients at this offset ready. */
void rank_ddp_window_ready(rank_ddp *ddp, size_t offset);

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
