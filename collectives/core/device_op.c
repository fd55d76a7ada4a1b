/* Operations on streams, and the rest of backend.h: made and compared over the control plane,
 * started and waited for through the backend. Called by op.c and by programs. */
#include "core/device_op.h"

#include <stdlib.h>

#include "base/clock.h"
#include "common/sized.h"
#include "core/device.h"
#include "core/failure.h"
#include "core/progress.h"
#include "core/record.h"
#include "ringfence/coll_error.h"

bool coll_device_takes(const coll_op_desc *desc)
{
    return desc->size >= COLL_SIZED_BYTES(coll_op_desc, stream) && desc->stream != NULL;
}

/* ---- the communicator ---- */

static coll_status exchange(void *user, const void *mine, void *all, size_t size_bytes,
                            int64_t deadline_ns, coll_error *reterr)
{
    (void)deadline_ns; /* the context's timeout is the same */
    return coll_all_gather(user, mine, all, size_bytes, COLL_UINT8, reterr);
}

static coll_status alloc_device(coll_comm *comm, coll_error *reterr)
{
    static coll_device_op of_probes;
    coll_device *device = calloc(1, sizeof *device);
    if (device == NULL) {
        return coll_comm_lacks(comm, sizeof *device, "a device", reterr);
    }
    device->probe = coll_op_alloc(comm);
    if (device->probe == NULL) {
        free(device);
        return coll_op_lacks(comm, reterr);
    }
    device->probe->desc.kind = COLL_RECEIVE;
    device->probe->stage = COLL_STAGE_RUNNING;
    device->probe->descriptor.kind = COLL_KIND_DEVICE_OPEN;
    device->probe->device = &of_probes;
    device->backend = comm->context->backend;
    device->id = coll_device_id(comm);
    device->lock = &comm->context->describe_lock;
    (void)pthread_mutex_lock(&comm->context->describe_lock);
    device->next = comm->context->devices;
    comm->context->devices = device;
    comm->device = device;
    (void)pthread_mutex_unlock(&comm->context->describe_lock);
    return COLL_OK;
}

/* Everything between the two agreements; its failures are the communicator's. */
static coll_status open_device(coll_comm *comm, coll_error *reterr)
{
    coll_device *device = comm->device;
    const coll_backend_open_args args = {
        .size = sizeof args,
        .rank = comm->rank,
        .rank_count = comm->size,
        .exchange = exchange,
        .exchange_user = comm,
        .deadline_ns = base_deadline_after_ns(comm->context->timeout_ns),
        .user = comm->context->backend_user,
    };
    coll_error error = {.message = ""};
    void *made = NULL;
    const coll_status status = device->backend->open(&args, &made, &error);
    if (status != COLL_OK) {
        return coll_device_broken(comm, status, &error, reterr);
    }
    (void)pthread_mutex_lock(&comm->context->describe_lock);
    device->comm = made;
    (void)pthread_mutex_unlock(&comm->context->describe_lock);
    return coll_device_await(
        &(coll_await){.comm = comm, .what = COLL_AWAIT_READY, .doing = "opening a communicator"},
        reterr);
}

coll_status coll_device_open(coll_comm *comm, coll_error *reterr)
{
    coll_status status = coll_comm_check(comm, reterr);
    if (status != COLL_OK || comm->device != NULL) {
        return status;
    }
    if (comm->context->backend == NULL) {
        return coll_fail(reterr, COLL_ERR_UNSUPPORTED,
                         "streams are for contexts with a backend, on GPU ranks");
    }
    status = coll_op_agree(comm, COLL_KIND_DEVICE_OPEN, 0, reterr);
    if (status == COLL_OK) {
        status = alloc_device(comm, reterr);
    }
    if (status == COLL_OK) {
        status = open_device(comm, reterr);
    }
    if (status == COLL_OK) {
        status = coll_op_agree(comm, COLL_KIND_DEVICE_OPEN, 1, reterr);
    }
    if (status != COLL_OK) {
        return status;
    }
    (void)pthread_mutex_lock(&comm->context->describe_lock);
    comm->device->state = COLL_DEVICE_OPEN;
    (void)pthread_mutex_unlock(&comm->context->describe_lock);
    return COLL_OK;
}

/* ---- making ---- */

static bool has(uint32_t set, int value)
{
    return value >= 0 && value < 32 && (set & COLL_BIT(value)) != 0;
}

static coll_status check_support(const coll_comm *comm, const coll_op_desc *desc,
                                 coll_error *reterr)
{
    const coll_backend *backend = comm->context->backend;
    if (backend == NULL) {
        return coll_fail(reterr, COLL_ERR_UNSUPPORTED,
                         "streams are for contexts with a backend, on GPU ranks");
    }
    if (desc->reduction != NULL) {
        return coll_fail(reterr, COLL_ERR_UNSUPPORTED,
                         "operations on streams have no reductions of the program's own");
    }
    const bool knows = has(backend->kinds, (int)desc->kind) &&
                       (desc->kind == COLL_BARRIER || has(backend->types, (int)desc->type)) &&
                       (!coll_kind_reduces(desc->kind) || has(backend->reduces, (int)desc->reduce));
    const bool counted = desc->counts != NULL || desc->recv_counts != NULL;
    if (!knows || counted || coll_kind_is_p2p(desc->kind)) {
        return coll_fail(reterr, COLL_ERR_UNSUPPORTED, "%s does not have %s%s of %s%s%s on streams",
                         backend->name, coll_kind_name(desc->kind), counted ? " with counts" : "",
                         coll_type_name(desc->type), coll_kind_reduces(desc->kind) ? ", " : "",
                         coll_kind_reduces(desc->kind) ? coll_reduce_op_name(desc->reduce) : "");
    }
    if (desc->algorithm != COLL_ALGORITHM_AUTO && desc->algorithm != COLL_ALGORITHM_DIRECT &&
        desc->algorithm != COLL_ALGORITHM_NATIVE) {
        return coll_fail(reterr, COLL_ERR_UNSUPPORTED,
                         "operations on streams have the algorithms direct and native, not %s",
                         coll_algorithm_name(desc->algorithm));
    }
    return COLL_OK;
}

/* min and max have no order that would matter, and what does not combine has none at all. */
static coll_algorithm choose(const coll_context *context, const coll_op_desc *desc)
{
    const bool combines =
        coll_kind_reduces(desc->kind) && desc->reduce != COLL_MIN && desc->reduce != COLL_MAX;
    const coll_algorithm said =
        desc->algorithm != COLL_ALGORITHM_AUTO ? desc->algorithm : context->device_algorithm;
    if (!combines) {
        return COLL_ALGORITHM_NATIVE;
    }
    return said != COLL_ALGORITHM_AUTO ? said : COLL_ALGORITHM_DIRECT;
}

/* Checked and measured as a CPU operation is. */
static coll_status init_op(coll_op *op, coll_comm *comm, const coll_op_desc *desc,
                           coll_error *reterr)
{
    coll_op_desc on_cpu = *desc;
    on_cpu.stream = NULL;
    on_cpu.algorithm = COLL_ALGORITHM_DIRECT;
    const coll_status status = coll_op_init(op, comm, &on_cpu, reterr);
    if (status != COLL_OK) {
        return status;
    }
    op->desc.stream = desc->stream;
    op->desc.algorithm = choose(comm->context, desc);
    op->descriptor.algorithm = desc->kind == COLL_BARRIER ? 0 : (int32_t)op->desc.algorithm;
    op->descriptor.chosen = desc->algorithm == COLL_ALGORITHM_AUTO;
    op->ready = false; /* for coll_op_recall, which never sees it */
    return COLL_OK;
}

static coll_status make_on_device(coll_op *op, coll_error *reterr)
{
    coll_comm *comm = op->comm;
    coll_device *device = comm->device;
    coll_error error = {.message = ""};
    const coll_status status =
        device->backend->op_make(device->comm, &op->desc, &op->device->op, &error);
    if (status != COLL_OK) {
        return coll_device_broken(comm, status, &error, reterr);
    }
    return coll_device_await(&(coll_await){.comm = comm, .what = COLL_AWAIT_OP, .op = op}, reterr);
}

static coll_status check_callable(coll_comm *comm, coll_error *reterr)
{
    const coll_status status = coll_comm_check(comm, reterr);
    if (status == COLL_OK && comm->device->state != COLL_DEVICE_OPEN) {
        return coll_fail(reterr, COLL_ERR_STATE, "the communicator has been finalized");
    }
    return status;
}

coll_status coll_device_op_make(coll_op *op, coll_comm *comm, const coll_op_desc *given,
                                coll_error *reterr)
{
    coll_op_desc desc;
    coll_status status = coll_sized_read(&desc, sizeof desc, COLL_SIZED_BYTES(coll_op_desc, stream),
                                         given, "coll_op_desc", reterr);
    if (status == COLL_OK) {
        status = check_support(comm, &desc, reterr);
    }
    if (status == COLL_OK) {
        status = init_op(op, comm, &desc, reterr);
    }
    if (status == COLL_OK) {
        status = coll_device_open(comm, reterr);
    }
    if (status == COLL_OK) {
        status = check_callable(comm, reterr);
    }
    if (status == COLL_OK && comm->device->grouping) {
        status = coll_fail(reterr, COLL_ERR_STATE, "operations are made outside of groups");
    }
    if (status != COLL_OK) {
        return status;
    }
    coll_device_op *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return coll_comm_lacks(comm, sizeof *made, "an operation on a stream", reterr);
    }
    op->device = made;
    op->queued = true;
    const coll_op_desc barrier = {.size = sizeof(coll_op_desc), .kind = COLL_BARRIER};
    coll_descriptor shown = op->descriptor;
    shown.kind += COLL_KIND_DEVICE;
    status = coll_op_run_as(comm, &barrier, &shown, reterr);
    if (status == COLL_OK) {
        status = make_on_device(op, reterr);
    }
    if (status == COLL_OK) {
        made->number = ++comm->device->made;
        status = coll_op_agree(comm, COLL_KIND_DEVICE_MADE, made->number, reterr);
    }
    return status; /* the caller destroys op */
}

void coll_device_op_destroy(coll_op *op)
{
    coll_device_op *made = op->device;
    op->queued = false;
    op->device = NULL;
    if (made->op != NULL && op->comm->device != NULL && coll_device_is_callable(op->comm)) {
        op->comm->device->backend->op_free(made->op);
    }
    free(made);
}

/* ---- running ---- */

/* What was asked reaches the device before something else is asked, unless it stands in a group. */
static coll_status settle(coll_op *op, coll_error *reterr)
{
    return op->comm->device->grouping
               ? COLL_OK
               : coll_device_await(
                     &(coll_await){.comm = op->comm, .what = COLL_AWAIT_READY, .op = op}, reterr);
}

coll_status coll_device_start(coll_op *op, coll_error *reterr)
{
    coll_comm *comm = op->comm;
    coll_device *device = comm->device;
    coll_error error = {.message = ""};
    bool captured = false;
    coll_status status = check_callable(comm, reterr);
    if (status != COLL_OK) {
        return status;
    }
    op->sequence = device->enqueued + 1;
    status = device->backend->start(op->device->op, op->sequence, &captured, &error);
    if (status != COLL_OK) {
        return coll_device_broken(comm, status, &error, reterr);
    }
    if (!captured) {
        device->enqueued++;
        op->device->state = COLL_DEVICE_OP_STARTED;
        coll_record_device_begin(op);
        coll_device_note(device, op);
        return settle(op, reterr);
    }
    op->device->state = COLL_DEVICE_OP_CAPTURED;
    status = settle(op, reterr);
    return status == COLL_OK
               ? coll_op_agree(comm, COLL_KIND_DEVICE_CAPTURED, op->device->number, reterr)
               : status;
}

/* Whether op can be waited for. */
static coll_status check_started(const coll_op *op, coll_error *reterr)
{
    switch (op->device->state) {
    case COLL_DEVICE_OP_STARTED:
        return op->comm->device->grouping
                   ? coll_fail(reterr, COLL_ERR_STATE, "the operation's group has not ended")
                   : COLL_OK;
    case COLL_DEVICE_OP_CAPTURED:
        return coll_fail(reterr, COLL_ERR_STATE,
                         "the operation is in a graph: coll_device_wait waits for that");
    case COLL_DEVICE_OP_IDLE:
        break;
    }
    return coll_fail(reterr, COLL_ERR_STATE, "the operation has not been started");
}

coll_status coll_device_test(coll_op *op, bool *done, coll_error *reterr)
{
    coll_comm *comm = op->comm;
    const coll_device *device = comm->device;
    coll_error error = {.message = ""};
    bool ready = false;
    coll_status status = check_started(op, reterr);
    if (status != COLL_OK) {
        return status;
    }
    (void)coll_progress(comm->context);
    if (comm->size > 1 && coll_watch_is_due(comm->context)) {
        device->probe->desc.root = comm->rank; /* notices only, as at first in a wait */
        comm->table->notices->watch(device->probe);
    }
    status = check_callable(comm, reterr);
    if (status != COLL_OK) {
        return status;
    }
    status = device->backend->poll(device->comm, &ready, &error);
    if (status == COLL_OK && ready) {
        status = device->backend->test(op->device->op, done, &error);
    }
    if (status != COLL_OK) {
        *done = false;
        return coll_device_broken(comm, status, &error, reterr);
    }
    if (*done) {
        coll_device_note_end(comm, op->desc.stream, op->sequence);
    }
    return COLL_OK;
}

coll_status coll_device_op_wait(coll_op *op, coll_error *reterr)
{
    coll_status status = check_started(op, reterr);
    if (status == COLL_OK) {
        status = check_callable(op->comm, reterr);
    }
    if (status == COLL_OK) {
        status = coll_device_await(&(coll_await){.comm = op->comm, .what = COLL_AWAIT_OP, .op = op},
                                   reterr);
    }
    if (status == COLL_OK) {
        coll_device_note_end(op->comm, op->desc.stream, op->sequence);
    }
    return status;
}

/* Whether there is a device to call. */
static coll_status check_open(coll_comm *comm, coll_error *reterr)
{
    return comm->device == NULL
               ? coll_fail(reterr, COLL_ERR_STATE, "the communicator has no device open")
               : check_callable(comm, reterr);
}

static coll_status change_group(coll_comm *comm, bool begin, coll_error *reterr)
{
    coll_error error = {.message = ""};
    coll_status status = check_open(comm, reterr);
    if (status != COLL_OK) {
        return status;
    }
    coll_device *device = comm->device;
    if (device->grouping == begin) {
        return coll_fail(reterr, COLL_ERR_STATE, "a group has %s", begin ? "begun" : "not begun");
    }
    status = device->backend->group(device->comm, begin, &error);
    if (status != COLL_OK) {
        return coll_device_broken(comm, status, &error, reterr);
    }
    device->grouping = begin;
    return COLL_OK;
}

coll_status coll_group_begin(coll_comm *comm, coll_error *reterr)
{
    return change_group(comm, true, reterr);
}

coll_status coll_group_end(coll_comm *comm, coll_error *reterr)
{
    const coll_status status = change_group(comm, false, reterr);
    return status == COLL_OK ? coll_device_await(&(coll_await){.comm = comm,
                                                               .what = COLL_AWAIT_READY,
                                                               .doing = "launching a group"},
                                                 reterr)
                             : status;
}

coll_status coll_device_wait(coll_comm *comm, void *stream, coll_error *reterr)
{
    coll_status status = check_open(comm, reterr);
    if (status == COLL_OK) {
        status = coll_device_await(&(coll_await){.comm = comm,
                                                 .what = COLL_AWAIT_STREAM,
                                                 .stream = stream,
                                                 .doing = "what was enqueued on a stream"},
                                   reterr);
    }
    if (status == COLL_OK) {
        coll_device_note_end(comm, stream, UINT64_MAX);
    }
    return status;
}

coll_status coll_device_alloc(coll_comm *comm, size_t size_bytes, void **memory, coll_error *reterr)
{
    const coll_status status = check_open(comm, reterr);
    return status == COLL_OK
               ? comm->device->backend->alloc(comm->device->comm, size_bytes, memory, reterr)
               : status;
}

void coll_device_free(coll_comm *comm, void *memory)
{
    if (memory != NULL && comm->device != NULL && coll_device_is_callable(comm)) {
        comm->device->backend->free(comm->device->comm, memory);
    }
}
