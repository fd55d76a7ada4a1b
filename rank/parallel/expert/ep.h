/* Ranks that share out the experts of a model: expert parallelism, as in GShard (Lepikhin et al. 2020).
 *
 * Each rank of a group has some whole experts of each layer, and all the rest of the model. In a layer the
 * rows of all ranks travel to the ranks whose experts they chose, and the results travel back. First the
 * ranks tell each other how many rows come, then the rows come.
 *
 * Bits. A row's result does not depend on where it is computed, nor on the rows beside it. Of a weight's
 * gradient each rank's rows give a leaf, and leaves are added up in the order of ranks.
 *
 * One thread. On the CPU. */
#ifndef RANK_PARALLEL_EXPERT_EP_H
#define RANK_PARALLEL_EXPERT_EP_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "coll/coll.h"
#include "parallel/expert/dispatch.h"
#include "trace/trace.h"

/* Rows of places: from … of this rank to `to` on the others, each with a table of dispatch.h. A row has
 * `width` floats. Where one table is that of what is sent, the other is that of what is received. */
typedef struct rank_ep_exchange {
    const float *from;
    const int32_t *from_begins;
    float *to;
    const int32_t *to_begins;
    size_t width;
} rank_ep_exchange;

/* What the passes of a family need to know. */
typedef struct rank_ep {
    int rank;
    rank_ep_cut cut;
    /* Tells the others how many places of theirs come, and makes the table of what comes here. After a
     * failure nothing comes. The group keeps errors. */
    void (*announce)(void *group, const int32_t *sent, int32_t *received);
    void (*exchange)(void *group, const rank_ep_exchange *args);
    void *group;
} rank_ep;

typedef struct rank_ep_group rank_ep_group;

/* What the exchanges have cost this rank so far. */
typedef struct rank_ep_costs {
    uint64_t count; /* of exchanges of rows, and of their counts */
    uint64_t bytes; /* that it has sent to the others */
    uint64_t rows;  /* that its experts have got, of all ranks */
    int64_t ns;     /* in transfers, and in waiting for the others */
} rank_ep_costs;

/* Collective over world: each cut->ranks ranks in a row become a group. BASE_ERR_LIMIT: there may be more
 * places than an int32 counts. */
BASE_MUST_CHECK base_status rank_ep_group_create(coll_comm *world, const rank_ep_cut *cut,
                                                 rank_ep_group **group, base_error *reterr);
void rank_ep_group_destroy(rank_ep_group *group); /* local; NULL is fine */

const rank_ep *rank_ep_group_ep(const rank_ep_group *group);

/* The ranks of the group; and those, one of each group, that have the same experts as this one. */
coll_comm *rank_ep_group_members(const rank_ep_group *group);
coll_comm *rank_ep_group_copies(const rank_ep_group *group);

/* The first failure of an exchange. The group is then dead. */
BASE_MUST_CHECK base_status rank_ep_group_check(const rank_ep_group *group, base_error *reterr);

rank_ep_costs rank_ep_group_costs(const rank_ep_group *group);

/* From now on exchanges become spans of the trace, which is borrowed; NULL: none do. */
void rank_ep_group_trace(rank_ep_group *group, rank_trace *trace);

#endif
