/* The transport over TCP: one connection for each pair of ranks. Called through the table at the
 * end, and by hybrid.c. net.h says what a frame is, seal.h how it is protected, links.h how ranks
 * connect.
 *
 * One connection fills a link that two processors can fill: several were not faster. Waiting is the
 * caller's loop (wait.c), which reads without blocking. When that has found nothing for long
 * enough, sleep polls all sockets. */
#include "transport/tcp/tcp.h"
#include "ringfence/coll_error.h"

#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "transport/socket/silence.h"
#include "transport/tcp/links.h"

enum {
    DIRECT_PEERS = 3, /* up to so many are read without asking poll first */
    SLEEP_MS = 1000,
    FLUSH_STEP_MS = 5,
};

#define FLUSH_FAILED_NS (100 * BASE_NS_PER_MS)
#define FLUSH_OTHERS_NS (10 * BASE_NS_PER_S) /* after a failure of others */

static coll_tcp *tcp_of(const coll_context *context)
{
    return context->net;
}

static void tcp_send(coll_context *context, int peer, const coll_net_frames *frames,
                     coll_net_when when)
{
    coll_tcp *tcp = tcp_of(context);
    coll_conn_send(context, tcp->connections[peer], frames, when);
    coll_net_note_kept(&tcp->net, when);
}

static bool tcp_has_room(coll_context *context, int peer)
{
    return coll_conn_backlog(tcp_of(context)->connections[peer]) < COLL_CONN_BACKLOG_BYTES;
}

static bool tcp_is_through(coll_context *context, int peer)
{
    const coll_conn *conn = tcp_of(context)->connections[peer];
    return conn->held || coll_conn_backlog(conn) == 0;
}

static uint64_t tcp_handed(coll_context *context, int peer)
{
    const coll_conn *conn = tcp_of(context)->connections[peer];
    return conn->gone_bytes + coll_conn_backlog(conn);
}

static bool tcp_has_gone(coll_context *context, int peer, uint64_t bytes)
{
    const coll_conn *conn = tcp_of(context)->connections[peer];
    return conn->gone_bytes >= bytes || !coll_conn_writes(conn);
}

static bool tcp_deliver(coll_context *context, int peer)
{
    coll_conn *conn = tcp_of(context)->connections[peer];
    int unanswered = 0;
    (void)coll_conn_flush(conn);
    return !coll_conn_writes(conn) ||
           (coll_conn_backlog(conn) == 0 &&
            (ioctl(conn->fd, SIOCOUTQ, &unanswered) != 0 || unanswered == 0));
}

static void tcp_forget(coll_context *context, coll_comm *comm)
{
    const coll_tcp *tcp = tcp_of(context);
    for (int i = 0; i < tcp->peer_count; i++) {
        coll_conn_forget(tcp->connections[tcp->peers[i]], comm);
    }
}

static void tcp_flush(coll_context *context)
{
    const coll_tcp *tcp = tcp_of(context);
    for (int i = 0; i < tcp->peer_count; i++) {
        coll_conn *conn = tcp->connections[tcp->peers[i]];
        if (conn->held) {
            (void)coll_conn_flush(conn);
        }
    }
}

static const coll_net_links tcp_net_links = {.send = tcp_send,
                                             .has_room = tcp_has_room,
                                             .is_through = tcp_is_through,
                                             .handed = tcp_handed,
                                             .has_gone = tcp_has_gone,
                                             .flush = tcp_flush,
                                             .deliver = tcp_deliver,
                                             .forget = tcp_forget};

/* Which connections have something to read, where asking is cheaper than trying. */
static int readable(const coll_tcp *tcp, int *ranks)
{
    struct pollfd items[COLL_RANKS_MAX];
    int count = 0;
    for (int i = 0; i < tcp->peer_count; i++) {
        const coll_conn *conn = tcp->connections[tcp->peers[i]];
        items[i] = (struct pollfd){.fd = coll_conn_reads(conn) ? conn->fd : -1, .events = POLLIN};
    }
    if (poll(items, (nfds_t)tcp->peer_count, 0) <= 0) {
        return 0;
    }
    for (int i = 0; i < tcp->peer_count; i++) {
        if (items[i].revents != 0) {
            ranks[count++] = tcp->peers[i];
        }
    }
    return count;
}

bool coll_tcp_poll(coll_context *context)
{
    const coll_tcp *tcp = tcp_of(context);
    int ranks[COLL_RANKS_MAX];
    const int *here = tcp->peers;
    int count = tcp->peer_count;
    bool moved = false;
    if (count > DIRECT_PEERS) {
        count = readable(tcp, ranks);
        here = ranks;
    }
    for (int i = 0; i < count; i++) {
        coll_conn *conn = tcp->connections[here[i]];
        moved = coll_conn_receive(context, conn) || moved;
    }
    for (int i = 0; i < tcp->peer_count; i++) {
        coll_conn *conn = tcp->connections[tcp->peers[i]];
        moved = (!conn->held && coll_conn_backlog(conn) > 0 && coll_conn_flush(conn)) || moved;
    }
    coll_net_end_poll(context);
    return moved;
}

/* Ends connections whose other host has stopped answering; true if there was one. */
static bool lose_silent(coll_context *context)
{
    coll_tcp *tcp = tcp_of(context);
    const int peers = coll_net_may_be_silent(&tcp->net) ? tcp->peer_count : 0;
    bool lost = false;
    for (int i = 0; i < peers; i++) {
        coll_conn *conn = tcp->connections[tcp->peers[i]];
        if (coll_conn_reads(conn) && coll_silence_is_over(conn->fd, context->host_timeout_ns)) {
            coll_silence_lose(context, conn->peer, conn->fd);
            coll_conn_hang_up(conn);
            lost = true;
        }
    }
    return lost;
}

void coll_tcp_sleep(coll_context *context, bool (*changed)(coll_context *context), int64_t until_ns)
{
    const coll_tcp *tcp = tcp_of(context);
    struct pollfd items[COLL_RANKS_MAX + 1] = {{.fd = tcp->net.wake_fd, .events = POLLIN}};
    nfds_t count = 1;
    if (changed(context)) {
        return;
    }
    coll_net_flush(context);
    if (lose_silent(context)) {
        return;
    }
    for (int i = 0; i < tcp->peer_count; i++) {
        const coll_conn *conn = tcp->connections[tcp->peers[i]];
        if (coll_conn_reads(conn)) {
            items[count++] = (struct pollfd){
                .fd = conn->fd,
                .events = (short)(POLLIN | (coll_conn_backlog(conn) > 0 ? POLLOUT : 0))};
        }
    }
    if (poll(items, count, base_deadline_poll_ms(until_ns, SLEEP_MS)) > 0 &&
        items[0].revents != 0) {
        coll_net_note_woken(&tcp->net);
    }
}

static coll_status make_state(coll_context *context, coll_error *reterr)
{
    coll_tcp *tcp = calloc(1, sizeof *tcp);
    if (tcp == NULL) {
        return coll_fail(reterr, COLL_ERR_MEMORY, "no memory for a context (%zu bytes)",
                         sizeof *tcp);
    }
    tcp->net.links = &tcp_net_links;
    context->net = tcp;
    return coll_net_open_wake(&tcp->net, reterr);
}

coll_status coll_tcp_open(coll_context *context, const coll_context_options *options,
                          int64_t deadline_ns, coll_status status, coll_error *reterr)
{
    coll_conn *connections[COLL_RANKS_MAX] = {NULL};
    if (status == COLL_OK) {
        status = make_state(context, reterr);
    }
    status = coll_tcp_links_open(context, options, deadline_ns, status, connections, reterr);
    coll_tcp *tcp = tcp_of(context);
    for (int rank = 0; tcp != NULL && rank < context->size; rank++) {
        tcp->connections[rank] = connections[rank];
        if (tcp->connections[rank] != NULL) {
            tcp->net.remote[rank] = true;
            tcp->net.packet_bytes[rank] = tcp->connections[rank]->short_bytes_max;
            tcp->peers[tcp->peer_count++] = rank;
        }
    }
    return status;
}

/* Whether bytes wait here or in the kernel that the peer may still take. What a closed socket has
 * sent is not sent again once the peer answers:
 * where data may be on its way, it must have arrived. */
static bool has_unsent(const coll_context *context, const coll_conn *conn)
{
    const coll_tcp *tcp = tcp_of(context);
    int unsent = 0;
    if (!coll_conn_writes(conn) || tcp->net.left[conn->peer] ||
        coll_silence_is_over(conn->fd, context->host_timeout_ns)) {
        return false;
    }
    return coll_conn_backlog(conn) > 0 ||
           (ioctl(conn->fd, tcp->net.owed[conn->peer] ? SIOCOUTQ : SIOCOUTQNSD, &unsent) == 0 &&
            unsent > 0);
}

/* Sends on, and waits a moment for those who have not taken all, but for the ranks in `given_up`.
 * False: there is nobody. */
static bool flush_step(const coll_context *context, uint64_t given_up)
{
    const coll_tcp *tcp = tcp_of(context);
    struct pollfd items[COLL_RANKS_MAX];
    coll_conn *waiting[COLL_RANKS_MAX];
    nfds_t count = 0;
    for (int i = 0; i < tcp->peer_count; i++) {
        coll_conn *conn = tcp->connections[tcp->peers[i]];
        (void)coll_conn_flush(conn);
        if ((given_up >> conn->peer & 1) == 0 && has_unsent(context, conn)) {
            waiting[count] = conn;
            items[count++] = (struct pollfd){.fd = conn->fd,
                                             .events = coll_conn_backlog(conn) > 0 ? POLLOUT : 0};
        }
    }
    if (count > 0 && poll(items, count, FLUSH_STEP_MS) > 0) {
        for (nfds_t i = 0; i < count; i++) {
            if ((items[i].revents & (POLLERR | POLLHUP)) != 0) {
                coll_conn_close_write(waiting[i]);
            }
        }
    }
    return count > 0;
}

/* Gives what was sent last the time to leave: peers may need it. After a failure that is short for
 * those that took part in it. */
static void flush(const coll_context *context)
{
    const uint64_t doubted = context->world == NULL ? UINT64_MAX : context->doubted;
    const int64_t doubted_ns = base_deadline_after_ns(FLUSH_FAILED_NS);
    const bool short_wait = doubted != 0 && context->timeout_ns > FLUSH_OTHERS_NS;
    const int64_t deadline_ns =
        base_deadline_after_ns(short_wait ? FLUSH_OTHERS_NS : context->timeout_ns);
    int64_t now_ns = 0;
    do {
        now_ns = base_now_ns();
    } while (flush_step(context, now_ns < doubted_ns ? 0 : doubted) && now_ns < deadline_ns &&
             atomic_load(&context->abort_state) == 0);
}

void coll_tcp_close(coll_context *context)
{
    coll_tcp *tcp = tcp_of(context);
    if (tcp == NULL) {
        return;
    }
    const bool own = !coll_context_is_forked(context); /* else they are only closed */
    if (own) {
        coll_net_farewell(context);
        flush(context);
    }
    for (int i = 0; i < tcp->peer_count; i++) {
        coll_conn *conn = tcp->connections[tcp->peers[i]];
        uint8_t rest[4096];
        /* Closing with bytes unread would cut off what was sent. */
        if (own && conn->fd >= 0 && shutdown(conn->fd, SHUT_WR) == 0) {
            for (int reads = 0; reads < 256 && recv(conn->fd, rest, sizeof rest, MSG_DONTWAIT) > 0;
                 reads++) {
            }
        }
        coll_conn_destroy(conn);
    }
    if (tcp->net.wake_fd >= 0) {
        (void)close(tcp->net.wake_fd);
    }
    coll_net_fini(&tcp->net);
    free(tcp);
    context->net = NULL;
}

static coll_status tcp_open(coll_context *context, const coll_context_options *options,
                            int64_t deadline_ns, coll_error *reterr)
{
    return coll_tcp_open(context, options, deadline_ns, COLL_OK, reterr);
}

static const coll_socket_table tcp_sockets = {.poll = coll_tcp_poll, .push = coll_net_push};

static const coll_sleep_table tcp_sleep_table = {.sleep = coll_tcp_sleep, .wake = coll_net_wake};

const coll_transport_table coll_tcp_transport = {
    .sockets = &tcp_sockets,
    .sleep = &tcp_sleep_table,
    .open = tcp_open,
    .close = coll_tcp_close,
    .has_given = coll_net_has_given,
    COLL_NET_COMMON,
    COLL_NET_STREAMS,
};
