/* Passes descriptors, with their labels, between ranks of one host that fdpass_open.c has connected.
 * Called by shm.c and hybrid.c, to open a communicator's segments and each arena. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/failure.h"
#include "core/text.h"
#include "transport/shm/fdpass.h"

enum {
    NAMED_BYTES = 128, /* a rank, as messages name it */
    MADE_BYTES = 240,  /* what a rank makes, as messages name it */
};

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

/* The upper half of a tag is that of its list's hash, or inverted (hybrid.c). The lower half is how
 * many communicators had been made of the list. */
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
        begun = begun || (is_of_list(tag, made->list_hash) && (uint32_t)tag <= made->count);
    }
    return begun && tag != wanted;
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
    if (got.tag != label->tag || got.arena != label->arena || got.size_bytes != label->size_bytes) {
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
