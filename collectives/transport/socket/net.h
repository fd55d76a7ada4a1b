/* What the transports over sockets have in common: frames, streams with credit, and flags that
 * travel as frames. The table of links below moves frames from rank to rank; tcp and zmq each have
 * one.
 *
 * A frame is a head and a body. A flag is sent to every peer as a frame, and is written into this
 * rank's copy of that peer's flags. In a rooted operation, a rank does not wait for the flags of
 * peers that it takes nothing from. Such a flag leaves with the next frame to that peer, and is
 * compared when it arrives. No rank begins an operation before all peers have begun the one
 * COLL_UNDERWAY_MAX earlier, so no flag is overwritten too early.
 *
 * Data frames wait in buffers, for each peer and channel, until the plan takes them. Every head
 * says how many frames its sender has taken. If nothing else is sent to that peer, a credit frame
 * says it. This credit bounds memory and queues.
 *
 * A frame is received in two steps. `find_body` says where its body belongs, before anything in the
 * frame has been verified. `commit` makes the body visible, after the link has verified it. Nothing
 * that a peer sends is asserted. A frame that breaks the protocol fails the communicators that the
 * peer is in.
 *
 * The end of a peer: a rank whose communicator fails sends its peers a failure notice at once, so
 * that all name the first cause. A rank that leaves in order says goodbye. If a connection ends
 * without a goodbye, the rank is lost. */
#ifndef COLL_SRC_NET_H
#define COLL_SRC_NET_H

#include "core/op.h"

enum {
    COLL_FRAME_HEAD_BYTES = 64,
    COLL_FRAME_MAGIC = 0x32436652, /* "RfC2", in this machine's byte order */
    COLL_FRAME_FLAG_BYTES = sizeof(uint64_t) + sizeof(coll_descriptor), /* then the payload */
    COLL_FRAME_REASON_BYTES = 24 + COLL_ERROR_MESSAGE_BYTES, /* a reason_head, then text */
    COLL_FRAME_BODY_BYTES_MAX = COLL_NET_CHUNK_BYTES_MAX,
    COLL_FRAME_BYTES_MAX = COLL_FRAME_HEAD_BYTES + COLL_FRAME_BODY_BYTES_MAX,
    COLL_FRAMES_AT_ONCE = COLL_NET_CREDITS,
};

typedef enum coll_frame_kind {
    COLL_FRAME_HELLO = 1, /* zmq: the first */
    COLL_FRAME_FLAG = 2,
    COLL_FRAME_DATA = 3,
    COLL_FRAME_CREDIT = 4,
    COLL_FRAME_GOODBYE = 5, /* the last, of a rank that leaves in order */
    COLL_FRAME_FAILED = 6,  /* the communicator has failed there; the body says why */
    COLL_FRAME_WAITS = 7,   /* the body: ranks that the sender has been waiting for, a bit each */
} coll_frame_kind;

typedef struct coll_frame_head {
    uint32_t magic;
    uint32_t kind;
    uint64_t comm_id;
    uint64_t number; /* of the frame on its connection, from 0 */
    uint32_t channel;
    uint32_t body_bytes;
    uint32_t
        taken[COLL_CHANNELS]; /* low halves: frames of the receiver's that the sender has taken */
    uint8_t zero[COLL_FRAME_HEAD_BYTES - 32 - 4 * COLL_CHANNELS];
} coll_frame_head;

_Static_assert(sizeof(coll_frame_head) == COLL_FRAME_HEAD_BYTES, "the head has no padding");
_Static_assert(COLL_FRAME_FLAG_BYTES + COLL_INLINE_BYTES_MAX <= COLL_FRAME_BODY_BYTES_MAX,
               "a flag fits");

/* Whether a head can be one: magic, kind, channel, size and zeroes. Needs no state. */
bool coll_frame_head_is_sound(const coll_frame_head *head);

/* Frames to send at once. */
typedef struct coll_net_frames {
    coll_frame_head *heads;
    int count; /* up to COLL_FRAMES_AT_ONCE */
    const void *bodies;
} coll_net_frames;

/* When frames are to leave. Frames that are kept are coalesced with those that leave next. */
typedef enum coll_net_when {
    COLL_NET_NOW = 0,
    COLL_NET_THIS_TURN, /* at the end of this turn: by the table's push */
    COLL_NET_IDLE,      /* when there is nothing else to do */
} coll_net_when;

/* How frames travel. Ranks are those of the context. */
typedef struct coll_net_links {
    /* Sends frames whose bodies lie one behind the other. Fills in their numbers. Never blocks, and
     * keeps no pointer to the caller's memory. If the peer's connection has ended, coll_net_lost is
     * called, now or later. */
    void (*send)(coll_context *context, int peer, const coll_net_frames *frames,
                 coll_net_when when);
    /* Whether a data frame would be sent now, and not wait in a backlog. NULL: always. */
    bool (*has_room)(coll_context *context, int peer);
    /* Whether the system has taken all that was sent to a peer, except what waits to be coalesced.
     * NULL: always, or threads of the links do the rest. */
    bool (*is_through)(coll_context *context, int peer);
    /* handed: how many bytes were sent to a peer. has_gone: whether the system has taken that many.
     * Both are NULL if is_through is. */
    uint64_t (*handed)(coll_context *context, int peer);
    bool (*has_gone)(coll_context *context, int peer, uint64_t bytes);
    /* Sends what waits to be coalesced. */
    void (*flush)(coll_context *context);
    /* The same for a peer at least. Returns whether all that was sent to it has arrived at its system,
     * as far as these links can tell. */
    bool (*deliver)(coll_context *context, int peer);
    /* Takes back what coll_net_lend was given. NULL: these links do not lend. */
    void (*give_back)(coll_context *context, void *loan);
    /* Called before a communicator is destroyed: its memory must not be written any more. NULL:
     * nothing writes there but what the core does. */
    void (*forget)(coll_context *context, coll_comm *comm);
} coll_net_links;

/* A frame for a communicator that is not made here yet. */
typedef struct coll_net_unexpected {
    int peer; /* context rank */
    uint32_t body_bytes;
    coll_frame_head head;
    uint8_t *body; /* heap; NULL: there was no memory for it */
} coll_net_unexpected;

/* context->net points here, as the first member of the transport's own state. */
typedef struct coll_net {
    const coll_net_links *links;
    bool remote[COLL_RANKS_MAX]; /* reached by these links */
    bool left[COLL_RANKS_MAX];   /* has said goodbye, or is lost */
    bool owed[COLL_RANKS_MAX];   /* had not said that it took all, when a communicator went */
    int left_count;
    coll_net_unexpected unexpected[COLL_UNEXPECTED_MAX];
    int unexpected_count;
    uint64_t gone[COLL_GONE_MAX]; /* communicators closed here last */
    unsigned gone_count;
    uint64_t blamed[COLL_GONE_MAX]; /* that peers made where this rank made another (lists.c) */
    unsigned blamed_count;
    int wake_fd;                         /* an eventfd that ends a sleep; -1: not open */
    bool keeps_for_turn;                 /* frames for some peer, until the end of this turn, */
    bool keeps_for_idle;                 /* or until there is nothing else to do, */
    int polls;                           /* so many since */
    int64_t look_ns;                     /* when to look for silent hosts again */
    bool watchful;                       /* a peer has left, or this: look every time */
    bool keeps_notices;                  /* of failures that this rank has yet to come to */
    size_t packet_bytes[COLL_RANKS_MAX]; /* on the way to each rank; 0: unknown, or any */
    size_t chunk_bytes_max;              /* of a data frame, the same on every rank; 0: any */
} coll_net;

typedef enum coll_net_verdict {
    COLL_NET_TAKE = 0, /* body_bytes belong at *body */
    COLL_NET_LEND,     /* they may stay where they are: coll_net_lend in commit's place */
    COLL_NET_DROP,     /* for nobody here (any more) */
    COLL_NET_BAD,      /* breaks the protocol, if it is what the peer sent */
} coll_net_verdict;

/* Called when a frame's head has arrived: finds where its body belongs. `scratch` is for all bodies
 * but those of data frames, and has COLL_FRAME_BODY_BYTES_MAX bytes. *comm is the communicator that
 * owns the memory, if there is one. */
coll_net_verdict coll_net_find_body(coll_context *context, int peer, const coll_frame_head *head,
                                    uint8_t *scratch, uint8_t **body, coll_comm **comm);

/* Called when the whole frame has arrived and was verified: makes it visible. False: it breaks the
 * protocol, and the peer's communicators have failed. */
bool coll_net_commit(coll_context *context, int peer, const coll_frame_head *head,
                     const uint8_t *body);

/* The same for a data frame of *comm's whose body stays in the link's own memory, until `loan` is
 * given back. */
bool coll_net_lend(coll_comm *comm, int peer, const coll_frame_head *head, uint8_t *body,
                   void *loan);

/* Fails every communicator that peer is in: "rank 1 (host h, pid 42) …", with `what` for the
 * dots. */
void coll_net_fail_peer(coll_context *context, int peer, const char *what);
/* The same where this rank has no memory for what it sends to the peer. */
void coll_net_fail_unsent(coll_context *context, int peer, size_t size_bytes);

/* The connection to a peer has ended: nothing to say after its goodbye, else a failure. */
void coll_net_lost(coll_context *context, int peer, const char *how);

/* Fails communicators that wait for a peer which has left, or have come to where a peer failed.
 * Called after frames were taken. */
void coll_net_look(coll_context *context);

/* Called after send has kept frames. */
void coll_net_note_kept(coll_net *net, coll_net_when when);
/* Sends all that was kept; the second, in the tables of transports, what was kept for this turn. */
void coll_net_flush(coll_context *context);
void coll_net_push(coll_context *context);
/* Called at the end of the transport's poll. */
void coll_net_end_poll(coll_context *context);

/* Makes wake_fd, which the transport closes. */
COLL_MUST_CHECK coll_status coll_net_open_wake(coll_net *net, coll_error *reterr);
/* Ends a sleep; in the tables of transports. */
void coll_net_wake(coll_context *context);
/* Called after wake_fd has ended one. */
void coll_net_note_woken(const coll_net *net);

/* Whether a rank that goes to sleep is to look for hosts that have stopped answering. */
bool coll_net_may_be_silent(coll_net *net);

/* Says goodbye to all. */
void coll_net_farewell(coll_context *context);

extern const coll_notice_table coll_net_notices;

/* What the tables of all transports over sockets have in common. */
#define COLL_NET_COMMON                                                                            \
    .notices = &coll_net_notices, .may_post = coll_net_may_post, .post = coll_net_post,            \
    .awaits = coll_net_awaits, .arena_open = coll_net_arena_open,                                  \
    .arena_close = coll_net_arena_close

/* The same, of those whose streams all go over sockets. */
#define COLL_NET_STREAMS                                                                           \
    .comm_open = coll_net_comm_open, .comm_close = coll_net_comm_close,                            \
    .send_begin = coll_net_send_begin, .send_end = coll_net_send_end,                              \
    .send_from = coll_net_send_from, .receive_into = coll_net_receive_into,                        \
    .receive_begin = coll_net_receive_begin, .receive_end = coll_net_receive_end

/* The transport table's functions for communicators, flags and streams. */
coll_status coll_net_comm_open(coll_comm *comm, int64_t deadline_ns, coll_error *reterr);
void coll_net_comm_close(coll_comm *comm);
bool coll_net_may_post(const coll_op *op);
void coll_net_post(coll_op *op, const void *payload, size_t payload_bytes);
bool coll_net_has_given(const coll_op *op);
bool coll_net_awaits(const coll_op *op, int peer);
size_t coll_net_send_from(coll_comm *comm, int peer, int channel, const void *data,
                          size_t size_bytes);
void *coll_net_send_begin(coll_comm *comm, int peer, int channel, size_t size_bytes);
void coll_net_send_end(coll_comm *comm, int peer, int channel, size_t size_bytes);
void coll_net_receive_into(coll_op *op, int peer, int channel, void *target, size_t size_bytes);
const void *coll_net_receive_begin(coll_comm *comm, int peer, int channel, size_t size_bytes);
void coll_net_receive_end(coll_comm *comm, int peer, int channel);
coll_status coll_net_arena_open(coll_arena *arena, int64_t deadline_ns, coll_error *reterr);
void coll_net_arena_close(coll_arena *arena);

/* Frees what the core holds of the context. */
void coll_net_fini(coll_net *net);

#endif
