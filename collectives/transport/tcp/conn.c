/* One TCP connection after its handshake: sends frames with scatter-gather calls and tags, and
 * reads frames to where they belong. Made by links.c, driven by tcp.c. */
#include "transport/tcp/conn.h"
#include "ringfence/coll_error.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    READS_PER_CALL = 16,
    SEND_BYTES = 256 * 1024,
    GATHER_BYTES = 1536, /* copying so much is cheaper than telling the kernel of several parts */
    FAILURE_BYTES = COLL_FRAME_HEAD_BYTES + COLL_FRAME_REASON_BYTES + COLL_SEAL_TAG_BYTES,
    PACKET_BYTES_MAX = 65535 - 320, /* offloaded: the kernel's limit, less room for its headers */
};

/* How a call to the socket stands to others of the same frames. */
typedef enum push_part { PUSH_ALL, PUSH_MORE_FOLLOWS, PUSH_LAST } push_part;

/* How the system is going to cut what is sent; the other way round nothing is lost but time. */
static void learn_packets(coll_conn *conn)
{
    int segment_bytes = 0;
    socklen_t length = sizeof segment_bytes;
    if (getsockopt(conn->fd, IPPROTO_TCP, TCP_MAXSEG, &segment_bytes, &length) == 0 &&
        segment_bytes > 0 && segment_bytes <= PACKET_BYTES_MAX) {
        conn->short_bytes_max = (size_t)segment_bytes;
        conn->packet_bytes = PACKET_BYTES_MAX - PACKET_BYTES_MAX % (size_t)segment_bytes;
    }
}

coll_status coll_conn_create(int fd, int peer, const coll_seal *in, const coll_seal *out,
                             coll_conn **conn, coll_error *reterr)
{
    coll_conn *made = aligned_alloc(64, (sizeof *made + 63) / 64 * 64);
    if (made != NULL) {
        memset(made, 0, sizeof *made);
        made->fd = fd;
        made->peer = peer;
        made->in = *in;
        made->out = *out;
        learn_packets(made);
        made->scratch = aligned_alloc(64, COLL_FRAME_BODY_BYTES_MAX);
        made->sealed = aligned_alloc(64, COLL_FRAME_BODY_BYTES_MAX);
        made->backlog = malloc(COLL_CONN_BACKLOG_BYTES);
        made->backlog_capacity = made->backlog != NULL ? COLL_CONN_BACKLOG_BYTES : 0;
        if (made->scratch != NULL && made->sealed != NULL && made->backlog != NULL) {
            *conn = made;
            return COLL_OK;
        }
        coll_conn_destroy(made);
    } else {
        (void)close(fd);
    }
    return coll_fail(reterr, COLL_ERR_MEMORY, "no memory for a connection");
}

static void hang_up(coll_conn *conn)
{
    if (conn->fd >= 0) {
        (void)close(conn->fd);
        conn->fd = -1;
    }
    conn->write_closed = true;
    conn->backlog_begin = 0;
    conn->backlog_end = 0;
}

void coll_conn_destroy(coll_conn *conn)
{
    if (conn == NULL) {
        return;
    }
    hang_up(conn);
    coll_seal_wipe(&conn->in);
    coll_seal_wipe(&conn->out);
    free(conn->scratch);
    free(conn->sealed);
    free(conn->backlog);
    free(conn);
}

/* Room for size_bytes more behind what is kept. */
static bool make_room(coll_conn *conn, size_t size_bytes)
{
    const size_t kept = coll_conn_backlog(conn);
    if (conn->backlog_end + size_bytes <= conn->backlog_capacity) {
        return true;
    }
    if (kept + size_bytes > conn->backlog_capacity) {
        const size_t capacity = 2 * (kept + size_bytes) + COLL_CONN_BACKLOG_BYTES;
        uint8_t *larger = malloc(capacity);
        if (larger == NULL) {
            return false;
        }
        if (kept > 0) {
            memcpy(larger, conn->backlog + conn->backlog_begin, kept);
        }
        free(conn->backlog);
        conn->backlog = larger;
        conn->backlog_capacity = capacity;
    } else {
        memmove(conn->backlog, conn->backlog + conn->backlog_begin, kept);
    }
    conn->backlog_begin = 0;
    conn->backlog_end = kept;
    return true;
}

/* Copies parts, one behind the other; 0 if there is but one, or they are too long. */
static size_t gather(const struct iovec *parts, int count, uint8_t target[GATHER_BYTES])
{
    size_t used = 0;
    for (int i = 0; i < count && count > 1; i++) {
        if (parts[i].iov_len > GATHER_BYTES - used) {
            return 0;
        }
        if (parts[i].iov_len > 0) {
            memcpy(target + used, parts[i].iov_base, parts[i].iov_len);
            used += parts[i].iov_len;
        }
    }
    return used;
}

/* Bytes that the socket takes now; none after an error, which reading will report. Where more are
 * to follow at once, no segment begins with the few that are left over. */
static size_t push(coll_conn *conn, const struct iovec *parts, int count, bool more)
{
    uint8_t gathered[GATHER_BYTES];
    const struct iovec whole = {.iov_base = gathered, .iov_len = gather(parts, count, gathered)};
    if (whole.iov_len > 0) {
        parts = &whole;
        count = 1;
    }
    const struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)parts,
                                   .msg_iovlen = (size_t)count};
    const int flags = MSG_DONTWAIT | MSG_NOSIGNAL | (more ? MSG_MORE : 0);
    ssize_t sent = -1;
    do {
        sent = count == 1 ? send(conn->fd, parts->iov_base, parts->iov_len, flags)
                          : sendmsg(conn->fd, &message, flags);
    } while (sent < 0 && errno == EINTR);
    if (sent < 0 && errno != EAGAIN && errno != ENOBUFS && errno != ENOMEM) {
        conn->write_closed = true;
    }
    conn->gone_bytes += sent > 0 ? (size_t)sent : 0;
    return sent > 0 ? (size_t)sent : 0;
}

/* The same; a short last packet by a call of its own. */
static size_t push_apart(coll_conn *conn, struct iovec *parts, int count)
{
    size_t bytes = 0;
    for (int i = 0; i < count; i++) {
        bytes += parts[i].iov_len;
    }
    size_t rest =
        conn->packet_bytes > 0 && bytes > conn->packet_bytes ? bytes % conn->packet_bytes : 0;
    if (rest == 0 || rest > conn->short_bytes_max) {
        return push(conn, parts, count, false);
    }
    const size_t first = bytes - rest;
    int cut = count - 1; /* the part that both calls have something of */
    while (parts[cut].iov_len < rest) {
        rest -= parts[cut--].iov_len;
    }
    const struct iovec whole = parts[cut];
    parts[cut].iov_len -= rest;
    size_t sent = push(conn, parts, cut + 1, false);
    if (sent == first) {
        parts[cut] = (struct iovec){.iov_base = (uint8_t *)whole.iov_base + whole.iov_len - rest,
                                    .iov_len = rest};
        sent += push(conn, parts + cut, count - cut, false);
    }
    parts[cut] = whole;
    return sent;
}

/* Keeps what `skipped` bytes of the parts leave over: there is room. */
static void keep(coll_conn *conn, const struct iovec *parts, int count, size_t skipped)
{
    for (int i = 0; i < count; i++) {
        const size_t gone = skipped < parts[i].iov_len ? skipped : parts[i].iov_len;
        const size_t rest = parts[i].iov_len - gone;
        skipped -= gone;
        if (rest == 0) {
            continue;
        }
        memcpy(conn->backlog + conn->backlog_end, (uint8_t *)parts[i].iov_base + gone, rest);
        conn->backlog_end += rest;
    }
}

/* Forgets bytes at the front of what was kept. */
static void drop_kept(coll_conn *conn, size_t size_bytes)
{
    conn->backlog_begin += size_bytes;
    if (conn->write_closed || conn->backlog_begin == conn->backlog_end) {
        conn->backlog_begin = 0;
        conn->backlog_end = 0;
    }
}

/* Sends what was kept and the parts, or keeps the parts as well;
 * parts[0] is free for the former. */
static void send_parts(coll_conn *conn, struct iovec *parts, int count, coll_net_when when,
                       push_part part)
{
    const size_t kept = coll_conn_backlog(conn);
    size_t sent = 0;
    if (when != COLL_NET_NOW && (kept == 0 || conn->held)) {
        conn->held = true;
        keep(conn, parts + 1, count - 1, 0);
        return;
    }
    parts[0] = (struct iovec){.iov_base = conn->backlog + conn->backlog_begin, .iov_len = kept};
    struct iovec *begin = kept > 0 ? parts : parts + 1;
    const int used = kept > 0 ? count : count - 1;
    sent = part == PUSH_ALL ? push_apart(conn, begin, used)
                            : push(conn, begin, used, part == PUSH_MORE_FOLLOWS);
    conn->held = false;
    if (conn->write_closed) {
        drop_kept(conn, 0);
        return;
    }
    const size_t of_kept = sent < kept ? sent : kept;
    drop_kept(conn, of_kept);
    keep(conn, parts + 1, count - 1, sent - of_kept);
}

/* How many bytes are worth while in one call. Where they are sealed first, the peer could have
 * taken the first meanwhile; and there is one place for an encrypted body. */
static size_t at_once(const coll_conn *conn)
{
    return conn->out.auth == COLL_TCP_AUTH_OFF   ? SIZE_MAX
           : conn->out.auth == COLL_TCP_AUTH_MAC ? SEND_BYTES
                                                 : 1;
}

/* Seals frames from `first` on, as many as go out in one call. */
static int seal_frames(coll_conn *conn, const coll_net_frames *frames, int first,
                       struct iovec *parts, uint8_t tags[][COLL_SEAL_TAG_BYTES])
{
    const size_t tag_bytes = coll_seal_tag_bytes(&conn->out);
    const uint8_t *body = frames->bodies;
    size_t bytes = 0;
    int count = 0;
    for (int i = 0; i < first; i++) {
        body += frames->heads[i].body_bytes;
    }
    for (int i = first; i < frames->count && (i == first || bytes < at_once(conn)); i++) {
        coll_frame_head *head = &frames->heads[i];
        head->number = conn->sent++;
        const uint8_t *sealed = coll_seal_close(&conn->out, head, body, conn->sealed, tags[count]);
        parts[3 * count] = (struct iovec){.iov_base = head, .iov_len = sizeof *head};
        parts[3 * count + 1] =
            (struct iovec){.iov_base = (void *)(uintptr_t)sealed, .iov_len = head->body_bytes};
        parts[3 * count + 2] = (struct iovec){.iov_base = tags[count], .iov_len = tag_bytes};
        body += head->body_bytes;
        bytes += head->body_bytes;
        count++;
    }
    return count;
}

/* Room for all of the frames, should the socket take nothing, and for the word of a failure behind
 * them: a frame that began can then be ended. */
static bool make_room_for(coll_conn *conn, const coll_net_frames *frames)
{
    const size_t around = sizeof frames->heads[0] + coll_seal_tag_bytes(&conn->out);
    size_t bytes = frames->heads[0].kind == COLL_FRAME_FAILED ? 0 : FAILURE_BYTES;
    for (int i = 0; i < frames->count; i++) {
        bytes += around + frames->heads[i].body_bytes;
    }
    return make_room(conn, bytes);
}

void coll_conn_send(coll_context *context, coll_conn *conn, const coll_net_frames *frames,
                    coll_net_when when)
{
    if (!conn->write_closed && !make_room_for(conn, frames)) {
        coll_net_fail_peer(context, conn->peer, "could not be sent to: no memory");
        return; /* nothing of them has gone: the peer is sent the reason in the next frame */
    }
    for (int first = 0; first < frames->count && !conn->write_closed;) {
        struct iovec parts[1 + 3 * COLL_FRAMES_AT_ONCE];
        uint8_t tags[COLL_FRAMES_AT_ONCE][COLL_SEAL_TAG_BYTES];
        const int count = seal_frames(conn, frames, first, parts + 1, tags);
        const push_part part = first + count < frames->count ? PUSH_MORE_FOLLOWS
                               : first == 0                  ? PUSH_ALL
                                                             : PUSH_LAST;
        send_parts(conn, parts, 1 + 3 * count, when, part);
        first += count;
    }
}

bool coll_conn_flush(coll_conn *conn)
{
    struct iovec part = {.iov_base = conn->backlog + conn->backlog_begin,
                         .iov_len = coll_conn_backlog(conn)};
    if (part.iov_len == 0 || conn->write_closed) {
        return false;
    }
    const size_t sent = push(conn, &part, 1, false);
    conn->held = false;
    drop_kept(conn, sent);
    return sent > 0;
}

/* A frame that is not the next one the peer has sealed. */
static void refuse(coll_context *context, coll_conn *conn, const char *what)
{
    coll_net_fail_peer(context, conn->peer, what);
    conn->read_closed = true; /* open still: the peer is being sent the reason */
}

static bool begin_frame(coll_context *context, coll_conn *conn)
{
    memcpy(&conn->head, conn->stage + conn->stage_begin, sizeof conn->head);
    conn->stage_begin += sizeof conn->head;
    const uint64_t number = conn->head.number;
    if (number != conn->received) {
        char what[160];
        (void)snprintf(what, sizeof what, "sent frame %llu where frame %llu was due: %s",
                       (unsigned long long)number, (unsigned long long)conn->received,
                       number < conn->received ? "it was replayed"
                                               : "frames were reordered, or one was lost");
        refuse(context, conn, what);
        return false;
    }
    conn->verdict = coll_net_find_body(context, conn->peer, &conn->head, conn->scratch, &conn->body,
                                       &conn->owner);
    if (conn->head.body_bytes > COLL_FRAME_BODY_BYTES_MAX) {
        refuse(context, conn, "sent a frame of no size: it was altered on its way, or broken");
        return false;
    }
    /* Whether the head is the peer's own doing is known when all of the frame is here. */
    if (conn->verdict != COLL_NET_TAKE) {
        conn->body = conn->scratch;
        conn->owner = NULL;
    }
    conn->got_bytes = 0;
    conn->in_body = true;
    return true;
}

/* What comes next is likely to be what came last. A copy of 32 KiB costs less than a second call:
 * both may have to acknowledge something. */
static void note_burst(coll_conn *conn)
{
    const size_t frame_bytes =
        sizeof conn->head + conn->head.body_bytes + coll_seal_tag_bytes(&conn->in);
    if (conn->head.kind == COLL_FRAME_FLAG) {
        conn->burst_bytes = frame_bytes;
    } else if (conn->burst_bytes + frame_bytes <= COLL_CONN_BURST_BYTES) {
        conn->burst_bytes += frame_bytes;
    }
}

static bool end_frame(coll_context *context, coll_conn *conn, const uint8_t *tag)
{
    if (!coll_seal_open(&conn->in, &conn->head, conn->body, tag)) {
        char what[96];
        (void)snprintf(what, sizeof what, "sent frame %llu, and it was altered on its way",
                       (unsigned long long)conn->received);
        refuse(context, conn, what);
        return false;
    }
    if (conn->verdict == COLL_NET_BAD) {
        refuse(context, conn, "broke the protocol");
        return false;
    }
    note_burst(conn);
    conn->received++;
    conn->in_body = false;
    conn->owner = NULL;
    if (conn->verdict == COLL_NET_TAKE &&
        !coll_net_commit(context, conn->peer, &conn->head, conn->body)) {
        conn->read_closed = true;
        return false;
    }
    return true;
}

/* Takes what the stage has of the frame's body, or the frame itself where all of it is there and
 * belongs nowhere else; false when the connection is no more. *whole: the frame has ended. */
static bool take_part(coll_context *context, coll_conn *conn, bool *whole)
{
    const size_t tag_bytes = coll_seal_tag_bytes(&conn->in);
    const size_t here = conn->stage_end - conn->stage_begin;
    const size_t missing = conn->head.body_bytes - conn->got_bytes;
    const size_t part = here < missing ? here : missing;
    *whole = here - part >= tag_bytes && part == missing;
    if (*whole && conn->body == conn->scratch && conn->got_bytes == 0) {
        conn->body = conn->stage + conn->stage_begin;
    } else if (part > 0) {
        memcpy(conn->body + conn->got_bytes, conn->stage + conn->stage_begin, part);
    }
    conn->got_bytes += part;
    conn->stage_begin += part;
    if (!*whole) {
        return true;
    }
    conn->stage_begin += tag_bytes;
    return end_frame(context, conn, conn->stage + conn->stage_begin - tag_bytes);
}

/* All frames that are whole; false when the connection is no more. */
static bool parse(coll_context *context, coll_conn *conn)
{
    bool whole = true;
    while (whole) {
        if (!conn->in_body) {
            if (conn->stage_end - conn->stage_begin < sizeof conn->head) {
                return true;
            }
            if (!begin_frame(context, conn)) {
                return false;
            }
        }
        if (!take_part(context, conn, &whole)) {
            return false;
        }
    }
    return true;
}

/* Reads once; 0 when there is nothing (or no more), else how many bytes of what was asked came. */
static size_t read_once(coll_context *context, coll_conn *conn, size_t *asked)
{
    struct iovec parts[2];
    int count = 0;
    *asked = 0;
    if (conn->stage_begin > 0) {
        memmove(conn->stage, conn->stage + conn->stage_begin, conn->stage_end - conn->stage_begin);
        conn->stage_end -= conn->stage_begin;
        conn->stage_begin = 0;
    }
    const size_t missing = conn->in_body ? conn->head.body_bytes - conn->got_bytes : 0;
    if (missing > 0) {
        parts[count++] =
            (struct iovec){.iov_base = conn->body + conn->got_bytes, .iov_len = missing};
    }
    const size_t room = sizeof conn->stage - conn->stage_end;
    const size_t due = COLL_CONN_ASK_BYTES + (conn->in_body ? 0 : conn->burst_bytes);
    parts[count++] = (struct iovec){.iov_base = conn->stage + conn->stage_end,
                                    .iov_len = due < room ? due : room};
    *asked = missing + parts[count - 1].iov_len;
    const struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)count};
    ssize_t got = -1;
    do {
        got = count == 1 ? recv(conn->fd, parts->iov_base, parts->iov_len, MSG_DONTWAIT)
                         : recvmsg(conn->fd, (struct msghdr *)(uintptr_t)&message, MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    if (got <= 0) {
        if (got == 0 || (errno != EAGAIN && errno != ENOMEM)) {
            coll_net_lost(context, conn->peer,
                          got == 0 ? "closed by the other side" : strerror(errno));
            hang_up(conn);
        }
        return 0;
    }
    const size_t to_body = (size_t)got < missing ? (size_t)got : missing;
    conn->got_bytes += to_body;
    conn->stage_end += (size_t)got - to_body;
    return (size_t)got;
}

bool coll_conn_receive(coll_context *context, coll_conn *conn)
{
    bool moved = false;
    for (int i = 0; i < READS_PER_CALL && coll_conn_listens(conn); i++) {
        size_t asked = 0;
        const size_t got = read_once(context, conn, &asked);
        if (got == 0) {
            moved = moved || conn->fd < 0;
            break;
        }
        moved = true;
        if (!parse(context, conn) || got < asked) {
            break;
        }
    }
    return moved;
}

void coll_conn_forget(coll_conn *conn, const coll_comm *comm)
{
    if (conn->in_body && conn->owner == comm) {
        memcpy(conn->scratch, conn->body, conn->got_bytes);
        conn->body = conn->scratch;
        conn->owner = NULL;
        conn->verdict = COLL_NET_DROP;
    }
}
