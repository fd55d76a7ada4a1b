#include "fdpass.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"

enum {
    NONCE_BYTES = 16,
    NAME_BYTES = 16, /* an autobound name is a NUL and five hex digits */
    POLL_SLICE_MS = 20,
    STRANGERS_MAX = 1024, /* connections refused before giving up */
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

/* What goes along with a descriptor. */
typedef struct fdpass_label {
    uint64_t tag;
    uint64_t size_bytes;
} fdpass_label;

static base_status listen_anywhere(int *listener, fdpass_record *record, base_error *reterr)
{
    *listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*listener < 0) {
        return base_fail_errno(reterr, errno, "cannot make a local socket");
    }
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t length = sizeof address;
    if (bind(*listener, (const struct sockaddr *)&address, sizeof address.sun_family) != 0 ||
        listen(*listener, 2 * COLL_RANKS_MAX) != 0 ||
        getsockname(*listener, (struct sockaddr *)&address, &length) != 0) {
        return base_fail_errno(reterr, errno, "cannot listen on a local socket");
    }
    const size_t name_bytes = length - offsetof(struct sockaddr_un, sun_path);
    if (name_bytes == 0 || name_bytes > NAME_BYTES) {
        return base_fail(reterr, BASE_ERR_IO, "a local socket got a name of %zu bytes", name_bytes);
    }
    memcpy(record->name, address.sun_path, name_bytes);
    record->name_bytes = (uint32_t)name_bytes;
    if (getrandom(record->nonce, NONCE_BYTES, 0) != NONCE_BYTES) {
        return base_fail_errno(reterr, errno, "cannot get random bytes");
    }
    return BASE_OK;
}

static base_status connect_to(coll_context *context, int rank, const fdpass_record *record,
                              base_error *reterr)
{
    if (record->name_bytes == 0 || record->name_bytes > NAME_BYTES) {
        return base_fail(reterr, BASE_ERR_PEER, "rank %d sent a socket name of %u bytes", rank,
                         (unsigned)record->name_bytes);
    }
    const int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (sock < 0) {
        return base_fail_errno(reterr, errno, "cannot make a local socket");
    }
    context->socks[rank] = sock;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, record->name, record->name_bytes);
    const socklen_t length =
        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + record->name_bytes);
    fdpass_hello hello = {.rank = (uint32_t)context->rank};
    memcpy(hello.nonce, record->nonce, NONCE_BYTES);
    if (connect(sock, (const struct sockaddr *)&address, length) != 0 ||
        send(sock, &hello, sizeof hello, MSG_NOSIGNAL) != (ssize_t)sizeof hello) {
        return base_fail_errno(reterr, errno, "cannot connect to rank %d (pid %u)", rank,
                               (unsigned)context->identities[rank].pid);
    }
    return BASE_OK;
}

/* Until sock can be read; slices, so that an abort is seen. */
static base_status wait_readable(coll_context *context, int sock, int64_t deadline_ns,
                                 base_error *reterr)
{
    for (;;) {
        struct pollfd item = {.fd = sock, .events = POLLIN};
        const int ready = poll(&item, 1, base_deadline_poll_ms(deadline_ns, POLL_SLICE_MS));
        if (ready > 0) {
            return BASE_OK;
        }
        if (ready < 0 && errno != EINTR) {
            return base_fail_errno(reterr, errno, "cannot poll a local socket");
        }
        const base_status aborted = coll_abort_check(context, reterr);
        if (aborted != BASE_OK) {
            return aborted;
        }
        if (base_now_ns() >= deadline_ns) {
            return base_fail(reterr, BASE_ERR_TIMEOUT, "no answer in time");
        }
    }
}

/* Whether the peer on sock runs under this user and knows the nonce; its rank into *rank. */
static bool is_member(const coll_context *context, int sock, const fdpass_hello *hello,
                      size_t hello_bytes, const uint8_t *nonce)
{
    struct ucred who;
    socklen_t length = sizeof who;
    if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &who, &length) != 0 || who.uid != geteuid()) {
        return false;
    }
    return hello_bytes == sizeof *hello && memcmp(hello->nonce, nonce, NONCE_BYTES) == 0 &&
           hello->rank > (uint32_t)context->rank && hello->rank < (uint32_t)context->size &&
           context->socks[hello->rank] < 0;
}

static base_status accept_one(coll_context *context, int listener, const uint8_t *nonce,
                              int64_t deadline_ns, bool *joined, base_error *reterr)
{
    base_status status = wait_readable(context, listener, deadline_ns, reterr);
    if (status != BASE_OK) {
        return status;
    }
    const int sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (sock < 0) {
        return errno == EAGAIN || errno == EINTR || errno == ECONNABORTED
                   ? BASE_OK
                   : base_fail_errno(reterr, errno, "cannot accept a local connection");
    }
    fdpass_hello hello = {.rank = 0};
    status = wait_readable(context, sock, deadline_ns, reterr);
    const ssize_t got = status == BASE_OK ? recv(sock, &hello, sizeof hello, MSG_DONTWAIT) : -1;
    if (got > 0 && is_member(context, sock, &hello, (size_t)got, nonce)) {
        context->socks[hello.rank] = sock;
        *joined = true;
        return BASE_OK;
    }
    (void)close(sock);
    return status;
}

static bool is_here(const coll_context *context, int rank)
{
    return coll_identity_same_host(&context->identities[rank], &context->identities[context->rank]);
}

/* Ranks of this host above this one connect to it. */
static base_status accept_all(coll_context *context, int listener, const uint8_t *nonce,
                              int64_t deadline_ns, base_error *reterr)
{
    int missing = 0;
    for (int rank = context->rank + 1; rank < context->size; rank++) {
        missing += is_here(context, rank);
    }
    for (int strangers = 0; missing > 0;) {
        bool joined = false;
        const base_status status =
            accept_one(context, listener, nonce, deadline_ns, &joined, reterr);
        if (status != BASE_OK) {
            return base_error_prepend(reterr, status, "waiting for %d ranks to connect", missing);
        }
        missing -= joined ? 1 : 0;
        strangers += joined ? 0 : 1;
        if (strangers > STRANGERS_MAX) {
            return base_fail(reterr, BASE_ERR_PEER, "%d strangers tried to connect", strangers);
        }
    }
    return BASE_OK;
}

base_status coll_fdpass_open(coll_context *context, const coll_context_options *options,
                             int64_t deadline_ns, base_error *reterr)
{
    fdpass_record mine = {.name_bytes = 0};
    fdpass_record all[COLL_RANKS_MAX];
    int listener = -1;
    base_status status = listen_anywhere(&listener, &mine, reterr);
    if (status == BASE_OK) {
        status =
            options->exchange(options->exchange_user, &mine, all, sizeof mine, deadline_ns, reterr);
    }
    for (int rank = 0; status == BASE_OK && rank < context->rank; rank++) {
        if (is_here(context, rank)) {
            status = connect_to(context, rank, &all[rank], reterr);
        }
    }
    if (status == BASE_OK) {
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

base_status coll_fdpass_send(coll_context *context, int rank, int fd, uint64_t tag,
                             uint64_t size_bytes, base_error *reterr)
{
    fdpass_label label = {.tag = tag, .size_bytes = size_bytes};
    struct iovec body = {.iov_base = &label, .iov_len = sizeof label};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    memset(&control, 0, sizeof control);
    struct msghdr message = {.msg_iov = &body,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    if (sendmsg(context->socks[rank], &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
        const bool gone = errno == EPIPE || errno == ECONNRESET;
        const base_status status = base_fail_errno(
            reterr, errno, "cannot hand memory to rank %d (host %s, pid %u)", rank,
            context->identities[rank].host, (unsigned)context->identities[rank].pid);
        return gone ? BASE_ERR_PEER : status;
    }
    return BASE_OK;
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

base_status coll_fdpass_receive(coll_context *context, int rank, uint64_t tag, uint64_t size_bytes,
                                int64_t deadline_ns, int *fd, base_error *reterr)
{
    const coll_identity *peer = &context->identities[rank];
    *fd = -1;
    const base_status status = wait_readable(context, context->socks[rank], deadline_ns, reterr);
    if (status != BASE_OK) {
        return base_error_prepend(reterr, status, "waiting for memory of rank %d (host %s, pid %u)",
                                  rank, peer->host, (unsigned)peer->pid);
    }
    fdpass_label label = {.tag = 0};
    struct iovec body = {.iov_base = &label, .iov_len = sizeof label};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(4 * sizeof(int))];
    } control;
    struct msghdr message = {.msg_iov = &body,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    const ssize_t got = recvmsg(context->socks[rank], &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    const int received = got > 0 ? descriptor_of(&message) : -1;
    if (got != (ssize_t)sizeof label || received < 0) {
        if (received >= 0) {
            (void)close(received);
        }
        return base_fail(reterr, BASE_ERR_PEER, "rank %d (host %s, pid %u) is gone", rank,
                         peer->host, (unsigned)peer->pid);
    }
    if (label.tag != tag || label.size_bytes != size_bytes) {
        (void)close(received);
        return base_fail(reterr, BASE_ERR_MISMATCH,
                         "rank %d (host %s, pid %u) makes memory %016" PRIx64 " of %" PRIu64
                         " bytes where this rank makes %016" PRIx64 " of %" PRIu64,
                         rank, peer->host, (unsigned)peer->pid, label.tag, label.size_bytes, tag,
                         size_bytes);
    }
    *fd = received;
    return BASE_OK;
}
