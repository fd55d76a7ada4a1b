/* ZeroMQ, between hosts. */
#ifndef COLL_SRC_ZMQ_H
#define COLL_SRC_ZMQ_H

#include "core/transport.h"

extern const coll_transport_table coll_zmq_transport;

#endif
