/* The connections of one endpoint, as ZeroMQ tells of them: how many there are, and a way to end
 * them. ZeroMQ bounds a frame and a queue of messages, but not the frames of a message that never
 * ends; what bounds those is that a service whose memory grows closes its connections. Clients with
 * a question under way ask it again. */
#ifndef BUDGET_SERVER_CONNECTIONS_H
#define BUDGET_SERVER_CONNECTIONS_H

#include <stddef.h>

#include "base/status.h"
#include "limits.h"

typedef struct service_connections {
    void *socket;
    void *monitor; /* PAIR, to poll */
    int count;
    int fds[SERVICE_CONNECTIONS_MAX];
} service_connections;

/* Before the socket is bound. */
BASE_MUST_CHECK base_status service_connections_open(service_connections *connections,
                                                     void *context, void *socket,
                                                     base_error *reterr);
void service_connections_close(service_connections *connections);

/* Takes all news; a connection above the limit is shut at once. */
void service_connections_update(service_connections *connections);

/* Shuts the one with this descriptor, if it is there. */
void service_connections_end(service_connections *connections, int fd);
void service_connections_end_all(service_connections *connections);

/* Bytes in use: no more than malloc has given out, and no more than have been touched. */
size_t service_memory_bytes(void);

#endif
