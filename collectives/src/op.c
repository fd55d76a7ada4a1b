/* Operations: checked once, started often. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "internal.h"

static bool overlaps(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    const uintptr_t x = (uintptr_t)a;
    const uintptr_t y = (uintptr_t)b;
    return x < y + b_bytes && y < x + a_bytes;
}

static base_status check_buffers(const coll_op *op, size_t recv_bytes, base_error *reterr)
{
    const coll_op_desc *desc = &op->desc;
    const bool broadcast = desc->kind == COLL_BROADCAST;
    const bool reads = !broadcast || op->comm->rank == desc->root;
    const bool writes = !broadcast || op->comm->rank != desc->root;
    if (op->total_bytes == 0) {
        return BASE_OK;
    }
    if ((reads && desc->send == NULL) || (writes && desc->recv == NULL)) {
        return base_fail(reterr, BASE_ERR_INVALID, "an operation has no %s buffer",
                         reads && desc->send == NULL ? "send" : "recv");
    }
    if (!reads || desc->recv == NULL) {
        return BASE_OK;
    }
    const uint8_t *in_place = desc->recv;
    if (desc->kind == COLL_ALL_GATHER) {
        in_place += op->total_bytes * (size_t)op->comm->rank;
    }
    if (desc->send != in_place && overlaps(desc->send, op->total_bytes, desc->recv, recv_bytes)) {
        return base_fail(reterr, BASE_ERR_INVALID, "send and recv overlap in part");
    }
    return BASE_OK;
}

static base_status check_desc(const coll_comm *comm, const coll_op_desc *desc, base_error *reterr)
{
    if (desc->kind < COLL_ALL_REDUCE || desc->kind > COLL_RECEIVE) {
        return base_fail(reterr, BASE_ERR_INVALID, "unknown operation %d", (int)desc->kind);
    }
    if (desc->kind > COLL_BARRIER || desc->counts != NULL) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED, "%s is not there yet",
                         coll_kind_name(desc->kind));
    }
    if (desc->stream != NULL) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED, "streams are for GPU ranks");
    }
    if (desc->algorithm < COLL_ALGORITHM_AUTO || desc->algorithm > COLL_ALGORITHM_TWO_LEVEL) {
        return base_fail(reterr, BASE_ERR_INVALID, "unknown algorithm %d", (int)desc->algorithm);
    }
    if (desc->algorithm > COLL_ALGORITHM_DIRECT) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED, "algorithm %s is not there yet",
                         coll_algorithm_name(desc->algorithm));
    }
    if (desc->kind == COLL_BARRIER) {
        return BASE_OK;
    }
    if (coll_type_size_bytes(desc->type) == 0) {
        return base_fail(reterr, BASE_ERR_INVALID, "unknown element type %d", (int)desc->type);
    }
    if (desc->kind == COLL_ALL_REDUCE && (desc->reduce < COLL_SUM || desc->reduce > COLL_AVERAGE)) {
        return base_fail(reterr, BASE_ERR_INVALID, "unknown reduction %d", (int)desc->reduce);
    }
    if (desc->kind == COLL_ALL_REDUCE && desc->reduce == COLL_AVERAGE &&
        desc->algorithm != COLL_ALGORITHM_DIRECT && desc->algorithm != COLL_ALGORITHM_AUTO) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED, "the average of %s is not there yet",
                         coll_algorithm_name(desc->algorithm));
    }
    if (desc->kind == COLL_BROADCAST && (desc->root < 0 || desc->root >= comm->size)) {
        return base_fail(reterr, BASE_ERR_INVALID, "root %d of %d ranks", desc->root, comm->size);
    }
    return BASE_OK;
}

/* The arena that holds size_bytes at data, as its number and the offset; 0 if none does. */
static uint32_t find_arena(const coll_comm *comm, const void *data, size_t size_bytes,
                           uint64_t *offset_bytes)
{
    const uintptr_t at = (uintptr_t)data;
    for (const coll_arena *arena = comm->arenas; arena != NULL; arena = arena->next) {
        const uintptr_t begin = (uintptr_t)arena->data;
        if (at >= begin && at - begin <= arena->size_bytes &&
            size_bytes <= arena->size_bytes - (at - begin)) {
            *offset_bytes = at - begin;
            return arena->number;
        }
    }
    return 0;
}

static void describe(coll_op *op)
{
    const coll_op_desc *desc = &op->desc;
    const bool bare = desc->kind == COLL_BARRIER;
    op->descriptor =
        (coll_descriptor){.kind = (int32_t)desc->kind,
                          .count = bare ? 0 : desc->count,
                          .type = bare ? 0 : (int32_t)desc->type,
                          .reduce = desc->kind == COLL_ALL_REDUCE ? (int32_t)desc->reduce : 0,
                          .root = desc->kind == COLL_BROADCAST ? desc->root : 0,
                          .algorithm = bare ? 0 : (int32_t)desc->algorithm};
    op->digest = coll_descriptor_digest(&op->descriptor);
}

/* The canonical order, rounded once, is the flag lines' own, so the ring has to send tiny operands
 * round, and so have all algorithms that round 16-bit sums per hop. */
static coll_path first_path(const coll_op *op)
{
    const bool rounds = op->kernel != NULL && op->kernel->wide != NULL;
    const bool own_bits = op->desc.kind == COLL_ALL_REDUCE && op->total_bytes > 0 &&
                          (op->desc.algorithm == COLL_ALGORITHM_RING ||
                           (rounds && op->desc.algorithm != COLL_ALGORITHM_DIRECT));
    const bool tiny = op->total_bytes <= COLL_TINY_BYTES && !own_bits;
    return tiny || op->comm->size == 1 ? COLL_PATH_LINE : COLL_PATH_PLAN;
}

base_status coll_op_init(coll_op *op, coll_comm *comm, const coll_op_desc *desc, base_error *reterr)
{
    base_status status = check_desc(comm, desc, reterr);
    if (status != BASE_OK) {
        return status;
    }
    BASE_ASSERT(op->stage == COLL_STAGE_IDLE || op->stage == COLL_STAGE_DONE);
    op->comm = comm;
    op->desc = *desc;
    op->stage = COLL_STAGE_IDLE;
    if (desc->algorithm == COLL_ALGORITHM_AUTO) {
        op->desc.algorithm = comm->context->algorithm;
    }
    if (desc->kind == COLL_BARRIER) {
        op->desc.count = 0;
    }
    op->element_bytes = desc->kind == COLL_BARRIER ? 1 : coll_type_size_bytes(desc->type);
    size_t recv_bytes = 0;
    const size_t blocks = desc->kind == COLL_ALL_GATHER ? (size_t)comm->size : 1;
    if (!base_mul_size(op->desc.count, op->element_bytes, &op->total_bytes) ||
        !base_mul_size(op->total_bytes, blocks, &recv_bytes) || recv_bytes > SIZE_MAX / 2) {
        return base_fail(reterr, BASE_ERR_INVALID, "%zu elements are too many", desc->count);
    }
    status = check_buffers(op, recv_bytes, reterr);
    if (status != BASE_OK) {
        return status;
    }
    op->kernel = desc->kind == COLL_ALL_REDUCE ? coll_kernel_find(desc->type, desc->reduce) : NULL;
    op->place = (coll_place){.send_arena = 0};
    if (comm->context->table->shares_memory && op->total_bytes > 0) {
        op->place.send_arena =
            find_arena(comm, desc->send, op->total_bytes, &op->place.send_offset_bytes);
        op->place.recv_arena =
            find_arena(comm, desc->recv, recv_bytes, &op->place.recv_offset_bytes);
    }
    describe(op);
    return BASE_OK;
}

base_status coll_op_alloc(coll_comm *comm, coll_op **op, base_error *reterr)
{
    coll_op *made = calloc(1, sizeof *made);
    if (made != NULL) {
        made->comm = comm;
        made->tracks = calloc((size_t)(3 * comm->size + 4), sizeof *made->tracks);
    }
    if (made == NULL || made->tracks == NULL) {
        free(made);
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for an operation");
    }
    *op = made;
    return BASE_OK;
}

base_status coll_op_create(coll_comm *comm, const coll_op_desc *desc, coll_op **op,
                           base_error *reterr)
{
    coll_op *made = NULL;
    base_status status = coll_op_alloc(comm, &made, reterr);
    if (status == BASE_OK) {
        status = coll_op_init(made, comm, desc, reterr);
    }
    if (status != BASE_OK) {
        coll_op_destroy(made);
        return status;
    }
    *op = made;
    return BASE_OK;
}

static void leave_queue(coll_op *op)
{
    coll_comm *comm = op->comm;
    coll_op *before = NULL;
    for (coll_op *at = comm->head; at != NULL; before = at, at = at->next) {
        if (at != op) {
            continue;
        }
        *(before == NULL ? &comm->head : &before->next) = op->next;
        comm->tail = comm->tail == op ? before : comm->tail;
        comm->underway--;
        return;
    }
}

void coll_op_destroy(coll_op *op)
{
    if (op == NULL) {
        return;
    }
    if (op->stage != COLL_STAGE_IDLE) {
        if (op->stage != COLL_STAGE_DONE && !op->comm->failed) {
            (void)coll_comm_fail(op->comm, BASE_ERR_STATE, "an operation was destroyed under way");
        }
        leave_queue(op);
    }
    free(op->tracks);
    free(op->scratch);
    free(op);
}

static void announce(coll_op *op)
{
    const coll_transport_table *table = op->comm->context->table;
    if (op->path != COLL_PATH_LINE) {
        table->announce(op, &op->place, sizeof op->place);
        return;
    }
    const bool shows = op->desc.send != NULL && op->total_bytes <= COLL_TINY_BYTES &&
                       (op->desc.kind != COLL_BROADCAST || op->comm->rank == op->desc.root);
    table->announce(op, shows ? op->desc.send : "", shows ? op->total_bytes : 0);
}

static bool is_queued(const coll_op *op)
{
    for (const coll_op *at = op->comm->head; at != NULL; at = at->next) {
        if (at == op) {
            return true;
        }
    }
    return false;
}

base_status coll_op_start(coll_op *op, base_error *reterr)
{
    coll_comm *comm = op->comm;
    base_status status = coll_comm_check(comm, reterr);
    if (status != BASE_OK) {
        return status;
    }
    if (comm->head != NULL) {
        if (is_queued(op)) {
            return base_fail(reterr, BASE_ERR_STATE, "the operation is under way already");
        }
        status = coll_wait_room(comm, reterr);
        if (status != BASE_OK) {
            return status;
        }
    }
    op->sequence = ++comm->sequence;
    op->descriptor.sequence = op->sequence;
    op->word = coll_line_word(op->sequence, op->digest);
    op->arrived = 0;
    op->finished = 0;
    op->offset_bytes = 0;
    op->path = first_path(op);
    op->stage = COLL_STAGE_ARRIVING;
    op->next = NULL;
    if (comm->tail == NULL) {
        comm->head = op;
    } else {
        comm->tail->next = op;
    }
    comm->tail = op;
    comm->underway++;
    announce(op);
    return BASE_OK;
}

base_status coll_op_test(coll_op *op, bool *done, base_error *reterr)
{
    *done = false;
    if (op->stage == COLL_STAGE_IDLE) {
        return base_fail(reterr, BASE_ERR_STATE, "the operation has not been started");
    }
    (void)coll_progress(op->comm->context);
    if (op->stage == COLL_STAGE_DONE) {
        *done = true;
        return BASE_OK;
    }
    return coll_comm_check(op->comm, reterr);
}

base_status coll_op_wait(coll_op *op, base_error *reterr)
{
    if (op->stage == COLL_STAGE_IDLE) {
        return base_fail(reterr, BASE_ERR_STATE, "the operation has not been started");
    }
    return coll_wait(op, reterr);
}

base_status coll_run(coll_comm *comm, const coll_op_desc *desc, base_error *reterr)
{
    base_status status = coll_comm_check(comm, reterr);
    if (status == BASE_OK) {
        status = coll_op_init(comm->blocking, comm, desc, reterr);
    }
    if (status == BASE_OK) {
        status = coll_op_start(comm->blocking, reterr);
    }
    return status == BASE_OK ? coll_wait(comm->blocking, reterr) : status;
}

base_status coll_op_agree(coll_comm *comm, int kind, uint64_t count, base_error *reterr)
{
    coll_op *op = comm->blocking;
    base_status status = coll_comm_check(comm, reterr);
    if (status == BASE_OK) {
        status = coll_op_init(op, comm, &(coll_op_desc){.kind = COLL_BARRIER}, reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    op->descriptor.kind = kind;
    op->descriptor.count = count;
    op->digest = coll_descriptor_digest(&op->descriptor);
    status = coll_op_start(op, reterr);
    return status == BASE_OK ? coll_wait(op, reterr) : status;
}
