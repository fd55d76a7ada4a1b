/* File descriptors that ZeroMQ opens. It ends the process with an assertion where it gets none. */
#ifndef COLL_SRC_ZMQ_DESCRIPTORS_H
#define COLL_SRC_ZMQ_DESCRIPTORS_H

#include "coll/coll.h"

/* Whether this process may open what the links between so many ranks need. COLL_ERR_IO: it may not;
 * the message has the numbers. */
COLL_MUST_CHECK coll_status coll_zmq_descriptors_check(int ranks, coll_error *reterr);

#endif
