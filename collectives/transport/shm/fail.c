/* Failure notices between ranks of one host, and the death of a rank. Called through the
 * transport's table, while a rank waits or polls and nothing moves.
 *
 * A rank that fails writes a notice into its segment, and counts it in its doorbell, where peers
 * look after everything that they publish. A rank that dies cannot do that. But the kernel closes
 * its socket, so its peers see a hang-up (watch_op).
 *
 * A rank that has received a notice may still have all it needs for its current operation, where
 * that lies in segments: a rank that has failed changes nothing there. So it fails when that
 * operation moves no more, or with the next call.
 *
 * Buffers in arenas are different. Once the call of a failed rank has returned, its program may use
 * them for something else. So whoever has loaded from them looks for notices once more, after the
 * last load, before it says that anything is done (coll_shm_confirm_reads). This is what the reader
 * of a seqlock does. The failed rank stores its notice, then come a fence and the return, then the
 * program's stores. The reader loads the bytes, then come a fence and the look. So if a load has
 * seen one of these stores, the look sees the notice. A reader that sees none has loaded what was
 * posted.
 *
 * Stores go the other way: a late rank that has not seen the notice yet still stores to the recv
 * buffers of a failed one. Nothing can prevent that, because the failed rank does not wait for it.
 * So coll.h gives such a buffer back only when its arena is destroyed. */
#include <stdio.h>
#include <string.h>

#include "core/exec.h"
#include "core/failure.h"
#include "core/p2p.h"
#include "core/progress.h"
#include "core/report.h"
#include "core/text.h"
#include "transport/shm/layout.h"

void coll_shm_send_failure(coll_comm *comm)
{
    const shm_context *context_shm = comm->context->shm;
    const shm_comm *shm = comm->shm;
    shm_segment *own = shm != NULL ? shm->segments[comm->rank] : NULL;
    if (own == NULL || context_shm->doorbells[comm->context->rank] == NULL) {
        return;
    }
    own->failure_notice.status = comm->failure.status;
    own->failure_notice.origin = (uint32_t)comm->origin;
    own->failure_notice.gone = comm->context->gone;
    (void)snprintf(own->failure_notice.text, sizeof own->failure_notice.text, "%s",
                   comm->failure.message + comm->message_offset_bytes);
    atomic_store(&own->failure_notice.set, 1);
    (void)atomic_fetch_add(&context_shm->doorbells[comm->context->rank]->failures, 1);
    atomic_thread_fence(memory_order_seq_cst); /* before what the program stores from now on */
    coll_shm_wake_peers(comm);
}

/* Makes a peer's failure this rank's. Copies the notice once, because the peer could change it. */
static void take_over(coll_comm *comm, int peer)
{
    const shm_comm *shm = comm->shm;
    const shm_failure_notice *notice = &shm->segments[peer]->failure_notice;
    char text[COLL_ERROR_MESSAGE_BYTES];
    memcpy(text, notice->text, sizeof text);
    text[sizeof text - 1] = '\0';
    coll_context_note_gone(comm->context, notice->gone);
    coll_comm_fail_as(comm, peer, notice->origin, notice->status, text);
}

void coll_shm_receive_failure(coll_comm *comm)
{
    const shm_comm *shm = comm->shm;
    for (int peer = 0; peer < comm->size && comm->failed_peer == 0; peer++) {
        const shm_segment *segment = shm->segments[peer]; /* NULL: not mapped yet */
        if (peer != comm->rank && segment != NULL &&
            atomic_load(&segment->failure_notice.set) != 0) {
            comm->failed_peer = peer + 1;
        }
    }
}

/* Whether a rank has counted a failure since the last look; notes the counts. A communicator that is
 * not open yet looks by itself when it is (shm.c). */
static bool count_failures(coll_context *context)
{
    shm_context *context_shm = context->shm;
    bool more = false;
    for (int rank = 0; rank < context->size; rank++) {
        const shm_doorbell *doorbell = context_shm->doorbells[rank];
        if (rank != context->rank && doorbell != NULL) {
            const uint32_t failures = atomic_load(&doorbell->failures);
            more = more || failures != context_shm->failures_seen[rank];
            context_shm->failures_seen[rank] = failures;
        }
    }
    return more;
}

void coll_shm_receive_failures(coll_context *context)
{
    if (!count_failures(context)) {
        return;
    }
    for (coll_comm *comm = context->comms; comm != NULL; comm = comm->next) {
        if (!comm->failed && comm->shm != NULL) {
            coll_shm_receive_failure(comm);
        }
    }
}

void coll_shm_propagate_failure(coll_comm *comm)
{
    if (comm->failed_peer != 0 && !comm->failed) {
        take_over(comm, comm->failed_peer - 1);
    }
}

bool coll_shm_confirm_reads(coll_comm *comm)
{
    atomic_thread_fence(memory_order_acquire); /* after the loads */
    bool failed = false;
    for (int peer = 0; peer < comm->size; peer++) {
        failed = failed || (peer != comm->rank && coll_shm_has_counted(comm, peer));
    }
    if (failed) {
        coll_shm_receive_failures(comm->context);
    }
    coll_shm_propagate_failure(comm);
    return !comm->failed;
}

/* Of two ranks that post different operations last, at least one sees the other's flag: each posts
 * its own, and then reads the other's, with a fence between. */
void coll_shm_finalize(coll_comm *comm)
{
    atomic_thread_fence(memory_order_seq_cst);
    for (int peer = 0; peer < comm->size && !comm->failed; peer++) {
        if (peer != comm->rank) {
            (void)coll_shm_compare_flags(comm, peer, comm->posted);
        }
    }
    if (!comm->failed) {
        coll_shm_receive_failures(comm->context);
        coll_shm_propagate_failure(comm);
    }
}

void coll_shm_show_waits(coll_comm *comm, uint64_t waits)
{
    const shm_comm *shm = comm->shm;
    atomic_store(&shm->segments[comm->rank]->waits.value, waits);
}

uint64_t coll_shm_waits_of(const coll_comm *comm, int peer)
{
    const shm_comm *shm = comm->shm;
    return atomic_load(&shm->segments[peer]->waits.value);
}

bool coll_shm_awaits(const coll_op *op, int peer)
{
    const shm_comm *shm = op->comm->shm;
    const shm_segment *segment = shm->segments[peer];
    if (coll_kind_is_p2p(op->desc.kind)) {
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
        case COLL_PROTOCOL_ZERO_COPY: /* its other patterns do not wait while they run */
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

/* Fails op's communicator if op waits for a rank whose process has ended. */
static void watch_op(const coll_op *op)
{
    coll_comm *comm = op->comm;
    for (int peer = 0; peer < comm->size && !comm->failed; peer++) {
        if (peer == comm->rank || !coll_shm_awaits(op, peer) ||
            !coll_context_has_hung_up(comm->context, comm->ranks[peer])) {
            continue;
        }
        /* Nothing more will come from it. Takes what it did and said before it ended. */
        if (coll_progress(comm->context)) {
            return;
        }
        coll_shm_receive_failure(comm);
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

/* Messages to and from one peer wait for the first. */
static void watch_messages(const coll_comm *comm)
{
    for (int peer = 0; comm->p2p != NULL && peer < comm->size && !comm->failed; peer++) {
        const coll_op *first = coll_p2p_first(comm, peer);
        if (first != NULL) {
            watch_op(first);
        }
    }
}

/* This is where a rank's death is noticed. Of all that is under way, not of op alone: a program that tests many in turn may test each at other
 * moments than those at which this is called. */
void coll_shm_watch(coll_op *op)
{
    coll_context *context = op->comm->context;
    coll_shm_receive_failures(context);
    if (coll_progress(context)) {
        return;
    }
    for (coll_comm *comm = context->busy; comm != NULL; comm = comm->busy_next) {
        if (comm->failed || comm->shm == NULL) {
            continue;
        }
        coll_shm_propagate_failure(comm);
        const coll_op *first = coll_comm_first(comm);
        if (first != NULL && !comm->failed) {
            watch_op(first);
        }
        watch_messages(comm);
    }
    coll_shm_propagate_failure(op->comm); /* a device's need not be busy */
    if (!op->comm->failed && op->stage != COLL_STAGE_DONE) {
        watch_op(op);
    }
}
