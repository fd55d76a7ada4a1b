/* ZeroMQ between ranks, on one host or many: what shm does with memory, done with frames.
 *
 * A frame is a head and a body in one message. Flag lines are sent to every peer, and land in
 * copies of its lines. Data frames wait in an inbox per peer and lane until the plan takes them;
 * every head says how many frames its sender has taken, and a frame of its own says so where
 * nothing else goes that way. Memory and queues are bounded by that credit. Sends never block: a
 * socket that takes nothing although its peer has credit has lost its peer. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "segment.h"
#include "zmq_links.h"

enum { FRAMES_PER_POLL = 64, CREDIT_STEP = COLL_STREAM_SLOTS / 2 };

/* A stream from a peer, and one to it. */
typedef struct net_stream {
    zmq_msg_t inbox[COLL_STREAM_SLOTS];
    uint64_t received; /* frames put into the inbox, */
    uint64_t taken;    /* taken out of it, */
    uint64_t told;     /* and told to the peer to have been taken */
    uint64_t sent;
    uint64_t sent_taken; /* by the peer, as far as it has told */
} net_stream;

typedef struct net_comm {
    coll_line (*lines)[COLL_LINE_SLOTS]; /* of every rank of the communicator */
    _Atomic uint64_t finished;           /* not used: nothing is shared */
    net_stream (*streams)[COLL_LANES];   /* by rank in the communicator */
    zmq_msg_t sending;                   /* between send_begin and send_end */
} net_comm;

/* A frame for a communicator that is not made here yet. */
typedef struct net_orphan {
    int peer; /* context rank; -1: none */
    zmq_msg_t message;
} net_orphan;

typedef struct net_state {
    coll_zmq_links links;
    net_orphan orphans[COLL_ZMQ_ORPHANS_MAX];
    int orphan_count;
} net_state;

static void *socket_of(const coll_comm *comm, int peer)
{
    const net_state *state = comm->context->link;
    return state->links.sockets[comm->ranks[peer]];
}

static void fill_head(coll_comm *comm, int peer, coll_frame_head *head)
{
    const net_comm *link = comm->link;
    head->magic = COLL_FRAME_MAGIC;
    head->comm_id = comm->id;
    for (int lane = 0; lane < COLL_LANES; lane++) {
        net_stream *stream = &link->streams[peer][lane];
        head->taken[lane] = (uint32_t)stream->taken;
        stream->told = stream->taken;
    }
}

static void fail_gone(coll_comm *comm, int peer)
{
    const coll_identity *who = &comm->context->identities[comm->ranks[peer]];
    (void)coll_comm_fail(comm, BASE_ERR_PEER, "the connection to rank %d (host %s, pid %u) is lost",
                         peer, who->host, (unsigned)who->pid);
}

static void net_announce(coll_op *op, const void *payload, size_t payload_bytes)
{
    coll_comm *comm = op->comm;
    coll_line *line = &comm->lines[op->sequence % COLL_LINE_SLOTS];
    uint8_t frame[COLL_FRAME_HEAD_BYTES + sizeof *line];
    line->descriptor = op->descriptor;
    memcpy(line->payload, payload, payload_bytes);
    atomic_store(&line->word, op->word);
    for (int i = 1; i < comm->size; i++) {
        const int peer = (comm->rank + i) % comm->size;
        coll_frame_head head = {.kind = COLL_FRAME_LINE, .body_bytes = sizeof *line};
        fill_head(comm, peer, &head);
        memcpy(frame, &head, sizeof head);
        memcpy(frame + sizeof head, line, sizeof *line);
        if (zmq_send(socket_of(comm, peer), frame, sizeof frame, ZMQ_DONTWAIT) < 0) {
            fail_gone(comm, peer);
            return;
        }
    }
}

static void net_finish(coll_comm *comm, uint64_t sequence)
{
    (void)comm;
    (void)sequence;
}

static void *net_send_begin(coll_comm *comm, int peer, int lane, size_t size_bytes)
{
    net_comm *link = comm->link;
    const net_stream *stream = &link->streams[peer][lane];
    if (stream->sent - stream->sent_taken >= COLL_STREAM_SLOTS) {
        return NULL;
    }
    if (zmq_msg_init_size(&link->sending, COLL_FRAME_HEAD_BYTES + size_bytes) != 0) {
        (void)coll_comm_fail(comm, BASE_ERR_MEMORY, "no memory for a frame");
        return NULL;
    }
    return (uint8_t *)zmq_msg_data(&link->sending) + COLL_FRAME_HEAD_BYTES;
}

static void net_send_end(coll_comm *comm, int peer, int lane, size_t size_bytes)
{
    net_comm *link = comm->link;
    coll_frame_head head = {
        .kind = COLL_FRAME_DATA, .lane = (uint32_t)lane, .body_bytes = (uint32_t)size_bytes};
    fill_head(comm, peer, &head);
    memcpy(zmq_msg_data(&link->sending), &head, sizeof head);
    link->streams[peer][lane].sent++;
    if (zmq_msg_send(&link->sending, socket_of(comm, peer), ZMQ_DONTWAIT) < 0) {
        (void)zmq_msg_close(&link->sending);
        fail_gone(comm, peer);
    }
}

static const void *net_receive_begin(coll_comm *comm, int peer, int lane, size_t size_bytes)
{
    const net_comm *link = comm->link;
    net_stream *stream = &link->streams[peer][lane];
    if (stream->received == stream->taken) {
        return NULL;
    }
    zmq_msg_t *message = &stream->inbox[stream->taken % COLL_STREAM_SLOTS];
    if (zmq_msg_size(message) != COLL_FRAME_HEAD_BYTES + size_bytes) {
        (void)coll_comm_fail(comm, BASE_ERR_PEER, "rank %d sent a frame of %zu bytes, not %zu",
                             peer, zmq_msg_size(message) - COLL_FRAME_HEAD_BYTES, size_bytes);
        return NULL;
    }
    return (const uint8_t *)zmq_msg_data(message) + COLL_FRAME_HEAD_BYTES;
}

static void net_receive_end(coll_comm *comm, int peer, int lane)
{
    const net_comm *link = comm->link;
    net_stream *stream = &link->streams[peer][lane];
    (void)zmq_msg_close(&stream->inbox[stream->taken % COLL_STREAM_SLOTS]);
    stream->taken++;
    if (stream->taken - stream->told >= CREDIT_STEP) {
        coll_frame_head head = {.kind = COLL_FRAME_CREDIT};
        fill_head(comm, peer, &head);
        /* A peer that is gone by now needs no credit. */
        (void)zmq_send(socket_of(comm, peer), &head, sizeof head, ZMQ_DONTWAIT);
    }
}

/* Takes the peer's count of taken frames; false if it claims more than were sent. */
static bool take_credit(net_comm *link, int peer, const coll_frame_head *head)
{
    for (int lane = 0; lane < COLL_LANES; lane++) {
        net_stream *stream = &link->streams[peer][lane];
        const uint32_t news = head->taken[lane] - (uint32_t)stream->sent_taken;
        if (news > stream->sent - stream->sent_taken) {
            return false;
        }
        stream->sent_taken += news;
    }
    return true;
}

/* Puts a checked frame where it belongs; the message is taken over where it says so. */
static bool accept_frame(coll_comm *comm, int peer, const coll_frame_head *head, zmq_msg_t *message)
{
    net_comm *link = comm->link;
    const uint8_t *body = (const uint8_t *)zmq_msg_data(message) + COLL_FRAME_HEAD_BYTES;
    if (!take_credit(link, peer, head)) {
        return false;
    }
    if (head->kind == COLL_FRAME_CREDIT) {
        return head->body_bytes == 0;
    }
    if (head->kind == COLL_FRAME_LINE) {
        uint64_t word = 0;
        if (head->body_bytes != sizeof(coll_line)) {
            return false;
        }
        memcpy(&word, body, sizeof word);
        coll_line *line = &link->lines[peer][(word >> 32) % COLL_LINE_SLOTS];
        memcpy(line->payload, body + offsetof(coll_line, payload), sizeof line->payload);
        memcpy(&line->descriptor, body + offsetof(coll_line, descriptor), sizeof line->descriptor);
        atomic_store(&line->word, word);
        return true;
    }
    if (head->kind != COLL_FRAME_DATA || head->lane >= COLL_LANES) {
        return false;
    }
    net_stream *stream = &link->streams[peer][head->lane];
    if (stream->received - stream->taken >= COLL_STREAM_SLOTS) {
        return false;
    }
    zmq_msg_t *slot = &stream->inbox[stream->received % COLL_STREAM_SLOTS];
    (void)zmq_msg_init(slot);
    (void)zmq_msg_move(slot, message);
    stream->received++;
    return true;
}

static int rank_in(const coll_comm *comm, int context_rank)
{
    for (int rank = 0; rank < comm->size; rank++) {
        if (comm->ranks[rank] == context_rank) {
            return rank;
        }
    }
    return -1;
}

static void fail_all(coll_context *context, int context_rank)
{
    const coll_identity *who = &context->identities[context_rank];
    for (coll_comm *comm = context->comms; comm != NULL; comm = comm->next) {
        const int peer = rank_in(comm, context_rank);
        if (peer >= 0) {
            (void)coll_comm_fail(comm, BASE_ERR_PEER,
                                 "rank %d (host %s, pid %u) broke the protocol", peer, who->host,
                                 (unsigned)who->pid);
        }
    }
}

/* Frames of communicators that this rank has yet to make are kept; others are dropped. */
static void keep_orphan(net_state *state, int context_rank, const coll_frame_head *head,
                        zmq_msg_t *message)
{
    if (head->kind == COLL_FRAME_CREDIT || state->orphan_count == COLL_ZMQ_ORPHANS_MAX) {
        return;
    }
    net_orphan *orphan = &state->orphans[state->orphan_count++];
    orphan->peer = context_rank;
    (void)zmq_msg_init(&orphan->message);
    (void)zmq_msg_move(&orphan->message, message);
}

static void deliver(coll_context *context, int context_rank, zmq_msg_t *message)
{
    coll_frame_head head;
    const size_t size = zmq_msg_size(message);
    if (size < sizeof head) {
        fail_all(context, context_rank);
        return;
    }
    memcpy(&head, zmq_msg_data(message), sizeof head);
    if (head.magic != COLL_FRAME_MAGIC || head.body_bytes != size - sizeof head) {
        fail_all(context, context_rank);
        return;
    }
    for (coll_comm *comm = context->comms; comm != NULL; comm = comm->next) {
        const int peer = comm->id == head.comm_id ? rank_in(comm, context_rank) : -1;
        if (peer >= 0 && comm->link != NULL) {
            if (!accept_frame(comm, peer, &head, message)) {
                fail_all(context, context_rank);
            }
            return;
        }
    }
    keep_orphan(context->link, context_rank, &head, message);
}

static bool net_poll_sockets(coll_context *context)
{
    const net_state *state = context->link;
    bool moved = false;
    for (int rank = 0; rank < context->size; rank++) {
        void *socket = state->links.sockets[rank];
        for (int frame = 0; socket != NULL && frame < FRAMES_PER_POLL; frame++) {
            zmq_msg_t message;
            (void)zmq_msg_init(&message);
            if (zmq_msg_recv(&message, socket, ZMQ_DONTWAIT) < 0) {
                (void)zmq_msg_close(&message);
                break;
            }
            deliver(context, rank, &message);
            (void)zmq_msg_close(&message);
            moved = true;
        }
    }
    return moved;
}

static void net_sleep(coll_context *context, bool (*changed)(coll_context *context),
                      int64_t until_ns)
{
    const net_state *state = context->link;
    zmq_pollitem_t items[COLL_RANKS_MAX + 1] = {{.fd = state->links.wake_fd, .events = ZMQ_POLLIN}};
    int count = 1;
    if (changed(context)) {
        return;
    }
    for (int rank = 0; rank < context->size; rank++) {
        if (state->links.sockets[rank] != NULL) {
            items[count++] =
                (zmq_pollitem_t){.socket = state->links.sockets[rank], .events = ZMQ_POLLIN};
        }
    }
    if (zmq_poll(items, count, base_deadline_poll_ms(until_ns, 1000)) > 0 &&
        (items[0].revents & ZMQ_POLLIN) != 0) {
        uint64_t rung = 0;
        (void)!read(state->links.wake_fd, &rung, sizeof rung);
    }
}

static void net_wake(coll_context *context)
{
    const net_state *state = context->link;
    const uint64_t one = 1;
    (void)!write(state->links.wake_fd, &one, sizeof one);
}

static void adopt_orphans(coll_comm *comm)
{
    net_state *state = comm->context->link;
    const int count = state->orphan_count;
    state->orphan_count = 0;
    for (int i = 0; i < count; i++) {
        zmq_msg_t message;
        const int peer = state->orphans[i].peer;
        (void)zmq_msg_init(&message);
        (void)zmq_msg_move(&message, &state->orphans[i].message);
        deliver(comm->context, peer, &message); /* keeps again what is not for comm */
        (void)zmq_msg_close(&message);
    }
}

static base_status net_comm_open(coll_comm *comm, int64_t deadline_ns, base_error *reterr)
{
    (void)deadline_ns;
    net_comm *link = calloc(1, sizeof *link);
    if (link == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a communicator");
    }
    const size_t size = (size_t)comm->size;
    link->streams = calloc(size, sizeof *link->streams);
    link->lines = aligned_alloc(_Alignof(coll_line), size * sizeof *link->lines);
    if (link->streams == NULL || link->lines == NULL) {
        free(link->streams);
        free(link->lines);
        free(link);
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a communicator");
    }
    memset(link->lines, 0, size * sizeof *link->lines);
    comm->link = link;
    for (int rank = 0; rank < comm->size; rank++) {
        comm->peers[rank] =
            (coll_peer_view){.lines = link->lines[rank], .finished = &link->finished};
    }
    comm->lines = link->lines[comm->rank];
    comm->finished = &link->finished;
    adopt_orphans(comm);
    return BASE_OK;
}

static void net_comm_close(coll_comm *comm)
{
    net_comm *link = comm->link;
    if (link == NULL) {
        return;
    }
    for (int rank = 0; rank < comm->size; rank++) {
        for (int lane = 0; lane < COLL_LANES; lane++) {
            net_stream *stream = &link->streams[rank][lane];
            for (; stream->taken < stream->received; stream->taken++) {
                (void)zmq_msg_close(&stream->inbox[stream->taken % COLL_STREAM_SLOTS]);
            }
        }
    }
    free(link->lines);
    free(link->streams);
    free(link);
    comm->link = NULL;
}

static base_status net_arena_open(coll_arena *arena, int64_t deadline_ns, base_error *reterr)
{
    (void)deadline_ns;
    void *data = NULL;
    const base_status status = coll_segment_create_private(arena->mapped_bytes, &data, reterr);
    arena->data = data;
    return status;
}

static void net_arena_close(coll_arena *arena)
{
    coll_segment_free_private(arena->data, arena->mapped_bytes);
}

static base_status net_open_context(coll_context *context, const coll_context_options *options,
                                    int64_t deadline_ns, base_error *reterr)
{
    net_state *state = calloc(1, sizeof *state);
    if (state == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a context");
    }
    state->links.wake_fd = -1;
    context->link = state;
    return coll_zmq_links_open(context, &state->links, options, deadline_ns, reterr);
}

static void net_close_context(coll_context *context)
{
    net_state *state = context->link;
    if (state == NULL) {
        return;
    }
    for (int i = 0; i < state->orphan_count; i++) {
        (void)zmq_msg_close(&state->orphans[i].message);
    }
    /* After a failure there is nobody to wait for; else peers may need what was sent last. */
    coll_zmq_links_close(&state->links, !context->broken);
    free(state);
    context->link = NULL;
}

const coll_transport_table coll_zmq_transport = {
    .transport = COLL_TRANSPORT_ZMQ,
    .shares_memory = false,
    .open = net_open_context,
    .close = net_close_context,
    .comm_open = net_comm_open,
    .comm_close = net_comm_close,
    .announce = net_announce,
    .finish = net_finish,
    .send_begin = net_send_begin,
    .send_end = net_send_end,
    .receive_begin = net_receive_begin,
    .receive_end = net_receive_end,
    .poll = net_poll_sockets,
    .sleep = net_sleep,
    .wake = net_wake,
    .arena_open = net_arena_open,
    .arena_close = net_arena_close,
};
