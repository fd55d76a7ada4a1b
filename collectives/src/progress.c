/* Moves operations through their stages; internal.h says what they are. */
#include "internal.h"

bool coll_op_sees(coll_op *op, int peer)
{
    const coll_line *line = &op->comm->peers[peer].lines[op->sequence % COLL_LINE_SLOTS];
    const uint64_t word = atomic_load(&line->word);
    if (word != op->word && coll_line_ahead(word, op->sequence) >= 0) {
        (void)coll_report_mismatch(op, peer, line);
    }
    return word == op->word;
}

/* Whether all peers' lines show this operation; a line that shows another one fails. */
static bool all_arrived(coll_op *op, bool *moved)
{
    for (; op->arrived < op->comm->size; op->arrived++) {
        if (!coll_op_sees(op, op->arrived)) {
            return false;
        }
        *moved = true;
    }
    return true;
}

/* Whether the lines are here without which an operation over lines cannot end. Who takes nothing
 * from a peer does not wait for its line; it is compared when it comes. */
static bool needed_arrived(coll_op *op, bool *moved)
{
    if (all_arrived(op, moved) || op->shape.take == COLL_TAKE_ALL) {
        return op->arrived == op->comm->size;
    }
    bool enough = true;
    for (int peer = op->arrived; peer < op->comm->size; peer++) {
        enough = (coll_op_sees(op, peer) || !coll_shape_awaits(op, peer)) && enough;
    }
    return enough && !op->comm->failed;
}

/* A rank that has ended may be elsewhere for long. */
static bool has_given(const coll_op *op)
{
    const coll_transport_table *table = op->comm->table;
    return table->has_given == NULL || table->has_given(op);
}

static coll_stage run(coll_op *op, bool *moved)
{
    if (op->path == COLL_PATH_PLAN) {
        const bool all_here = all_arrived(op, moved);
        const bool ended = !op->comm->failed && coll_exec_advance(op, moved);
        return all_here && ended && has_given(op) ? COLL_STAGE_DONE : COLL_STAGE_RUNNING;
    }
    if (!needed_arrived(op, moved) || !has_given(op)) {
        return COLL_STAGE_RUNNING;
    }
    *moved = true;
    if (op->comm->size == 1) {
        coll_alone_finish(op);
    } else {
        coll_line_finish(op);
    }
    return COLL_STAGE_DONE;
}

/* One operation as far as it goes; false while its own part is not done, so that later operations
 * must wait. Transports that share memory have their own way. Elsewhere a peer's line comes before
 * its bytes, so a plan need not wait for all lines before it begins; they must all be here before
 * the end. */
static bool advance(coll_op *op, bool *moved)
{
    if (op->comm->table->advance != NULL) {
        op->comm->table->advance(op, moved);
        return op->stage >= COLL_STAGE_FINISHING;
    }
    if (op->stage == COLL_STAGE_ARRIVING && op->path == COLL_PATH_PLAN) {
        op->stage = COLL_STAGE_RUNNING;
        coll_exec_begin(op);
    }
    const coll_stage next = run(op, moved);
    op->stage = next == COLL_STAGE_DONE ? next : op->stage;
    return op->stage == COLL_STAGE_DONE;
}

/* Announces what stands in the queue, as far as the lines reach. */
static bool announce_waiting(coll_comm *comm)
{
    bool moved = false;
    while (comm->waiting != NULL && !comm->failed && coll_op_may_announce(comm->waiting)) {
        coll_op *op = comm->waiting;
        comm->waiting = op->next;
        coll_op_announce(op);
        moved = true;
    }
    return moved;
}

static bool advance_comm(coll_comm *comm)
{
    bool moved = false;
    for (coll_op *op = comm->head; op != comm->waiting && !comm->failed; op = op->next) {
        if (!advance(op, &moved)) {
            break;
        }
    }
    while (comm->head != NULL && comm->head->stage == COLL_STAGE_DONE) {
        comm->head->queued = false;
        coll_flight_end(comm->head);
        comm->head = comm->head->next;
    }
    if (comm->head == NULL) {
        comm->tail = NULL;
    }
    return comm->waiting == NULL ? moved : announce_waiting(comm) || moved;
}

bool coll_progress(coll_context *context)
{
    bool moved = context->table->poll != NULL && context->table->poll(context);
    for (coll_comm *comm = context->comms; comm != NULL; comm = comm->next) {
        if (comm->head != NULL && !comm->failed && advance_comm(comm)) {
            moved = true;
        }
        if (comm->point != NULL && !comm->failed && coll_point_advance(comm)) {
            moved = true;
        }
    }
    if (context->table->push != NULL) {
        context->table->push(context);
    }
    return moved;
}

base_status coll_context_progress(coll_context *context, base_error *reterr)
{
    const base_status status = coll_abort_check(context, reterr);
    if (status == BASE_OK) {
        (void)coll_progress(context);
    }
    return status;
}
