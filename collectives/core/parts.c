/* Where each rank's part of an operation lies. Called when it is made, and by whatever moves its
 * bytes. */
#include "core/parts.h"

#include "base/bytes.h"

static bool sum(coll_op *op, const size_t *counts, size_t *ends)
{
    size_t at = 0;
    for (int rank = 0; rank < op->comm->size; rank++) {
        size_t bytes = 0;
        ends[rank] = at;
        if (!base_mul_size(counts[rank], op->element_bytes, &bytes) ||
            !base_add_size(at, bytes, &at)) {
            return false;
        }
        op->shown_bytes = bytes > op->shown_bytes ? bytes : op->shown_bytes;
    }
    ends[op->comm->size] = at;
    return true;
}

bool coll_parts_sum(coll_op *op)
{
    const int size = op->comm->size;
    if (!sum(op, op->desc.counts, op->part_ends) ||
        (op->pairwise && !sum(op, op->desc.recv_counts, op->recv_ends))) {
        return false;
    }
    op->whole_bytes = op->part_ends[size];
    return !op->pairwise || op->recv_ends[size] <= SIZE_MAX / 2;
}

uint32_t coll_parts_hash(const coll_op *op)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (int rank = 0; rank < op->comm->size; rank++) {
        hash = (hash ^ op->desc.counts[rank]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return (uint32_t)(hash ^ hash >> 32) | 1;
}

coll_range coll_op_block(const coll_op *op, int rank)
{
    return op->varies
               ? (coll_range){op->part_ends[rank], op->part_ends[rank + 1] - op->part_ends[rank]}
               : (coll_range){op->total_bytes * (size_t)rank, op->total_bytes};
}

coll_pair coll_op_pair(const coll_op *op, int peer)
{
    return (coll_pair){.to_bytes = op->part_ends[peer + 1] - op->part_ends[peer],
                       .from_bytes = op->recv_ends[peer + 1] - op->recv_ends[peer]};
}

size_t coll_op_longest_block(const coll_op *op)
{
    size_t longest = 0;
    for (int rank = 0; rank < op->comm->size; rank++) {
        const size_t size_bytes = coll_op_block(op, rank).size_bytes;
        longest = size_bytes > longest ? size_bytes : longest;
    }
    return longest;
}
