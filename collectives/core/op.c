/* Operations: made once, started often. Called by programs, and by request.c for them. op_init.c
 * checks an operation's descriptor and fills the operation in. */
#include <stdlib.h>
#include <string.h>

#include "core/device_op.h"
#include "core/failure.h"
#include "core/op.h"
#include "core/p2p.h"
#include "core/progress.h"
#include "core/queue.h"
#include "core/record.h"
#include "core/wait.h"
#include "ringfence/coll_error.h"

/* The canonical order, rounded once, is the flags' own, so algorithms of another order send
 * tiny operands round, and so do all that round 16-bit sums per hop. */
static bool has_own_bits(const coll_op *op)
{
    if (op->kernel == NULL || op->shown_bytes == 0) {
        return false;
    }
    const coll_plan plan = coll_op_plan_of(op, op->desc.algorithm);
    return (op->kernel->wide != NULL && op->desc.algorithm != COLL_ALGORITHM_DIRECT) ||
           !coll_plan_is_canonical(&plan);
}

static coll_protocol first_protocol(const coll_op *op)
{
    if (op->comm->size > 1 && op->pairwise) { /* no rank knows how much the others send */
        return op->comm->table->memory != NULL ? COLL_PROTOCOL_UNDECIDED : COLL_PROTOCOL_PLAN;
    }
    if (op->comm->size == 1 || op->shown_bytes == 0) {
        return COLL_PROTOCOL_INLINE;
    }
    if (op->comm->table->memory != NULL) {
        return coll_shape_protocol(op, has_own_bits(op));
    }
    return op->shown_bytes <= op->comm->inline_bytes && !has_own_bits(op) ? COLL_PROTOCOL_INLINE
                                                                          : COLL_PROTOCOL_PLAN;
}

/* An operation, its tracks, and the ends of its parts, one behind the other. */
typedef struct op_layout {
    size_t tracks_at;
    size_t ends_at;
    size_t bytes;
} op_layout;

enum { LINE_BYTES = 64 };

static op_layout layout_of(const coll_comm *comm)
{
    op_layout layout = {.tracks_at = sizeof(coll_op)};
    layout.ends_at =
        layout.tracks_at + (size_t)COLL_PLAN_TRACKS_MAX(comm->size) * sizeof(coll_track);
    layout.bytes = layout.ends_at + 2 * ((size_t)comm->size + 1) * sizeof(size_t);
    layout.bytes = (layout.bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
    return layout;
}

_Static_assert(sizeof(coll_op) % _Alignof(coll_track) == 0, "tracks stand behind their operation");
_Static_assert(sizeof(coll_track) % _Alignof(size_t) == 0, "and ends behind them");

coll_op *coll_op_alloc(coll_comm *comm)
{
    const op_layout layout = layout_of(comm);
    coll_op *made = aligned_alloc(LINE_BYTES, layout.bytes);
    if (made != NULL) {
        memset(made, 0, layout.bytes);
        made->comm = comm;
        made->plan.tracks = (coll_track *)(void *)((uint8_t *)made + layout.tracks_at);
        made->part_ends = (size_t *)(void *)((uint8_t *)made + layout.ends_at);
        made->recv_ends = made->part_ends + comm->size + 1;
    }
    return made;
}

coll_status coll_op_lacks(coll_comm *comm, coll_error *reterr)
{
    return coll_comm_lacks(comm, layout_of(comm).bytes, "an operation", reterr);
}

coll_status coll_op_create(coll_comm *comm, const coll_op_desc *desc, coll_op **op,
                           coll_error *reterr)
{
    coll_status status = coll_comm_check(comm, reterr);
    if (status != COLL_OK) {
        return status;
    }
    coll_op *made = coll_op_alloc(comm);
    if (made == NULL) {
        return coll_op_lacks(comm, reterr);
    }
    status = coll_device_takes(desc) ? coll_device_op_make(made, comm, desc, reterr)
                                     : coll_op_init(made, comm, desc, reterr);
    if (status == COLL_OK && coll_kind_is_p2p(made->desc.kind)) {
        status = coll_p2p_open(comm, reterr);
    }
    if (status != COLL_OK) {
        coll_op_destroy(made);
        return status;
    }
    made->made_next = comm->made;
    made->made_link = &comm->made;
    if (comm->made != NULL) {
        comm->made->made_link = &made->made_next;
    }
    comm->made = made;
    *op = made;
    return COLL_OK;
}

coll_algorithm coll_op_algorithm(const coll_op *op)
{
    return op->desc.algorithm;
}

/* Takes op from its communicator. If it is under way, peers learn that. */
static void leave(coll_op *op)
{
    if (op->device != NULL) {
        coll_device_op_destroy(op);
    } else if (op->queued) {
        if (op->stage != COLL_STAGE_DONE && !op->comm->failed) {
            (void)coll_comm_fail(op->comm, COLL_ERR_STATE, "an operation was destroyed under way");
        }
        coll_op_leave_queue(op);
    }
    if (op->made_link != NULL) {
        *op->made_link = op->made_next;
        if (op->made_next != NULL) {
            op->made_next->made_link = op->made_link;
        }
    }
}

void coll_op_orphan(coll_comm *comm)
{
    coll_op *next = NULL;
    for (coll_op *op = comm->made; op != NULL; op = next) {
        next = op->made_next;
        leave(op);
        op->made_link = NULL;
        op->comm = NULL;
        op->stage = COLL_STAGE_IDLE;
    }
}

void coll_op_destroy(coll_op *op)
{
    if (op == NULL) {
        return;
    }
    leave(op);
    free(op->plan.scratch);
    free(op);
}

void coll_op_number(coll_op *op)
{
    op->arrived = 0;
    op->own_copied = false;
    op->sequence = ++op->comm->sequence;
    op->descriptor.sequence = op->sequence;
    op->word = coll_flag_word(op->sequence, op->digest);
    if (!op->routed) {
        op->first_protocol = first_protocol(op);
        op->routed = true;
    }
    op->protocol = op->first_protocol;
    op->stage = COLL_STAGE_QUEUED;
}

static coll_status refuse_idle(const coll_op *op, coll_error *reterr)
{
    return coll_fail(reterr, COLL_ERR_STATE, "%s",
                     op->comm == NULL ? "the operation's communicator has been destroyed"
                                      : "the operation has not been started");
}

coll_status coll_op_start(coll_op *op, coll_error *reterr)
{
    if (op->comm == NULL) {
        return refuse_idle(op, reterr);
    }
    const coll_socket_table *sockets = op->comm->context->table->sockets;
    if (op->comm->failed_peer != 0) {
        op->comm->table->memory->propagate_failure(op->comm);
    }
    const coll_status status = coll_comm_check(op->comm, reterr);
    if (status != COLL_OK) {
        return status;
    }
    if (op->device != NULL) {
        return coll_device_start(op, reterr);
    }
    if (op->unreported) {
        return coll_fail(
            reterr, COLL_ERR_STATE,
            "the operation is under way already: wait for it, or test it until it is done");
    }
    if (op->queued) {
        coll_op_leave_queue(op);
    }
    op->unreported = true;
    if (coll_kind_is_p2p(op->desc.kind)) {
        op->arrived = 0;
        op->queued = true;
        coll_p2p_start(op);
        if (sockets != NULL) {
            sockets->push(op->comm->context); /* credit, if a message was here */
        }
        return coll_comm_check(op->comm, reterr);
    }
    coll_op_number(op);
    coll_record_begin(op);
    coll_op_begin(op);
    if (sockets != NULL && op->protocol == COLL_PROTOCOL_PLAN) {
        (void)coll_advance(op->comm->context); /* its first data leave with its flag */
    }
    if (op->stage == COLL_STAGE_QUEUED || sockets != NULL) {
        (void)coll_progress(op->comm->context);
    }
    return COLL_OK;
}

coll_status coll_op_test(coll_op *op, bool *done, coll_error *reterr)
{
    *done = false;
    if (op->stage == COLL_STAGE_IDLE) {
        return op->device != NULL ? coll_device_test(op, done, reterr) : refuse_idle(op, reterr);
    }
    coll_context *context = op->comm->context;
    coll_status status = COLL_OK;
    context->moves += coll_progress(context);
    if (op->stage != COLL_STAGE_DONE && coll_test_has_to_look(context)) {
        op->comm->table->notices->watch(op);
        status = coll_still_check(op, reterr);
    }
    if (op->stage == COLL_STAGE_DONE) {
        op->unreported = false;
        *done = true;
        return COLL_OK;
    }
    return status == COLL_OK ? coll_comm_check(op->comm, reterr) : status;
}

coll_status coll_op_wait(coll_op *op, coll_error *reterr)
{
    if (op->stage == COLL_STAGE_IDLE) {
        return op->device != NULL ? coll_device_op_wait(op, reterr) : refuse_idle(op, reterr);
    }
    const coll_status status = coll_wait(op, reterr);
    op->unreported = status != COLL_OK;
    return status;
}

/* Whether it has the reduction of its own that op has, as it was then: the same one may say something
 * else by now. */
static bool is_same_reduction(const coll_op *op, const coll_reduction *given)
{
    const coll_reduction *had = &op->reduction;
    if (given == NULL || op->given.reduction == NULL) {
        return given == op->given.reduction;
    }
    return given->size == sizeof *given && given->element_bytes == had->element_bytes &&
           given->combine == had->combine && given->user == had->user &&
           given->neutral == had->neutral && given->name != NULL &&
           strncmp(given->name, op->descriptor.name, sizeof op->descriptor.name) == 0;
}

/* Whether `given` is what op was made from the last time. */
static bool is_same(const coll_op *op, const coll_op_desc *given)
{
    const coll_op_desc *had = &op->given;
    return op->ready && given->size == sizeof *given && had->kind == given->kind &&
           had->send == given->send && had->recv == given->recv && had->count == given->count &&
           had->type == given->type && had->reduce == given->reduce && had->root == given->root &&
           had->algorithm == given->algorithm && given->counts == NULL && had->counts == NULL &&
           given->stream == NULL && given->recv_counts == NULL &&
           is_same_reduction(op, given->reduction);
}

/* Makes comm->blocking the operation that was made from desc lately, if there is one; else one that
 * is to be made anew, the oldest. A program that calls the same few operations in turn makes each
 * of them once. */
static coll_op *recall(coll_comm *comm, const coll_op_desc *desc)
{
    coll_op *last = comm->blocking;
    if (is_same(last, desc)) {
        return last;
    }
    unsigned at = 0;
    while (at < COLL_RECENT_OPS && (comm->recent[at] == NULL || !is_same(comm->recent[at], desc))) {
        at++;
    }
    if (at == COLL_RECENT_OPS) {
        at = comm->oldest++ % COLL_RECENT_OPS;
        if (comm->recent[at] == NULL) {
            comm->recent[at] = coll_op_alloc(comm);
        }
        if (comm->recent[at] == NULL) {
            return last; /* made anew in its place */
        }
    }
    comm->blocking = comm->recent[at];
    comm->recent[at] = last;
    return comm->blocking;
}

coll_status coll_op_recall(coll_comm *comm, const coll_op_desc *desc, coll_op **op,
                           coll_error *reterr)
{
    *op = recall(comm, desc);
    return is_same(*op, desc) ? COLL_OK : coll_op_init(*op, comm, desc, reterr);
}

/* Takes the communicator's own operation for a blocking call. */
static coll_status begin_blocking(coll_comm *comm, const coll_op_desc *desc, coll_error *reterr)
{
    coll_op *op = comm->blocking;
    const coll_status status = coll_comm_check(comm, reterr);
    if (status != COLL_OK) {
        return status;
    }
    if (op->queued) {
        coll_op_leave_queue(op);
    }
    if (!coll_kind_is_p2p(desc->kind)) {
        return coll_op_recall(comm, desc, &op, reterr);
    }
    coll_status ready = coll_op_init(op, comm, desc, reterr);
    if (ready == COLL_OK) {
        ready = coll_p2p_open(comm, reterr);
    }
    return ready;
}

static coll_status wait_blocking(coll_op *op, coll_error *reterr)
{
    const coll_status status = coll_wait(op, reterr);
    if (op->plan.scratch_bytes > COLL_SCRATCH_KEPT_BYTES && status == COLL_OK) {
        free(op->plan.scratch);
        op->plan.scratch = NULL;
        op->plan.scratch_bytes = 0;
    }
    return status;
}

static coll_status end_blocking(coll_comm *comm, coll_error *reterr)
{
    comm->blocking->unreported = false; /* to no program */
    const coll_status status = coll_op_start(comm->blocking, reterr);
    return status == COLL_OK ? wait_blocking(comm->blocking, reterr) : status;
}

coll_status coll_run(coll_comm *comm, const coll_op_desc *desc, coll_error *reterr)
{
    const coll_memory_table *memory = comm->table->memory;
    coll_status status = COLL_OK;
    if (memory != NULL && memory->run(comm, desc, &status, reterr)) {
        return status != COLL_OK || comm->blocking->stage == COLL_STAGE_DONE
                   ? status
                   : wait_blocking(comm->blocking, reterr);
    }
    status = begin_blocking(comm, desc, reterr);
    return status == COLL_OK ? end_blocking(comm, reterr) : status;
}

coll_status coll_op_run_as(coll_comm *comm, const coll_op_desc *desc, const coll_descriptor *shown,
                           coll_error *reterr)
{
    const coll_status status = begin_blocking(comm, desc, reterr);
    coll_op *op = comm->blocking;
    if (status != COLL_OK) {
        return status;
    }
    op->ready = false;
    op->descriptor = *shown;
    op->digest = coll_descriptor_digest(shown);
    return end_blocking(comm, reterr);
}

coll_status coll_op_agree(coll_comm *comm, int kind, uint64_t count, coll_error *reterr)
{
    return coll_op_run_as(comm, &(coll_op_desc){.size = sizeof(coll_op_desc), .kind = COLL_BARRIER},
                          &(coll_descriptor){.kind = kind, .count = count}, reterr);
}
