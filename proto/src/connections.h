/* Which rank's connection has ended, of all connections to a listening socket.
 *
 * ZeroMQ's events name a connection by its descriptor, and the system uses a descriptor again as soon
 * as it is closed. A message may be read before older events are. So all events that came before
 * a rank's first message are taken in, and kept, before its connection is remembered. One thread. */
#ifndef PROTO_CONNECTIONS_H
#define PROTO_CONNECTIONS_H

#include <stdbool.h>

#include "proto/bus.h"

typedef struct proto_connections proto_connections;

/* For the events of `monitor`, which stays the caller's. */
BASE_MUST_CHECK base_status proto_connections_create(void *monitor, int world_size,
                                                     proto_connections **connections,
                                                     base_error *reterr);

/* NULL is fine. */
void proto_connections_destroy(proto_connections *connections);

/* A rank's first message has come, over the connection with this descriptor. */
BASE_MUST_CHECK base_status proto_connections_add(proto_connections *connections, int rank, int fd,
                                                  base_error *reterr);

/* The rank has no connection any more, or another one soon. */
void proto_connections_forget(proto_connections *connections, int rank);

/* The next event. False: there is none; then connections that are no rank's are closed, if they are
 * too many. */
bool proto_connections_next(proto_connections *connections, proto_bus_event *event);

#endif
