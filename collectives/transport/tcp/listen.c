/* Listens for the other ranks' connections. Called by links.c. */
#include "transport/tcp/listen.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "transport/socket/options.h"

enum { BACKLOG = 1024 /* strangers may come before this rank looks */ };

coll_status coll_tcp_resolve(const char *address, uint16_t port, struct addrinfo **to,
                             coll_error *reterr)
{
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
                                   .ai_socktype = SOCK_STREAM};
    char service[8];
    (void)snprintf(service, sizeof service, "%u", (unsigned)port);
    if (getaddrinfo(address, service, &hints, to) != 0) {
        return coll_fail(reterr, COLL_ERR_PEER, "'%s' is no numeric address", address);
    }
    return COLL_OK;
}

coll_status coll_tcp_listen(const char *address, int64_t host_timeout_ns, int *listener,
                            uint16_t *port, coll_error *reterr)
{
    struct addrinfo *at = NULL;
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } bound = {.v6 = {.sin6_family = AF_UNSPEC}};
    socklen_t bound_bytes = sizeof bound;
    const coll_status status = coll_tcp_resolve(address, 0, &at, reterr);
    if (status != COLL_OK) {
        return status;
    }
    const int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    *listener = fd;
    if (fd >= 0) {
        coll_tcp_options_fresh(fd, host_timeout_ns);
    }
    const bool listening = fd >= 0 && bind(fd, at->ai_addr, at->ai_addrlen) == 0 &&
                           listen(fd, BACKLOG) == 0 &&
                           getsockname(fd, &bound.any, &bound_bytes) == 0;
    freeaddrinfo(at);
    if (!listening) {
        return coll_fail(reterr, COLL_ERR_IO, "cannot listen on %s: %s", address, strerror(errno));
    }
    *port = ntohs(bound.any.sa_family == AF_INET ? bound.v4.sin_port : bound.v6.sin6_port);
    return COLL_OK;
}
