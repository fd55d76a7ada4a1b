/* One connection to a peer, after the handshake: sends and receives frames. Used by tcp.c.
 *
 * On the wire a frame is head, body and tag (seal.h; no tag with auth off). Frames leave in one
 * sendmsg, straight from the caller's memory, together with earlier frames that wait to be
 * coalesced. Each call makes a segment of its own, and a segment costs a few microseconds on both
 * sides.
 *
 * There is one exception. If the last segment of a call would be a short one, it leaves in a call
 * of its own. It then also acknowledges what the peer has sent meanwhile, which saves a segment
 * that has nothing else in it. So 64 KiB each way take a sixth less time. Bytes that the socket
 * does not take wait in a backlog, and leave first next time.
 *
 * Bodies of data frames are read straight into their target. All other bodies, and short data that
 * are expected right behind a flag, are read into a buffer and verified there. Frames are numbered
 * from 0 and must arrive in order.
 *
 * Never blocks. Only the context's thread uses it. */
#ifndef COLL_SRC_TCP_CONN_H
#define COLL_SRC_TCP_CONN_H

#include "transport/socket/net.h"
#include "transport/tcp/seal.h"

enum {
    COLL_CONN_STAGE_BYTES = 64 * 1024,
    COLL_CONN_ASK_BYTES = 4096,        /* into the stage at a time, beside what is due */
    COLL_CONN_BURST_BYTES = 34 * 1024, /* of a flag and the data behind it, to be read in one go */
    COLL_CONN_BACKLOG_BYTES = 256 * 1024, /* above this no data frame is added */
};

/* Of a connection's memory. */
#define COLL_CONN_BYTES                                                                            \
    (sizeof(coll_conn) + 2 * (size_t)COLL_FRAME_BODY_BYTES_MAX + (size_t)COLL_CONN_BACKLOG_BYTES)

typedef enum coll_conn_state {
    COLL_CONN_OPEN = 0,
    COLL_CONN_READ_CLOSED,  /* the peer sent what it must not: nothing more is read, but it is sent
                               the reason */
    COLL_CONN_WRITE_CLOSED, /* a send failed: nothing more is sent; reading finds the end */
    COLL_CONN_CLOSED,       /* neither */
} coll_conn_state;

typedef struct coll_conn {
    coll_seal in;
    coll_seal out;
    int fd;
    int peer; /* context rank */
    coll_conn_state state;

    uint64_t received; /* frames */
    coll_frame_head head;
    bool in_body; /* head is there, and the body has an address */
    coll_net_verdict verdict;
    uint8_t *body;
    size_t got_bytes; /* of the body */
    coll_comm *owner; /* of the memory at body; NULL: scratch */
    uint8_t *scratch; /* COLL_FRAME_BODY_BYTES_MAX */
    size_t stage_begin, stage_end;
    size_t burst_bytes; /* the last flag's frame, and those of short data behind it */
    uint8_t stage[COLL_CONN_STAGE_BYTES];

    uint64_t sent;    /* frames */
    uint8_t *sealed;  /* an encrypted body on its way */
    uint8_t *backlog; /* what the socket did not take */
    size_t backlog_begin, backlog_end, backlog_capacity;
    uint64_t gone_bytes;    /* that the socket took */
    bool held;              /* what was kept waits to be coalesced until the end of this turn */
    size_t packet_bytes;    /* what the system sends as one at most; 0: unknown */
    size_t short_bytes_max; /* of a last packet: so much need not be acknowledged at once */
} coll_conn;

/* A closed one, with all the memory that it needs. NULL: there is none. */
coll_conn *coll_conn_create(int peer);
/* Takes over a connected, non-blocking socket. */
void coll_conn_open(coll_conn *conn, int fd, const coll_seal *in, const coll_seal *out);
void coll_conn_destroy(coll_conn *conn);

/* Sends frames, or keeps a copy of them: until the next that leave at once, or a flush. */
void coll_conn_send(coll_context *context, coll_conn *conn, const coll_net_frames *frames,
                    coll_net_when when);

/* Sends what was kept; true if something went. */
bool coll_conn_flush(coll_conn *conn);

/* Takes what is there, frame by frame, and gives it to the core; true if anything came. Closes the
 * socket at its end, and reads no more after a frame that is not what the peer has sealed, or that
 * breaks the protocol; the peer's communicators have failed then. */
bool coll_conn_receive(coll_context *context, coll_conn *conn);

/* comm goes: what is still on its way to it goes to the scratch. */
void coll_conn_forget(coll_conn *conn, const coll_comm *comm);

/* Closes the socket. */
void coll_conn_hang_up(coll_conn *conn);

/* Whether there is anything to read for. */
static inline bool coll_conn_reads(const coll_conn *conn)
{
    return conn->state == COLL_CONN_OPEN || conn->state == COLL_CONN_WRITE_CLOSED;
}

/* Whether anything can be sent. */
static inline bool coll_conn_writes(const coll_conn *conn)
{
    return conn->state == COLL_CONN_OPEN || conn->state == COLL_CONN_READ_CLOSED;
}

static inline void coll_conn_close_read(coll_conn *conn)
{
    conn->state = coll_conn_writes(conn) ? COLL_CONN_READ_CLOSED : COLL_CONN_CLOSED;
}

static inline void coll_conn_close_write(coll_conn *conn)
{
    conn->state = coll_conn_reads(conn) ? COLL_CONN_WRITE_CLOSED : COLL_CONN_CLOSED;
}

static inline size_t coll_conn_backlog(const coll_conn *conn)
{
    return conn->backlog_end - conn->backlog_begin;
}

#endif
