/* Connects every two ranks of a context over TCP, with a handshake on each connection. Called by
 * tcp.c when a context is made. */
#include "transport/tcp/links.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "core/descriptors.h"
#include "core/failure.h"
#include "core/missing.h"
#include "core/rendezvous.h"
#include "core/text.h"
#include "transport/socket/interface.h"
#include "transport/socket/options.h"
#include "transport/tcp/handshake.h"
#include "transport/tcp/handshakes.h"
#include "transport/tcp/listen.h"
#include "transport/tcp/record.h"

enum {
    POLL_SLICE_MS = 20,
    PAUSE_MS = 10, /* before a connector tries again */
    LIST_BYTES = 400,
};

/* All connections of a rank while they are made. */
typedef struct connecting {
    coll_context *context;
    coll_conn **connections;
    const coll_tcp_record *all;
    coll_tcp_auth auth;
    uint8_t job_key[COLL_JOB_KEY_BYTES];
    int listener;
    int64_t began_ns;
    uint64_t missing;          /* a bit for each rank without a connection */
    int socks[COLL_RANKS_MAX]; /* of those with one; else -1 */
    int fresh[COLL_RANKS_MAX]; /* sockets for the first tries; else -1, */
    int family;                /* and of which address family */
    int hung_up;               /* the last rank that hung up before its answer; -1: none */
    /* By peer: how often this rank has tried, or the newest try that it has answered. */
    uint32_t attempts[COLL_RANKS_MAX];
    coll_handshakes handshakes;
} connecting;

static coll_status connect_fail(const connecting *m, int peer, const char *why, coll_error *reterr)
{
    char name[128];
    m->context->unreached = peer;
    coll_context_rank_text(m->context, peer, name, sizeof name);
    return coll_fail(reterr, COLL_ERR_PEER, "cannot connect to %s at %s port %u: %s (%s)", name,
                     m->all[peer].address, (unsigned)m->all[peer].port, why,
                     m->hung_up == peer ? "it has hung up before its answer: other job key?"
                                        : "is that the right interface? it is chosen by "
                                          "coll_context_options.interface, or --interface");
}

/* The listener hung up before its answer, perhaps because strangers took this one's place, or the network is cut: it
 * may come back within the time in which a peer's host may be silent. */
static coll_status connector_fail(connecting *m, coll_handshake *g, int error, coll_error *reterr)
{
    const bool cut = error == EHOSTUNREACH || error == ENETUNREACH || error == ENETDOWN;
    const bool hung_up = error == ECONNRESET || error == EPIPE;
    m->hung_up = hung_up ? g->peer : m->hung_up;
    if (hung_up || (cut && base_now_ns() < m->began_ns + m->context->host_timeout_ns)) {
        coll_handshake_drop(g);
        g->stage = COLL_HANDSHAKE_PAUSE;
        g->until_ns = base_now_ns() + PAUSE_MS * BASE_NS_PER_MS;
        return COLL_OK;
    }
    return connect_fail(m, g->peer, strerror(error), reterr);
}

/* The one that was made beforehand, for the first try at an address as this rank's own is; -1:
 * errno says why. */
static int take_socket(connecting *m, int peer, int family)
{
    const int fresh = m->fresh[peer];
    m->fresh[peer] = -1;
    if (fresh >= 0 && family == m->family) {
        return fresh;
    }
    if (fresh >= 0) {
        (void)close(fresh);
    }
    return socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static coll_status start_connecting(connecting *m, coll_handshake *g, int peer, coll_error *reterr)
{
    struct addrinfo *to = NULL;
    char address[COLL_ADDRESS_BYTES];
    const coll_tcp_record *theirs = &m->all[peer];
    if (coll_address_is_any(theirs->address)) {
        return connect_fail(m, peer, "that is no address to connect to", reterr);
    }
    if (coll_address_is_loopback(theirs->address) && !coll_context_is_here(m->context, peer)) {
        return connect_fail(m, peer, "no other host can reach that", reterr);
    }
    coll_address_reach(m->all[m->context->rank].address, theirs->address, address);
    coll_status status = coll_tcp_resolve(address, theirs->port, &to, reterr);
    if (status != COLL_OK) {
        return status;
    }
    *g = (coll_handshake){.peer = peer};
    g->fd = take_socket(m, peer, to->ai_family);
    if (g->fd < 0) {
        freeaddrinfo(to);
        return coll_fail_errno(reterr, errno, "cannot make a socket");
    }
    g->stage = COLL_HANDSHAKE_CONNECTING;
    coll_tcp_options_fresh(g->fd, m->context->host_timeout_ns);
    if (connect(g->fd, to->ai_addr, to->ai_addrlen) != 0 && errno != EINPROGRESS &&
        errno != EINTR) {
        status = connector_fail(m, g, errno, reterr);
    }
    freeaddrinfo(to);
    return status;
}

/* The handshake is done: the socket becomes the connection. */
static void finish(connecting *m, coll_handshake *g, bool listener)
{
    coll_seal in;
    coll_seal out;
    const coll_hello *connector_hello = listener ? &g->theirs : &g->own;
    const coll_hello *listener_hello = listener ? &g->own : &g->theirs;
    coll_handshake_seals(m->job_key, listener, connector_hello, listener_hello, &in, &out);
    g->stage = COLL_HANDSHAKE_FREE;
    (void)coll_tcp_options_met(g->fd);
    coll_conn_open(m->connections[g->peer], g->fd, &in, &out);
    coll_seal_wipe(&in);
    coll_seal_wipe(&out);
    m->missing &= ~(UINT64_C(1) << g->peer);
    m->socks[g->peer] = g->fd;
}

static coll_status connector_hello(connecting *m, coll_handshake *g, coll_error *reterr)
{
    uint8_t opening[COLL_OPENING_BYTES];
    int error = 0;
    socklen_t error_bytes = sizeof error;
    if (getsockopt(g->fd, SOL_SOCKET, SO_ERROR, &error, &error_bytes) != 0 || error != 0) {
        return connector_fail(m, g, error != 0 ? error : errno, reterr);
    }
    coll_hello_make(&g->own, m->context->rank, g->peer, m->context->size, m->auth);
    g->own.attempt = ++m->attempts[g->peer];
    memcpy(opening, &g->own, sizeof g->own);
    coll_hello_tag(m->job_key, &g->own, opening + sizeof g->own);
    if (!coll_handshake_send(g->fd, opening, sizeof opening)) {
        return connector_fail(m, g, errno, reterr);
    }
    g->stage = COLL_HANDSHAKE_ANSWER;
    return COLL_OK;
}

static coll_status connector_proof(connecting *m, coll_handshake *g, coll_error *reterr)
{
    uint8_t proof[COLL_PROOF_BYTES];
    const int got =
        coll_handshake_receive(g->fd, g->received, &g->received_bytes, COLL_ANSWER_BYTES);
    if (got == 0) {
        return COLL_OK;
    }
    if (got < 0) {
        return connector_fail(m, g, ECONNRESET, reterr);
    }
    memcpy(&g->theirs, g->received, sizeof g->theirs);
    if (!coll_hello_fits(&g->theirs, m->context->rank, g->peer, m->context->size, m->auth) ||
        !coll_proof_fits(m->job_key, true, &g->own, &g->theirs, g->received + sizeof g->theirs)) {
        return connect_fail(m, g->peer, "whoever answers there does not know this job's key",
                            reterr);
    }
    coll_proof_make(m->job_key, false, &g->own, &g->theirs, proof);
    if (!coll_handshake_send(g->fd, proof, sizeof proof)) {
        return connect_fail(m, g->peer, strerror(errno), reterr);
    }
    finish(m, g, false);
    return COLL_OK;
}

/* Strangers are disconnected without an answer, and so is a hello that was here before. */
static void listener_hello(connecting *m, coll_handshake *g)
{
    uint8_t answer[COLL_ANSWER_BYTES];
    const int got =
        coll_handshake_receive(g->fd, g->received, &g->received_bytes, COLL_OPENING_BYTES);
    if (got == 0) {
        return;
    }
    memcpy(&g->theirs, g->received, sizeof g->theirs);
    if (got < 0 || !coll_hello_fits(&g->theirs, m->context->rank, -1, m->context->size, m->auth) ||
        !coll_hello_tag_fits(m->job_key, &g->theirs, g->received + sizeof g->theirs) ||
        g->theirs.attempt <= m->attempts[g->theirs.rank]) {
        coll_handshake_drop(g);
        return;
    }
    coll_handshakes_drop_earlier(&m->handshakes, (int)g->theirs.rank);
    g->peer = (int)g->theirs.rank;
    m->attempts[g->peer] = g->theirs.attempt;
    coll_hello_make(&g->own, m->context->rank, g->peer, m->context->size, m->auth);
    memcpy(answer, &g->own, sizeof g->own);
    coll_proof_make(m->job_key, true, &g->theirs, &g->own, answer + sizeof g->own);
    if (!coll_handshake_send(g->fd, answer, sizeof answer)) {
        coll_handshake_drop(g);
        return;
    }
    g->received_bytes = 0;
    g->stage = COLL_HANDSHAKE_PROOF;
}

static void listener_proof(connecting *m, coll_handshake *g)
{
    const int got =
        coll_handshake_receive(g->fd, g->received, &g->received_bytes, COLL_PROOF_BYTES);
    if (got == 0) {
        return;
    }
    if (got < 0 || (m->missing >> g->peer & 1) == 0 ||
        !coll_proof_fits(m->job_key, false, &g->theirs, &g->own, g->received)) {
        coll_handshake_drop(g);
        return;
    }
    finish(m, g, true);
}

/* Called where a connection waits. One that cannot be taken would wake each poll: what strangers hold goes first, and
 * without any it is an error. (Without a descriptor accept4 fails where nobody waits, too.) */
static coll_status accept_all(connecting *m, coll_error *reterr)
{
    for (int i = 0; i < COLL_HANDSHAKES_MAX; i++) {
        const int fd = accept4(m->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            const int error = errno;
            const bool scarce =
                error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
            if (!scarce || i > 0) {
                return COLL_OK;
            }
            if (coll_handshakes_drop_oldest(&m->handshakes) != NULL) {
                continue;
            }
            return coll_fail_errno(reterr, error, "cannot accept a connection");
        }
        coll_handshake *g = coll_handshakes_place(&m->handshakes);
        /* Those with a hello, and this rank's own, are half of them at most. */
        BASE_ASSERT(g != NULL);
        *g = (coll_handshake){.stage = COLL_HANDSHAKE_HELLO,
                              .fd = fd,
                              .peer = -1,
                              .arrival = m->handshakes.accepted++};
        listener_hello(m, g); /* in a crowd it is here by now, and then nobody takes its place */
    }
    return COLL_OK;
}

static coll_status advance(connecting *m, coll_handshake *g, coll_error *reterr)
{
    switch (g->stage) {
    case COLL_HANDSHAKE_FREE:
    case COLL_HANDSHAKE_PAUSE:
        break;
    case COLL_HANDSHAKE_CONNECTING:
        return connector_hello(m, g, reterr);
    case COLL_HANDSHAKE_ANSWER:
        return connector_proof(m, g, reterr);
    case COLL_HANDSHAKE_HELLO:
        listener_hello(m, g);
        break;
    case COLL_HANDSHAKE_PROOF:
        listener_proof(m, g);
        break;
    }
    return COLL_OK;
}

static coll_status fail_late(const connecting *m, coll_error *reterr)
{
    const coll_rank_addresses addresses = {m->all[0].address, sizeof m->all[0]};
    char text[LIST_BYTES];
    coll_context_list_ranks(m->context, m->missing, &addresses, text, sizeof text);
    m->context->unreached = __builtin_ctzll(m->missing);
    if (m->hung_up >= 0 && (m->missing >> m->hung_up & 1) != 0) {
        return coll_fail(reterr, COLL_ERR_TIMEOUT,
                         "no connection in time to %s (rank %d has hung up before its answer: "
                         "other job key?)",
                         text, m->hung_up);
    }
    return coll_fail(reterr, COLL_ERR_TIMEOUT, "no connection in time to %s", text);
}

/* One look at all sockets. If nothing comes, the ranks that are missing may be gone. */
static coll_status look(connecting *m, int64_t deadline_ns, coll_error *reterr)
{
    struct pollfd items[COLL_HANDSHAKES_MAX + 1] = {{.fd = m->listener, .events = POLLIN}};
    coll_handshake *of[COLL_HANDSHAKES_MAX + 1] = {NULL};
    nfds_t count = 1;
    for (int i = 0; i < COLL_HANDSHAKES_MAX; i++) {
        coll_handshake *g = &m->handshakes.all[i];
        if (g->stage == COLL_HANDSHAKE_PAUSE && base_now_ns() >= g->until_ns) {
            const coll_status status = start_connecting(m, g, g->peer, reterr);
            if (status != COLL_OK) {
                return status;
            }
        }
        if (g->stage != COLL_HANDSHAKE_FREE && g->stage != COLL_HANDSHAKE_PAUSE) {
            of[count] = g;
            items[count++] = (struct pollfd){
                .fd = g->fd, .events = g->stage == COLL_HANDSHAKE_CONNECTING ? POLLOUT : POLLIN};
        }
    }
    if (poll(items, count, base_deadline_poll_ms(deadline_ns, POLL_SLICE_MS)) <= 0) {
        return coll_missing_check(m->context, m->missing, m->socks, reterr);
    }
    coll_status status = COLL_OK;
    for (nfds_t i = 1; status == COLL_OK && i < count; i++) {
        status = items[i].revents != 0 ? advance(m, of[i], reterr) : COLL_OK;
    }
    return status == COLL_OK && items[0].revents != 0 ? accept_all(m, reterr) : status;
}

static coll_status connect_all(connecting *m, int64_t deadline_ns, coll_error *reterr)
{
    coll_status status = COLL_OK;
    m->began_ns = base_now_ns();
    for (int rank = 0; status == COLL_OK && rank < m->context->rank; rank++) {
        status = start_connecting(m, &m->handshakes.all[rank], rank, reterr);
    }
    while (status == COLL_OK && m->missing != 0) {
        status = coll_abort_check(m->context, reterr);
        if (status == COLL_OK && base_now_ns() >= deadline_ns) {
            status = fail_late(m, reterr);
        }
        if (status == COLL_OK) {
            status = look(m, deadline_ns, reterr);
        }
    }
    return status;
}

static coll_status make_socket(connecting *m, int peer, coll_error *reterr)
{
    m->fresh[peer] = socket(m->family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return m->fresh[peer] >= 0 ? COLL_OK : coll_fail_errno(reterr, errno, "cannot make a socket");
}

/* The memory of all connections, and the sockets of those that this rank makes: now the others can be
 * told that there is none. */
static coll_status make_connections(connecting *m, const coll_tcp_record *mine, coll_error *reterr)
{
    coll_status status = COLL_OK;
    m->family = strchr(mine->address, ':') != NULL ? AF_INET6 : AF_INET;
    for (int rank = 0; status == COLL_OK && rank < m->context->size; rank++) {
        if (rank < m->context->rank) {
            status = make_socket(m, rank, reterr);
        }
        if (status == COLL_OK && rank != m->context->rank) {
            m->missing |= UINT64_C(1) << rank;
            m->connections[rank] = coll_conn_create(rank);
            status = m->connections[rank] != NULL
                         ? COLL_OK
                         : coll_fail(reterr, COLL_ERR_MEMORY,
                                     "no memory for a connection to rank %d (%zu bytes)", rank,
                                     COLL_CONN_BYTES);
        }
    }
    return status;
}

/* What a rank needs before it can be connected to, and what it tells the others. */
static coll_status prepare(connecting *m, const coll_context_options *options,
                           coll_tcp_record *mine, coll_error *reterr)
{
    coll_context *context = m->context;
    if (sodium_init() < 0) {
        return coll_fail(reterr, COLL_ERR_UNSUPPORTED, "libsodium does not start");
    }
    randombytes_buf(mine->share, sizeof mine->share);
    coll_status status = coll_interface_choose(
        options->interface, options->rendezvous_address,
        coll_identity_reaches_beyond(context->identities, context->size, context->rank),
        mine->address, reterr);
    if (status == COLL_OK) {
        status = coll_tcp_listen(mine->address, context->host_timeout_ns, &m->listener, &mine->port,
                                 reterr);
    }
    if (status == COLL_OK) {
        status = coll_descriptors_check("tcp", context->size - 1, reterr);
    }
    return status == COLL_OK ? make_connections(m, mine, reterr) : status;
}

static void drop_unused(connecting *m)
{
    for (int i = 0; i < COLL_HANDSHAKES_MAX; i++) {
        coll_handshake_drop(&m->handshakes.all[i]);
    }
    for (int rank = 0; rank < m->context->size; rank++) {
        if (m->fresh[rank] >= 0) {
            (void)close(m->fresh[rank]);
        }
        if ((m->missing >> rank & 1) != 0) {
            coll_conn_destroy(m->connections[rank]);
            m->connections[rank] = NULL;
        }
    }
    if (m->listener >= 0) {
        (void)close(m->listener);
    }
}

coll_status coll_tcp_links_open(coll_context *context, const coll_context_options *options,
                                int64_t deadline_ns, coll_status status, coll_conn **connections,
                                coll_error *reterr)
{
    coll_tcp_record mine = {.auth = (uint8_t)options->tcp_auth,
                            .has_key = options->job_key != NULL};
    coll_tcp_record *all = calloc((size_t)context->size, sizeof *all);
    connecting *m = calloc(1, sizeof *m);
    if (m != NULL) {
        *m = (connecting){.context = context,
                          .connections = connections,
                          .all = all,
                          .auth = options->tcp_auth,
                          .listener = -1,
                          .hung_up = -1};
        memset(m->socks, -1, sizeof m->socks);
        memset(m->fresh, -1, sizeof m->fresh);
    }
    if (status == COLL_OK) {
        status =
            all == NULL || m == NULL
                ? coll_fail(reterr, COLL_ERR_MEMORY, "no memory to connect %d ranks (%zu bytes)",
                            context->size, sizeof *m + (size_t)context->size * sizeof *all)
                : prepare(m, options, &mine, reterr);
    }
    const coll_rendezvous_part part = {options, &mine, all, sizeof mine, deadline_ns, status};
    status = coll_rendezvous(context, &part, reterr);
    if (status == COLL_OK) {
        status = coll_tcp_records_check(context, all, reterr);
    }
    if (status == COLL_OK) {
        BASE_ASSERT(m != NULL); /* else it has failed above */
        coll_tcp_records_key(options->job_key, all, context->size, m->job_key);
        status = connect_all(m, deadline_ns, reterr);
    }
    if (m != NULL) {
        drop_unused(m);
        sodium_memzero(m, sizeof *m);
    }
    if (all != NULL) {
        sodium_memzero(all, (size_t)context->size * sizeof *all);
    }
    sodium_memzero(&mine, sizeof mine);
    free(m);
    free(all);
    return status;
}
