/* Checks descriptors, measures them, and writes them into operations. Called by op.c. Local, and
 * pure but for the arenas in which it looks buffers up. */
#include <stdio.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "common/sized.h"
#include "core/op.h"
#include "core/parts.h"
#include "ringfence/coll_error.h"

enum { DESC_BYTES_FIRST = COLL_SIZED_BYTES(coll_op_desc, stream) }; /* of 0.1 */

static coll_status check_numbers(const coll_comm *comm, const coll_op_desc *desc,
                                 coll_error *reterr)
{
    if (desc->kind < COLL_ALL_REDUCE || desc->kind > COLL_KIND_LAST) {
        return coll_fail(reterr, COLL_ERR_INVALID, "unknown operation %d", (int)desc->kind);
    }
    const bool native = desc->algorithm == COLL_ALGORITHM_NATIVE && desc->stream != NULL;
    if (desc->algorithm == COLL_ALGORITHM_NATIVE && !native) {
        return coll_fail(reterr, COLL_ERR_INVALID,
                         "the algorithm native is for operations on streams");
    }
    if (desc->algorithm < COLL_ALGORITHM_AUTO ||
        (desc->algorithm > COLL_ALGORITHM_LAST && !native)) {
        return coll_fail(reterr, COLL_ERR_INVALID, "unknown algorithm %d", (int)desc->algorithm);
    }
    if (desc->kind == COLL_BARRIER) {
        return COLL_OK;
    }
    const bool own = desc->reduction != NULL;
    if (own && (desc->type != 0 || desc->reduce != 0)) {
        return coll_fail(reterr, COLL_ERR_INVALID,
                         "an operation has type and reduce, or a reduction of its own, not both");
    }
    if (!own && coll_type_size_bytes(desc->type) == 0) {
        return coll_fail(reterr, COLL_ERR_INVALID, "unknown element type %d", (int)desc->type);
    }
    if (coll_kind_reduces(desc->kind) && !own &&
        (desc->reduce < COLL_SUM || desc->reduce > COLL_REDUCE_OP_LAST)) {
        return coll_fail(reterr, COLL_ERR_INVALID, "unknown reduction %d", (int)desc->reduce);
    }
    if (coll_kind_reduces(desc->kind) && !own && !coll_reduce_op_takes(desc->reduce, desc->type)) {
        return coll_fail(reterr, COLL_ERR_INVALID, "%s is for integers, not %s",
                         coll_reduce_op_name(desc->reduce), coll_type_name(desc->type));
    }
    if (!coll_kind_takes(desc->kind, desc->reduce)) {
        return coll_fail(reterr, COLL_ERR_INVALID,
                         "%s has no averages: each rank's prefix is of another number of ranks",
                         coll_kind_name(desc->kind));
    }
    const bool peer = coll_kind_is_p2p(desc->kind);
    if ((peer || coll_kind_has_root(desc->kind)) && (desc->root < 0 || desc->root >= comm->size)) {
        return coll_fail(reterr, COLL_ERR_INVALID, "%s %d of %d ranks", peer ? "peer" : "root",
                         desc->root, comm->size);
    }
    return COLL_OK;
}

static bool is_reduction_name(const char *name)
{
    size_t length = 0;
    while (name != NULL && length < COLL_REDUCTION_NAME_BYTES &&
           coll_reduction_char(name[length])) {
        length++;
    }
    return length > 0 && length < COLL_REDUCTION_NAME_BYTES && name[length] == '\0';
}

/* Copies the program's own reduction, if desc has one, into op. */
static coll_status read_reduction(coll_op *op, const coll_op_desc *desc, coll_error *reterr)
{
    coll_reduction *own = &op->reduction;
    const coll_kind kind = desc->kind;
    if (desc->reduction == NULL) {
        return COLL_OK;
    }
    if (!coll_kind_reduces(kind)) {
        return coll_fail(reterr, COLL_ERR_INVALID,
                         "a reduction is for all_reduce, reduce, reduce_scatter, scan and exscan, "
                         "not %s",
                         coll_kind_name(kind));
    }
    const coll_status status =
        coll_sized_read(own, sizeof *own, COLL_SIZED_BYTES(coll_reduction, neutral),
                        desc->reduction, "coll_reduction", reterr);
    if (status != COLL_OK) {
        return status;
    }
    if (!is_reduction_name(own->name)) {
        return coll_fail(reterr, COLL_ERR_INVALID,
                         "the name of a reduction has 1 to %d letters, digits, '_', '-' and '.'",
                         COLL_REDUCTION_NAME_BYTES - 1);
    }
    if (own->element_bytes == 0 || own->element_bytes > COLL_ELEMENT_BYTES_MAX) {
        return coll_fail(reterr, COLL_ERR_INVALID,
                         "reduction %s has elements of %zu bytes: 1 to %d can be", own->name,
                         own->element_bytes, COLL_ELEMENT_BYTES_MAX);
    }
    if (own->combine == NULL) {
        return coll_fail(reterr, COLL_ERR_INVALID, "reduction %s has no combine", own->name);
    }
    if (kind == COLL_EXSCAN && own->neutral == NULL) {
        return coll_fail(reterr, COLL_ERR_INVALID,
                         "reduction %s has no neutral element, which rank 0 gets of an exscan",
                         own->name);
    }
    return COLL_OK;
}

static coll_status check_counts(const coll_comm *comm, const coll_op_desc *desc, coll_error *reterr)
{
    const bool pairwise = desc->kind == COLL_ALL_TO_ALL;
    const char *name = coll_kind_name(desc->kind);
    if (desc->counts != NULL && !coll_kind_is_by_rank(desc->kind)) {
        return coll_fail(
            reterr, COLL_ERR_INVALID,
            "counts are for all_gather, reduce_scatter, gather, scatter and alltoall, not %s",
            name);
    }
    if (desc->recv_counts != NULL && (!pairwise || desc->counts == NULL)) {
        return coll_fail(reterr, COLL_ERR_INVALID,
                         "recv_counts are for alltoall with counts, not %s", name);
    }
    if (!pairwise || desc->counts == NULL) {
        return COLL_OK;
    }
    if (desc->recv_counts == NULL) {
        return coll_fail(reterr, COLL_ERR_INVALID, "alltoall with counts needs recv_counts too");
    }
    const size_t to_self = desc->counts[comm->rank];
    const size_t from_self = desc->recv_counts[comm->rank];
    return to_self == from_self
               ? COLL_OK
               : coll_fail(reterr, COLL_ERR_INVALID,
                           "this rank sends %zu elements to itself and expects %zu", to_self,
                           from_self);
}

static coll_status check_desc(const coll_comm *comm, const coll_op_desc *desc, coll_error *reterr)
{
    const coll_status status = check_numbers(comm, desc, reterr);
    if (status != COLL_OK) {
        return status;
    }
    if (desc->stream != NULL) {
        return coll_fail(reterr, COLL_ERR_UNSUPPORTED,
                         "an operation on a stream is made by coll_op_create, to be started often");
    }
    return check_counts(comm, desc, reterr);
}

/* total_bytes, whole_bytes, shown_bytes: the same on every rank but for a varying total. Pairwise:
 * this rank's own, the first two of what it sends. */
static coll_status measure_whole(coll_op *op, coll_error *reterr)
{
    const coll_op_desc *desc = &op->desc;
    const size_t parts = coll_kind_is_by_rank(desc->kind) ? (size_t)op->comm->size : 1;
    bool fits = false;
    op->varies = desc->counts != NULL;
    op->pairwise = op->varies && desc->kind == COLL_ALL_TO_ALL;
    op->shown_bytes = 0;
    if (op->varies) {
        fits = coll_parts_sum(op);
        op->desc.count = op->pairwise && fits ? op->whole_bytes / op->element_bytes
                                              : desc->counts[op->comm->rank];
        op->total_bytes = op->desc.count * op->element_bytes;
    } else {
        fits = base_mul_size(desc->count, op->element_bytes, &op->total_bytes) &&
               base_mul_size(op->total_bytes, parts, &op->whole_bytes);
        op->shown_bytes = op->total_bytes;
    }
    if ((!fits || op->whole_bytes > SIZE_MAX / 2) && op->varies) {
        return coll_fail(reterr, COLL_ERR_INVALID, "counts%s: together they are too many elements",
                         op->pairwise ? " or recv_counts" : "");
    }
    if (!fits || op->whole_bytes > SIZE_MAX / 2) {
        return coll_fail(reterr, COLL_ERR_INVALID, "%zu elements are too many", desc->count);
    }
    if (desc->kind != COLL_ALL_GATHER && desc->kind != COLL_GATHER) {
        op->shown_bytes = op->whole_bytes;
    }
    return COLL_OK;
}

/* send_bytes and recv_bytes: what this rank's buffers hold; 0 for a buffer that is not used. */
static void measure_buffers(coll_op *op)
{
    const coll_kind kind = op->desc.kind;
    const bool root = op->comm->rank == op->desc.root;
    const bool to_root = kind == COLL_REDUCE || kind == COLL_GATHER;
    const bool gathers = kind == COLL_ALL_GATHER || kind == COLL_GATHER;
    const bool sends = kind == COLL_SEND || coll_shape_gives(op, op->comm->rank);
    const bool receives = kind == COLL_BROADCAST ? !root || op->desc.recv != NULL
                          : to_root              ? root
                                                 : kind != COLL_SEND;
    const size_t part = op->total_bytes;
    const size_t whole = op->whole_bytes;
    op->send_bytes = !sends ? 0 : coll_kind_is_by_rank(kind) && !gathers ? whole : part;
    op->recv_bytes = !receives                            ? 0
                     : op->pairwise                       ? op->recv_ends[op->comm->size]
                     : gathers || kind == COLL_ALL_TO_ALL ? whole
                                                          : part;
}

static bool overlaps(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    const uintptr_t x = (uintptr_t)a;
    const uintptr_t y = (uintptr_t)b;
    return x < y + b_bytes && y < x + a_bytes;
}

/* The block for each rank is where the block from it comes. */
static coll_status check_in_place(const coll_op *op, coll_error *reterr)
{
    for (int peer = 0; peer < op->comm->size; peer++) {
        const coll_pair pair = coll_op_pair(op, peer);
        if (pair.to_bytes != pair.from_bytes) {
            return coll_fail(reterr, COLL_ERR_INVALID,
                             "alltoall in place, and counts[%d] is %zu, recv_counts[%d] %zu", peer,
                             (size_t)pair.to_bytes / op->element_bytes, peer,
                             (size_t)pair.from_bytes / op->element_bytes);
        }
    }
    return COLL_OK;
}

/* Apart, or exactly in place. */
static coll_status check_buffers(const coll_op *op, coll_error *reterr)
{
    const uint8_t *send = op->desc.send;
    const uint8_t *recv = op->desc.recv;
    if ((op->send_bytes > 0 && send == NULL) || (op->recv_bytes > 0 && recv == NULL)) {
        return coll_fail(reterr, COLL_ERR_INVALID, "%s has no %s buffer",
                         coll_kind_name(op->desc.kind),
                         op->send_bytes > 0 && send == NULL ? "send" : "recv");
    }
    if (op->send_bytes == 0 || op->recv_bytes == 0 ||
        !overlaps(send, op->send_bytes, recv, op->recv_bytes)) {
        return COLL_OK;
    }
    const size_t own_offset_bytes = coll_op_block(op, op->comm->rank).begin;
    bool in_place = send == recv;
    if (op->desc.kind == COLL_ALL_GATHER || op->desc.kind == COLL_GATHER) {
        in_place = send == recv + own_offset_bytes;
    } else if (op->desc.kind == COLL_REDUCE_SCATTER || op->desc.kind == COLL_SCATTER) {
        in_place = recv == send + own_offset_bytes;
    }
    if (in_place && op->pairwise) {
        return check_in_place(op, reterr);
    }
    return in_place ? COLL_OK
                    : coll_fail(reterr, COLL_ERR_INVALID, "send and recv overlap in part");
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

static void find_ref(coll_op *op)
{
    const coll_comm *comm = op->comm;
    op->ref = (coll_buffer_ref){.send_arena = 0};
    if (!comm->shares_memory || comm->arenas == NULL) {
        return;
    }
    if (op->send_bytes > 0) {
        op->ref.send_arena =
            find_arena(comm, op->desc.send, op->send_bytes, &op->ref.send_offset_bytes);
    }
    if (op->recv_bytes > 0) {
        op->ref.recv_arena =
            find_arena(comm, op->desc.recv, op->recv_bytes, &op->ref.recv_offset_bytes);
    }
}

/* How elements are combined, and where vectors of them may be cut. */
static void choose_kernel(coll_op *op)
{
    enum { LINE_BYTES = 64 };
    const coll_op_desc *desc = &op->desc;
    op->element_bytes = 1;
    op->kernel = NULL;
    if (desc->kind == COLL_BARRIER) {
        op->desc.count = 0;
    } else if (desc->reduction != NULL) {
        op->element_bytes = op->reduction.element_bytes;
        op->own = (coll_kernel){.own = &op->reduction, .element_bytes = op->element_bytes};
        op->kernel = &op->own;
    } else {
        op->element_bytes = coll_type_size_bytes(desc->type);
        op->kernel =
            coll_kind_reduces(desc->kind) ? coll_kernel_find(desc->type, desc->reduce) : NULL;
    }
    op->unit_bytes = (LINE_BYTES + op->element_bytes - 1) / op->element_bytes * op->element_bytes;
}

/* Whether the algorithm's left operands are those of lower ranks, as the program's own reductions need
 * it: they may not be commutative. */
static bool keeps_order(const coll_op *op, coll_algorithm algorithm)
{
    const coll_plan plan = coll_op_plan_of(op, algorithm);
    return op->desc.reduction == NULL || coll_kind_is_scan(op->desc.kind) ||
           coll_plan_is_canonical(&plan);
}

/* The algorithm that op names, else its context; where that is AUTO or cannot be, the one to choose.
 * The same on every rank. */
static coll_algorithm choose_algorithm(const coll_op *op)
{
    const coll_comm *comm = op->comm;
    const coll_context *context = comm->context;
    const coll_algorithm said =
        op->desc.algorithm != COLL_ALGORITHM_AUTO ? op->desc.algorithm : context->algorithm;
    if (said != COLL_ALGORITHM_AUTO && keeps_order(op, said)) {
        return said;
    }
    const bool rounds_often = op->kernel != NULL && op->kernel->wide != NULL;
    if (!context->has_costs || comm->shares_memory || rounds_often || op->pairwise) {
        return COLL_ALGORITHM_DIRECT;
    }
    return coll_cost_choose(&context->costs, &comm->layout, op->desc.kind, op->whole_bytes);
}

static void describe(coll_op *op, coll_algorithm said)
{
    const coll_op_desc *desc = &op->desc;
    const bool bare = desc->kind == COLL_BARRIER;
    const bool is_auto =
        said == COLL_ALGORITHM_AUTO && op->comm->context->said == COLL_ALGORITHM_AUTO;
    op->descriptor =
        (coll_descriptor){.kind = (int32_t)desc->kind,
                          .count = op->varies ? op->whole_bytes / op->element_bytes : desc->count,
                          .type = bare ? 0 : (int32_t)desc->type,
                          .reduce = coll_kind_reduces(desc->kind) ? (int32_t)desc->reduce : 0,
                          .root = coll_kind_has_root(desc->kind) ? desc->root : 0,
                          .algorithm = bare ? 0 : (int32_t)desc->algorithm,
                          .chosen = !bare && is_auto,
                          .counts = op->pairwise ? COLL_COUNTS_PAIRWISE
                                    : op->varies ? coll_parts_hash(op)
                                                 : 0};
    if (desc->reduction != NULL) {
        op->descriptor.element_bytes = (uint32_t)op->element_bytes;
        (void)snprintf(op->descriptor.name, sizeof op->descriptor.name, "%s", op->reduction.name);
    }
    op->digest = coll_descriptor_digest(&op->descriptor);
}

coll_status coll_op_init(coll_op *op, coll_comm *comm, const coll_op_desc *given,
                         coll_error *reterr)
{
    coll_op_desc known;
    const coll_op_desc *desc = &known;
    op->ready = false;
    op->routed = false;
    op->zero_copy.refs_known = 0;
    coll_status status =
        coll_sized_read(&known, sizeof known, DESC_BYTES_FIRST, given, "coll_op_desc", reterr);
    if (status == COLL_OK) {
        status = check_desc(comm, desc, reterr);
    }
    if (status == COLL_OK) {
        status = read_reduction(op, desc, reterr);
    }
    if (status != COLL_OK) {
        return status;
    }
    BASE_ASSERT(!op->queued);
    op->comm = comm;
    op->desc = *desc;
    op->stage = COLL_STAGE_IDLE;
    choose_kernel(op);
    status = measure_whole(op, reterr);
    if (status == COLL_OK) {
        measure_buffers(op);
        status = check_buffers(op, reterr);
    }
    if (status != COLL_OK) {
        return status;
    }
    op->desc.algorithm = choose_algorithm(op);
    find_ref(op);
    describe(op, desc->algorithm);
    coll_shape_make(op, &op->shape);
    op->desc.counts = NULL; /* read here only */
    op->desc.recv_counts = NULL;
    op->given = *desc;
    op->ready = true;
    return COLL_OK;
}
