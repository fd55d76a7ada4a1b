/* Records operations in the flight recorder, counts them, and dumps the recorder. Called by op.c,
 * progress.c and the shared-memory transport where operations begin and end. */
#include "core/record.h"

#include <stdio.h>

#include "core/device.h"
#include "core/op.h"

/* In the way of every operation, where a call would count. */
__attribute__((always_inline)) static inline void begin(coll_op *op, uint64_t comm_id)
{
    const coll_op_desc *desc = &op->desc;
    const coll_flight_record record = {.comm = comm_id,
                                       .sequence = op->sequence,
                                       .count = desc->count,
                                       .bytes = op->whole_bytes,
                                       .kind = desc->kind,
                                       .type = (coll_type)op->descriptor.type,
                                       .reduce = (coll_reduce_op)op->descriptor.reduce,
                                       .algorithm = desc->algorithm,
                                       .root = coll_kind_is_p2p(desc->kind) ? desc->root
                                                                            : op->descriptor.root,
                                       .counts = op->descriptor.counts,
                                       .element_bytes = op->descriptor.element_bytes,
                                       .name = op->descriptor.name};
    op->flight = coll_flight_begin(op->comm->context->flight, &record);
    if (op->descriptor.kind <= COLL_KIND_LAST) { /* none of the library's own */
        op->comm->started[op->descriptor.kind]++;
        op->comm->started_bytes[op->descriptor.kind] += op->whole_bytes;
    }
}

void coll_record_begin(coll_op *op)
{
    begin(op, op->comm->id);
}

void coll_record_device_begin(coll_op *op)
{
    begin(op, coll_device_id(op->comm));
}

void coll_record_end(const coll_op *op)
{
    coll_flight_end(op->comm->context->flight, op->flight);
}

void coll_context_describe(const coll_context *context, char *text, size_t size_bytes)
{
    /* The lock is the only part that changes. */
    pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&context->describe_lock;
    if (size_bytes == 0) {
        return;
    }
    (void)pthread_mutex_lock(lock);
    (void)snprintf(text, size_bytes, "%s", context->description);
    (void)pthread_mutex_unlock(lock);
}

coll_status coll_context_dump(coll_context *context, int fd, const char *reason, coll_error *reterr)
{
    char doing[COLL_DESCRIBE_BYTES];
    const coll_identity *self = &context->identities[context->rank];
    coll_context_describe(context, doing, sizeof doing);
    coll_flight_device devices[COLL_FLIGHT_DEVICES];
    const int device_count = coll_device_list(context, devices, COLL_FLIGHT_DEVICES);
    const coll_flight_head head = {.devices = devices,
                                   .device_count = device_count,
                                   .rank = context->rank,
                                   .world_size = context->size,
                                   .host = self->host,
                                   .pid = (unsigned)self->pid,
                                   .transport = context->transport,
                                   .reason = reason != NULL ? reason : "",
                                   .doing = doing};
    return coll_flight_write(context->flight, &head, fd, reterr);
}
