/* Listens for the other ranks' connections. Called by links.c. */
#include "transport/tcp/listen.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport/socket/options.h"
#include "transport/socket/ports.h"

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

typedef union bound_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} bound_address;

/* Binds to a port (0: any), and listens. Connections of a job before, which have just ended, keep it from nobody. */
static bool listen_at(int fd, const struct addrinfo *at, int port)
{
    bound_address to = {.v6 = {.sin6_family = AF_UNSPEC}};
    const int on = 1;
    if (at->ai_addrlen > sizeof to) {
        errno = EAFNOSUPPORT;
        return false;
    }
    memcpy(&to, at->ai_addr, at->ai_addrlen);
    if (to.any.sa_family == AF_INET) {
        to.v4.sin_port = htons((uint16_t)port);
    } else {
        to.v6.sin6_port = htons((uint16_t)port);
    }
    return (port == 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0) &&
           bind(fd, &to.any, at->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0;
}

/* A socket that listens at a port. Where another one has taken it, errno is EADDRINUSE. -1: it cannot. */
static int open_listener(const struct addrinfo *at, int port, int64_t host_timeout_ns)
{
    const int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -1;
    }
    coll_tcp_options_fresh(fd, host_timeout_ns);
    if (listen_at(fd, at, port)) {
        return fd;
    }
    const int error = errno;
    (void)close(fd);
    errno = error;
    return -1;
}

coll_status coll_tcp_listen(const char *address, int64_t host_timeout_ns, int *listener,
                            uint16_t *port, coll_error *reterr)
{
    struct addrinfo *at = NULL;
    base_ports ports;
    bound_address bound = {.v6 = {.sin6_family = AF_UNSPEC}};
    socklen_t bound_bytes = sizeof bound;
    coll_status status = coll_ports_allowed(&ports, reterr);
    if (status == COLL_OK) {
        status = coll_tcp_resolve(address, 0, &at, reterr);
    }
    if (status != COLL_OK) {
        return status;
    }
    int fd = -1;
    int next = ports.low;
    do {
        fd = open_listener(at, next, host_timeout_ns);
    } while (fd < 0 && errno == EADDRINUSE && next++ < ports.high);
    freeaddrinfo(at);
    *listener = fd;
    if (fd < 0 && errno == EADDRINUSE && ports.low > 0) {
        return coll_ports_taken(&ports, address, reterr);
    }
    if (fd < 0 || getsockname(fd, &bound.any, &bound_bytes) != 0) {
        return coll_fail(reterr, COLL_ERR_IO, "cannot listen on %s: %s", address, strerror(errno));
    }
    *port = ntohs(bound.any.sa_family == AF_INET ? bound.v4.sin_port : bound.v6.sin6_port);
    return COLL_OK;
}
