/* Computes which ranks contribute and which take which part of an operation. Called by op_init.c
 * once per operation; the shared-memory and inline protocols read the result. */
#include "core/shape.h"

#include "core/op.h"
#include "core/parts.h"

bool coll_shape_gives(const coll_op *op, int rank)
{
    const coll_kind kind = op->desc.kind;
    const bool rooted = kind == COLL_BROADCAST || kind == COLL_SCATTER;
    return coll_kind_has_plans(kind) && (!rooted || rank == op->desc.root);
}

static coll_take take_of(const coll_op *op)
{
    const bool root = op->comm->rank == op->desc.root;
    switch (op->desc.kind) {
    case COLL_REDUCE:
    case COLL_GATHER:
        return root ? COLL_TAKE_ALL : COLL_TAKE_NOTHING;
    case COLL_BROADCAST:
        return root ? COLL_TAKE_NOTHING : COLL_TAKE_ROOT;
    case COLL_SCATTER:
        return COLL_TAKE_ROOT;
    default: /* a barrier: everybody waits for everybody, and nothing moves */
        return COLL_TAKE_ALL;
    }
}

static size_t sent_bytes(const coll_op *op, const coll_shape *shape)
{
    switch (op->desc.kind) {
    case COLL_REDUCE_SCATTER:
    case COLL_ALL_TO_ALL:
    case COLL_SCATTER:
        return shape->gives ? shape->give_bytes - coll_op_block(op, op->comm->rank).size_bytes : 0;
    case COLL_REDUCE:
    case COLL_GATHER:
        return op->comm->rank == op->desc.root ? 0 : shape->give_bytes;
    case COLL_SCAN:
    case COLL_EXSCAN: /* to the ranks above */
        return shape->give_bytes * (size_t)(op->comm->size - 1 - op->comm->rank);
    default:
        return shape->give_bytes * (size_t)(op->comm->size - 1);
    }
}

static int operands_of(const coll_op *op)
{
    return op->desc.kind == COLL_SCAN     ? op->comm->rank + 1
           : op->desc.kind == COLL_EXSCAN ? op->comm->rank
                                          : op->comm->size;
}

void coll_shape_make(const coll_op *op, coll_shape *shape)
{
    const coll_kind kind = op->desc.kind;
    const coll_range own = coll_op_block(op, op->comm->rank);
    *shape = (coll_shape){.take = take_of(op),
                          .reduces = coll_kind_reduces(kind),
                          .gives = coll_shape_gives(op, op->comm->rank),
                          .operands = operands_of(op)};
    if (kind == COLL_ALL_GATHER || kind == COLL_GATHER) { /* this rank's own block */
        shape->give_bytes = own.size_bytes;
        shape->largest_bytes = coll_op_longest_block(op);
    } else if (coll_kind_is_by_rank(kind)) { /* a block for every rank */
        shape->give_bytes = op->whole_bytes;
        shape->largest_bytes = op->whole_bytes;
        shape->part_offset_bytes = own.begin;
    } else if (coll_kind_has_plans(kind)) { /* one vector */
        shape->give_bytes = op->total_bytes;
        shape->largest_bytes = op->total_bytes;
    }
    if (kind == COLL_ALL_GATHER || kind == COLL_GATHER || kind == COLL_ALL_TO_ALL) {
        shape->target_step_bytes = op->total_bytes;
    }
    shape->give_bytes = shape->gives ? shape->give_bytes : 0;
    shape->sent_bytes = sent_bytes(op, shape);
}

size_t coll_shape_part_bytes(const coll_op *op, int source)
{
    if (op->pairwise) {
        return coll_op_pair(op, source).from_bytes;
    }
    return op->desc.kind == COLL_ALL_GATHER || op->desc.kind == COLL_GATHER
               ? coll_op_block(op, source).size_bytes
               : op->total_bytes; /* the vector's, or this rank's own block's */
}

size_t coll_shape_target_bytes(const coll_op *op, int source)
{
    switch (op->desc.kind) {
    case COLL_ALL_GATHER:
    case COLL_GATHER:
    case COLL_ALL_TO_ALL:
        return op->pairwise ? op->recv_ends[source] : coll_op_block(op, source).begin;
    default:
        return 0;
    }
}

bool coll_shape_takes(const coll_op *op, int rank, int source)
{
    switch (op->desc.kind) {
    case COLL_REDUCE:
    case COLL_GATHER:
        return rank == op->desc.root;
    case COLL_BROADCAST:
        return source == op->desc.root && rank != op->desc.root;
    case COLL_SCATTER:
        return source == op->desc.root;
    case COLL_SCAN:
    case COLL_EXSCAN:
        return source <= rank;
    default:
        return true;
    }
}

bool coll_shape_awaits(const coll_op *op, int peer)
{
    const bool copied = op->protocol == COLL_PROTOCOL_INLINE || op->protocol == COLL_PROTOCOL_EAGER;
    return !copied || op->shape.take == COLL_TAKE_ALL ||
           (op->shape.take == COLL_TAKE_ROOT && peer == op->desc.root);
}

/* Where everybody combines everything, more ranks do better with less of it. */
static size_t slot_limit_bytes(const coll_op *op)
{
    const size_t ranks = (size_t)op->comm->size;
    return coll_kind_reduces_to_all(op->desc.kind) && ranks > 2
               ? (size_t)2 * COLL_SHM_SLOT_BYTES / ranks
               : (size_t)COLL_SHM_SLOT_BYTES;
}

coll_protocol coll_shape_protocol(const coll_op *op, bool own_order)
{
    const size_t bytes = op->shape.largest_bytes;
    if (op->comm->size == 1 || (bytes <= COLL_TINY_BYTES && !own_order)) {
        return COLL_PROTOCOL_INLINE;
    }
    return bytes <= slot_limit_bytes(op) && op->desc.algorithm == COLL_ALGORITHM_DIRECT
               ? COLL_PROTOCOL_EAGER
               : COLL_PROTOCOL_UNDECIDED;
}
