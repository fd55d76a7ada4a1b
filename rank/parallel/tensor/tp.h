/* One rank's part in a model that is cut between ranks: tensor parallelism, as Megatron-LM has it.
 *
 * Column-parallel products cut their outputs, row-parallel ones their inputs, and each of the
 * latter is followed by one all-reduce. The vocabulary is cut into RANK_TP_LEAVES equal leaves with
 * padding behind the last id; a rank has a contiguous range of them.
 *
 * Bits. What is summed over the cut axis of a row-parallel product is cut into leaves as well, a
 * power of two of them, and added up as a balanced binary tree: inside a rank by the product, above
 * by the all-reduce, whose canonical order is that same tree. So every number of ranks that divides
 * the leaves gives the same bits. Others (3 ranks, say) agree up to rounding.
 *
 * The arithmetic is pure; the group has one thread. */
#ifndef RANK_PARALLEL_TENSOR_TP_H
#define RANK_PARALLEL_TENSOR_TP_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "coll/coll.h"
#include "parallel/tensor/exchange_log.h"

enum { RANK_TP_LEAVES = 16 };

/* What a family's decode is told. */
typedef struct rank_tp {
    int rank;
    int ranks; /* 1 … RANK_TP_LEAVES */
    int32_t vocab_first;
    int32_t vocab_count; /* ids of this rank's leaves, padding included */
    /* at[0 … count) becomes its sum over the ranks. at lies in the memory that the ranks exchange.
     * Errors are kept by the group. */
    void (*all_reduce)(void *group, float *at, size_t count);
    void *group;
} rank_tp;

/* Ids in one leaf of the vocabulary: whole panels of a packed matrix. */
int32_t rank_tp_leaf_width(int vocab_size);

/* The first of the rank's leaves, and for rank == ranks their end: as even as whole leaves can be,
 * and equal where ranks is 1, 2, 4, 8 or 16. */
int rank_tp_first_leaf(int ranks, int rank);

/* Leaves of the rank's own part of a sum over `units` pieces that stay whole (heads, or columns by
 * sixteen): 1 where the ranks do not divide the leaves of the whole. */
int rank_tp_leaves(size_t units, int ranks);

/* The ranks of a communicator as such a group, and the memory that they exchange. */
typedef struct rank_tp_group rank_tp_group;

/* What the all-reduces of a group have cost this rank since the group was made. */
typedef struct rank_tp_costs {
    uint64_t count; /* libcoll's, of all on the communicator, */
    uint64_t bytes; /* and of their vectors */
    int64_t ns;     /* moving bytes, and waiting for other ranks */
} rank_tp_costs;

/* Collective. comm NULL: one rank, and nothing is exchanged.
 * float_count: of the exchanged memory. */
BASE_MUST_CHECK base_status rank_tp_group_create(coll_comm *comm, int vocab_size,
                                                 size_t float_count, rank_tp_group **group,
                                                 base_error *reterr);
void rank_tp_group_destroy(rank_tp_group *group); /* local; NULL is fine */

const rank_tp *rank_tp_group_tp(const rank_tp_group *group);
float *rank_tp_group_memory(const rank_tp_group *group);

/* The first failure of an all-reduce; the group is dead then. */
BASE_MUST_CHECK base_status rank_tp_group_check(const rank_tp_group *group, base_error *reterr);

rank_tp_costs rank_tp_group_costs(const rank_tp_group *group);

/* From now on each all-reduce adds its span to the log, which the caller keeps until the group has
 * gone. NULL: to none. */
void rank_tp_group_log(rank_tp_group *group, rank_exchange_log *log);

#endif
