/* The connections to a listening socket over which nobody with a key has said anything yet, the oldest
 * first.
 *
 * Anybody who can connect costs a descriptor until the handshake times out. So a listener bounds
 * these connections: at the limit, the newest one takes the place of the oldest. A connection whose
 * owner is known is not counted, and is never shut down here.
 *
 * A connection is its descriptor, as ZeroMQ's events name it. The system uses a descriptor again
 * as soon as it is closed. So take in all events before proto_pending_limit. One thread. */
#ifndef PROTO_PENDING_H
#define PROTO_PENDING_H

#include <stdbool.h>
#include <stddef.h>

typedef struct proto_pending {
    int *fds; /* (capacity), `count` of them used */
    size_t capacity;
    int count;
} proto_pending;

void proto_pending_fini(proto_pending *pending);

/* A connection has come. It is shut down if there is no memory to note it. */
void proto_pending_add(proto_pending *pending, int fd);

/* It has ended, or its owner is known. False: it was not there. */
bool proto_pending_remove(proto_pending *pending, int fd);

/* Shuts down the oldest ones, until no more than count_max are left. */
void proto_pending_limit(proto_pending *pending, int count_max);

#endif
