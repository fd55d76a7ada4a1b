/* Moves operations through their stages; internal.h says what they are. */
#include <string.h>

#include "internal.h"

/* Which kinds the arena path knows. */
static bool arena_path_takes(const coll_op *op)
{
    return op->desc.algorithm == COLL_ALGORITHM_DIRECT && !op->varies &&
           (op->desc.kind == COLL_ALL_REDUCE || op->desc.kind == COLL_BROADCAST ||
            op->desc.kind == COLL_ALL_GATHER);
}

static void choose_path(coll_op *op)
{
    if (op->path == COLL_PATH_LINE) {
        return;
    }
    coll_place places[COLL_RANKS_MAX];
    for (int rank = 0; rank < op->comm->size; rank++) {
        memcpy(&places[rank], coll_payload(op->comm, rank, op->sequence), sizeof places[0]);
    }
    if (op->comm->shares_memory && arena_path_takes(op) && coll_arena_path_fits(op, places)) {
        op->path = COLL_PATH_ARENA;
        return;
    }
    op->path = COLL_PATH_PLAN;
    coll_exec_begin(op);
}

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

/* Whether the lines are here without which the operation cannot end. The others are compared when
 * they come. */
static bool needed_arrived(coll_op *op, bool *moved)
{
    if (all_arrived(op, moved)) {
        return true;
    }
    bool enough = coll_op_is_rooted(op);
    for (int peer = op->arrived; enough && peer < op->comm->size; peer++) {
        const bool taken = op->path == COLL_PATH_LINE && coll_shape_takes(op, op->comm->rank, peer);
        enough = coll_op_sees(op, peer) || !taken; /* in this order: those that differ are found */
    }
    return enough && !op->comm->failed;
}

static bool all_finished(coll_op *op, bool *moved)
{
    const coll_comm *comm = op->comm;
    for (; op->finished < comm->size; op->finished++) {
        if (atomic_load(comm->peers[op->finished].finished) < op->sequence) {
            return false;
        }
        *moved = true;
    }
    return true;
}

/* Where nothing is shared, bytes can only go by the plan, and a peer's line comes before them: no
 * need to wait for all lines before. They must all be here before the end, as everywhere. */
static void begin_early(coll_op *op)
{
    if (!op->comm->shares_memory && op->path == COLL_PATH_PLAN) {
        op->stage = COLL_STAGE_RUNNING;
        coll_exec_begin(op);
    }
}

static coll_stage run(coll_op *op, bool *moved)
{
    coll_comm *comm = op->comm;
    if (op->path == COLL_PATH_LINE) {
        if (comm->size == 1) {
            coll_alone_finish(op);
        } else {
            coll_line_finish(op);
        }
        return COLL_STAGE_DONE;
    }
    if (op->path == COLL_PATH_PLAN) {
        const bool all_here = needed_arrived(op, moved);
        const bool ended = !comm->failed && coll_exec_advance(op, moved);
        return all_here && ended ? COLL_STAGE_DONE : COLL_STAGE_RUNNING;
    }
    *moved = true;
    if (!coll_arena_path_advance(op)) {
        return COLL_STAGE_RUNNING;
    }
    comm->table->finish(comm, op->sequence);
    const bool only_read = op->desc.kind == COLL_BROADCAST && comm->rank != op->desc.root;
    return only_read ? COLL_STAGE_DONE : COLL_STAGE_FINISHING;
}

/* One operation as far as it goes; false while its own part is not done, so that later operations
 * must wait. */
static bool advance(coll_op *op, bool *moved)
{
    if (op->comm->table->advance != NULL) {
        op->comm->table->advance(op, moved);
        return op->stage >= COLL_STAGE_FINISHING;
    }
    if (op->stage == COLL_STAGE_ARRIVING) {
        begin_early(op);
    }
    if (op->stage == COLL_STAGE_ARRIVING) {
        if (!needed_arrived(op, moved)) {
            return false;
        }
        *moved = true;
        op->stage = COLL_STAGE_RUNNING;
        choose_path(op);
        if (op->comm->failed) {
            return false;
        }
    }
    if (op->stage == COLL_STAGE_RUNNING) {
        op->stage = run(op, moved);
    }
    if (op->stage == COLL_STAGE_FINISHING && all_finished(op, moved)) {
        op->stage = COLL_STAGE_DONE;
    }
    return op->stage >= COLL_STAGE_FINISHING;
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
