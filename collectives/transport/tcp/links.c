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
#include "transport/tcp/listen.h"
#include "transport/tcp/record.h"

enum {
    HANDSHAKES_MAX = 2 * COLL_RANKS_MAX, /* a peer has one at most; the others are for strangers */
    POLL_SLICE_MS = 20,
    PAUSE_MS = 10, /* before a connector tries again */
    LIST_BYTES = 400,
};

typedef enum handshake_stage {
    HANDSHAKE_FREE = 0,
    HANDSHAKE_PAUSE,      /* connector: has failed, and tries again soon; has no socket */
    HANDSHAKE_CONNECTING, /* connector: waits for the socket */
    HANDSHAKE_ANSWER,     /* connector: waits for the listener's hello and proof */
    HANDSHAKE_HELLO,      /* listener: waits for a hello and its tag */
    HANDSHAKE_PROOF,      /* listener: waits for the connector's proof */
} handshake_stage;

/* A handshake under way. */
typedef struct handshake {
    handshake_stage stage;
    int fd;
    int peer;         /* -1: not known yet */
    uint64_t arrival; /* HELLO: its number among the connections accepted */
    int64_t until_ns; /* PAUSE: when to try again */
    coll_hello own;
    coll_hello theirs;
    uint8_t received[COLL_ANSWER_BYTES];
    size_t received_bytes;
} handshake;

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
    int hung_up;               /* the last rank that hung up before its answer; -1: none */
    uint64_t accepted;
    /* By peer: how often this rank has tried, or the newest try that it has answered. */
    uint32_t attempts[COLL_RANKS_MAX];
    handshake handshakes[HANDSHAKES_MAX];
} connecting;

static void drop(handshake *g)
{
    if (g->stage != HANDSHAKE_FREE && g->stage != HANDSHAKE_PAUSE) {
        (void)close(g->fd);
    }
    g->stage = HANDSHAKE_FREE;
}

/* Drops the oldest of the accepted connections without a hello, and returns its place; NULL: there is none. */
static handshake *drop_oldest(connecting *m)
{
    handshake *oldest = NULL;
    for (int i = 0; i < HANDSHAKES_MAX; i++) {
        handshake *g = &m->handshakes[i];
        if (g->stage == HANDSHAKE_HELLO && (oldest == NULL || g->arrival < oldest->arrival)) {
            oldest = g;
        }
    }
    if (oldest != NULL) {
        drop(oldest);
    }
    return oldest;
}

/* Room for a connection that was accepted. */
static handshake *new_handshake(connecting *m)
{
    for (int i = 0; i < HANDSHAKES_MAX; i++) {
        if (m->handshakes[i].stage == HANDSHAKE_FREE) {
            return &m->handshakes[i];
        }
    }
    return drop_oldest(m);
}

/* A peer makes a new try only where it has given up the one before. */
static void drop_earlier_tries(connecting *m, int peer)
{
    for (int i = 0; i < HANDSHAKES_MAX; i++) {
        handshake *g = &m->handshakes[i];
        if (g->stage == HANDSHAKE_PROOF && g->peer == peer) {
            drop(g);
        }
    }
}

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
static coll_status connector_fail(connecting *m, handshake *g, int error, coll_error *reterr)
{
    const bool cut = error == EHOSTUNREACH || error == ENETUNREACH || error == ENETDOWN;
    const bool hung_up = error == ECONNRESET || error == EPIPE;
    m->hung_up = hung_up ? g->peer : m->hung_up;
    if (hung_up || (cut && base_now_ns() < m->began_ns + m->context->host_timeout_ns)) {
        drop(g);
        g->stage = HANDSHAKE_PAUSE;
        g->until_ns = base_now_ns() + PAUSE_MS * BASE_NS_PER_MS;
        return COLL_OK;
    }
    return connect_fail(m, g->peer, strerror(error), reterr);
}

static coll_status start_connecting(connecting *m, handshake *g, int peer, coll_error *reterr)
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
    *g = (handshake){.peer = peer};
    g->fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (g->fd < 0) {
        freeaddrinfo(to);
        return coll_fail_errno(reterr, errno, "cannot make a socket");
    }
    g->stage = HANDSHAKE_CONNECTING;
    coll_tcp_options_fresh(g->fd, m->context->host_timeout_ns);
    if (connect(g->fd, to->ai_addr, to->ai_addrlen) != 0 && errno != EINPROGRESS &&
        errno != EINTR) {
        status = connector_fail(m, g, errno, reterr);
    }
    freeaddrinfo(to);
    return status;
}

/* The handshake is done: the socket becomes the connection. */
static coll_status finish(connecting *m, handshake *g, bool listener, coll_error *reterr)
{
    coll_seal in;
    coll_seal out;
    const coll_hello *connector_hello = listener ? &g->theirs : &g->own;
    const coll_hello *listener_hello = listener ? &g->own : &g->theirs;
    coll_handshake_seals(m->job_key, listener, connector_hello, listener_hello, &in, &out);
    g->stage = HANDSHAKE_FREE;
    (void)coll_tcp_options_met(g->fd);
    const coll_status status =
        coll_conn_create(g->fd, g->peer, &in, &out, &m->connections[g->peer], reterr);
    coll_seal_wipe(&in);
    coll_seal_wipe(&out);
    m->missing &= ~(UINT64_C(1) << g->peer);
    m->socks[g->peer] = g->fd;
    return status;
}

static coll_status connector_hello(connecting *m, handshake *g, coll_error *reterr)
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
    g->stage = HANDSHAKE_ANSWER;
    return COLL_OK;
}

static coll_status connector_proof(connecting *m, handshake *g, coll_error *reterr)
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
    return finish(m, g, false, reterr);
}

/* Strangers are disconnected without an answer, and so is a hello that was here before. */
static void listener_hello(connecting *m, handshake *g)
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
        drop(g);
        return;
    }
    drop_earlier_tries(m, (int)g->theirs.rank);
    g->peer = (int)g->theirs.rank;
    m->attempts[g->peer] = g->theirs.attempt;
    coll_hello_make(&g->own, m->context->rank, g->peer, m->context->size, m->auth);
    memcpy(answer, &g->own, sizeof g->own);
    coll_proof_make(m->job_key, true, &g->theirs, &g->own, answer + sizeof g->own);
    if (!coll_handshake_send(g->fd, answer, sizeof answer)) {
        drop(g);
        return;
    }
    g->received_bytes = 0;
    g->stage = HANDSHAKE_PROOF;
}

static coll_status listener_proof(connecting *m, handshake *g, coll_error *reterr)
{
    const int got =
        coll_handshake_receive(g->fd, g->received, &g->received_bytes, COLL_PROOF_BYTES);
    if (got == 0) {
        return COLL_OK;
    }
    if (got < 0 || m->connections[g->peer] != NULL ||
        !coll_proof_fits(m->job_key, false, &g->theirs, &g->own, g->received)) {
        drop(g);
        return COLL_OK;
    }
    return finish(m, g, true, reterr);
}

/* Called where a connection waits. One that cannot be taken would wake each poll: what strangers hold goes first, and
 * without any it is an error. (Without a descriptor accept4 fails where nobody waits, too.) */
static coll_status accept_all(connecting *m, coll_error *reterr)
{
    for (int i = 0; i < HANDSHAKES_MAX; i++) {
        const int fd = accept4(m->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            const int error = errno;
            const bool scarce =
                error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
            if (!scarce || i > 0) {
                return COLL_OK;
            }
            if (drop_oldest(m) != NULL) {
                continue;
            }
            return coll_fail_errno(reterr, error, "cannot accept a connection");
        }
        handshake *g = new_handshake(m);
        /* Those with a hello, and this rank's own, are half of them at most. */
        BASE_ASSERT(g != NULL);
        *g = (handshake){.stage = HANDSHAKE_HELLO, .fd = fd, .peer = -1, .arrival = m->accepted++};
        listener_hello(m, g); /* in a crowd it is here by now, and then nobody takes its place */
    }
    return COLL_OK;
}

static coll_status advance(connecting *m, handshake *g, coll_error *reterr)
{
    switch (g->stage) {
    case HANDSHAKE_FREE:
    case HANDSHAKE_PAUSE:
        break;
    case HANDSHAKE_CONNECTING:
        return connector_hello(m, g, reterr);
    case HANDSHAKE_ANSWER:
        return connector_proof(m, g, reterr);
    case HANDSHAKE_HELLO:
        listener_hello(m, g);
        break;
    case HANDSHAKE_PROOF:
        return listener_proof(m, g, reterr);
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
    struct pollfd items[HANDSHAKES_MAX + 1] = {{.fd = m->listener, .events = POLLIN}};
    handshake *of[HANDSHAKES_MAX + 1] = {NULL};
    nfds_t count = 1;
    for (int i = 0; i < HANDSHAKES_MAX; i++) {
        handshake *g = &m->handshakes[i];
        if (g->stage == HANDSHAKE_PAUSE && base_now_ns() >= g->until_ns) {
            const coll_status status = start_connecting(m, g, g->peer, reterr);
            if (status != COLL_OK) {
                return status;
            }
        }
        if (g->stage != HANDSHAKE_FREE && g->stage != HANDSHAKE_PAUSE) {
            of[count] = g;
            items[count++] = (struct pollfd){
                .fd = g->fd, .events = g->stage == HANDSHAKE_CONNECTING ? POLLOUT : POLLIN};
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
    for (int rank = 0; rank < m->context->size; rank++) {
        m->missing |= (uint64_t)(rank != m->context->rank) << rank;
        m->socks[rank] = -1;
    }
    for (int rank = 0; status == COLL_OK && rank < m->context->rank; rank++) {
        status = start_connecting(m, &m->handshakes[rank], rank, reterr);
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
    return status == COLL_OK ? coll_descriptors_check("tcp", context->size - 1, reterr) : status;
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
    }
    if (status == COLL_OK) {
        status = all == NULL || m == NULL
                     ? coll_fail(reterr, COLL_ERR_MEMORY, "no memory for %d ranks", context->size)
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
    for (int i = 0; m != NULL && i < HANDSHAKES_MAX; i++) {
        drop(&m->handshakes[i]);
    }
    if (m != NULL && m->listener >= 0) {
        (void)close(m->listener);
    }
    if (m != NULL) {
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
