/* Moves operations through their stages; op.h says what they are. Called by whoever waits. */
#include "core/progress.h"
#include "core/arrival.h"
#include "core/exec.h"
#include "core/failure.h"
#include "core/inline.h"
#include "core/p2p.h"
#include "core/queue.h"
#include "core/record.h"

/* A rank that has ended may be elsewhere for long. */
static bool has_given(const coll_op *op)
{
    const coll_transport_table *table = op->comm->table;
    return table->has_given == NULL || table->has_given(op);
}

static coll_stage run(coll_op *op, bool *moved)
{
    if (op->protocol == COLL_PROTOCOL_PLAN) {
        const bool all_here = coll_op_all_arrived(op, moved);
        const bool ended = !op->comm->failed && coll_exec_advance(op, moved);
        return all_here && ended && has_given(op) ? COLL_STAGE_DONE : COLL_STAGE_RUNNING;
    }
    if (!coll_op_needed_arrived(op, moved) || !has_given(op)) {
        return COLL_STAGE_RUNNING;
    }
    *moved = true;
    if (op->comm->size == 1) {
        coll_alone_finish(op);
    } else {
        coll_inline_finish(op);
    }
    return COLL_STAGE_DONE;
}

/* One operation as far as it goes; false while its own part is not done, so that later operations
 * must wait. Transports that share memory have their own way. Elsewhere a peer's flag comes before
 * its bytes, so a plan need not wait for all flags before it begins; they must all be here before
 * the end. */
static bool advance(coll_op *op, bool *moved)
{
    if (op->comm->table->memory != NULL) {
        op->comm->table->memory->advance(op, moved);
        return op->stage >= COLL_STAGE_FINISHING;
    }
    if (op->stage == COLL_STAGE_ARRIVING && op->protocol == COLL_PROTOCOL_PLAN) {
        op->stage = COLL_STAGE_RUNNING;
        coll_exec_begin(op);
    }
    const coll_stage next = run(op, moved);
    op->stage = next == COLL_STAGE_DONE ? next : op->stage;
    return op->stage == COLL_STAGE_DONE;
}

/* Posts what stands in the queue, as far as the flags reach. */
static bool post_waiting(coll_comm *comm)
{
    bool moved = false;
    while (comm->waiting != NULL && !comm->failed && coll_op_may_post(comm->waiting)) {
        coll_op *op = comm->waiting;
        comm->waiting = op->next;
        coll_op_post(op);
        moved = true;
    }
    return moved;
}

static bool advance_comm(coll_comm *comm)
{
    bool moved = false;
    for (coll_op *op = comm->head; op != comm->waiting && !comm->failed; op = op->next) {
        const bool was_done = op->stage == COLL_STAGE_DONE;
        const bool own_part_done = advance(op, &moved);
        if (!was_done && op->stage == COLL_STAGE_DONE) {
            coll_record_end(op); /* now: behind one that is not done it may be dropped */
        }
        if (!own_part_done) {
            break;
        }
    }
    while (comm->head != NULL && comm->head->stage == COLL_STAGE_DONE) {
        comm->head->queued = false;
        comm->head = comm->head->next;
    }
    if (comm->head == NULL) {
        comm->tail = NULL;
    }
    return comm->waiting == NULL ? moved : post_waiting(comm) || moved;
}

void coll_busy_add(coll_comm *comm)
{
    if (!comm->is_busy) {
        comm->is_busy = true;
        comm->busy_next = comm->context->busy;
        comm->context->busy = comm;
    }
}

void coll_busy_remove(coll_comm *comm)
{
    coll_comm **link = &comm->context->busy;
    if (!comm->is_busy) {
        return;
    }
    while (*link != comm) {
        link = &(*link)->busy_next;
    }
    *link = comm->busy_next;
    comm->is_busy = false;
}

static bool has_operations(const coll_comm *comm)
{
    return comm->head != NULL || (comm->p2p != NULL && coll_p2p_is_busy(comm));
}

static bool is_idle(const coll_comm *comm)
{
    return comm->failed || !has_operations(comm);
}

/* One that is taken out keeps its busy_next: whoever stands at it comes to those behind it. */
static void drop_idle(coll_context *context)
{
    coll_comm **link = &context->busy;
    while (*link != NULL) {
        coll_comm *comm = *link;
        if (is_idle(comm)) {
            *link = comm->busy_next;
            comm->is_busy = false;
            context->has_failed = context->has_failed || has_operations(comm);
        } else {
            link = &comm->busy_next;
        }
    }
}

bool coll_is_under_way(coll_context *context)
{
    if (context->busy != NULL) {
        drop_idle(context);
    }
    return context->busy != NULL;
}

bool coll_advance(coll_context *context)
{
    const coll_socket_table *sockets = context->table->sockets;
    bool moved = false;
    bool idle = false;
    for (coll_comm *comm = context->busy; comm != NULL; comm = comm->busy_next) {
        if (comm->head != NULL && !comm->failed && advance_comm(comm)) {
            moved = true;
        }
        if (comm->p2p != NULL && !comm->failed && coll_p2p_advance(comm)) {
            moved = true;
        }
        idle = idle || is_idle(comm);
    }
    if (idle) {
        drop_idle(context);
    }
    if (sockets != NULL) {
        sockets->push(context);
    }
    return moved;
}

bool coll_progress(coll_context *context)
{
    const coll_socket_table *sockets = context->table->sockets;
    const bool came = sockets != NULL && sockets->poll(context);
    return coll_advance(context) || came;
}

/* An operation that is under way; NULL: none. */
static coll_op *any_of(const coll_comm *comm)
{
    coll_op *op = comm->head;
    for (int peer = 0; op == NULL && comm->p2p != NULL && peer < comm->size; peer++) {
        op = coll_p2p_first(comm, peer);
    }
    return op;
}

/* As a test does, of all that is under way. Transports that share memory look at all of their
 * communicators at once. */
static void watch_all(coll_context *context)
{
    bool has_seen_memory = false;
    for (coll_comm *comm = context->busy; comm != NULL; comm = comm->busy_next) {
        coll_op *op = any_of(comm);
        const bool shares = comm->table->memory != NULL;
        if (op != NULL && !comm->failed && !(shares && has_seen_memory)) {
            comm->table->notices->watch(op);
            has_seen_memory = has_seen_memory || shares;
        }
    }
}

/* The failure of a communicator that has operations, and that no call has told of. */
static coll_status check_failed(coll_context *context, coll_error *reterr)
{
    for (coll_comm *comm = context->comms; comm != NULL; comm = comm->next) {
        if (comm->failed && !comm->told && has_operations(comm)) {
            return coll_comm_check(comm, reterr);
        }
    }
    context->has_failed = false;
    return COLL_OK;
}

coll_status coll_context_progress(coll_context *context, coll_error *reterr)
{
    const coll_status status = coll_abort_check(context, reterr);
    if (status != COLL_OK) {
        return status;
    }
    context->moves += coll_progress(context);
    if (context->busy != NULL && coll_test_has_to_look(context)) {
        watch_all(context);
    }
    coll_error unread;
    return context->has_failed ? check_failed(context, reterr != NULL ? reterr : &unread) : COLL_OK;
}
