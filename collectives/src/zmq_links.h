/* The sockets of the zmq transport: one encrypted DEALER pair between every two ranks, over TCP.
 *
 * The lower rank of a pair listens, on a port the system picks; addresses, ports and CURVE public
 * keys go through the caller's exchange. The listener asks for the connecting rank's very key
 * (ZAP), the connecting rank for the listener's, so neither a stranger nor another rank can take a
 * place. A lost connection is not made again: what was under way is lost, and the communicator with
 * it. */
#ifndef COLL_SRC_ZMQ_LINKS_H
#define COLL_SRC_ZMQ_LINKS_H

#include <zmq.h>

#include "internal.h"

enum {
    COLL_FRAME_HEAD_BYTES = 64, /* before the body, which so is aligned for any element */
    COLL_FRAME_BYTES_MAX = COLL_FRAME_HEAD_BYTES + COLL_CHUNK_BYTES,
    COLL_FRAME_HWM = 4096,         /* frames queued in a socket; credits keep it far below */
    COLL_FRAME_MAGIC = 0x31436652, /* "RfC1", in this machine's byte order */
};

typedef enum coll_frame_kind {
    COLL_FRAME_HELLO = 1,
    COLL_FRAME_LINE = 2,
    COLL_FRAME_DATA = 3,
    COLL_FRAME_CREDIT = 4,
} coll_frame_kind;

typedef struct coll_frame_head {
    uint32_t magic;
    uint32_t kind;
    uint64_t comm_id;
    uint32_t lane;
    uint32_t body_bytes;
    uint32_t taken[COLL_LANES]; /* low halves: frames of the receiver's that the sender has taken */
    uint8_t zero[COLL_FRAME_HEAD_BYTES - 24 - 4 * COLL_LANES];
} coll_frame_head;

_Static_assert(sizeof(coll_frame_head) == COLL_FRAME_HEAD_BYTES, "the head has no padding");

typedef struct coll_zmq_links {
    void *zmq;
    void *sockets[COLL_RANKS_MAX]; /* by context rank; NULL for this one */
    void *zap;
    int wake_fd; /* an eventfd: ends a sleep */
} coll_zmq_links;

/* Collective: one exchange, then connects every pair and waits for everybody's first frame. */
BASE_MUST_CHECK base_status coll_zmq_links_open(coll_context *context, coll_zmq_links *links,
                                                const coll_context_options *options,
                                                int64_t deadline_ns, base_error *reterr);

/* Closes; where `flush` is set, gives what was sent a moment to leave. */
void coll_zmq_links_close(coll_zmq_links *links, bool flush);

#endif
