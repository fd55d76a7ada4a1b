/* Collectives in the order in which they were started. Called where operations start, and by
 * progress.c. */
#include "core/queue.h"

#include "base/assert.h"
#include "core/inline.h"
#include "core/p2p.h"
#include "core/progress.h"

void coll_op_append(coll_op **head, coll_op **tail, coll_op *op)
{
    op->next = NULL;
    *(*tail == NULL ? head : &(*tail)->next) = op;
    *tail = op;
}

void coll_op_unlink(coll_op **head, coll_op **tail, const coll_op *op)
{
    coll_op *before = NULL;
    for (coll_op *at = *head; at != NULL; before = at, at = at->next) {
        if (at == op) {
            *(before == NULL ? head : &before->next) = op->next;
            *tail = *tail == op ? before : *tail;
            return;
        }
    }
}

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
    coll_op_append(&comm->head, &comm->tail, op);
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
    op->queued = false;
    if (coll_kind_is_p2p(op->desc.kind)) {
        coll_p2p_leave(op);
        return;
    }
    comm->waiting = comm->waiting == op ? op->next : comm->waiting;
    coll_op_unlink(&comm->head, &comm->tail, op);
}
