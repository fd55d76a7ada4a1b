/* Collectives in the order in which they were started. Called where operations start, and by
 * progress.c. */
#include "core/queue.h"

#include "base/assert.h"
#include "core/inline.h"
#include "core/p2p.h"
#include "core/progress.h"

void coll_op_post(coll_op *op)
{
    const coll_transport_table *table = op->comm->table;
    const void *data = "";
    op->stage = COLL_STAGE_ARRIVING;
    if (op->protocol != COLL_PROTOCOL_INLINE) {
        table->post(op, &op->ref, sizeof op->ref);
        return;
    }
    const size_t bytes = coll_inline_gives(op, &data);
    table->post(op, bytes > 0 ? data : "", bytes);
}

bool coll_op_may_post(const coll_op *op)
{
    const coll_op *head = op->comm->head;
    BASE_ASSERT(head != NULL);
    return op->sequence - head->sequence < COLL_UNDERWAY_MAX && op->comm->table->may_post(op);
}

void coll_op_begin(coll_op *op)
{
    coll_comm *comm = op->comm;
    op->queued = true;
    op->next = NULL;
    *(comm->tail == NULL ? &comm->head : &comm->tail->next) = op;
    comm->tail = op;
    coll_busy_add(comm);
    if (op->stage == COLL_STAGE_QUEUED && comm->waiting == NULL && coll_op_may_post(op)) {
        coll_op_post(op);
    }
    if (op->stage == COLL_STAGE_QUEUED && comm->waiting == NULL) {
        comm->waiting = op;
    }
}

void coll_op_leave_queue(coll_op *op)
{
    coll_comm *comm = op->comm;
    coll_op *before = NULL;
    op->queued = false;
    if (coll_kind_is_p2p(op->desc.kind)) {
        coll_p2p_leave(op);
        return;
    }
    for (coll_op *at = comm->head; at != NULL; before = at, at = at->next) {
        if (at != op) {
            continue;
        }
        *(before == NULL ? &comm->head : &before->next) = op->next;
        comm->tail = comm->tail == op ? before : comm->tail;
        comm->waiting = comm->waiting == op ? op->next : comm->waiting;
        return;
    }
}
