/* Collectives of COLL_INT32 elements: what each rank gives, and what it is to get. Sums wrap. Without locks: any thread. */
#ifndef TEST_COLL_INTEGERS_H
#define TEST_COLL_INTEGERS_H

#include <stddef.h>

#include "coll/coll.h"

/* How many elements of desc->send and desc->recv this rank's part of the operation has. */
size_t integers_sent(const coll_op_desc *desc, int rank, int size);
size_t integers_received(const coll_op_desc *desc, int rank, int size);

/* Writes what the rank gives to desc->send. Another salt means other numbers. */
void integers_give(const coll_op_desc *desc, unsigned salt, int rank, int size);

/* The first element of desc->recv that is not as it should be once all ranks have given theirs; -1: none.
 * desc->reduce is COLL_SUM or COLL_MAX. */
ptrdiff_t integers_wrong(const coll_op_desc *desc, unsigned salt, int rank, int size);

#endif
