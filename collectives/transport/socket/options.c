/* Sets congestion control on the sockets between ranks, before and after the handshake. Called by
 * tcp's links.c and by zmq's monitor.c. */
#include "transport/socket/options.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport/socket/silence.h"

enum { NAME_BYTES = 16 }; /* the kernel's TCP_CA_NAME_MAX */

#define OTHER "reno"

bool coll_tcp_paces(const char *name)
{
    return strncmp(name, "bbr", strlen("bbr")) == 0;
}

/* The congestion control that a socket has; empty where the system does not say. */
static void get_congestion(int fd, char name[NAME_BYTES + 1])
{
    socklen_t length = NAME_BYTES;
    memset(name, 0, NAME_BYTES + 1);
    if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length) != 0) {
        name[0] = '\0';
    }
}

static bool set_congestion(int fd, const char *name)
{
    return setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name)) == 0;
}

/* What the system gives a socket, if that paces; empty if not. Whether a socket that has left it
 * may have it again. */
static bool find_pacing(char name[NAME_BYTES + 1])
{
    const int fresh = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool back = false;
    name[0] = '\0';
    if (fresh >= 0) {
        get_congestion(fresh, name);
        if (coll_tcp_paces(name)) {
            back = set_congestion(fresh, OTHER) && set_congestion(fresh, name);
        } else {
            name[0] = '\0';
        }
        (void)close(fresh);
    }
    return back;
}

void coll_tcp_options_fresh(int fd, int64_t host_timeout_ns)
{
    const int one = 1;
    const int buffer = COLL_TCP_BUFFER_BYTES;
    char congestion[NAME_BYTES + 1];
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
    coll_silence_probe(fd, host_timeout_ns);
    get_congestion(fd, congestion);
    if (coll_tcp_paces(congestion) && find_pacing(congestion)) {
        (void)set_congestion(fd, OTHER);
    }
}

bool coll_tcp_options_met(int fd)
{
    struct tcp_info info;
    socklen_t length = sizeof info;
    char name[NAME_BYTES + 1];
    memset(&info, 0, sizeof info);
    const bool is_short = getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0 ||
                          info.tcpi_rtt <= COLL_TCP_SHORT_PATH_US;
    get_congestion(fd, name);
    if (is_short && coll_tcp_paces(name)) {
        (void)set_congestion(fd, OTHER);
    } else if (!is_short && find_pacing(name)) {
        (void)set_congestion(fd, name);
    }
    return is_short;
}
