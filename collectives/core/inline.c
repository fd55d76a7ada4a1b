/* Operations that fit the flags: every rank shows what it has to give beside its flag, and
 * each finishes by itself from what all have shown, in canonical order. */
#include <string.h>

#include "core/inline.h"
#include "core/parts.h"
#include "kernels/tree_order.h"

const uint8_t *coll_payload(const coll_comm *comm, int rank, uint64_t sequence)
{
    const coll_peer_view *peer = &comm->peers[rank];
    const size_t slot = sequence % COLL_FLAG_COUNT;
    return peer->payloads != NULL ? peer->payloads + slot * comm->inline_bytes
                                  : peer->flags[slot].payload;
}

size_t coll_inline_gives(const coll_op *op, const void **data)
{
    *data = op->desc.send;
    return op->send_bytes <= op->comm->inline_bytes ? op->send_bytes : 0;
}

/* What a rank gives: what it has shown; of this rank's own, the caller's bytes themselves. */
static const uint8_t *given_by(const coll_op *op, int rank)
{
    return rank == op->comm->rank ? op->desc.send : coll_payload(op->comm, rank, op->sequence);
}

static void copy(void *target, const void *source, size_t size_bytes)
{
    if (target != source && size_bytes > 0) {
        memcpy(target, source, size_bytes);
    }
}

/* All ranks' operands at an offset of what they show, combined. */
static void reduce(const coll_op *op, size_t offset_bytes, size_t size_bytes)
{
    const void *operands[COLL_RANKS_MAX];
    for (int rank = 0; rank < op->comm->size; rank++) {
        operands[rank] = given_by(op, rank) + offset_bytes;
    }
    coll_tree_combine(op->kernel, op->desc.recv, operands, op->comm->size,
                      size_bytes / op->element_bytes, op->comm->size);
}

/* Every rank's own part, or what it has for this one, in rank order. */
static void collect(const coll_op *op)
{
    for (int rank = 0; rank < op->comm->size; rank++) {
        const uint8_t *payload = given_by(op, rank);
        size_t offset_bytes = 0;
        size_t size_bytes = 0;
        coll_op_block(op, rank, &offset_bytes, &size_bytes);
        if (op->desc.kind == COLL_ALL_TO_ALL) {
            payload += op->total_bytes * (size_t)op->comm->rank;
        }
        copy((uint8_t *)op->desc.recv + offset_bytes, payload, size_bytes);
    }
}

void coll_inline_finish(coll_op *op)
{
    size_t offset_bytes = 0;
    size_t size_bytes = op->whole_bytes;
    if (op->recv_bytes == 0) {
        return;
    }
    if (coll_kind_is_by_rank(op->desc.kind)) {
        coll_op_block(op, op->comm->rank, &offset_bytes, &size_bytes);
    }
    switch (op->desc.kind) {
    case COLL_ALL_REDUCE:
    case COLL_REDUCE:
    case COLL_REDUCE_SCATTER:
        reduce(op, offset_bytes, size_bytes);
        return;
    case COLL_ALL_GATHER:
    case COLL_GATHER:
    case COLL_ALL_TO_ALL:
        collect(op);
        return;
    case COLL_BROADCAST:
    case COLL_SCATTER:
        copy(op->desc.recv, given_by(op, op->desc.root) + offset_bytes, size_bytes);
        return;
    default:
        return;
    }
}

void coll_alone_finish(coll_op *op)
{
    const size_t bytes = op->send_bytes < op->recv_bytes ? op->send_bytes : op->recv_bytes;
    if (bytes > 0 && op->desc.recv != op->desc.send) {
        memcpy(op->desc.recv, op->desc.send, bytes);
    }
}
