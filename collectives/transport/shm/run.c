/* Blocking operations over shared memory, without the queue: begins the operation, and ends it if
 * that takes only a short wait. Called through the transport's table by coll_run (core/op.c).
 *
 * The two waiting loops here are not wait.c's, because small operations would take longer. An
 * all-reduce of 4 to 32 bytes between two ranks takes 62 ns with both loops, 91 ns with finish_soon
 * alone, and a fifth longer through the queue and wait.c. Up to 256 bytes the queue costs 8 %.
 *
 * The flag is posted first. What peers do not wait for comes after it: the flight record, the copy
 * of this rank's own part, and last the fence and the look for peers that sleep. */
#include <sched.h>

#include "core/failure.h"
#include "core/progress.h"
#include "core/queue.h"
#include "core/record.h"
#include "core/wait.h"
#include "transport/shm/layout.h"

/* Whether op, which is running, moves on in pieces, so that this file may look at the abort word
 * and at the clock between them. A plan does not: the queue moves it on. */
static bool moves_in_pieces(const coll_op *op)
{
    return op->protocol == COLL_PROTOCOL_STAGED || op->protocol == COLL_PROTOCOL_ZERO_COPY;
}

/* Moves op on for a short while. True: it is done. False: it has to go through the queue.
 *
 * Where ranks have processors of their own, the wait between two moves is a pause; where they share
 * them, it is sched_yield, yield_budget times at most. Peers that sleep are woken before the first
 * wait, or after the first piece, which peers could work on at the same time. *notified says
 * whether they were. An operation that moves for long looks at its deadline too. */
static bool finish_soon(coll_op *op, bool *notified)
{
    coll_comm *comm = op->comm;
    const bool crowded = comm->context->spins == 0;
    const unsigned turns_max = crowded ? comm->context->yield_budget : COLL_SHM_SPINS;
    unsigned moves = 0;
    for (unsigned turns = 0; turns < turns_max && !comm->failed; turns++) {
        const bool hot = *notified && !crowded && turns <= COLL_SHM_SPINS_HOT;
        bool moved = false;
        coll_shm_advance_looking(op, hot ? COLL_SHM_LOOKS : 1, &moved);
        if (op->stage == COLL_STAGE_DONE) {
            coll_yield_budget_grow(comm->context);
            op->deadline_ns = 0;
            return true;
        }
        if (op->stage == COLL_STAGE_RUNNING && !moves_in_pieces(op)) {
            return false;
        }
        if (atomic_load_explicit(&comm->context->abort_state, memory_order_relaxed) == 2) {
            return false;
        }
        if (!*notified && (!moved || op->stage == COLL_STAGE_RUNNING)) {
            coll_shm_notify(comm);
            *notified = true;
            continue;
        }
        if (moved) {
            turns = 0;
            if (++moves % COLL_MOVES_PER_LOOK == 0 &&
                coll_is_late(comm->context, &op->deadline_ns)) {
                return false;
            }
        } else if (crowded) {
            (void)sched_yield();
        } else if (!hot) {
            coll_pause();
        }
    }
    return false;
}

/* The same for an inline or eager operation, where ranks have processors of their own. */
static bool copy_soon(coll_op *op, bool *notified)
{
    coll_comm *comm = op->comm;
    for (unsigned turns = 0; turns < COLL_SHM_SPINS && !comm->failed; turns++) {
        const bool hot = *notified && turns <= COLL_SHM_SPINS_HOT;
        if (coll_shm_copy(op, hot ? COLL_SHM_LOOKS : 1)) {
            return true;
        }
        if (atomic_load_explicit(&comm->context->abort_state, memory_order_relaxed) == 2) {
            return false;
        }
        if (!*notified) {
            coll_shm_notify(comm);
            *notified = true;
        } else if (!hot) {
            coll_pause();
        }
    }
    return false;
}

bool coll_shm_run(coll_comm *comm, const coll_op_desc *desc, coll_status *status,
                  coll_error *reterr)
{
    /* If anything is under way, the call has to go through the queue, which moves everything on.
     * Otherwise a rank that only makes short calls would never move on what it started before. */
    if (coll_is_under_way(comm->context) || comm->blocking->queued ||
        coll_kind_is_p2p(desc->kind) || comm->failed_peer != 0 ||
        coll_comm_check(comm, NULL) != COLL_OK) {
        return false;
    }
    coll_op *op = NULL;
    *status = coll_op_recall(comm, desc, &op, reterr);
    if (*status != COLL_OK) {
        return true;
    }
    bool notified = false;
    coll_op_number(op);
    if (!coll_shm_may_post(op)) {
        coll_record_begin(op);
        coll_op_begin(op);
        return true;
    }
    op->stage = COLL_STAGE_ARRIVING;
    coll_shm_write_flag(op);
    coll_record_begin(op);
    coll_shm_copy_own(op);
    const bool copies = comm->context->spins > 0 && coll_shm_is_copied(op);
    const bool done = copies ? copy_soon(op, &notified) : finish_soon(op, &notified);
    if (!notified) {
        coll_shm_notify(comm);
    }
    if (done) {
        coll_record_end(op);
    } else {
        coll_op_begin(op);
    }
    return true;
}
