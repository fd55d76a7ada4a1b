/* Events of a socket's connections, from ZeroMQ's monitor. */
#ifndef PROTO_MONITOR_H
#define PROTO_MONITOR_H

#include <stdbool.h>

#include "base/status.h"
#include "proto/bus.h"

/* Starts to report the events of `socket` on *monitor, a PAIR socket. The caller closes it, after
 * proto_monitor_stop(socket). */
BASE_MUST_CHECK base_status proto_monitor_start(void *context, void *socket, void **monitor,
                                                base_error *reterr);
void proto_monitor_stop(void *socket);

/* Takes the next event of those in proto_bus_event_kind. *fd is the connection's descriptor, or
 * -1. */
bool proto_monitor_next(void *monitor, proto_bus_event_kind *kind, int *fd);

#endif
