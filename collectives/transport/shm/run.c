/* Blocking operations over shared memory: begun, and where that is no long wait ended, without the
 * queue that operations otherwise stand in.
 *
 * The two waiting loops here are not wait.c's for the sake of small operations. An all-reduce of 4
 * to
 * 32 bytes between two ranks takes 62 ns with both loops, 91 ns with finish_soon alone, and a fifth
 * longer through the queue and wait.c; up to 256 bytes the queue costs 8 %.
 *
 * What need not stand between a rank's coming and its peers' seeing it comes after: the flight
 * record, the own part of the result, and last, when there is nothing else to do, the fence and the
 * look for sleepers. */
#include <sched.h>

#include "core/failure.h"
#include "core/p2p.h"
#include "core/queue.h"
#include "core/record.h"
#include "core/wait.h"
#include "transport/shm/layout.h"

/* Whether op, running, moves on in pieces with looks at the abort word between them. */
static bool is_short(const coll_op *op)
{
    return op->protocol == COLL_PROTOCOL_STAGED || op->protocol == COLL_PROTOCOL_ZERO_COPY;
}

/* Waits where waiting is short: a while of pauses where ranks have processors of their own, else a
 * few turns for the others to run. False: the operation has to stand in the queue. Peers that sleep
 * are woken when there is time for it, before the first pause, or when there is more to do than a
 * piece, which peers could do at the same time; `notified` says whether that came. Where op moves
 * for long, the deadline is looked at, and holds for the queue, too. */
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
        if (op->stage == COLL_STAGE_RUNNING && !is_short(op)) {
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

/* The same of an operation that goes by flags or slots, where ranks have processors of their
 * own. */
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

/* Whether anything of the context is under way already. A blocking call moves that on as well, so
 * it goes the ordinary way: a rank that calls nothing but short ones would keep it waiting. */
static bool is_under_way(const coll_context *context)
{
    for (const coll_comm *comm = context->comms; comm != NULL; comm = comm->next) {
        if (!comm->failed &&
            (comm->head != NULL || (comm->p2p != NULL && coll_p2p_is_busy(comm)))) {
            return true;
        }
    }
    return false;
}

bool coll_shm_run(coll_comm *comm, const coll_op_desc *desc, coll_status *status,
                  coll_error *reterr)
{
    if (is_under_way(comm->context) || comm->blocking->queued || desc->kind == COLL_SEND ||
        desc->kind == COLL_RECEIVE || comm->failed_peer != 0 ||
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
    coll_shm_show(op);
    coll_record_begin(op);
    coll_shm_keep(op);
    const bool copies = comm->context->spins > 0 && coll_shm_copies(op);
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
