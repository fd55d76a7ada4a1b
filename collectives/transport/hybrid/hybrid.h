/* Shared memory inside each host, TCP between them. */
#ifndef COLL_SRC_HYBRID_H
#define COLL_SRC_HYBRID_H

#include "core/transport.h"

extern const coll_transport_table coll_hybrid_transport;

#endif
