/* The one place that names the transports. Called when a context is made. */
#include "transport/registry.h"

#include "base/assert.h"
#include "transport/hybrid/hybrid.h"
#include "transport/shm/shm.h"
#include "transport/tcp/tcp.h"
#include "transport/zmq/zmq.h"

static const coll_transport_table *const tables[] = {
    &coll_shm_transport,
    &coll_zmq_transport,
    &coll_tcp_transport,
    &coll_hybrid_transport,
};

const coll_transport_table *coll_transport_find(coll_transport transport)
{
    const coll_transport_table *found = NULL;
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        found = tables[i]->transport == transport ? tables[i] : found;
    }
    BASE_ASSERT(found != NULL);
    return found;
}
