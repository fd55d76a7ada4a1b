/* Binds a socket of ZeroMQ to a port where ranks may listen. */
#ifndef COLL_SRC_ZMQ_BIND_H
#define COLL_SRC_ZMQ_BIND_H

#include <stdint.h>

#include "ringfence/coll_error.h"

/* Binds to the first free port of those in transport/socket/ports.h, at a numeric address. */
COLL_MUST_CHECK coll_status coll_zmq_bind(void *socket, const char *address, uint16_t *port,
                                          coll_error *reterr);

#endif
