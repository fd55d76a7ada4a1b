#include "tcp_options.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { NAME_BYTES = 16 }; /* the kernel's TCP_CA_NAME_MAX */

bool coll_tcp_paces(const char *name)
{
    return strncmp(name, "bbr", strlen("bbr")) == 0;
}

/* The congestion control that a socket has; empty where the system does not tell. */
static void get_congestion(int fd, char name[NAME_BYTES + 1])
{
    socklen_t length = NAME_BYTES;
    memset(name, 0, NAME_BYTES + 1);
    if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length) != 0) {
        name[0] = '\0';
    }
}

static void set_congestion(int fd, const char *name)
{
    (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name));
}

void coll_tcp_options_fresh(int fd)
{
    const int one = 1;
    const int buffer = COLL_TCP_BUFFER_BYTES;
    char congestion[NAME_BYTES + 1];
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
    get_congestion(fd, congestion);
    if (coll_tcp_paces(congestion)) {
        set_congestion(fd, "reno");
    }
}

bool coll_tcp_options_met(int fd)
{
    struct tcp_info info;
    socklen_t length = sizeof info;
    char systems[NAME_BYTES + 1];
    memset(&info, 0, sizeof info);
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0 ||
        info.tcpi_rtt <= COLL_TCP_SHORT_PATH_US) {
        return true;
    }
    const int fresh = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fresh >= 0) {
        get_congestion(fresh, systems);
        if (coll_tcp_paces(systems)) {
            set_congestion(fd, systems);
        }
        (void)close(fresh);
    }
    return false;
}
