/* Reading of a TCP connection: frames are checked, and read to where they belong. Called by tcp.c
 * through coll_conn_receive. */
#include "transport/tcp/conn.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "transport/socket/silence.h"

enum { READS_PER_CALL = 16 };

/* A frame that is not the next one the peer has sealed. */
static void refuse(coll_context *context, coll_conn *conn, const char *what)
{
    coll_net_fail_peer(context, conn->peer, what);
    coll_conn_close_read(conn); /* open still: the peer is being sent the reason */
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
        coll_conn_close_read(conn);
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

/* The connection has ended; by its other side if `error` is 0. */
static void lose(coll_context *context, coll_conn *conn, int error)
{
    if (error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH) {
        coll_silence_lose(context, conn->peer, conn->fd); /* the kernel has given up */
    } else {
        coll_net_lost(context, conn->peer,
                      error == 0 ? "closed by the other side" : strerror(error));
    }
    coll_conn_hang_up(conn);
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
            lose(context, conn, got == 0 ? 0 : errno);
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
    for (int i = 0; i < READS_PER_CALL && coll_conn_reads(conn); i++) {
        size_t asked = 0;
        const size_t got = read_once(context, conn, &asked);
        if (got == 0) {
            moved = moved || conn->state == COLL_CONN_CLOSED;
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
