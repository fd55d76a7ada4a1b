/* Passes operations to the flight recorder (diagnose/flight.h), and counts them by kind. */
#ifndef COLL_SRC_RECORD_H
#define COLL_SRC_RECORD_H

#include "coll/coll.h"

/* An operation has its sequence number, and begins; is done. */
void coll_record_begin(coll_op *op);
void coll_record_end(const coll_op *op);
/* The same of an operation on a stream, each time it is enqueued. */
void coll_record_device_begin(coll_op *op);

#endif
