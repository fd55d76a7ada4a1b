/* Ranks that share the tokens of a micro-batch: context parallelism, in the form of DeepSpeed's Ulysses
 * (Jacobs et al. 2023).
 *
 * A micro-batch of T tokens is cut into equal blocks of neighbouring tokens, one for each rank; the last
 * ones may be shorter or empty. A rank computes all that belongs to its tokens alone. Attention needs a
 * token's whole text. So before it the ranks exchange blocks: a rank gives each other one that one's heads
 * of its own tokens, and gets all tokens of its own heads; behind attention they exchange them back.
 *
 * Bits. What a token gives, and what attention gives, does not depend on how tokens are cut. Sums over
 * tokens, which are the gradients of weights, have a leaf for each rank. */
#ifndef RANK_PARALLEL_CONTEXT_CP_H
#define RANK_PARALLEL_CONTEXT_CP_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "coll/coll.h"
#include "trace/trace.h"

/* What the passes of a family need to know. */
typedef struct rank_cp {
    int rank;
    int ranks;
    size_t tokens_max; /* of a micro-batch, in all its blocks */
    /* Sends block i of `send` to rank i, and gets its block as the i-th of `received`. The group keeps
     * errors. */
    void (*exchange)(void *group, const float *send, float *received, size_t block_floats);
    void *group;
} rank_cp;

/* The tokens of a block, but for the last ones. */
static inline size_t rank_cp_block(size_t tokens, int ranks)
{
    return (tokens + (size_t)ranks - 1) / (size_t)ranks;
}

/* A rank's tokens: first … first + count. */
typedef struct rank_cp_tokens {
    size_t first;
    size_t count;
} rank_cp_tokens;

rank_cp_tokens rank_cp_tokens_of(size_t tokens, int ranks, int rank);

typedef struct rank_cp_group rank_cp_group;

/* What the exchanges have cost this rank so far. */
typedef struct rank_cp_costs {
    uint64_t count;
    uint64_t bytes; /* of their vectors */
    int64_t ns;
} rank_cp_costs;

/* Collective over world: each `ranks` of its ranks that are so far apart become a group. */
BASE_MUST_CHECK base_status rank_cp_group_create(coll_comm *world, int ranks, int apart,
                                                 size_t tokens_max, rank_cp_group **group,
                                                 base_error *reterr);
void rank_cp_group_destroy(rank_cp_group *group); /* local; NULL is fine */

const rank_cp *rank_cp_group_cp(const rank_cp_group *group);

/* The first failure of an exchange. The group is then dead. */
BASE_MUST_CHECK base_status rank_cp_group_check(const rank_cp_group *group, base_error *reterr);

rank_cp_costs rank_cp_group_costs(const rank_cp_group *group);

/* From now on exchanges become spans of the trace, which is borrowed; NULL: none do. */
void rank_cp_group_trace(rank_cp_group *group, rank_trace *trace);

#endif
