/* Which transports there are. */
#ifndef COLL_SRC_REGISTRY_H
#define COLL_SRC_REGISTRY_H

#include "core/transport.h"

/* AUTO: of a context with several hosts, some ranks of which share one. */
const coll_transport_table *coll_transport_find(coll_transport transport);

#endif
