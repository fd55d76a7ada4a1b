/* Copies the parts of contributions that this rank takes. Called by take.h's coll_take_from, and by
 * the shared-memory transport. */
#include "core/take.h"

#include "common/neutral.h"

void coll_take_own_at_root(const coll_op *op)
{
    if (op->desc.kind == COLL_BROADCAST && op->comm->rank == op->desc.root &&
        op->desc.recv != NULL) {
        coll_take_copy(op->desc.recv, op->desc.send, op->total_bytes);
    }
}

void coll_take_neutral(const coll_op *op, void *out, size_t count)
{
    const size_t size = op->element_bytes;
    if (op->desc.reduction == NULL) {
        coll_neutral_fill(out, op->desc.type, op->desc.reduce, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        memcpy((uint8_t *)out + i * size, op->reduction.neutral, size);
    }
}

/* The next rank's part comes first, so that not all ranks read from one. */
void coll_take_collect(const coll_op *op, const uint8_t *const *parts)
{
    const coll_comm *comm = op->comm;
    for (int i = 1, source = comm->rank; i <= comm->size; i++) {
        source = source + 1 == comm->size ? 0 : source + 1;
        if (source != comm->rank || !op->own_copied) {
            coll_take_copy(coll_take_target(op, source), parts[source],
                           coll_take_bytes(op, source));
        }
    }
}
