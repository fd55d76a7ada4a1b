/* The one place that names the transports. Called when a context is made. */
#include "transport/registry.h"

#include "transport/hybrid/hybrid.h"
#include "transport/shm/shm.h"
#include "transport/tcp/tcp.h"
#include "transport/zmq/zmq.h"

static const coll_transport_table *const tables[COLL_TRANSPORT_LAST + 1] = {
    [COLL_TRANSPORT_AUTO] = &coll_hybrid_transport,
    [COLL_TRANSPORT_SHM] = &coll_shm_transport,
    [COLL_TRANSPORT_ZMQ] = &coll_zmq_transport,
    [COLL_TRANSPORT_TCP] = &coll_tcp_transport,
};

const coll_transport_table *coll_transport_find(coll_transport transport)
{
    return tables[transport];
}
