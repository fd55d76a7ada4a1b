/* Takes what an operation gives this rank, once it can read all contributions that it takes a part
 * of: the parts are combined in canonical order, or copied to where they belong. Inline and eager
 * operations differ only in where the contributions are. */
#ifndef COLL_SRC_TAKE_H
#define COLL_SRC_TAKE_H

#include "core/op.h"

/* Bytes that this rank takes from `source`. */
static inline size_t coll_take_bytes(const coll_op *op, int source)
{
    return op->varies ? coll_shape_part_bytes(op, source) : op->total_bytes;
}

/* Where in recv they go. */
static inline uint8_t *coll_take_target(const coll_op *op, int source)
{
    const size_t offset_bytes = op->varies ? coll_shape_target_bytes(op, source)
                                           : op->shape.target_step_bytes * (size_t)source;
    return (uint8_t *)op->desc.recv + offset_bytes;
}

/* What this rank takes of its own contribution, in the caller's buffer; NULL if it gives none. */
static inline const uint8_t *coll_take_own(const coll_op *op)
{
    return op->shape.gives && op->desc.send != NULL
               ? (const uint8_t *)op->desc.send + op->shape.part_offset_bytes
               : NULL;
}

/* The root of a broadcast has its bytes already, but may want them in recv as well. */
void coll_take_keep_own(const coll_op *op);

/* parts[rank]: the part of that rank's contribution that this rank takes, for those that it takes
 * one of. */
void coll_take_parts(const coll_op *op, const uint8_t *const *parts);

/* The same with a function that finds the parts. A call for each part would be noticed where an
 * operation takes a few hundred nanoseconds. */
__attribute__((always_inline)) static inline void
coll_take_from(const coll_op *op, const uint8_t *(*part_of)(const coll_op *op, int rank))
{
    const uint8_t *parts[COLL_RANKS_MAX];
    const bool all = op->shape.take == COLL_TAKE_ALL;
    const int first = all ? 0 : op->desc.root;
    const int end = all ? op->comm->size : first + 1;
    for (int rank = first; rank < end; rank++) {
        parts[rank] = part_of(op, rank);
    }
    coll_take_parts(op, parts);
}

#endif
