/* Finds a port for a socket that listens for one peer. Called by links.c. */
#include "transport/zmq/bind.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "transport/socket/ports.h"

enum { ENDPOINT_BYTES = 128 };

coll_status coll_zmq_bind(void *socket, const char *address, uint16_t *port, coll_error *reterr)
{
    base_ports ports;
    char endpoint[ENDPOINT_BYTES];
    size_t endpoint_bytes = sizeof endpoint;
    const bool ipv6 = strchr(address, ':') != NULL;
    const coll_status status = coll_ports_allowed(&ports, reterr);
    if (status != COLL_OK) {
        return status;
    }
    int next = ports.low; /* 0: any */
    bool bound = false;
    do {
        (void)snprintf(endpoint, sizeof endpoint, ipv6 ? "tcp://[%s]:%d" : "tcp://%s:%d", address,
                       next);
        bound = zmq_bind(socket, endpoint) == 0;
    } while (!bound && zmq_errno() == EADDRINUSE && next++ < ports.high);
    if (!bound && zmq_errno() == EADDRINUSE && ports.low > 0) {
        return coll_ports_taken(&ports, address, reterr);
    }
    if (!bound || zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, endpoint, &endpoint_bytes) != 0) {
        return coll_fail(reterr, COLL_ERR_IO, "cannot listen on %s: %s", endpoint,
                         zmq_strerror(zmq_errno()));
    }
    const char *colon = strrchr(endpoint, ':');
    *port = colon != NULL ? (uint16_t)strtoul(colon + 1, NULL, 10) : 0;
    return COLL_OK;
}
