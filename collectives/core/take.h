/* Takes what an operation gives this rank, once it can read all contributions that it takes a part
 * of: the parts are combined in canonical order, or copied to where they belong. Inline and eager
 * operations differ only in where the contributions are. */
#ifndef COLL_SRC_TAKE_H
#define COLL_SRC_TAKE_H

#include <string.h>

#include "core/op.h"
#include "kernels/tree_order.h"

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

static inline void coll_take_copy(uint8_t *to, const uint8_t *from, size_t size_bytes)
{
    if (from != NULL && size_bytes > 0 && to != from) {
        memcpy(to, from, size_bytes);
    }
}

/* The root of a broadcast has its bytes already, but may want them in recv as well. */
void coll_take_own_at_root(const coll_op *op);

/* Stores the neutral element of op's reduction `count` times. */
void coll_take_neutral(const coll_op *op, void *out, size_t count);

/* Copies the parts that this rank takes from all ranks to where they belong. */
void coll_take_collect(const coll_op *op, const uint8_t *const *parts);

/* Takes all that op gives this rank. part_of finds the part of a rank's contribution that this rank
 * takes. All of it is inlined, because an operation takes only about a hundred nanoseconds. */
__attribute__((always_inline)) static inline void
coll_take_from(const coll_op *op, const uint8_t *(*part_of)(const coll_op *op, int rank))
{
    const uint8_t *parts[COLL_RANKS_MAX];
    const int size = op->comm->size;
    if (op->shape.take == COLL_TAKE_NOTHING || op->shape.largest_bytes == 0) {
        coll_take_own_at_root(op);
        return;
    }
    if (op->shape.take == COLL_TAKE_ROOT) {
        coll_take_copy(op->desc.recv, part_of(op, op->desc.root),
                       coll_take_bytes(op, op->desc.root));
        return;
    }
    for (int rank = 0; rank < size; rank++) {
        parts[rank] = part_of(op, rank);
    }
    if (op->shape.reduces) { /* `count` is that of this rank's part, also where parts vary */
        uint8_t *recv = op->desc.recv;
        const coll_tree tree = {.kernel = op->kernel,
                                .operands = parts,
                                .operand_count = op->shape.operands,
                                .divisor = size};
        if (op->shape.operands == 0) {
            coll_take_neutral(op, recv, op->desc.count);
            return;
        }
        coll_tree_spread(&tree, &recv, 1, op->desc.count);
    } else {
        coll_take_collect(op, parts);
    }
}

#endif
