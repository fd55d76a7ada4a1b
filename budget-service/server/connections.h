/* The connections of one endpoint, as ZeroMQ reports them: how many there are, whose they are, and a
 * way to end them. ZeroMQ bounds a frame and a queue of messages, but not the frames of a message that never
 * ends; what bounds those is that a service whose memory grows closes its connections. Clients with
 * a question under way ask it again. */
#ifndef BUDGET_SERVER_CONNECTIONS_H
#define BUDGET_SERVER_CONNECTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "limits.h"
#include "proto/pending.h"
#include "proto/zap.h"

typedef struct service_connection {
    int fd;
    char user[PROTO_ZAP_USER_BYTES]; /* whose key asked over it */
} service_connection;

typedef struct service_connections {
    void *socket;
    void *monitor;        /* PAIR, to poll */
    proto_pending silent; /* nobody has asked anything over these */
    int count;
    service_connection list[SERVICE_CONNECTIONS_MAX]; /* the others */
} service_connections;

/* Before the socket is bound. */
BASE_MUST_CHECK base_status service_connections_open(service_connections *connections,
                                                     void *context, void *socket,
                                                     base_error *reterr);
void service_connections_close(service_connections *connections);

/* Takes all news. At the limit a new connection takes the place of the oldest over which nothing
 * was ever asked; where there is none, it is closed. */
void service_connections_update(service_connections *connections);

/* How many there are, the silent ones with them. */
int service_connections_count(const service_connections *connections);

/* Somebody asks over the connection with this descriptor. False: this key has key_max others that
 * it asks over; the connection is closed. */
bool service_connections_asked(service_connections *connections, int fd, const char *user,
                               int key_max);

/* Shuts the one with this descriptor, if it is there. */
void service_connections_end(service_connections *connections, int fd);
void service_connections_end_all(service_connections *connections);

/* Bytes in use: no more than malloc has given out, and no more than have been touched. */
size_t service_memory_bytes(void);

#endif
