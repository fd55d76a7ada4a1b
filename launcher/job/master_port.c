/* Holds a free port for rank 0 of a user's program. Called by start.c. */
#include "job/master_port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.h"

/* Both families at once where the host has IPv6. A port that was asked for must be nobody's, not even one that
 * another launcher holds; then it is open to programs that set SO_REUSEADDR. */
static int bind_to(int family, int wanted)
{
    const in_port_t port = htons((uint16_t)wanted);
    const struct sockaddr_in6 six = {
        .sin6_family = AF_INET6, .sin6_addr = in6addr_any, .sin6_port = port};
    const struct sockaddr_in four = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY), .sin_port = port};
    const int on = 1;
    const int off = 0;
    const int before = wanted == 0 ? 1 : 0;
    const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &before, sizeof before) == 0 &&
        (family == AF_INET || setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) == 0) &&
        (family == AF_INET ? bind(fd, (const struct sockaddr *)&four, sizeof four)
                           : bind(fd, (const struct sockaddr *)&six, sizeof six)) == 0 &&
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0) {
        return fd;
    }
    (void)close(fd);
    return -1;
}

base_status launch_master_port_hold(const base_ports *ports, int *fd, int *port, base_error *reterr)
{
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } bound = {.any = {.sa_family = AF_UNSPEC}};
    socklen_t size_bytes = sizeof bound;
    int held = -1;
    /* from the last one on: ranks take the first ones */
    for (int wanted = ports->high; held < 0 && wanted >= ports->low; wanted--) {
        held = bind_to(AF_INET6, wanted);
        held = held < 0 ? bind_to(AF_INET, wanted) : held;
    }
    if (held < 0 || getsockname(held, &bound.any, &size_bytes) != 0) {
        const base_status status =
            base_fail_errno(reterr, errno, "cannot find a free port for MASTER_PORT");
        base_fd_close(&held);
        return status;
    }
    *fd = held;
    *port = ntohs(bound.any.sa_family == AF_INET6 ? bound.six.sin6_port : bound.four.sin_port);
    return BASE_OK;
}
