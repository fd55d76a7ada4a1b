/* Connects the ranks of one host over abstract Unix sockets, and waits for descriptors there while a
 * context is made. Called by shm.c and hybrid.c. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "core/descriptors.h"
#include "core/failure.h"
#include "core/missing.h"
#include "core/rendezvous.h"
#include "core/text.h"
#include "transport/shm/fdpass.h"

enum {
    NONCE_BYTES = 16,
    NAME_BYTES = 16,   /* an autobound name is a NUL and five hex digits */
    NAMED_BYTES = 128, /* a rank, as messages name it */
    POLL_SLICE_MS = 20,
    PENDING_MAX = COLL_RANKS_MAX + 16, /* connected, and not known yet; strangers included */
};

/* What the exchange carries. */
typedef struct fdpass_record {
    uint8_t nonce[NONCE_BYTES];
    uint8_t name[NAME_BYTES];
    uint32_t name_bytes;
} fdpass_record;

/* What the connecting side says first. */
typedef struct fdpass_hello {
    uint8_t nonce[NONCE_BYTES]; /* the listener's */
    uint32_t rank;
} fdpass_hello;

static coll_status listen_anywhere(int *listener, fdpass_record *record, coll_error *reterr)
{
    *listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*listener < 0) {
        return coll_fail_errno(reterr, errno, "cannot make a local socket");
    }
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t length = sizeof address;
    if (bind(*listener, (const struct sockaddr *)&address, sizeof address.sun_family) != 0 ||
        listen(*listener, 2 * COLL_RANKS_MAX) != 0 ||
        getsockname(*listener, (struct sockaddr *)&address, &length) != 0) {
        return coll_fail_errno(reterr, errno, "cannot listen on a local socket");
    }
    const size_t name_bytes = length - offsetof(struct sockaddr_un, sun_path);
    if (name_bytes == 0 || name_bytes > NAME_BYTES) {
        return coll_fail(reterr, COLL_ERR_IO, "a local socket got a name of %zu bytes", name_bytes);
    }
    memcpy(record->name, address.sun_path, name_bytes);
    record->name_bytes = (uint32_t)name_bytes;
    if (getrandom(record->nonce, NONCE_BYTES, 0) != NONCE_BYTES) {
        return coll_fail_errno(reterr, errno, "cannot get random bytes");
    }
    return COLL_OK;
}

/* Whether a wait may go on: there is time left, and nobody has aborted. */
static coll_status may_wait(coll_context *context, int64_t deadline_ns, coll_error *reterr)
{
    const coll_status aborted = coll_abort_check(context, reterr);
    if (aborted != COLL_OK) {
        return aborted;
    }
    return base_now_ns() < deadline_ns ? COLL_OK
                                       : coll_fail(reterr, COLL_ERR_TIMEOUT, "no answer in time");
}

/* A connect waits while the listener's backlog is full; in slices, so that an abort is seen. */
static coll_status connect_in_time(coll_context *context, int sock,
                                   const struct sockaddr_un *address, socklen_t length,
                                   int64_t deadline_ns, coll_error *reterr)
{
    const struct timeval slice = {.tv_usec = POLL_SLICE_MS * 1000};
    if (setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &slice, sizeof slice) != 0) {
        return coll_fail_errno(reterr, errno, "cannot limit a wait");
    }
    while (connect(sock, (const struct sockaddr *)address, length) != 0) {
        if (errno != EAGAIN && errno != EINTR) {
            return coll_fail_errno(reterr, errno, "its local socket refuses");
        }
        const coll_status status = may_wait(context, deadline_ns, reterr);
        if (status != COLL_OK) {
            return status;
        }
    }
    return COLL_OK;
}

/* A socket for each rank of this host below this one: now the others can be told that there is none. */
static coll_status make_sockets(coll_context *context, coll_error *reterr)
{
    for (int rank = 0; rank < context->rank; rank++) {
        if (!coll_context_is_here(context, rank)) {
            continue;
        }
        context->socks[rank] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        if (context->socks[rank] < 0) {
            return coll_fail_errno(reterr, errno, "cannot make a local socket");
        }
    }
    return COLL_OK;
}

static coll_status connect_to(coll_context *context, int rank, const fdpass_record *record,
                              int64_t deadline_ns, coll_error *reterr)
{
    if (record->name_bytes == 0 || record->name_bytes > NAME_BYTES) {
        return coll_fail(reterr, COLL_ERR_PEER, "rank %d sent a socket name of %u bytes", rank,
                         (unsigned)record->name_bytes);
    }
    const int sock = context->socks[rank];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, record->name, record->name_bytes);
    const socklen_t length =
        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + record->name_bytes);
    fdpass_hello hello = {.rank = (uint32_t)context->rank};
    memcpy(hello.nonce, record->nonce, NONCE_BYTES);
    coll_status status = connect_in_time(context, sock, &address, length, deadline_ns, reterr);
    if (status == COLL_OK &&
        send(sock, &hello, sizeof hello, MSG_NOSIGNAL) != (ssize_t)sizeof hello) {
        status = coll_fail_errno(reterr, errno, "its local socket refuses");
    }
    char name[NAMED_BYTES];
    coll_context_rank_text(context, rank, name, sizeof name);
    return status == COLL_OK ? COLL_OK
                             : coll_error_prepend(reterr, status, "cannot connect to %s", name);
}

/* Connections whose peer has not identified itself yet. */
typedef struct acceptor {
    int listener;
    const uint8_t *nonce;
    uint64_t missing;         /* a bit for each rank that is to connect */
    int pending[PENDING_MAX]; /* sockets, in the order in which they came */
    int pending_count;
} acceptor;

static void take_out(acceptor *l, int index)
{
    l->pending_count--;
    memmove(&l->pending[index], &l->pending[index + 1],
            (size_t)(l->pending_count - index) * sizeof l->pending[0]);
}

static void reject(acceptor *l, int index)
{
    (void)close(l->pending[index]);
    take_out(l, index);
}

static bool is_of_this_user(int sock)
{
    struct ucred credentials;
    socklen_t length = sizeof credentials;
    return getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &credentials, &length) == 0 &&
           credentials.uid == geteuid();
}

/* Accepts one connection. If too many are pending, the one that has been silent for longest is
 * closed. */
static coll_status accept_one(acceptor *l, coll_error *reterr)
{
    const int sock = accept4(l->listener, NULL, NULL, SOCK_CLOEXEC);
    if (sock < 0) {
        return errno == EAGAIN || errno == EINTR || errno == ECONNABORTED
                   ? COLL_OK
                   : coll_fail_errno(reterr, errno, "cannot accept a local connection");
    }
    if (!is_of_this_user(sock)) {
        (void)close(sock);
        return COLL_OK;
    }
    if (l->pending_count == PENDING_MAX) {
        reject(l, 0);
    }
    l->pending[l->pending_count++] = sock;
    return COLL_OK;
}

/* Receives the hello of a pending connection. */
static void receive_hello(coll_context *context, acceptor *l, int index)
{
    fdpass_hello hello = {.rank = 0};
    const int sock = l->pending[index];
    const ssize_t got = recv(sock, &hello, sizeof hello, MSG_DONTWAIT);
    if (got != (ssize_t)sizeof hello || memcmp(hello.nonce, l->nonce, NONCE_BYTES) != 0 ||
        hello.rank >= (uint32_t)context->size || (l->missing >> hello.rank & 1) == 0) {
        reject(l, index);
        return;
    }
    take_out(l, index);
    context->socks[hello.rank] = sock;
    l->missing &= ~(UINT64_C(1) << hello.rank);
}

/* One look at all connections. If nothing comes, the ranks that are missing may be gone. */
static coll_status look(coll_context *context, acceptor *l, int64_t deadline_ns, coll_error *reterr)
{
    struct pollfd items[1 + PENDING_MAX] = {{.fd = l->listener, .events = POLLIN}};
    const int count = l->pending_count;
    for (int i = 0; i < count; i++) {
        items[1 + i] = (struct pollfd){.fd = l->pending[i], .events = POLLIN};
    }
    const int ready =
        poll(items, (nfds_t)count + 1, base_deadline_poll_ms(deadline_ns, POLL_SLICE_MS));
    if (ready < 0 && errno != EINTR) {
        return coll_fail_errno(reterr, errno, "cannot poll a local socket");
    }
    if (ready <= 0) {
        return coll_missing_check(context, l->missing, context->socks, reterr);
    }
    for (int i = count - 1; i >= 0; i--) {
        if (items[1 + i].revents != 0) {
            receive_hello(context, l, i);
        }
    }
    return items[0].revents != 0 ? accept_one(l, reterr) : COLL_OK;
}

/* Ranks of this host above this one connect to it. Strangers may do so, too, and say nothing. */
static coll_status accept_all(coll_context *context, int listener, const uint8_t *nonce,
                              int64_t deadline_ns, coll_error *reterr)
{
    acceptor l = {.listener = listener, .nonce = nonce};
    coll_status status = COLL_OK;
    for (int rank = context->rank + 1; rank < context->size; rank++) {
        l.missing |= (uint64_t)coll_context_is_here(context, rank) << rank;
    }
    while (status == COLL_OK && l.missing != 0) {
        status = may_wait(context, deadline_ns, reterr); /* strangers may come without end */
        status = status == COLL_OK ? look(context, &l, deadline_ns, reterr)
                                   : coll_missing_blame(context, l.missing, status, reterr);
    }
    while (l.pending_count > 0) {
        reject(&l, 0);
    }
    return status;
}

coll_status coll_fdpass_open(coll_context *context, const coll_context_options *options,
                             int64_t deadline_ns, coll_status status, coll_error *reterr)
{
    fdpass_record mine = {.name_bytes = 0};
    fdpass_record all[COLL_RANKS_MAX];
    int listener = -1;
    status = status == COLL_OK ? listen_anywhere(&listener, &mine, reterr) : status;
    if (status == COLL_OK) {
        status = coll_descriptors_check("shm", coll_context_neighbours(context), reterr);
    }
    if (status == COLL_OK) {
        status = make_sockets(context, reterr);
    }
    const coll_rendezvous_part part = {options, &mine, all, sizeof mine, deadline_ns, status};
    status = coll_rendezvous(context, &part, reterr);
    for (int rank = 0; status == COLL_OK && rank < context->rank; rank++) {
        if (coll_context_is_here(context, rank)) {
            status = connect_to(context, rank, &all[rank], deadline_ns, reterr);
        }
    }
    if (status == COLL_OK) {
        status = accept_all(context, listener, mine.nonce, deadline_ns, reterr);
    }
    if (listener >= 0) {
        (void)close(listener);
    }
    return status;
}

void coll_fdpass_close(coll_context *context)
{
    for (int rank = 0; rank < COLL_RANKS_MAX; rank++) {
        if (context->socks[rank] >= 0) {
            (void)close(context->socks[rank]);
            context->socks[rank] = -1;
        }
    }
}

/* Until the socket can be read; in slices, so that an abort is seen. */
static coll_status wait_for(coll_context *context, int sock, int64_t deadline_ns,
                            coll_error *reterr)
{
    for (;;) {
        struct pollfd item = {.fd = sock, .events = POLLIN};
        const int ready = poll(&item, 1, base_deadline_poll_ms(deadline_ns, POLL_SLICE_MS));
        if (ready > 0) {
            return COLL_OK;
        }
        if (ready < 0 && errno != EINTR) {
            return coll_fail_errno(reterr, errno, "cannot poll a local socket");
        }
        const coll_status status = may_wait(context, deadline_ns, reterr);
        if (status != COLL_OK) {
            return status;
        }
    }
}

coll_status coll_fdpass_receive(coll_context *context, int rank, const coll_fdpass_label *label,
                                int64_t deadline_ns, int *fd, coll_error *reterr)
{
    coll_fdpass_answer answer;
    coll_status status = coll_fdpass_take(context, rank, label, &answer, reterr);
    while (status == COLL_OK && !answer.has_come) {
        char name[NAMED_BYTES];
        status = wait_for(context, context->socks[rank], deadline_ns, reterr);
        if (status != COLL_OK) {
            coll_context_rank_text(context, rank, name, sizeof name);
            (void)coll_error_prepend(reterr, status, "waiting for memory of %s", name);
        } else {
            status = coll_fdpass_take(context, rank, label, &answer, reterr);
        }
    }
    *fd = status == COLL_OK ? answer.fd : -1;
    return status;
}
