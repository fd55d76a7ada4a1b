/* The parts of an operation, one for each rank, in the whole vector. */
#ifndef COLL_SRC_PARTS_H
#define COLL_SRC_PARTS_H

#include "core/op.h"

/* Of a pairwise operation: what goes from one rank to another, and what comes back. */
typedef struct coll_pair {
    uint64_t to_bytes;
    uint64_t from_bytes;
} coll_pair;

/* Positions of the parts, from `counts` (and recv_counts); the last is the whole. False if that is
 * too much. */
bool coll_parts_sum(coll_op *op);
/* A hash of `counts`, which all ranks must have alike; never 0. Not of a pairwise operation. */
uint32_t coll_parts_hash(const coll_op *op);
/* Where rank's part lies in the whole vector of a kind that has a part per rank; pairwise: in send. */
coll_range coll_op_block(const coll_op *op, int rank);
/* The longest of them. */
size_t coll_op_longest_block(const coll_op *op);
/* Pairwise: what this rank sends to a peer, and expects from it. */
coll_pair coll_op_pair(const coll_op *op, int peer);

#endif
