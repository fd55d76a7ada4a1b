/* Rank 0 of a bootstrap: listens until every other rank has come. Strangers may connect meanwhile, and
 * send anything or nothing: they have a place until others need it, and nothing waits for them. Called
 * by bootstrap.c. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "bootstrap/bootstrap.h"
#include "transport/socket/options.h"
#include "transport/tcp/listen.h"

enum {
    GUESTS_MAX = 2 * COLL_RANKS_MAX, /* connections whose rank has not joined yet */
    BACKLOG = 1024,
};

typedef enum guest_stage {
    GUEST_FREE = 0,
    GUEST_HELLO, /* its hello and tag are to come */
    GUEST_PROOF, /* has our answer: its proof is to come */
    GUEST_JOIN,  /* has a link: its first frame is to come */
} guest_stage;

typedef struct guest {
    guest_stage stage;
    int fd;           /* the link's, in stage JOIN */
    uint64_t arrival; /* its number among the connections accepted */
    coll_hello theirs;
    coll_hello own;
    uint8_t received[COLL_OPENING_BYTES];
    size_t received_bytes;
    coll_bootstrap_link *link;
} guest;

typedef struct admission {
    coll_bootstrap *bootstrap;
    int listener;
    int64_t deadline_ns;
    uint64_t accepted;
    guest guests[GUESTS_MAX];
} admission;

/* ---- listening ---- */

/* errno says why it is -1. */
static int listen_at(const struct addrinfo *at)
{
    const int on = 1;
    const int off = 0;
    const int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -1;
    }
    coll_tcp_options_fresh(fd, COLL_BOOTSTRAP_HOST_TIMEOUT_NS);
    if (at->ai_family == AF_INET6) { /* IPv4 comes there, too */
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    }
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0) {
        return fd;
    }
    const int error = errno;
    (void)close(fd);
    errno = error;
    return -1;
}

/* A numeric address is listened at; what is none is a name, and then all addresses are. */
static coll_status open_listener(admission *m, coll_error *reterr)
{
    const coll_bootstrap *bootstrap = m->bootstrap;
    const char *const places[] = {bootstrap->host, "::", "0.0.0.0"};
    m->listener = -1;
    for (int i = 0; i < 3 && m->listener < 0; i++) {
        struct addrinfo *at = NULL;
        if (coll_tcp_resolve(places[i], (uint16_t)bootstrap->port, &at, NULL) == COLL_OK) {
            m->listener = listen_at(at);
            freeaddrinfo(at);
            if (m->listener < 0 && (i == 0 || errno == EADDRINUSE)) {
                break;
            }
        }
    }
    if (m->listener >= 0) {
        return COLL_OK;
    }
    return coll_fail(reterr, COLL_ERR_IO, "rank 0 cannot listen at %s port %d: %s%s",
                     bootstrap->host, bootstrap->port, strerror(errno),
                     errno == EADDRINUSE      ? " (another job's? choose another MASTER_PORT)"
                     : errno == EADDRNOTAVAIL ? " (is rank 0 on that host?)"
                                              : "");
}

/* ---- guests ---- */

static void drop(guest *g)
{
    if (g->stage == GUEST_JOIN) {
        coll_bootstrap_link_destroy(g->link);
    } else if (g->stage != GUEST_FREE) {
        (void)close(g->fd);
    }
    *g = (guest){.stage = GUEST_FREE};
}

/* The guest of the least stage, from this one on, and of these the oldest: so who has shown that it
 * knows the secret makes no room for who has not. NULL: there is none. */
static guest *find_least(admission *m, guest_stage from)
{
    guest *least = NULL;
    for (int i = 0; i < GUESTS_MAX; i++) {
        guest *g = &m->guests[i];
        if (g->stage >= from && (least == NULL || g->stage < least->stage ||
                                 (g->stage == least->stage && g->arrival < least->arrival))) {
            least = g;
        }
    }
    return least;
}

static void refuse(admission *m, guest *g)
{
    coll_bootstrap *bootstrap = m->bootstrap;
    uint8_t answer[COLL_ANSWER_BYTES] = {0};
    const coll_hello refusal = {.magic = COLL_BOOTSTRAP_REFUSAL,
                                .version = COLL_BOOTSTRAP_VERSION,
                                .peer = g->theirs.rank,
                                .world_size = (uint32_t)bootstrap->world_size,
                                .auth = bootstrap->has_secret};
    char address[COLL_ADDRESS_BYTES];
    coll_bootstrap_end_text(g->fd, true, address);
    (void)snprintf(bootstrap->refused, sizeof bootstrap->refused,
                   " (refused: a process at %s that calls itself rank %u: it %s)", address,
                   (unsigned)g->theirs.rank,
                   g->theirs.version != COLL_BOOTSTRAP_VERSION
                       ? "speaks another version of the bootstrap"
                   : bootstrap->has_secret ? "has another secret, or none"
                                           : "has a secret, which rank 0 has not");
    memcpy(answer, &refusal, sizeof refusal);
    (void)coll_handshake_send(g->fd, answer, sizeof answer);
    drop(g);
}

static void take_hello(admission *m, guest *g)
{
    const coll_bootstrap *bootstrap = m->bootstrap;
    const uint32_t magic = COLL_BOOTSTRAP_MAGIC;
    uint8_t answer[COLL_ANSWER_BYTES];
    const int got =
        coll_handshake_receive(g->fd, g->received, &g->received_bytes, COLL_OPENING_BYTES);
    if (got < 0 ||
        (g->received_bytes >= sizeof magic && memcmp(g->received, &magic, sizeof magic) != 0)) {
        drop(g);
        return;
    }
    if (got == 0) {
        return;
    }
    switch (coll_bootstrap_judge(bootstrap->link_key, g->received, &g->theirs)) {
    case COLL_BOOTSTRAP_ADMIT:
        break;
    case COLL_BOOTSTRAP_REFUSE:
        refuse(m, g);
        return;
    case COLL_BOOTSTRAP_DROP:
        drop(g);
        return;
    }
    coll_bootstrap_hello_make(&g->own, 0, (int)g->theirs.rank, bootstrap->world_size);
    memcpy(answer, &g->own, sizeof g->own);
    coll_proof_make(bootstrap->link_key, true, &g->theirs, &g->own, answer + sizeof g->own);
    if (!coll_handshake_send(g->fd, answer, sizeof answer)) {
        drop(g);
        return;
    }
    g->received_bytes = 0;
    g->stage = GUEST_PROOF;
}

static coll_status take_proof(admission *m, guest *g, coll_error *reterr)
{
    const int got =
        coll_handshake_receive(g->fd, g->received, &g->received_bytes, COLL_PROOF_BYTES);
    if (got == 0) {
        return COLL_OK;
    }
    if (got < 0 ||
        !coll_proof_fits(m->bootstrap->link_key, false, &g->theirs, &g->own, g->received)) {
        drop(g);
        return COLL_OK;
    }
    coll_bootstrap_link *link = coll_bootstrap_link_create(
        g->fd, (int)g->theirs.rank, m->bootstrap->link_key, true, &g->theirs, &g->own);
    g->link = link;
    g->stage = link != NULL ? GUEST_JOIN : GUEST_FREE;
    return coll_bootstrap_link_check(link, reterr);
}

/* ---- ranks ---- */

/* Whether the newcomer can be the rank that it says. */
static coll_status check_rank(const admission *m, const guest *g, coll_error *reterr)
{
    const coll_bootstrap *bootstrap = m->bootstrap;
    char newcomer[COLL_BOOTSTRAP_TEXT_BYTES];
    coll_bootstrap_link_text(g->link, newcomer, sizeof newcomer);
    if (g->theirs.world_size != (uint32_t)bootstrap->world_size) {
        return coll_fail(reterr, COLL_ERR_MISMATCH,
                         "%s counts %u ranks, and rank 0 (host %s, pid %u) counts %d", newcomer,
                         (unsigned)g->theirs.world_size, bootstrap->process.host,
                         (unsigned)bootstrap->process.pid, bootstrap->world_size);
    }
    if (g->link->rank >= bootstrap->world_size) {
        return coll_fail(reterr, COLL_ERR_MISMATCH, "%s is none of %d ranks", newcomer,
                         bootstrap->world_size);
    }
    if (bootstrap->links[g->link->rank] != NULL) {
        char other[COLL_BOOTSTRAP_TEXT_BYTES];
        coll_bootstrap_link_text(bootstrap->links[g->link->rank], other, sizeof other);
        return coll_fail(reterr, COLL_ERR_MISMATCH,
                         "two processes take themselves for one rank: %s and %s", other, newcomer);
    }
    return COLL_OK;
}

static coll_status take_join(admission *m, guest *g, coll_error *reterr)
{
    coll_bootstrap *bootstrap = m->bootstrap;
    coll_bootstrap_frame frame;
    coll_bootstrap_note note;
    const coll_bootstrap_arrival arrival = coll_bootstrap_link_receive(g->link, &frame);
    if (arrival == COLL_BOOTSTRAP_WAITS) {
        return COLL_OK;
    }
    if (arrival != COLL_BOOTSTRAP_CAME || frame.kind != COLL_BOOTSTRAP_NOTE ||
        !coll_bootstrap_note_read(frame.body, frame.size_bytes, &note)) {
        drop(g);
        return COLL_OK;
    }
    coll_bootstrap_link *link = g->link;
    link->process = note.process;
    const coll_status status = note.status != COLL_OK ? coll_bootstrap_pass_on(link, &note, reterr)
                                                      : check_rank(m, g, reterr);
    if (status != COLL_OK) {
        return status; /* which the newcomer is told, too */
    }
    *g = (guest){.stage = GUEST_FREE};
    bootstrap->links[link->rank] = link;
    bootstrap->missing &= ~(UINT64_C(1) << link->rank);
    if (bootstrap->address[0] == '\0' || coll_address_is_loopback(bootstrap->address)) {
        coll_bootstrap_end_text(link->fd, false, bootstrap->address);
    }
    return coll_bootstrap_tell_missing(bootstrap, reterr);
}

/* ---- the loop ---- */

/* Called where a connection waits. Without descriptors a guest goes; without any guest that is
 * an error. */
static coll_status accept_all(admission *m, coll_error *reterr)
{
    for (int i = 0; i < GUESTS_MAX; i++) {
        const int fd = accept4(m->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            const int error = errno;
            const bool scarce =
                error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
            if (!scarce || i > 0) {
                return COLL_OK;
            }
            guest *least = find_least(m, GUEST_HELLO);
            if (least == NULL) {
                return coll_fail_errno(reterr, error, "rank 0 cannot accept a connection");
            }
            drop(least);
            continue;
        }
        guest *g = find_least(m, GUEST_FREE);
        BASE_ASSERT(g != NULL);
        drop(g);
        *g = (guest){.stage = GUEST_HELLO, .fd = fd, .arrival = m->accepted++};
        take_hello(m, g);
    }
    return COLL_OK;
}

static coll_status advance(admission *m, guest *g, coll_error *reterr)
{
    switch (g->stage) {
    case GUEST_FREE:
        break;
    case GUEST_HELLO:
        take_hello(m, g);
        break;
    case GUEST_PROOF:
        return take_proof(m, g, reterr);
    case GUEST_JOIN:
        return take_join(m, g, reterr);
    }
    return COLL_OK;
}

static coll_status look(admission *m, coll_error *reterr)
{
    struct pollfd items[1 + GUESTS_MAX + COLL_RANKS_MAX] = {{.fd = m->listener, .events = POLLIN}};
    guest *guests[1 + GUESTS_MAX];
    coll_bootstrap *bootstrap = m->bootstrap;
    coll_bootstrap_frame frame;
    bool came = false;
    size_t count = 1;
    for (int i = 0; i < GUESTS_MAX; i++) {
        if (m->guests[i].stage != GUEST_FREE) {
            guests[count] = &m->guests[i];
            items[count++] = (struct pollfd){.fd = m->guests[i].fd, .events = POLLIN};
        }
    }
    coll_status status =
        coll_bootstrap_wait(bootstrap, items, count, false, m->deadline_ns, reterr);
    for (int rank = 1; status == COLL_OK && rank < bootstrap->world_size; rank++) {
        coll_bootstrap_link *link = bootstrap->links[rank];
        if (link != NULL && link->is_ready) { /* it says nothing before all have joined */
            status = coll_bootstrap_take(bootstrap, link, &frame, &came, reterr);
        }
    }
    for (size_t i = 1; status == COLL_OK && i < count; i++) {
        status = items[i].revents != 0 ? advance(m, guests[i], reterr) : COLL_OK;
    }
    return status == COLL_OK && items[0].revents != 0 ? accept_all(m, reterr) : status;
}

static coll_status fail_late(const admission *m, coll_error *reterr)
{
    char missing[COLL_BOOTSTRAP_TEXT_BYTES];
    coll_bootstrap_list(m->bootstrap->missing, missing, sizeof missing);
    return coll_fail(reterr, COLL_ERR_TIMEOUT, "%s of %d did not come to %s port %d in time%s",
                     missing, m->bootstrap->world_size, m->bootstrap->host, m->bootstrap->port,
                     m->bootstrap->refused);
}

coll_status coll_bootstrap_admit(coll_bootstrap *bootstrap, int64_t deadline_ns, coll_error *reterr)
{
    admission m = {.bootstrap = bootstrap, .deadline_ns = deadline_ns};
    bootstrap->missing = coll_bootstrap_others(bootstrap);
    bootstrap->told = bootstrap->missing;
    coll_status status = open_listener(&m, reterr);
    while (status == COLL_OK && bootstrap->missing != 0) {
        status = base_now_ns() >= deadline_ns ? fail_late(&m, reterr) : look(&m, reterr);
    }
    for (int i = 0; i < GUESTS_MAX; i++) {
        if (status != COLL_OK && m.guests[i].stage == GUEST_JOIN) {
            coll_bootstrap_tell(bootstrap, m.guests[i].link, reterr);
        }
        drop(&m.guests[i]);
    }
    if (m.listener >= 0) {
        (void)close(m.listener);
    }
    return status;
}
