/* The flight recorder (diagnose/flight.h), told of operations, and their number by kind. */
#ifndef COLL_SRC_RECORD_H
#define COLL_SRC_RECORD_H

#include "coll/coll.h"

/* An operation has its sequence number, and begins; is done. */
void coll_record_begin(coll_op *op);
void coll_record_end(const coll_op *op);

#endif
