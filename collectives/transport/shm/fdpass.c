/* Passes descriptors between ranks of one host over abstract Unix sockets. Called by shm.c and
 * hybrid.c, to open a communicator's segments and each arena. */
#include "transport/shm/fdpass.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "core/descriptors.h"
#include "core/failure.h"
#include "core/rendezvous.h"
#include "core/text.h"

enum {
    NONCE_BYTES = 16,
    NAME_BYTES = 16,   /* an autobound name is a NUL and five hex digits */
    NAMED_BYTES = 128, /* a rank, as messages name it */
    MADE_BYTES = 240,  /* what a rank makes, as messages name it */
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

static coll_status connect_to(coll_context *context, int rank, const fdpass_record *record,
                              int64_t deadline_ns, coll_error *reterr)
{
    if (record->name_bytes == 0 || record->name_bytes > NAME_BYTES) {
        return coll_fail(reterr, COLL_ERR_PEER, "rank %d sent a socket name of %u bytes", rank,
                         (unsigned)record->name_bytes);
    }
    const int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (sock < 0) {
        return coll_fail_errno(reterr, errno, "cannot make a local socket");
    }
    context->socks[rank] = sock;
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

/* Until one of them can be read; slices, so that an abort is seen. */
static coll_status wait_any(coll_context *context, struct pollfd *items, nfds_t count,
                            int64_t deadline_ns, coll_error *reterr)
{
    for (;;) {
        const int ready = poll(items, count, base_deadline_poll_ms(deadline_ns, POLL_SLICE_MS));
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

/* Connections whose peer has not identified itself yet. */
typedef struct acceptor {
    int listener;
    const uint8_t *nonce;
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

/* Receives the hello of a pending connection; true if it is a rank that was missing. */
static bool receive_hello(coll_context *context, acceptor *l, int index)
{
    fdpass_hello hello = {.rank = 0};
    const int sock = l->pending[index];
    const ssize_t got = recv(sock, &hello, sizeof hello, MSG_DONTWAIT);
    if (got != (ssize_t)sizeof hello || memcmp(hello.nonce, l->nonce, NONCE_BYTES) != 0 ||
        hello.rank <= (uint32_t)context->rank || hello.rank >= (uint32_t)context->size ||
        context->socks[hello.rank] >= 0) {
        reject(l, index);
        return false;
    }
    take_out(l, index);
    context->socks[hello.rank] = sock;
    return true;
}

/* One look at all connections; the ranks that have come are taken off *missing. */
static coll_status look(coll_context *context, acceptor *l, int64_t deadline_ns, int *missing,
                        coll_error *reterr)
{
    struct pollfd items[1 + PENDING_MAX] = {{.fd = l->listener, .events = POLLIN}};
    const int count = l->pending_count;
    for (int i = 0; i < count; i++) {
        items[1 + i] = (struct pollfd){.fd = l->pending[i], .events = POLLIN};
    }
    coll_status status = wait_any(context, items, (nfds_t)count + 1, deadline_ns, reterr);
    for (int i = count - 1; status == COLL_OK && i >= 0; i--) {
        if (items[1 + i].revents != 0 && receive_hello(context, l, i)) {
            --*missing;
        }
    }
    if (status == COLL_OK && items[0].revents != 0) {
        status = accept_one(l, reterr);
    }
    return status;
}

/* Ranks of this host above this one connect to it. Strangers may do so, too, and say nothing. */
static coll_status accept_all(coll_context *context, int listener, const uint8_t *nonce,
                              int64_t deadline_ns, coll_error *reterr)
{
    acceptor l = {.listener = listener, .nonce = nonce};
    coll_status status = COLL_OK;
    int missing = 0;
    for (int rank = context->rank + 1; rank < context->size; rank++) {
        missing += coll_context_is_here(context, rank);
    }
    while (status == COLL_OK && missing > 0) {
        status = look(context, &l, deadline_ns, &missing, reterr);
        if (status == COLL_OK && missing > 0) { /* strangers may come without end */
            status = may_wait(context, deadline_ns, reterr);
        }
    }
    while (l.pending_count > 0) {
        reject(&l, 0);
    }
    return status == COLL_OK
               ? COLL_OK
               : coll_error_prepend(reterr, status, "waiting for %d ranks to connect", missing);
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

coll_status coll_fdpass_send(coll_context *context, int rank, int fd,
                             const coll_fdpass_label *label, coll_error *reterr)
{
    coll_fdpass_label sent = *label;
    struct iovec body = {.iov_base = &sent, .iov_len = sizeof sent};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    memset(&control, 0, sizeof control);
    struct msghdr message = {.msg_iov = &body, .msg_iovlen = 1};
    if (fd >= 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(head), &fd, sizeof fd);
    }
    if (sendmsg(context->socks[rank], &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
        const int reason = errno;
        char name[NAMED_BYTES];
        coll_context_rank_text(context, rank, name, sizeof name);
        const coll_status status =
            coll_fail_errno(reterr, reason, "cannot hand memory to %s", name);
        return reason == EPIPE || reason == ECONNRESET ? COLL_ERR_PEER : status;
    }
    return COLL_OK;
}

static void discard(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
    }
    *fd = -1;
}

/* Takes the one descriptor out of a message, closes any others; -1 if there is none. */
static int descriptor_of(struct msghdr *message)
{
    int fd = -1;
    for (struct cmsghdr *h = CMSG_FIRSTHDR(message); h != NULL; h = CMSG_NXTHDR(message, h)) {
        if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        const size_t count = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int received = -1;
            memcpy(&received, CMSG_DATA(h) + i * sizeof(int), sizeof received);
            if (fd < 0) {
                fd = received;
            } else {
                (void)close(received);
            }
        }
    }
    return fd;
}

/* The next message of a rank, if there is one: a label, and a descriptor or why there is none. */
static coll_status receive_one(coll_context *context, int rank, coll_fdpass_label *label,
                               coll_fdpass_answer *answer, coll_error *reterr)
{
    char name[NAMED_BYTES];
    struct iovec body = {.iov_base = label, .iov_len = sizeof *label};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(4 * sizeof(int))];
    } control;
    struct msghdr message = {.msg_iov = &body, .msg_iovlen = 1, .msg_control = control.bytes};
    ssize_t got = -1;
    *answer = (coll_fdpass_answer){.fd = -1};
    /* If the rank has ended without having read all, that comes first, and then what it has sent. */
    for (int tries = 0; got < 0 && tries < 2; tries++) {
        message.msg_controllen = sizeof control.bytes;
        got = recvmsg(context->socks[rank], &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    }
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return COLL_OK;
    }
    answer->has_come = got > 0;
    answer->fd = got > 0 ? descriptor_of(&message) : -1;
    label->lack[sizeof label->lack - 1] = '\0';
    if (got == (ssize_t)sizeof *label && (answer->fd >= 0) == (label->lack[0] == '\0')) {
        return COLL_OK;
    }
    coll_context_rank_text(context, rank, name, sizeof name);
    if (got > 0 && answer->fd < 0 && (message.msg_flags & MSG_CTRUNC) != 0) {
        return coll_fail(reterr, COLL_ERR_IO,
                         "no free descriptor for memory of %s: raise the limit of open files "
                         "(ulimit -n)",
                         name);
    }
    discard(&answer->fd);
    answer->is_gone = true;
    return coll_fail(reterr, COLL_ERR_PEER, "%s is gone", name);
}

/* The upper half of a tag is that of its list's hash, or inverted (hybrid.c). Then comes how many
 * communicators had been made of the list; arenas are counted in the rest. */
static bool is_of_list(uint64_t tag, uint64_t list_hash)
{
    const uint32_t list = (uint32_t)(list_hash >> 32);
    return (uint32_t)(tag >> 32) == list || (uint32_t)(tag >> 32) == ~list;
}

/* Whether a peer made this for a communicator that this rank has begun to make before, and is not
 * making now. It has given that up, else it would have taken this then. */
static bool is_stale(const coll_context *context, uint64_t tag, uint64_t wanted)
{
    bool begun = false;
    for (size_t i = 0; i < context->made_count; i++) {
        const coll_comm_count *made = &context->made[i];
        begun = begun || (is_of_list(tag, made->list_hash) && (uint32_t)tag >> 16 <= made->count);
    }
    return begun && tag >> 16 != wanted >> 16;
}

/* What a label stands on, as text. */
static void made_text(const coll_fdpass_label *label, char *text, size_t size_bytes)
{
    char what[MADE_BYTES];
    int ranks[COLL_RANKS_MAX];
    if (label->rank_count == 0 || label->rank_count > COLL_RANKS_MAX) {
        (void)snprintf(text, size_bytes, "memory %016" PRIx64 " of %" PRIu64 " bytes", label->tag,
                       label->size_bytes);
        return;
    }
    for (uint32_t i = 0; i < label->rank_count; i++) {
        ranks[i] = label->ranks[i];
    }
    coll_list_text(ranks, (int)label->rank_count, coll_comm_number(label->tag), what, sizeof what);
    if (label->arena == 0) {
        (void)snprintf(text, size_bytes, "%s", what);
    } else {
        (void)snprintf(text, size_bytes, "arena %u (%" PRIu64 " bytes) of %s",
                       (unsigned)label->arena, label->size_bytes, what);
    }
}

static coll_status fail_mismatch(const coll_context *context, int rank,
                                 const coll_fdpass_label *theirs, const coll_fdpass_label *mine,
                                 coll_error *reterr)
{
    char name[NAMED_BYTES];
    char own_name[NAMED_BYTES];
    char made[MADE_BYTES];
    char own_made[MADE_BYTES];
    coll_context_rank_text(context, rank, name, sizeof name);
    coll_context_rank_text(context, context->rank, own_name, sizeof own_name);
    made_text(theirs, made, sizeof made);
    made_text(mine, own_made, sizeof own_made);
    return coll_fail(reterr, COLL_ERR_MISMATCH,
                     "ranks disagree on what they make: %s makes %s, %s makes %s", name, made,
                     own_name, own_made);
}

coll_status coll_fdpass_take(coll_context *context, int rank, const coll_fdpass_label *label,
                             coll_fdpass_answer *answer, coll_error *reterr)
{
    coll_fdpass_label got = {.tag = 0};
    coll_status status = receive_one(context, rank, &got, answer, reterr);
    while (status == COLL_OK && answer->has_come && is_stale(context, got.tag, label->tag)) {
        discard(&answer->fd);
        status = receive_one(context, rank, &got, answer, reterr);
    }
    if (status != COLL_OK || !answer->has_come) {
        return status;
    }
    if (got.tag != label->tag || got.size_bytes != label->size_bytes) {
        discard(&answer->fd);
        return fail_mismatch(context, rank, &got, label, reterr);
    }
    if (answer->fd < 0) {
        char name[NAMED_BYTES];
        coll_context_rank_text(context, rank, name, sizeof name);
        coll_text_clean(got.lack);
        memcpy(answer->lack, got.lack, sizeof answer->lack);
        return coll_fail(reterr, COLL_ERR_PEER, "%s failed: %s", name, got.lack);
    }
    return COLL_OK;
}

coll_status coll_fdpass_receive(coll_context *context, int rank, const coll_fdpass_label *label,
                                int64_t deadline_ns, int *fd, coll_error *reterr)
{
    coll_fdpass_answer answer;
    coll_status status = coll_fdpass_take(context, rank, label, &answer, reterr);
    while (status == COLL_OK && !answer.has_come) {
        char name[NAMED_BYTES];
        struct pollfd item = {.fd = context->socks[rank], .events = POLLIN};
        status = wait_any(context, &item, 1, deadline_ns, reterr);
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
