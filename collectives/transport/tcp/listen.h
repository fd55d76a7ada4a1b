/* Numeric addresses, and a socket that listens on one. */
#ifndef COLL_SRC_TCP_LISTEN_H
#define COLL_SRC_TCP_LISTEN_H

#include <stdint.h>

#include "ringfence/coll_error.h"

struct addrinfo;

/* The caller frees *to with freeaddrinfo. COLL_ERR_PEER: the address is not numeric. */
COLL_MUST_CHECK coll_status coll_tcp_resolve(const char *address, uint16_t port,
                                             struct addrinfo **to, coll_error *reterr);

/* Listens on a port that the system picks, of those in transport/socket/ports.h. *listener is the caller's to close also after a failure, if it is not
 * negative. */
COLL_MUST_CHECK coll_status coll_tcp_listen(const char *address, int64_t host_timeout_ns,
                                            int *listener, uint16_t *port, coll_error *reterr);

#endif
