/* The queue of a communicator's collectives, whose flags are posted in its order. */
#ifndef COLL_SRC_QUEUE_H
#define COLL_SRC_QUEUE_H

#include "core/op.h"

/* Puts op at the end of a queue. */
void coll_op_append(coll_op **head, coll_op **tail, coll_op *op);
/* Takes op out of a queue, if it is there. */
void coll_op_unlink(coll_op **head, coll_op **tail, const coll_op *op);
/* Puts op at the end of its communicator's queue, and posts it if it may be posted. */
void coll_op_begin(coll_op *op);
/* Whether op, the first one that is not posted, may be posted. */
bool coll_op_may_post(const coll_op *op);
/* Posts op's flag. */
void coll_op_post(coll_op *op);
/* Removes op from its queue: the communicator's, or that of sends or receives. */
void coll_op_leave_queue(coll_op *op);

#endif
