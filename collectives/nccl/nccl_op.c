/* Operations of the NCCL backend: made, started in batches, moved on phase by phase. Named in the
 * backend's table (nccl.c). */
#include <stdlib.h>

#include "nccl/nccl_core.h"

static size_t element_bytes_of(coll_type type)
{
    static const size_t bytes[] = {
        [COLL_FLOAT32] = 4, [COLL_FLOAT64] = 8, [COLL_INT32] = 4, [COLL_INT64] = 8,
        [COLL_UINT8] = 1,   [COLL_FLOAT16] = 2, [COLL_INT8] = 1,  [COLL_BFLOAT16] = 2,
        [COLL_UINT64] = 8,  [COLL_UINT32] = 4,
    };
    return bytes[type];
}

static coll_status stage(const coll_nccl_op *op, coll_error *reterr)
{
    const size_t bytes = (size_t)op->comm->size * op->desc.count * op->element_bytes;
    return coll_nccl_cuda(
        cudaMemcpyAsync(op->parts, op->desc.send, bytes, cudaMemcpyDeviceToDevice, op->stream),
        "a copy", reterr);
}

/* Our own kernels before a phase of NCCL's: `started` before the first, the tree before the
 * second, `finished` after the last. */
static coll_status run_kernels(coll_nccl_op *op, int phase, coll_error *reterr)
{
    const coll_nccl_comm *comm = op->comm;
    if (phase == 0) {
        const coll_status status = coll_nccl_cuda(
            op->warming ? cudaSuccess : coll_nccl_begin_run(op->stream, &comm->notes), "a kernel",
            reterr);
        return status == COLL_OK && coll_nccl_is_staged(op) && !op->warming ? stage(op, reterr)
                                                                            : status;
    }
    if (phase == 1 && coll_nccl_is_direct(op)) {
        const coll_nccl_tree tree = {
            .parts = op->parts,
            .out = coll_nccl_combined(op),
            .count = coll_nccl_piece_of(op, comm->rank).count,
            .ranks = comm->size,
            .type = op->desc.type,
            .reduce = op->desc.reduce,
            .divisor = op->desc.reduce == COLL_AVERAGE ? comm->size : 1,
        };
        return coll_nccl_cuda(coll_nccl_tree_run(op->stream, &tree), "a kernel", reterr);
    }
    return COLL_OK;
}

/* A test asks this event. Operations in graphs are waited for with their stream. */
static coll_status mark_end(const coll_nccl_op *op, coll_error *reterr)
{
    return coll_nccl_cuda(op->captured ? cudaSuccess : cudaEventRecord(op->ended, op->stream),
                          "cudaEventRecord", reterr);
}

static coll_status end_op(const coll_nccl_op *op, coll_error *reterr)
{
    const coll_status status =
        coll_nccl_cuda(op->warming ? cudaSuccess : coll_nccl_end_run(op->stream, &op->comm->notes),
                       "a kernel", reterr);
    return status == COLL_OK ? mark_end(op, reterr) : status;
}

static coll_status launch_phase(coll_nccl_comm *comm, coll_error *reterr)
{
    coll_status status = COLL_OK;
    for (int i = 0; status == COLL_OK && i < comm->batch_count; i++) {
        status = run_kernels(comm->batch[i], comm->phase, reterr);
    }
    if (status == COLL_OK) {
        status = coll_nccl_check(comm, ncclGroupStart(), "ncclGroupStart", reterr);
    }
    if (status != COLL_OK) {
        return status;
    }
    for (int i = 0; status == COLL_OK && i < comm->batch_count; i++) {
        status = coll_nccl_check(comm, coll_nccl_call(comm->batch[i], comm->phase),
                                 "a call of an operation", reterr);
    }
    const coll_status ended =
        coll_nccl_check(comm, ncclGroupEnd(), "ncclGroupEnd", status == COLL_OK ? reterr : NULL);
    return status == COLL_OK ? ended : status;
}

/* Whether the batch has calls to NCCL, or kernels of ours, in the next phase. */
static bool has_phase(const coll_nccl_comm *comm, int phase)
{
    bool has = false;
    for (int i = 0; i < comm->batch_count; i++) {
        has = has || (phase < COLL_NCCL_PHASES_MAX && coll_nccl_is_direct(comm->batch[i]));
    }
    return has;
}

coll_status coll_nccl_advance(coll_nccl_comm *comm, bool *done, coll_error *reterr)
{
    coll_status status = COLL_OK;
    comm->phase++;
    *done = !has_phase(comm, comm->phase);
    if (!*done) {
        return launch_phase(comm, reterr);
    }
    for (int i = 0; status == COLL_OK && i < comm->batch_count; i++) {
        status = end_op(comm->batch[i], reterr);
    }
    comm->batch_count = 0;
    return status;
}

static coll_status launch(coll_nccl_comm *comm, coll_error *reterr)
{
    comm->phase = 0;
    comm->under_way = true;
    return launch_phase(comm, reterr);
}

static coll_status add_to_batch(coll_nccl_op *op, coll_error *reterr)
{
    coll_nccl_comm *comm = op->comm;
    if (comm->batch_count == COLL_NCCL_BATCH_MAX) {
        return coll_nccl_fail(reterr, COLL_ERR_LIMIT, "more than %d operations in a group",
                              COLL_NCCL_BATCH_MAX);
    }
    comm->batch[comm->batch_count++] = op;
    return comm->grouping ? COLL_OK : launch(comm, reterr);
}

coll_status coll_nccl_group(void *comm_, bool begin, coll_error *reterr)
{
    coll_nccl_comm *comm = comm_;
    comm->grouping = begin;
    return begin || comm->batch_count == 0 ? COLL_OK : launch(comm, reterr);
}

/* All that an operation of one rank does: whatever is combined is one vector, and stays as it is. */
static coll_status copy_own(const coll_nccl_op *op, coll_error *reterr)
{
    const coll_op_desc *desc = &op->desc;
    size_t send_bytes = 0;
    size_t recv_bytes = 0;
    coll_nccl_buffers(op, &send_bytes, &recv_bytes);
    const bool moves = recv_bytes > 0 && desc->recv != desc->send;
    const coll_status status =
        coll_nccl_cuda(moves ? cudaMemcpyAsync(desc->recv, desc->send, recv_bytes,
                                               cudaMemcpyDeviceToDevice, op->stream)
                             : cudaSuccess,
                       "a copy", reterr);
    return status == COLL_OK ? mark_end(op, reterr) : status;
}

coll_status coll_nccl_start(void *op_, uint64_t sequence, bool *captured, coll_error *reterr)
{
    coll_nccl_op *op = op_;
    enum cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    (void)sequence;
    const coll_status status = coll_nccl_cuda(cudaStreamIsCapturing(op->stream, &capture),
                                              "cudaStreamIsCapturing", reterr);
    if (status != COLL_OK) {
        return status;
    }
    op->captured = capture == cudaStreamCaptureStatusActive;
    *captured = op->captured;
    return op->comm->alone ? copy_own(op, reterr) : add_to_batch(op, reterr);
}

/* ---- made and freed ---- */

static void free_warm(coll_nccl_op *op)
{
    op->warming = false;
    (void)cudaFree(op->warm_send != op->warm_recv ? op->warm_send : NULL);
    (void)cudaFree(op->warm_recv);
    op->warm_send = NULL;
    op->warm_recv = NULL;
}

static coll_status alloc_zeros(coll_nccl_op *op, void **memory, size_t bytes, coll_error *reterr)
{
    if (bytes == 0) {
        return COLL_OK;
    }
    const coll_status status =
        coll_nccl_cuda(cudaMalloc(memory, bytes), "memory to begin with", reterr);
    return status == COLL_OK ? coll_nccl_cuda(cudaMemsetAsync(*memory, 0, bytes, op->stream),
                                              "cudaMemsetAsync", reterr)
                             : status;
}

/* What the device counts with is zero before the first note: the first run of an operation, which has
 * no notes, is waited for. */
static coll_status alloc_numbers(coll_nccl_op *op, coll_error *reterr)
{
    coll_nccl_notes *notes = &op->comm->notes;
    void *numbers = notes->numbers;
    const coll_status status =
        numbers == NULL ? alloc_zeros(op, &numbers, sizeof *notes->numbers, reterr) : COLL_OK;
    notes->numbers = numbers;
    return status;
}

static coll_status alloc_op(coll_nccl_op *op, coll_error *reterr)
{
    size_t send_bytes = 0;
    size_t recv_bytes = 0;
    coll_nccl_buffers(op, &send_bytes, &recv_bytes);
    const bool in_place = op->desc.send == op->desc.recv && send_bytes == recv_bytes;
    coll_status status = alloc_numbers(op, reterr);
    if (status == COLL_OK) {
        status = alloc_zeros(op, &op->warm_recv, recv_bytes, reterr);
    }
    if (status == COLL_OK && in_place) {
        op->warm_send = op->warm_recv;
    } else if (status == COLL_OK) {
        status = alloc_zeros(op, &op->warm_send, send_bytes, reterr);
    }
    if (status == COLL_OK && coll_nccl_is_staged(op)) {
        status = alloc_zeros(op, &op->parts, send_bytes, reterr);
    }
    if (status == COLL_OK && coll_nccl_is_direct(op)) {
        const size_t piece_bytes = coll_nccl_piece_of(op, op->comm->rank).count * op->element_bytes;
        status = alloc_zeros(op, &op->parts, piece_bytes * ((size_t)op->comm->size + 1), reterr);
    }
    return status;
}

coll_status coll_nccl_op_make(void *comm, const coll_op_desc *desc, void **made, coll_error *reterr)
{
    coll_nccl_op *op = calloc(1, sizeof *op);
    if (op == NULL) {
        return coll_nccl_fail(reterr, COLL_ERR_MEMORY, "no memory for an operation");
    }
    op->comm = comm;
    op->desc = *desc;
    op->stream = desc->stream;
    op->element_bytes = desc->kind == COLL_BARRIER ? 1 : element_bytes_of(desc->type);
    *made = op; /* freed by the caller, now or later */
    coll_status status = coll_nccl_cuda(
        cudaEventCreateWithFlags(&op->ended, cudaEventDisableTiming), "cudaEventCreate", reterr);
    if (status != COLL_OK || op->comm->alone) {
        return status;
    }
    op->warming = true;
    status = alloc_op(op, reterr);
    return status == COLL_OK ? add_to_batch(op, reterr) : status;
}

coll_status coll_nccl_test(void *op_, bool *done, coll_error *reterr)
{
    coll_nccl_op *op = op_;
    const coll_status status = coll_nccl_ended(cudaEventQuery(op->ended), "the GPU", done, reterr);
    if (*done && op->warming) {
        free_warm(op);
    }
    return status;
}

/* An operation of a group that was started, and is freed before the group is launched. All ranks do
 * the same. */
static void leave_batch(const coll_nccl_op *op)
{
    coll_nccl_comm *comm = op->comm;
    int kept = 0;
    for (int i = 0; i < comm->batch_count; i++) {
        comm->batch[kept] = comm->batch[i];
        kept += comm->batch[i] != op ? 1 : 0;
    }
    comm->batch_count = kept;
}

void coll_nccl_op_free(void *op_)
{
    coll_nccl_op *op = op_;
    leave_batch(op);
    free_warm(op);
    (void)cudaFree(op->parts);
    if (op->ended != NULL) {
        (void)cudaEventDestroy(op->ended);
    }
    free(op);
}
