/* What kinds of operations have in common. Pure. */
#ifndef COLL_COMMON_KINDS_H
#define COLL_COMMON_KINDS_H

#include <stdbool.h>

#include "coll/coll.h"

/* What stands in the place of a digest of counts where each pair of ranks has counts of its own, in an
 * all-to-all. Even: no digest is. */
enum { COLL_COUNTS_PAIRWISE = 2 };

/* The algorithms that run on CPU, as options' help lists them. names.c has each name. */
#define COLL_ALGORITHM_NAMES "ring, tree, direct, recursive_doubling, halving_doubling or two_level"

/* Whether operands are combined. */
static inline bool coll_kind_reduces(coll_kind kind)
{
    return kind == COLL_ALL_REDUCE || kind == COLL_REDUCE || kind == COLL_REDUCE_SCATTER;
}

/* Whether one of the ranks is the root. */
static inline bool coll_kind_has_root(coll_kind kind)
{
    return kind == COLL_BROADCAST || kind == COLL_REDUCE || kind == COLL_GATHER ||
           kind == COLL_SCATTER;
}

/* Whether block b is rank b's part. */
static inline bool coll_kind_is_by_rank(coll_kind kind)
{
    return kind == COLL_ALL_GATHER || kind == COLL_REDUCE_SCATTER || kind == COLL_GATHER ||
           kind == COLL_SCATTER || kind == COLL_ALL_TO_ALL;
}

/* Whether it is between two ranks. */
static inline bool coll_kind_is_p2p(coll_kind kind)
{
    return kind == COLL_SEND || kind == COLL_RECEIVE;
}

#endif
