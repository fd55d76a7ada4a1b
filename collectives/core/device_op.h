/* Operations on streams: coll_op_create and its like end up here where the operation has one. */
#ifndef COLL_SRC_DEVICE_OP_H
#define COLL_SRC_DEVICE_OP_H

#include "core/op.h"

struct coll_device_op {
    void *op;        /* the backend's; NULL: of a probe */
    uint64_t number; /* from 1, in the order in which the communicator's were made */
    enum { COLL_DEVICE_OP_IDLE, COLL_DEVICE_OP_STARTED, COLL_DEVICE_OP_CAPTURED } state;
};

/* Whether desc has a stream. Its size need not be right yet. */
bool coll_device_takes(const coll_op_desc *desc);
/* Makes op, which is allocated, the operation that desc describes. Collective. */
COLL_MUST_CHECK coll_status coll_device_op_make(coll_op *op, coll_comm *comm,
                                                const coll_op_desc *desc, coll_error *reterr);
COLL_MUST_CHECK coll_status coll_device_start(coll_op *op, coll_error *reterr);
COLL_MUST_CHECK coll_status coll_device_test(coll_op *op, bool *done, coll_error *reterr);
COLL_MUST_CHECK coll_status coll_device_op_wait(coll_op *op, coll_error *reterr);
/* Frees what is the backend's. */
void coll_device_op_destroy(coll_op *op);

#endif
