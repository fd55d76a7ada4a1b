/* The transport over ZeroMQ, for networks where only that is allowed: one DEALER pair for each two
 * ranks, encrypted (links.h). Called through the table at the end. net.h says what a frame is, and
 * frames.h what a message is.
 *
 * Sends never block. A peer is lost if its socket takes nothing although it has credit, or if the
 * monitor says that the connection has ended. In both cases what the peer sent before is read
 * first, because it may say why it ended. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "core/failure.h"
#include "transport/socket/silence.h"
#include "transport/zmq/frames.h"
#include "transport/zmq/links.h"
#include "transport/zmq/zmq.h"

enum {
    MESSAGES_PER_POLL = 64,
    SLEEP_MS = 1000,
};

/* Frames' bodies, at most. CURVE takes a message whole at either end, so that a long one leaves one
 * of them idle. Plain ones are so short for the sake of malloc, which the messages come from: with
 * 512 KiB, 16 MiB took 6 ms in one run and 15 in the next. */
enum { SEALED_BYTES_MAX = 256 * 1024, PLAIN_BYTES_MAX = 128 * 1024 };

/* Asking a monitor costs as much as looking for messages. */
#define MONITOR_NS BASE_NS_PER_MS

typedef struct zmq_peer {
    uint64_t sent; /* frames */
    uint64_t received;
    bool refused;     /* its socket took nothing */
    bool read_closed; /* it broke the protocol: nothing more is read from it */
    size_t kept_bytes;
    uint8_t kept[COLL_ZMQ_KEPT_BYTES]; /* frames that wait to be coalesced */
} zmq_peer;

/* A share in a message that a frame's body is lent from. */
typedef struct zmq_loan {
    zmq_msg_t message;
    struct zmq_loan *next;
} zmq_loan;

typedef struct zmq_state {
    coll_net net; /* first: context->net points here */
    coll_zmq_links links;
    zmq_peer peers[COLL_RANKS_MAX]; /* by context rank */
    int64_t monitor_ns;             /* when the monitors are to be asked again */
    zmq_loan *loans;                /* that are not in use */
    uint8_t *scratch;               /* COLL_FRAME_BODY_BYTES_MAX */
} zmq_state;

static zmq_state *state_of(const coll_context *context)
{
    return context->net;
}

static void number_frames(zmq_peer *peer, const coll_net_frames *frames)
{
    for (int i = 0; i < frames->count; i++) {
        frames->heads[i].number = peer->sent++;
    }
}

/* What is kept for a peer, and the frames behind it. False: there is no memory, and none of the
 * frames has gone; the peer was notified, in the next one. */
static bool send_message(coll_context *context, int rank, const coll_net_frames *frames)
{
    zmq_state *state = state_of(context);
    zmq_peer *peer = &state->peers[rank];
    zmq_msg_t message;
    int sent = -1;
    if (zmq_msg_init_size(&message, peer->kept_bytes + coll_zmq_frames_bytes(frames)) != 0) {
        coll_net_fail_unsent(context, rank, peer->kept_bytes + coll_zmq_frames_bytes(frames));
        return false;
    }
    uint8_t *data = zmq_msg_data(&message);
    memcpy(data, peer->kept, peer->kept_bytes);
    number_frames(peer, frames);
    coll_zmq_frames_write(frames, data + peer->kept_bytes);
    peer->kept_bytes = 0;
    do {
        sent = zmq_msg_send(&message, state->links.sockets[rank], ZMQ_DONTWAIT);
    } while (sent < 0 && errno == EINTR);
    if (sent < 0) {
        (void)zmq_msg_close(&message);
        peer->refused = true; /* poll says so, when it has read all that is here */
    }
    return true;
}

static void link_send(coll_context *context, int rank, const coll_net_frames *frames,
                      coll_net_when when)
{
    zmq_state *state = state_of(context);
    zmq_peer *peer = &state->peers[rank];
    const size_t bytes = coll_zmq_frames_bytes(frames);
    if (when != COLL_NET_NOW && bytes <= sizeof peer->kept - peer->kept_bytes) {
        number_frames(peer, frames);
        coll_zmq_frames_write(frames, peer->kept + peer->kept_bytes);
        peer->kept_bytes += bytes;
        coll_net_note_kept(&state->net, when);
        return;
    }
    if (!state->links.encrypted) {
        (void)send_message(context, rank, frames);
        return;
    }
    /* CURVE takes a message whole at either end: with several, the peer opens one while this rank
     * closes the next. */
    const uint8_t *body = frames->bodies;
    for (int i = 0; i < frames->count; i++) {
        const coll_net_frames frame = {.heads = &frames->heads[i], .count = 1, .bodies = body};
        if (!send_message(context, rank, &frame)) {
            return;
        }
        body = body == NULL ? NULL : body + frames->heads[i].body_bytes;
    }
}

static void link_flush(coll_context *context)
{
    const zmq_state *state = state_of(context);
    const coll_net_frames none = {.count = 0};
    for (int rank = 0; rank < context->size; rank++) {
        if (state->peers[rank].kept_bytes > 0) {
            (void)send_message(context, rank, &none);
        }
    }
}

static bool link_deliver(coll_context *context, int peer)
{
    (void)peer;
    coll_net_flush(context);
    return true; /* as far as is known */
}

static void link_give_back(coll_context *context, void *given)
{
    zmq_state *state = state_of(context);
    zmq_loan *loan = given;
    (void)zmq_msg_close(&loan->message);
    loan->next = state->loans;
    state->loans = loan;
}

/* There is always room: credits keep far below the sockets' own limits. Nothing is to be forgotten:
 * frames come whole. */
static const coll_net_links zmq_net_links = {
    .send = link_send, .flush = link_flush, .deliver = link_deliver, .give_back = link_give_back};

/* A share in a message; NULL: no memory. */
static zmq_loan *make_loan(coll_context *context, zmq_msg_t *message)
{
    zmq_state *state = state_of(context);
    zmq_loan *loan = state->loans;
    if (loan != NULL) {
        state->loans = loan->next;
    } else {
        loan = malloc(sizeof *loan);
    }
    if (loan == NULL) {
        return NULL;
    }
    (void)zmq_msg_init(&loan->message);
    if (zmq_msg_copy(&loan->message, message) != 0) {
        link_give_back(context, loan);
        return NULL;
    }
    return loan;
}

/* Keeps the body of a frame, `at` bytes into its message, without a copy. Without memory the
 * communicator fails, and the frame is nobody's. */
static bool lend(coll_comm *comm, int rank, const coll_frame_head *head, zmq_msg_t *message,
                 size_t at)
{
    zmq_loan *loan = make_loan(comm->context, message);
    if (loan == NULL) {
        (void)coll_comm_fail(comm, COLL_ERR_MEMORY, "no memory for a frame (%zu bytes)",
                             sizeof *loan);
        return true;
    }
    return coll_net_lend(comm, rank, head, (uint8_t *)zmq_msg_data(&loan->message) + at, loan);
}

/* Takes a frame; false: it broke the protocol, and its sender's communicators have failed. */
static bool deliver(coll_context *context, int rank, const coll_frame_head *head,
                    zmq_msg_t *message, const uint8_t *data)
{
    zmq_state *state = state_of(context);
    uint8_t *body = NULL;
    coll_comm *comm = NULL;
    if (head->number != state->peers[rank].received++) {
        coll_net_fail_peer(context, rank, "broke the protocol: a frame out of order");
        return false;
    }
    const coll_net_verdict verdict =
        coll_net_find_body(context, rank, head, state->scratch, &body, &comm);
    if (verdict == COLL_NET_BAD) {
        coll_net_fail_peer(context, rank, "broke the protocol");
        return false;
    }
    if (verdict == COLL_NET_DROP) {
        return true;
    }
    if (verdict == COLL_NET_LEND) {
        return lend(comm, rank, head, message,
                    (size_t)(data - (const uint8_t *)zmq_msg_data(message)));
    }
    if (head->body_bytes > 0) {
        memcpy(body, data, head->body_bytes);
    }
    return coll_net_commit(context, rank, head, body);
}

/* False: nothing that this peer sends is to be read any more. */
static bool deliver_message(coll_context *context, int rank, zmq_msg_t *message)
{
    const size_t size_bytes = zmq_msg_size(message);
    const uint8_t *data = zmq_msg_data(message);
    const uint8_t *body = NULL;
    coll_frame_head head;
    size_t at = 0;
    do {
        if (!coll_zmq_frames_read(data, size_bytes, &at, &head, &body)) {
            coll_net_fail_peer(context, rank, "broke the protocol: a frame of the wrong size");
            return false;
        }
        if (!deliver(context, rank, &head, message, body)) {
            return false;
        }
    } while (at < size_bytes);
    return true;
}

/* The next messages from a peer; false if there is none. */
static bool take_messages(coll_context *context, int rank)
{
    zmq_state *state = state_of(context);
    for (int count = 0; count < MESSAGES_PER_POLL && !state->peers[rank].read_closed; count++) {
        zmq_msg_t message;
        (void)zmq_msg_init(&message);
        const bool here = zmq_msg_recv(&message, state->links.sockets[rank], ZMQ_DONTWAIT) >= 0;
        state->peers[rank].read_closed = here && !deliver_message(context, rank, &message);
        (void)zmq_msg_close(&message);
        if (!here) {
            return count > 0;
        }
    }
    return !state->peers[rank].read_closed;
}

/* The monitors' news: the first lost connection of each peer. Where it sent something before, that
 * comes first, and may be all that is needed: it is lost when next asked. */
static bool receive_disconnects(coll_context *context)
{
    zmq_state *state = state_of(context);
    bool moved = false;
    for (int rank = 0; rank < context->size; rank++) {
        if (state->links.sockets[rank] != NULL && !state->net.left[rank] &&
            coll_zmq_links_is_lost(&state->links, rank)) {
            if (!take_messages(context, rank)) {
                coll_net_lost(context, rank, "closed by the other side");
            }
            moved = true;
        }
    }
    return moved;
}

/* Gives up peers whose hosts have stopped answering; true if there was one. */
static bool lose_silent(coll_context *context)
{
    zmq_state *state = state_of(context);
    const int ranks = coll_net_may_be_silent(&state->net) ? context->size : 0;
    bool lost = false;
    for (int rank = 0; rank < ranks; rank++) {
        if (!state->net.left[rank] && coll_zmq_links_is_silent(&state->links, rank)) {
            coll_silence_lose(context, rank, state->links.fds[rank]);
            lost = true;
        }
    }
    return lost;
}

/* For a rank that never has to wait, and so never sleeps; before it reads anything else, so that
 * all it has read so far has had its effect. */
static bool poll_monitors(coll_context *context)
{
    zmq_state *state = state_of(context);
    const int64_t now_ns = base_now_ns();
    if (now_ns < state->monitor_ns) {
        return false;
    }
    const bool moved = receive_disconnects(context);
    state->monitor_ns = moved ? now_ns : now_ns + MONITOR_NS;
    return moved;
}

static bool net_poll_sockets(coll_context *context)
{
    zmq_state *state = state_of(context);
    bool moved = poll_monitors(context);
    for (int rank = 0; rank < context->size; rank++) {
        if (state->links.sockets[rank] == NULL) {
            continue;
        }
        if (take_messages(context, rank)) {
            moved = true;
        } else if (state->peers[rank].refused) {
            state->peers[rank].refused = false;
            coll_net_lost(context, rank, "it takes nothing any more");
        }
    }
    coll_net_end_poll(context);
    return moved;
}

static void net_sleep(coll_context *context, bool (*changed)(coll_context *context),
                      int64_t until_ns)
{
    const zmq_state *state = state_of(context);
    zmq_pollitem_t items[2 * COLL_RANKS_MAX + 1] = {
        {.fd = state->net.wake_fd, .events = ZMQ_POLLIN}};
    int count = 1;
    /* What a peer sent before it went is there before the news of its end. */
    if (changed(context) || receive_disconnects(context)) {
        return;
    }
    coll_net_flush(context);
    if (lose_silent(context)) {
        return;
    }
    for (int rank = 0; rank < context->size; rank++) {
        if (state->links.sockets[rank] != NULL && !state->net.left[rank]) {
            if (!state->peers[rank].read_closed) {
                items[count++] =
                    (zmq_pollitem_t){.socket = state->links.sockets[rank], .events = ZMQ_POLLIN};
            }
            items[count++] =
                (zmq_pollitem_t){.socket = state->links.monitors[rank], .events = ZMQ_POLLIN};
        }
    }
    if (zmq_poll(items, count, base_deadline_poll_ms(until_ns, SLEEP_MS)) > 0 &&
        (items[0].revents & ZMQ_POLLIN) != 0) {
        coll_net_note_woken(&state->net);
    }
}

static coll_status make_state(coll_context *context, const coll_context_options *options,
                              coll_error *reterr)
{
    zmq_state *state = calloc(1, sizeof *state);
    context->net = state;
    if (state != NULL) {
        state->net.wake_fd = -1;
        state->net.links = &zmq_net_links;
        state->net.chunk_bytes_max =
            options->tcp_auth == COLL_TCP_AUTH_OFF ? PLAIN_BYTES_MAX : SEALED_BYTES_MAX;
        state->scratch = aligned_alloc(64, COLL_FRAME_BODY_BYTES_MAX);
    }
    return state != NULL && state->scratch != NULL
               ? COLL_OK
               : coll_fail(reterr, COLL_ERR_MEMORY, "no memory for a context (%zu bytes)",
                           sizeof *state + (size_t)COLL_FRAME_BODY_BYTES_MAX);
}

static coll_status net_open_context(coll_context *context, const coll_context_options *options,
                                    int64_t deadline_ns, coll_error *reterr)
{
    coll_status status = make_state(context, options, reterr);
    zmq_state *state = state_of(context);
    coll_zmq_links *links = state != NULL ? &state->links : NULL;
    status = coll_zmq_links_open(context, links, options, deadline_ns, status, reterr);
    for (int rank = 0; status == COLL_OK && rank < context->size; rank++) {
        state->net.remote[rank] = rank != context->rank;
    }
    return status;
}

static void leave(coll_context *context)
{
    zmq_state *state = state_of(context);
    (void)net_poll_sockets(context); /* a rank that has said goodbye needs none */
    coll_net_farewell(context);
    /* No peer is waited for any more. */
    const bool failed = context->world == NULL || atomic_load(&context->abort_state) != 0;
    uint64_t doubted = failed ? UINT64_MAX : context->doubted;
    for (int rank = 0; rank < context->size; rank++) {
        doubted |= (uint64_t)state->peers[rank].read_closed << rank;
    }
    /* Peers may need what was sent last, and why this rank goes. */
    coll_zmq_links_close(&state->links, state->net.left, doubted);
}

static void net_close_context(coll_context *context)
{
    zmq_state *state = state_of(context);
    if (state == NULL) {
        return;
    }
    if (!coll_context_is_forked(context)) { /* its threads are in the parent */
        leave(context);
    }
    coll_net_fini(&state->net);
    while (state->loans != NULL) {
        zmq_loan *next = state->loans->next;
        free(state->loans);
        state->loans = next;
    }
    if (state->net.wake_fd >= 0) {
        (void)close(state->net.wake_fd);
    }
    free(state->scratch);
    free(state);
    context->net = NULL;
}

static const coll_socket_table zmq_sockets = {.poll = net_poll_sockets, .push = coll_net_push};

static const coll_sleep_table zmq_sleep_table = {.sleep = net_sleep, .wake = coll_net_wake};

const coll_transport_table coll_zmq_transport = {
    .sockets = &zmq_sockets,
    .sleep = &zmq_sleep_table,
    .has_threads = true,
    .open = net_open_context,
    .close = net_close_context,
    COLL_NET_COMMON,
    COLL_NET_STREAMS,
};
