/* Moves operations through their stages; internal.h says what they are. */
#include <string.h>

#include "internal.h"
#include "tree_order.h"

/* Copies what each rank announced beside its word. */
static void gather_payloads(const coll_op *op, void *all, size_t size_bytes)
{
    for (int rank = 0; rank < op->comm->size; rank++) {
        const coll_line *line = &op->comm->peers[rank].lines[op->sequence % COLL_LINE_SLOTS];
        memcpy((uint8_t *)all + (size_t)rank * size_bytes, line->payload, size_bytes);
    }
}

/* Tiny operands came with the flag lines: every rank combines them itself, in the same order. */
static void finish_tiny_reduce(coll_op *op)
{
    _Alignas(64) uint8_t operands[COLL_RANKS_MAX][64];
    _Alignas(64) uint8_t result[64];
    const void *pointers[COLL_RANKS_MAX];
    for (int rank = 0; rank < op->comm->size; rank++) {
        const coll_line *line = &op->comm->peers[rank].lines[op->sequence % COLL_LINE_SLOTS];
        memcpy(operands[rank], line->payload, COLL_TINY_BYTES);
        pointers[rank] = operands[rank];
    }
    coll_tree_combine(op->kernel, result, pointers, op->comm->size, op->desc.count, op->comm->size);
    memcpy(op->desc.recv, result, op->total_bytes);
}

static void finish_tiny(coll_op *op)
{
    if (op->total_bytes == 0) {
        return;
    }
    if (op->comm->size == 1) {
        if (op->desc.recv != NULL && op->desc.recv != op->desc.send) {
            memcpy(op->desc.recv, op->desc.send, op->total_bytes);
        }
        return;
    }
    switch (op->desc.kind) {
    case COLL_ALL_REDUCE:
        finish_tiny_reduce(op);
        return;
    case COLL_ALL_GATHER:
        gather_payloads(op, op->desc.recv, op->total_bytes);
        return;
    case COLL_BROADCAST:
        if (op->desc.recv != NULL) {
            const coll_line *line =
                &op->comm->peers[op->desc.root].lines[op->sequence % COLL_LINE_SLOTS];
            memcpy(op->desc.recv, line->payload, op->total_bytes);
        }
        return;
    default:
        return;
    }
}

static void choose_path(coll_op *op)
{
    if (op->path == COLL_PATH_LINE) {
        return;
    }
    coll_place places[COLL_RANKS_MAX];
    gather_payloads(op, places, sizeof places[0]);
    if (op->desc.algorithm == COLL_ALGORITHM_DIRECT && coll_arena_path_fits(op, places)) {
        op->path = COLL_PATH_ARENA;
        return;
    }
    op->path = COLL_PATH_PLAN;
    coll_exec_begin(op);
}

/* Whether all peers' lines show this operation; a line that shows another one fails. */
static bool all_arrived(coll_op *op, bool *moved)
{
    coll_comm *comm = op->comm;
    for (; op->arrived < comm->size; op->arrived++) {
        const coll_line *line = &comm->peers[op->arrived].lines[op->sequence % COLL_LINE_SLOTS];
        const uint64_t word = atomic_load(&line->word);
        if (word != op->word) {
            if (coll_line_ahead(word, op->sequence) >= 0) {
                (void)coll_report_mismatch(op, op->arrived, line);
            }
            return false;
        }
        *moved = true;
    }
    return true;
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

static coll_stage run(coll_op *op, bool *moved)
{
    coll_comm *comm = op->comm;
    if (op->path == COLL_PATH_LINE) {
        finish_tiny(op);
        return COLL_STAGE_DONE;
    }
    if (op->path == COLL_PATH_PLAN) {
        return coll_exec_advance(op, moved) ? COLL_STAGE_DONE : COLL_STAGE_RUNNING;
    }
    *moved = true;
    if (!coll_arena_path_advance(op)) {
        return COLL_STAGE_RUNNING;
    }
    comm->context->table->finish(comm, op->sequence);
    const bool only_read = op->desc.kind == COLL_BROADCAST && comm->rank != op->desc.root;
    return only_read ? COLL_STAGE_DONE : COLL_STAGE_FINISHING;
}

/* One operation as far as it goes; false while its own part is not done, so that later operations
 * must wait. */
static bool advance(coll_op *op, bool *moved)
{
    if (op->stage == COLL_STAGE_ARRIVING) {
        if (!all_arrived(op, moved)) {
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

static bool advance_comm(coll_comm *comm)
{
    bool moved = false;
    for (coll_op *op = comm->head; op != NULL && !comm->failed; op = op->next) {
        if (!advance(op, &moved)) {
            break;
        }
    }
    while (comm->head != NULL && comm->head->stage == COLL_STAGE_DONE) {
        comm->head = comm->head->next;
        comm->underway--;
    }
    if (comm->head == NULL) {
        comm->tail = NULL;
    }
    return moved;
}

bool coll_progress(coll_context *context)
{
    bool moved = context->table->poll != NULL && context->table->poll(context);
    for (coll_comm *comm = context->comms; comm != NULL; comm = comm->next) {
        if (comm->head != NULL && !comm->failed && advance_comm(comm)) {
            moved = true;
        }
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
