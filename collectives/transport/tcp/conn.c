/* One TCP connection after its handshake: its life, and sending frames with scatter-gather calls
 * and tags. conn_read.c reads. Made by links.c, driven by tcp.c. */
#include "transport/tcp/conn.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
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

coll_conn *coll_conn_create(int peer)
{
    coll_conn *made = aligned_alloc(64, (sizeof *made + 63) / 64 * 64);
    if (made == NULL) {
        return NULL;
    }
    memset(made, 0, sizeof *made);
    made->fd = -1;
    made->peer = peer;
    made->state = COLL_CONN_CLOSED;
    made->scratch = aligned_alloc(64, COLL_FRAME_BODY_BYTES_MAX);
    made->sealed = aligned_alloc(64, COLL_FRAME_BODY_BYTES_MAX);
    made->backlog = malloc(COLL_CONN_BACKLOG_BYTES);
    made->backlog_capacity = COLL_CONN_BACKLOG_BYTES;
    if (made->scratch == NULL || made->sealed == NULL || made->backlog == NULL) {
        coll_conn_destroy(made);
        return NULL;
    }
    return made;
}

void coll_conn_open(coll_conn *conn, int fd, const coll_seal *in, const coll_seal *out)
{
    conn->fd = fd;
    conn->state = COLL_CONN_OPEN;
    conn->in = *in;
    conn->out = *out;
    learn_packets(conn);
}

void coll_conn_hang_up(coll_conn *conn)
{
    if (conn->fd >= 0) {
        (void)close(conn->fd);
        conn->fd = -1;
    }
    conn->state = COLL_CONN_CLOSED;
    conn->backlog_begin = 0;
    conn->backlog_end = 0;
}

void coll_conn_destroy(coll_conn *conn)
{
    if (conn == NULL) {
        return;
    }
    coll_conn_hang_up(conn);
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
        coll_conn_close_write(conn);
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
    if (!coll_conn_writes(conn) || conn->backlog_begin == conn->backlog_end) {
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
    if (!coll_conn_writes(conn)) {
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
static size_t room_for(const coll_conn *conn, const coll_net_frames *frames)
{
    const size_t around = sizeof frames->heads[0] + coll_seal_tag_bytes(&conn->out);
    size_t bytes = frames->heads[0].kind == COLL_FRAME_FAILED ? 0 : FAILURE_BYTES;
    for (int i = 0; i < frames->count; i++) {
        bytes += around + frames->heads[i].body_bytes;
    }
    return bytes;
}

void coll_conn_send(coll_context *context, coll_conn *conn, const coll_net_frames *frames,
                    coll_net_when when)
{
    const size_t room_bytes = room_for(conn, frames);
    if (coll_conn_writes(conn) && !make_room(conn, room_bytes)) {
        coll_net_fail_unsent(context, conn->peer, room_bytes);
        return; /* nothing of them has gone: the peer is sent the reason in the next frame */
    }
    for (int first = 0; first < frames->count && coll_conn_writes(conn);) {
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
    if (part.iov_len == 0 || !coll_conn_writes(conn)) {
        return false;
    }
    const size_t sent = push(conn, &part, 1, false);
    conn->held = false;
    drop_kept(conn, sent);
    return sent > 0;
}
