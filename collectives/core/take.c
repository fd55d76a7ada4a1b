/* Combines or copies the parts of contributions that this rank takes. Called by inline.c over
 * sockets, and by the shared-memory transport for inline and eager operations. */
#include "core/take.h"

#include <string.h>

#include "kernels/tree_order.h"

static void copy(uint8_t *to, const uint8_t *from, size_t size_bytes)
{
    if (from != NULL && size_bytes > 0 && to != from) {
        memcpy(to, from, size_bytes);
    }
}

void coll_take_keep_own(const coll_op *op)
{
    if (op->desc.kind == COLL_BROADCAST && op->comm->rank == op->desc.root &&
        op->desc.recv != NULL) {
        copy(op->desc.recv, op->desc.send, op->total_bytes);
    }
}

/* `count` is that of this rank's part, also where parts vary. */
static void reduce(const coll_op *op, const uint8_t *const *parts)
{
    uint8_t *recv = op->desc.recv;
    const coll_tree tree = {.kernel = op->kernel,
                            .operands = parts,
                            .operand_count = op->comm->size,
                            .divisor = op->comm->size};
    coll_tree_spread(&tree, &recv, 1, op->desc.count);
}

/* The next rank's part first, so that not all ranks read from one. */
static void collect(const coll_op *op, const uint8_t *const *parts)
{
    const coll_comm *comm = op->comm;
    for (int i = 1, source = comm->rank; i <= comm->size; i++) {
        source = source + 1 == comm->size ? 0 : source + 1;
        if (source != comm->rank || !op->kept) {
            copy(coll_take_target(op, source), parts[source], coll_take_bytes(op, source));
        }
    }
}

void coll_take_parts(const coll_op *op, const uint8_t *const *parts)
{
    if (op->shape.take == COLL_TAKE_NOTHING || op->shape.largest_bytes == 0) {
        coll_take_keep_own(op);
    } else if (op->shape.take == COLL_TAKE_ROOT) {
        copy(op->desc.recv, parts[op->desc.root], coll_take_bytes(op, op->desc.root));
    } else if (op->shape.reduces) {
        reduce(op, parts);
    } else {
        collect(op, parts);
    }
}
