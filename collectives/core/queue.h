/* The queue of a communicator's collectives, whose flags are posted in its order. */
#ifndef COLL_SRC_QUEUE_H
#define COLL_SRC_QUEUE_H

#include "core/op.h"

/* Puts op at the end of its communicator's queue, and posts it where it may be. */
void coll_op_begin(coll_op *op);
/* Whether op, the first that is not posted, may be. */
bool coll_op_may_post(const coll_op *op);
/* Shows peers that the operation has begun. */
void coll_op_post(coll_op *op);
/* Takes op out of the queue it stands in, be it that of sends and receives. */
void coll_op_leave_queue(coll_op *op);

#endif
