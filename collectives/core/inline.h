/* Operations that fit the flags. */
#ifndef COLL_SRC_INLINE_H
#define COLL_SRC_INLINE_H

#include "core/op.h"

/* What a rank shows beside its flag for an operation that fits there. */
size_t coll_inline_gives(const coll_op *op, const void **data);
const uint8_t *coll_payload(const coll_comm *comm, int rank, uint64_t sequence);
/* The result from all ranks' payloads. */
void coll_inline_finish(coll_op *op);
/* One rank: nothing moves but from send to recv. */
void coll_alone_finish(coll_op *op);

#endif
