/* What becomes of the connections of a zmq socket, as ZeroMQ reports it: that one has ended, and
 * which descriptor one has, so that it can be set to what tcp's are (socket/options.h).
 *
 * A descriptor is reported after the fact and may belong to something else by then: it is touched
 * only if it is a connection with the port that the socket listens on, or connected to. */
#ifndef COLL_SRC_ZMQ_MONITOR_H
#define COLL_SRC_ZMQ_MONITOR_H

#include <stdbool.h>
#include <stdint.h>

#include "ringfence/coll_error.h"

/* Opens the monitor of a new socket; `number` is its own among all of `zmq`. The caller closes it,
 * after it has stopped the socket's monitoring. */
COLL_MUST_CHECK coll_status coll_zmq_monitor_open(void *zmq, void *socket, int number,
                                                  void **monitor, coll_error *reterr);

enum { COLL_ZMQ_FD_NONE = -1, COLL_ZMQ_FD_SEVERAL = -2 };

/* Takes the news; sets what is connected by `port` (of this end or the other) to tcp's options, and
 * what listens. Port 0: none. *fd, COLL_ZMQ_FD_NONE at first, becomes the descriptor of what was connected, or
 * COLL_ZMQ_FD_SEVERAL. Returns whether some connection has ended. */
bool coll_zmq_monitor_read(void *monitor, uint16_t port, int64_t host_timeout_ns, int *fd);

#endif
