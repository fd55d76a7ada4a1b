/* At which ports the ranks of zmq and tcp listen for each other. */
#ifndef COLL_SRC_SOCKET_PORTS_H
#define COLL_SRC_SOCKET_PORTS_H

#include "base/ports.h"
#include "ringfence/coll_error.h"

/* Those of the environment variable RINGFENCE_COLL_PORTS ("29500-29599"); where it is not set or empty, any.
 * COLL_ERR_INVALID: it is no range. */
COLL_MUST_CHECK coll_status coll_ports_allowed(base_ports *ports, coll_error *reterr);

/* None of them is free at the address. */
coll_status coll_ports_taken(const base_ports *ports, const char *address, coll_error *reterr);

#endif
