/* Operations over sockets that fit the flags: every rank shows what it has to give beside its flag,
 * and each finishes by itself from what all have shown, in canonical order. Called by queue.c and
 * progress.c. */
#include "core/inline.h"
#include "core/take.h"

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

/* What this rank takes of a rank's contribution: of its own, from the caller's buffer. */
static inline const uint8_t *part_of(const coll_op *op, int rank)
{
    return rank == op->comm->rank
               ? coll_take_own(op)
               : coll_payload(op->comm, rank, op->sequence) + op->shape.part_offset_bytes;
}

void coll_inline_finish(coll_op *op)
{
    coll_take_from(op, part_of);
}

void coll_alone_finish(coll_op *op)
{
    const size_t bytes = coll_smaller(op->send_bytes, op->recv_bytes);
    if (bytes > 0 && op->desc.kind == COLL_EXSCAN) {
        coll_take_neutral(op, op->desc.recv, op->desc.count);
    } else {
        coll_take_copy(op->desc.recv, op->desc.send, bytes);
    }
}
