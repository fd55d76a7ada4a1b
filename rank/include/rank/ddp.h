/* Data-parallel training: every rank holds all parameters, computes gradients on its own shard, and
 * the gradients are summed over all ranks each step.
 *
 *     rank_ddp_wrap      the same parameters everywhere (broadcast from rank 0, checked by digest)
 *     each step:
 *       rank_ddp_begin   starts it; then, for each micro-batch m,
 *       rank_ddp_grads     where backward puts the gradients of (ddp, m)
 *       rank_ddp_pass      called before backward,
 *       rank_ddp_ready     and by it as ranges become final (they are hooks of model.h)
 *       rank_ddp_reduce  when all micro-batches are enqueued
 *       rank_ddp_finish  waits until the sums over all ranks and micro-batches are in
 *       rank_ddp_sums    where they are
 *     rank_ddp_destroy
 *
 * Slots. The job has slots = ranks × micro_batches, contiguous per rank. A slot's whole gradient
 * (of the sum of its losses, not the mean) is a leaf; a rank combines its own leaves in the
 * canonical order of coll.h (neighbours pair up level by level), and the all-reduce combines the
 * ranks in the same order. So ranks can be traded against a power of two of micro-batches: 4 × 1,
 * 2 × 2 and 1 × 4 (ranks × micro-batches) give the same bits, whatever the bucket size, with an
 * algorithm of the canonical order. (With stages 2 and 3 of ZeRO slots are not contiguous, and ranks a
 * power of two: proto_job_slot.)
 *
 * Buckets are ranges of the gradient array, cut from its end: backward fills the array from the
 * end, and each bucket's all-reduce starts as soon as the bucket is full, while backward goes on.
 * Progress is made inside rank_ddp_ready. On a device all-reduces are operations on a stream of their
 * own. Backward sets a signal for each bucket that is full, perhaps inside of a graph, and the
 * stream waits for that before it reduces the bucket. With graphs all of a step's all-reduces are
 * one: it has no shape that varies, so all ranks capture it at the same step, and replay it at the
 * same steps, as NCCL demands of a graph with its operations.
 *
 * ZeRO (rank/zero.h): buckets are the units of a cut. Each is reduce-scattered in place of the
 * all-reduce, in the same order of operands, so that this rank has the sums of its own pieces only.
 *
 *   stage 1   The caller updates its pieces of the parameters, and rank_ddp_gather gives them to all.
 *   stage 2   Also, every micro-batch's gradients are reduced, and only this rank's shard of the sums
 *             is kept. So the ranks are added up first, and the micro-batches second. The memory of a
 *             unit goes back to the system when the unit is reduced.
 *   stage 3   Also, a rank keeps only its shard of the parameters. A pass gathers them part by part:
 *             the part in use, and the next one (ddp_window.c).
 *
 * Ranges apart (rank_ddp_apart): parts of the array that not all ranks have alike, as where ranks share out the
 * experts of a model. A bucket lies in such a range or outside. Its gradients are added up between the ranks
 * that have the same, and so are parameters given and compared. Stage 1 of ZeRO cuts each range between them.
 *
 * Ranks first (`ranks_first`): every micro-batch's gradients are all-reduced, and the sums of micro-batches
 * are added up second, as in stage 2 of ZeRO. Slots must be dealt out so.
 *
 * Local steps (`local`): ranks take steps of their own, and exchange nothing in them. rank_ddp_finish then
 * checks that backward is complete, and rank_ddp_sums has this rank's sums. Now and then the caller puts
 * what the ranks shall add up where gradients were (rank_ddp_exchanged), and calls rank_ddp_exchange.
 *
 * One thread. After an error the object is dead: destroy it. */
#ifndef RANK_DDP_H
#define RANK_DDP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/graphs.h"
#include "base/status.h"
#include "coll/coll.h"
#include "rank/zero.h"
#include "trace/trace.h"

enum {
    RANK_DDP_MICRO_BATCHES_MAX = 256,
    RANK_DDP_LEVELS_MAX = 9, /* buffers for a tree over that many leaves */
    RANK_DDP_BUCKETS_MAX = 4096,
};

typedef struct rank_ddp rank_ddp;

/* Stages of ZeRO. */
enum {
    RANK_DDP_ZERO_MOMENTS = 1, /* the caller's moments are sharded, */
    RANK_DDP_ZERO_GRADIENTS,   /* and the sums of gradients, */
    RANK_DDP_ZERO_PARAMETERS,  /* and the parameters */
};

/* What a pass reads at one time, as ranges of the parameters: model.h's rank_model_reads. */
typedef struct rank_ddp_part {
    rank_zero_range ranges[2]; /* the second one may be empty */
} rank_ddp_part;

/* Ranges of the parameters that not all ranks of the communicator have alike. */
typedef struct rank_ddp_apart {
    const rank_zero_range *ranges; /* ascending and apart; copied */
    int range_count;               /* 0: all ranks have the same */
    coll_comm *copies;             /* borrowed: the ranks that have the same there, */
    coll_comm *members; /* and those of a group with this one, which have different ones */
} rank_ddp_apart;

typedef struct rank_ddp_options {
    const rank_device *device; /* adds up micro-batches and compares parameters; borrowed */
    size_t param_count;
    size_t bucket_bytes; /* at least 4; the last bucket may be smaller */
    int micro_batches;   /* per step, 1 … RANK_DDP_MICRO_BATCHES_MAX */
    bool bracketed;      /* a barrier, then one all-reduce after backward, to measure that alone */
    int zero;            /* the stage of ZeRO, 0: none; not on a device */
    bool
        local; /* steps add up this rank's micro-batches alone; rank_ddp_exchange is the caller's to
                 * call. Not on a device, and not with `zero` */
    bool ranks_first;     /* not on a device, and with none of bracketed, local, stages 2 and 3 */
    rank_ddp_apart apart; /* the same */
    /* From stage 2 on: what passes read. Forward reads the parts in order, backward from the last one
     * down to the second, and its `ready` comes in that order; that of the last two is one if the
     * last has two ranges. Copied. */
    const rank_ddp_part *parts;
    int part_count;
    coll_algorithm algorithm;
    rank_trace
        *trace; /* borrowed; gets the spans of exchanges, and of what waits for them; NULL: none */
    rank_graphs
        *graphs; /* borrowed, and stopped before destroy; NULL: all-reduces are not captured */
} rank_ddp_options;

/* What one step's all-reduce cost this rank. On a device all of it is by the device's clock. */
typedef struct rank_ddp_times {
    int64_t allreduce_ns; /* inside collective calls: starting, progress, waiting; on a device
                           * from an all-reduce's start to its end there */
    int64_t allreduce_exposed_ns; /* the part of it after backward had ended */
    int64_t
        waited_ns; /* the part of it in which passes waited: parameters to gather, memory to free */
    int64_t waited_cpu_ns; /* CPU time of this thread in that part */
    int64_t barrier_ns;    /* bracketed: until all ranks were there; in none of the others */
    bool by_device;
    int64_t
        compute_ns; /* by_device: from rank_ddp_grads of the first micro-batch to the end of what
                         * was enqueued before rank_ddp_reduce */
} rank_ddp_times;

/* Adds the device's memory that wrap takes on one of so many ranks: at one time at most, as parts of a
 * large address space are used. Collectives' own buffers are not in it, and parameters only in stage 3. */
void rank_ddp_plan(const rank_ddp_options *options, int rank, int ranks, rank_memory_use *use);

/* Bytes that collectives take for themselves, at most, on a device. */
uint64_t rank_ddp_plan_collectives(const rank_ddp_options *options, int ranks);

/* Adds what was in use for that on a CPU, at one time at most. */
void rank_ddp_memory(const rank_ddp *ddp, rank_memory_use *use);

/* Collective. Copies rank 0's params (param_count floats, the caller's) to every rank, and checks
 * by digest that all have the same bytes (BASE_ERR_MISMATCH names a rank that does not). In stage 3
 * params has all parameters on rank 0, is NULL on the others, and is read only here: every rank gets its
 * shard. comm is borrowed. */
BASE_MUST_CHECK base_status rank_ddp_wrap(coll_comm *comm, const rank_ddp_options *options,
                                          float *params, rank_ddp **ddp, base_error *reterr);

/* Frees, also after a failure, and before the communicator is destroyed. Local. NULL is fine. */
void rank_ddp_destroy(rank_ddp *ddp);

/* BLAKE2b-256 of the parameters after wrap, the same on every rank; 32 bytes, owned by ddp. With ranges apart it
 * says nothing. */
const uint8_t *rank_ddp_initial_digest(const rank_ddp *ddp);

/* The algorithms that add up the gradients, after `auto` was decided for each bucket's size:
 * "direct", or all in use, "recursive_doubling+halving_doubling". Owned by ddp. */
const char *rank_ddp_algorithm(const rank_ddp *ddp);

/* Starts a step. No gradient is ready. */
void rank_ddp_begin(rank_ddp *ddp);

/* In stage 3: this rank's shard of the parameters, and how passes reach all of them (hooks.need, with the ddp as user). */
float *rank_ddp_shard(rank_ddp *ddp);
const float *rank_ddp_need(void *user, size_t offset, size_t count);

/* The memory for the gradients of micro-batch m of this step: param_count floats, all of which
 * backward must write. Call it for 0, 1, … in order. It makes m the current micro-batch for
 * rank_ddp_ready. */
float *rank_ddp_grads(rank_ddp *ddp, int micro_batch);

/* The current micro-batch's gradients [offset, offset + count) are final once `mark` is passed.
 * rank_ddp_finish returns errors. */
void rank_ddp_ready(void *user, size_t offset, size_t count, rank_mark mark);

/* What rank_ddp_ready enqueues for the current micro-batch: the same for the same value. */
uint64_t rank_ddp_key(const rank_ddp *ddp);

/* A backward pass of the current micro-batch begins, behind its forward. What an earlier one made ready
 * does not count.
 * `replayed`: a graph does what rank_ddp_ready did when it was captured. */
void rank_ddp_pass(void *user, bool replayed);

/* All micro-batches of this step are enqueued. On a device this notes where backward ends, and
 * enqueues the all-reduces, unless they are bracketed. On the CPU it does nothing. rank_ddp_finish returns errors. */
void rank_ddp_reduce(rank_ddp *ddp);

/* What is enqueued next on the device's queue comes after the all-reduces that rank_ddp_reduce has
 * enqueued there. False: it has enqueued none. */
bool rank_ddp_follow(rank_ddp *ddp);

/* Waits for all buckets. Every gradient of every micro-batch must be ready (else
 * BASE_ERR_STATE). On a device the micro-batches' results have been waited for, and rank_ddp_reduce
 * was called. */
BASE_MUST_CHECK base_status rank_ddp_finish(rank_ddp *ddp, rank_ddp_times *times,
                                            base_error *reterr);

/* After finish, until the next begin: the sums over all slots; in stage 1 only in this rank's pieces, and
 * later of its shard alone. */
const float *rank_ddp_sums(const rank_ddp *ddp);

/* With `local`, after finish: the memory of the sums, for what the caller wants to add up over the ranks
 * (param_count floats); and, collective, adds it up, in place, with the buckets and in the order of
 * gradients. */
float *rank_ddp_exchanged(rank_ddp *ddp);
BASE_MUST_CHECK base_status rank_ddp_exchange(rank_ddp *ddp, rank_ddp_times *times,
                                              base_error *reterr);

/* With `zero`: how the array is cut between so many ranks, without ranges apart. Pure. */
rank_zero_cut rank_ddp_cut(const rank_ddp_options *options, int ranks);

/* With `zero`: how many pieces of the array one of so many ranks updates, and, unless NULL, which; and how many
 * elements they have. Pieces are in the array's order, and may be empty. Pure. */
size_t rank_ddp_pieces(const rank_ddp_options *options, int rank, int ranks,
                       rank_zero_range *pieces);
size_t rank_ddp_shard_count(const rank_ddp_options *options, int rank, int ranks);

/* With `zero`: how many stretches of the array are cut by themselves, and, unless NULL, how. One,
 * without ranges apart. Pure. */
size_t rank_ddp_stretches(const rank_ddp_options *options, int ranks, rank_zero_stretch *stretches);

/* With `zero` or ranges apart, after finish; collective: the sum of squares of all ranks' sums, with the bits of
 * backend.h's sum_squares of the whole array (parallel/ddp/norm.h). */
BASE_MUST_CHECK base_status rank_ddp_sum_squares(const rank_ddp *ddp, double *sum,
                                                 base_error *reterr);

/* In stages 1 and 2; collective: gives every rank's pieces of the params of wrap to all. */
BASE_MUST_CHECK base_status rank_ddp_gather(rank_ddp *ddp, base_error *reterr);

/* With `zero`, between two steps; collective: takes this rank's shard of rank 0's values (whole,
 * param_count floats; others: NULL), and checks by digest that all ranks have received the same. Of ranges apart
 * rank 0 is the first of the ranks that have the same, which needs a `whole` too. `what` stands in messages. */
BASE_MUST_CHECK base_status rank_ddp_spread(rank_ddp *ddp, const float *whole, float *shard,
                                            const char *what, base_error *reterr);

/* The other way: all ranks' shards to the whole of each rank that gives one: rank 0, and of ranges apart any. */
BASE_MUST_CHECK base_status rank_ddp_collect(rank_ddp *ddp, const float *shard, float *whole,
                                             base_error *reterr);

/* Collective: copies rank 0's values (`count` floats in the device's memory) to every rank, and checks
 * by digest that all have the same bytes. Of ranges apart rank 0 is the first of the ranks that have the same. `what` stands in messages: "parameters". */
BASE_MUST_CHECK base_status rank_ddp_share(rank_ddp *ddp, float *values, size_t count,
                                           const char *what, base_error *reterr);

/* Collective: compares this rank's params with rank 0's, byte by byte. Not in stage 3. */
BASE_MUST_CHECK base_status rank_ddp_compare(rank_ddp *ddp, const float *params, bool *byte_equal,
                                             double *max_abs_difference, base_error *reterr);

/* The tree over a rank's own leaves, as arithmetic. Leaf m of `count` is computed into buffer
 * `level`. Then, `merges` times, the buffer is added to the one below it (level-1, level-2, …).
 * Pure; exposed for tests. */
typedef struct rank_leaf_plan {
    int level;
    int merges;
} rank_leaf_plan;
rank_leaf_plan rank_leaf_plan_make(int count, int leaf);

/* How many buffers all leaves of `count` need, at most RANK_DDP_LEVELS_MAX. */
int rank_leaf_plan_levels(int count);

#endif
