/* One rank's part of a model that is cut between ranks: tensor parallelism, as in Megatron-LM.
 *
 * Column-parallel products cut their outputs, and row-parallel ones their inputs. One all-reduce
 * follows each row-parallel product. The vocabulary is cut into RANK_TP_LEAVES equal leaves, with
 * padding after the last id. A rank has a contiguous range of leaves.
 *
 * Bits. The sum over the cut axis of a row-parallel product is cut into leaves as well, a power of
 * two of them, and added up as a balanced binary tree: inside a rank by the product, above it by
 * the all-reduce, whose canonical order is the same tree. So every number of ranks that divides the
 * leaves gives the same bits. Other numbers (3 ranks, say) agree except for rounding.
 *
 * The arithmetic is pure. The group has one thread. */
#ifndef RANK_PARALLEL_TENSOR_TP_H
#define RANK_PARALLEL_TENSOR_TP_H

#include <stddef.h>
#include <stdint.h>

#include "backend/backend.h"
#include "base/status.h"
#include "coll/coll.h"
#include "parallel/tensor/exchange_log.h"
#include "trace/trace.h"

enum { RANK_TP_LEAVES = 16 };

/* What the passes of a family need to know. */
typedef struct rank_tp {
    int rank;
    int ranks; /* 1 … RANK_TP_LEAVES */
    int32_t vocab_first;
    int32_t vocab_count; /* ids of this rank's leaves; in decoding including padding */
    /* Replaces at[0 … count) by its sum over the ranks. In decoding at is in the memory that the
     * ranks exchange. On a device the sum is an operation of the group's queue, and what stands
     * behind it, up to the next part of a power of two of that memory, changes too. The group keeps
     * errors. */
    void (*all_reduce)(void *group, float *at, size_t count);
    void (*all_reduce_max)(void *group, float *at, size_t count); /* in training */
    void *group;
} rank_tp;

/* How many ids one leaf of the vocabulary has: whole panels of a packed matrix. */
int32_t rank_tp_leaf_width(int vocab_size);

/* The first of the rank's leaves; for rank == ranks, their end. Ranks have as equal numbers of
 * leaves as possible, and equal ones for 1, 2, 4, 8 or 16 ranks. */
int rank_tp_first_leaf(int ranks, int rank);

/* The ids that the rank has of a vocabulary, without padding. */
typedef struct rank_tp_ids {
    int32_t first;
    int32_t count; /* 0: the leaves before it have all */
} rank_tp_ids;
rank_tp_ids rank_tp_ids_of(int vocab_size, int ranks, int rank);

/* How many leaves a sum over `units` pieces that are never split (heads, or columns by sixteen) has. */
int rank_tp_leaves(size_t units);

/* The group of a communicator's ranks, and the memory that they exchange. */
typedef struct rank_tp_group rank_tp_group;

/* What the group's all-reduces have cost this rank so far. */
typedef struct rank_tp_costs {
    uint64_t count; /* on the CPU from libcoll, of all on the communicator, */
    uint64_t bytes; /* and of their vectors */
    int64_t ns; /* in transfers, and in waiting for other ranks; on a device only the host's part */
} rank_tp_costs;

/* Collective. comm NULL: one rank, which exchanges nothing. float_count: of the exchanged memory,
 * which is the device's to work on. */
BASE_MUST_CHECK base_status rank_tp_group_create(coll_comm *comm, const rank_device *device,
                                                 int vocab_size, size_t float_count,
                                                 rank_tp_group **group, base_error *reterr);
void rank_tp_group_destroy(rank_tp_group *group); /* local; NULL is fine */

/* The bytes that its all-reduces take of a device at most, beside that memory. */
uint64_t rank_tp_plan_collectives(size_t float_count, int ranks);

const rank_tp *rank_tp_group_tp(const rank_tp_group *group);
float *rank_tp_group_memory(const rank_tp_group *group);

/* Waits until the all-reduces have ended, and all that the device's queue has, with libcoll's
 * deadline. Returns the first failure; the group is then dead. */
BASE_MUST_CHECK base_status rank_tp_group_check(rank_tp_group *group, base_error *reterr);

rank_tp_costs rank_tp_group_costs(const rank_tp_group *group);

/* On a device: so many all-reduces, of so many bytes, are enqueued so far. A graph that is replayed
 * has some that nobody calls, and those of a capture in vain never run. */
void rank_tp_group_recount(rank_tp_group *group, uint64_t count, uint64_t bytes);

/* From now on each all-reduce adds its span to the log, which the caller keeps until the group has
 * gone. NULL: to none. */
void rank_tp_group_log(rank_tp_group *group, rank_exchange_log *log);

/* The same of a trace, which is borrowed. */
void rank_tp_group_trace(rank_tp_group *group, rank_trace *trace);

#endif
