/* What happens to a socket's connections, as ZeroMQ tells it. */
#ifndef PROTO_MONITOR_H
#define PROTO_MONITOR_H

#include <stdbool.h>

#include "base/status.h"
#include "proto/bus.h"

/* Starts telling of `socket` on *monitor, a PAIR socket that the caller closes, after
 * proto_monitor_stop(socket). */
BASE_MUST_CHECK base_status proto_monitor_start(void *context, void *socket, void **monitor,
                                                base_error *reterr);
void proto_monitor_stop(void *socket);

/* Takes the next event that matters; *fd is the connection's descriptor, or -1. */
bool proto_monitor_next(void *monitor, proto_bus_event_kind *kind, int *fd);

#endif
