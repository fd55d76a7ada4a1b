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

/* Whether each rank gets a prefix of the reduction. */
static inline bool coll_kind_is_scan(coll_kind kind)
{
    return kind == COLL_SCAN || kind == COLL_EXSCAN;
}

/* Whether every rank gives a vector and ends with one of that length, combined. */
static inline bool coll_kind_reduces_to_all(coll_kind kind)
{
    return kind == COLL_ALL_REDUCE || coll_kind_is_scan(kind);
}

/* Whether operands are combined. */
static inline bool coll_kind_reduces(coll_kind kind)
{
    return coll_kind_reduces_to_all(kind) || kind == COLL_REDUCE || kind == COLL_REDUCE_SCATTER;
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

/* Whether algorithms have plans for it. */
static inline bool coll_kind_has_plans(coll_kind kind)
{
    return kind >= COLL_ALL_REDUCE && kind <= COLL_KIND_LAST && kind != COLL_BARRIER &&
           !coll_kind_is_p2p(kind);
}

static inline bool coll_type_is_float(coll_type type)
{
    return type == COLL_FLOAT32 || type == COLL_FLOAT64 || type == COLL_FLOAT16 ||
           type == COLL_BFLOAT16;
}

/* Whether it works bit by bit. */
static inline bool coll_reduce_op_is_bitwise(coll_reduce_op reduce)
{
    return reduce >= COLL_AND && reduce <= COLL_XOR;
}

/* Whether values of this type can be combined so. */
static inline bool coll_reduce_op_takes(coll_reduce_op reduce, coll_type type)
{
    return !coll_reduce_op_is_bitwise(reduce) || !coll_type_is_float(type);
}

/* Whether the name of a reduction of the program's own may have it. */
static inline bool coll_reduction_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
}

/* Whether the kind has such a reduction. Scans would divide each prefix by another number. */
static inline bool coll_kind_takes(coll_kind kind, coll_reduce_op reduce)
{
    return !coll_kind_is_scan(kind) || reduce != COLL_AVERAGE;
}

#endif
