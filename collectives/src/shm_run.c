/* Blocking operations over shared memory: begun, and where that is no long wait ended, without the
 * queue that operations otherwise stand in. */
#include <sched.h>

#include "shm_layout.h"

/* Whether op, running, has no more to do than fits between two looks at the abort word. */
static bool is_short(const coll_op *op)
{
    return op->path == COLL_PATH_STAGED && op->staging.count == 1;
}

/* Waits where waiting is short: a while of pauses where ranks have processors of their own, else a
 * few turns for the others to run. False: the operation has to stand in the queue. */
static bool finish_soon(coll_op *op)
{
    const coll_comm *comm = op->comm;
    const bool crowded = comm->context->spins == 0;
    const unsigned turns_max = crowded ? comm->context->patience : COLL_SHM_SPINS;
    for (unsigned turns = 0; turns < turns_max && !comm->failed; turns++) {
        bool moved = false;
        coll_shm_advance(op, &moved);
        if (op->stage == COLL_STAGE_DONE) {
            coll_patience_gain(comm->context);
            return true;
        }
        if (op->stage == COLL_STAGE_RUNNING && !is_short(op)) {
            return false; /* in pieces, with looks at the abort word between them */
        }
        if (atomic_load_explicit(&comm->context->abort_state, memory_order_relaxed) == 2) {
            return false;
        }
        if (moved) {
            turns = 0;
            continue;
        }
        if (crowded) {
            (void)sched_yield();
        } else {
            coll_pause();
        }
    }
    return false;
}

bool coll_shm_run(coll_comm *comm, const coll_op_desc *desc, base_status *status,
                  base_error *reterr)
{
    if (comm->head != NULL || comm->blocking->queued || desc->kind == COLL_SEND ||
        desc->kind == COLL_RECEIVE || comm->distressed != 0 ||
        coll_comm_check(comm, NULL) != BASE_OK) {
        return false;
    }
    coll_op *op = NULL;
    *status = coll_op_recall(comm, desc, &op, reterr);
    if (*status != BASE_OK) {
        return true;
    }
    coll_op_number(op);
    if (!coll_shm_may_announce(op)) {
        coll_op_begin(op);
        return true;
    }
    op->stage = COLL_STAGE_ARRIVING;
    coll_shm_announce(op, NULL, 0);
    if (finish_soon(op)) {
        coll_flight_end(op);
    } else {
        coll_op_begin(op);
    }
    return true;
}
