/* Failure notices between ranks of one host: a record in the failing rank's segment, with
 * a count in its doorbell for peers that look; and for a rank that could not write one, by the
 * hang-up of its socket, which the kernel sees to.
 *
 * A rank that receives a notice may still have all it needs for its current operation, so it fails
 * when that does not move any more, or with the next call. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "core/exec.h"
#include "core/failure.h"
#include "core/progress.h"
#include "core/report.h"
#include "core/text.h"
#include "transport/shm/layout.h"

void coll_shm_send_failure(coll_comm *comm)
{
    const shm_context *context_link = comm->context->link;
    const shm_comm *link = comm->link;
    shm_segment *own = link != NULL ? link->segments[comm->rank] : NULL;
    if (own == NULL || context_link->doorbells[comm->context->rank] == NULL) {
        return;
    }
    own->failure_notice.status = comm->failure.status;
    own->failure_notice.origin = (uint32_t)comm->origin;
    (void)snprintf(own->failure_notice.text, sizeof own->failure_notice.text, "%s",
                   comm->failure.message + comm->message_offset_bytes);
    atomic_store(&own->failure_notice.set, 1);
    (void)atomic_fetch_add(&context_link->doorbells[comm->context->rank]->failures, 1);
    coll_shm_wake_peers(comm);
}

/* A peer's failure is this rank's. Its record is copied once. */
static void take_over(coll_comm *comm, int peer)
{
    const shm_comm *link = comm->link;
    const shm_failure_notice *notice = &link->segments[peer]->failure_notice;
    char text[COLL_ERROR_MESSAGE_BYTES];
    memcpy(text, notice->text, sizeof text);
    text[sizeof text - 1] = '\0';
    coll_comm_fail_as(comm, peer, notice->origin, notice->status, text);
}

static void receive_failure(coll_comm *comm)
{
    const shm_comm *link = comm->link;
    for (int peer = 0; peer < comm->size && comm->failed_peer == 0; peer++) {
        if (peer != comm->rank && atomic_load(&link->segments[peer]->failure_notice.set) != 0) {
            comm->failed_peer = peer + 1;
        }
    }
}

void coll_shm_receive_failures(coll_context *context)
{
    shm_context *link = context->link;
    for (int rank = 0; rank < context->size; rank++) {
        if (rank != context->rank && link->doorbells[rank] != NULL) {
            link->failures_seen[rank] = atomic_load(&link->doorbells[rank]->failures);
        }
    }
    for (coll_comm *comm = context->comms; comm != NULL; comm = comm->next) {
        if (!comm->failed && comm->link != NULL) {
            receive_failure(comm);
        }
    }
}

void coll_shm_propagate_failure(coll_comm *comm)
{
    if (comm->failed_peer != 0 && !comm->failed) {
        take_over(comm, comm->failed_peer - 1);
    }
}

/* Each rank shows its flags, and then looks at the other's: one of the two sees what came later. */
void coll_shm_finalize(coll_comm *comm)
{
    atomic_thread_fence(memory_order_seq_cst);
    for (int peer = 0; peer < comm->size && !comm->failed; peer++) {
        if (peer != comm->rank) {
            (void)coll_shm_walk(comm, peer, comm->posted);
        }
    }
    if (!comm->failed) {
        coll_shm_receive_failures(comm->context);
        coll_shm_propagate_failure(comm);
    }
}

void coll_shm_show_waits(coll_comm *comm, uint64_t waits)
{
    const shm_comm *link = comm->link;
    atomic_store(&link->segments[comm->rank]->waits.value, waits);
}

uint64_t coll_shm_waits_of(const coll_comm *comm, int peer)
{
    const shm_comm *link = comm->link;
    return atomic_load(&link->segments[peer]->waits.value);
}

static bool has_hung_up(int sock)
{
    struct pollfd item = {.fd = sock, .events = 0};
    return sock >= 0 && poll(&item, 1, 0) > 0 && (item.revents & (POLLHUP | POLLERR)) != 0;
}

bool coll_shm_awaits(const coll_op *op, int peer)
{
    const shm_comm *link = op->comm->link;
    const shm_segment *segment = link->segments[peer];
    if (op->desc.kind == COLL_SEND || op->desc.kind == COLL_RECEIVE) {
        return peer == op->desc.root;
    }
    switch (op->stage) {
    case COLL_STAGE_QUEUED:
        return coll_shm_withholds(op, peer);
    case COLL_STAGE_ARRIVING:
        return coll_shape_awaits(op, peer) &&
               coll_flag_ahead(atomic_load(&segment->flags[op->sequence % COLL_FLAG_COUNT].word),
                               op->sequence) < 0;
    case COLL_STAGE_RUNNING:
        switch (op->protocol) {
        case COLL_PROTOCOL_STAGED:
            return coll_staged_awaits(op, peer);
        case COLL_PROTOCOL_ZERO_COPY: /* other ways never wait */
            return op->zero_copy.pattern == COLL_PATTERN_SLICES &&
                   coll_shm_slices_await(op->comm, op->zero_copy.round, peer);
        default:
            return op->protocol == COLL_PROTOCOL_PLAN && coll_exec_awaits(op, peer);
        }
    case COLL_STAGE_FINISHING:
        if (op->zero_copy.pattern == COLL_PATTERN_SLICES) {
            return coll_shm_slices_await(op->comm, op->zero_copy.round, peer);
        }
        return coll_zero_copy_awaits(op, peer) &&
               atomic_load(&segment->finished.value) < op->sequence;
    default:
        return false;
    }
}

/* Fails op's communicator if op cannot end for want of a rank that has gone. */
static void watch_op(coll_op *op)
{
    coll_comm *comm = op->comm;
    for (int peer = 0; peer < comm->size && !comm->failed; peer++) {
        if (peer == comm->rank || !coll_shm_awaits(op, peer) ||
            !has_hung_up(comm->context->socks[comm->ranks[peer]])) {
            continue;
        }
        /* What it did and said before it left is all there is to come. */
        if (coll_progress(comm->context)) {
            return;
        }
        receive_failure(comm);
        coll_shm_propagate_failure(comm);
        if (!comm->failed && coll_shm_awaits(op, peer)) {
            char name[160];
            char what[COLL_DESCRIBE_BYTES];
            coll_rank_text(comm, peer, name, sizeof name);
            coll_op_text(op, what, sizeof what);
            (void)coll_comm_fail(comm, COLL_ERR_PEER, "%s has gone: %s", name, what);
        }
    }
}

/* The operation that keeps all later ones waiting. */
static coll_op *first_of(const coll_comm *comm)
{
    coll_op *op = comm->head;
    while (op != NULL && op->stage == COLL_STAGE_DONE) {
        op = op->next;
    }
    return op;
}

void coll_shm_watch(coll_op *op)
{
    coll_context *context = op->comm->context;
    coll_shm_receive_failures(context);
    if (coll_progress(context)) {
        return;
    }
    for (coll_comm *comm = context->comms; comm != NULL; comm = comm->next) {
        coll_op *first = first_of(comm);
        if (comm->failed || comm->link == NULL || (first == NULL && comm != op->comm)) {
            continue;
        }
        coll_shm_propagate_failure(comm);
        if (!comm->failed && first != NULL) {
            watch_op(first);
        }
    }
    if (!op->comm->failed && op->stage != COLL_STAGE_DONE) {
        watch_op(op);
    }
}
