/* Finds connections whose other host has stopped answering. Called by tcp and zmq where they set
 * options of sockets, and before they sleep. */
#include "transport/socket/silence.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "core/context.h"
#include "transport/socket/net.h"

enum { TEXT_BYTES = 512 };

static int at_least_one(int64_t seconds)
{
    return seconds < 1 ? 1 : (int)seconds;
}

void coll_silence_probe(int fd, int64_t host_timeout_ns)
{
    const int64_t timeout_s = host_timeout_ns / BASE_NS_PER_S < COLL_SILENCE_MAX_S
                                  ? host_timeout_ns / BASE_NS_PER_S
                                  : COLL_SILENCE_MAX_S;
    const int one = 1;
    const int idle_s = at_least_one(timeout_s / 3);
    const int interval_s = at_least_one((timeout_s - idle_s) / COLL_PROBES_IN_TIMEOUT);
    const int probes = COLL_PROBES;
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

static bool get_info(int fd, struct tcp_info *info)
{
    socklen_t length = sizeof *info;
    memset(info, 0, sizeof *info);
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &length) == 0;
}

/* How long nothing has come: keepalive goes by the same two times. */
static int64_t silent_ns(const struct tcp_info *info)
{
    const uint32_t silent_ms = info->tcpi_last_ack_recv < info->tcpi_last_data_recv
                                   ? info->tcpi_last_ack_recv
                                   : info->tcpi_last_data_recv;
    return silent_ms * BASE_NS_PER_MS;
}

/* A try is data sent once more, a probe of a full buffer, or one of an idle connection. Each count
 * begins anew when something has come. */
bool coll_silence_is_over(int fd, int64_t host_timeout_ns)
{
    struct tcp_info info;
    return get_info(fd, &info) && info.tcpi_retransmits + info.tcpi_probes >= COLL_SILENCE_TRIES &&
           silent_ns(&info) >= host_timeout_ns;
}

/* The address of an end of the connection: two hosts may have one name. */
static void write_end(int fd, int (*name_of)(int fd, struct sockaddr *address, socklen_t *length),
                      char text[NI_MAXHOST])
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    if (name_of(fd, (struct sockaddr *)&address, &length) != 0 ||
        getnameinfo((struct sockaddr *)&address, length, text, NI_MAXHOST, NULL, 0,
                    NI_NUMERICHOST) != 0) {
        (void)snprintf(text, NI_MAXHOST, "?");
    }
}

static int own_name(int fd, struct sockaddr *address, socklen_t *length)
{
    return getsockname(fd, address, length);
}

static int peer_name(int fd, struct sockaddr *address, socklen_t *length)
{
    return getpeername(fd, address, length);
}

void coll_silence_lose(coll_context *context, int peer, int fd)
{
    struct tcp_info info;
    char how[TEXT_BYTES];
    char own[NI_MAXHOST];
    char other[NI_MAXHOST];
    (void)get_info(fd, &info);
    write_end(fd, own_name, own);
    write_end(fd, peer_name, other);
    (void)snprintf(how, sizeof how,
                   "its host has not answered for %.0f s: look at the network between %s (%.64s) "
                   "and %s (%.64s)",
                   (double)silent_ns(&info) / (double)BASE_NS_PER_S,
                   context->identities[context->rank].host, own, context->identities[peer].host,
                   other);
    coll_net_lost(context, peer, how);
}
