/* ZeroMQ between ranks, on one host or many, for networks where only that is allowed: one DEALER
 * pair per two ranks, encrypted (zmq_links.h). What a frame is, net.h says: here a message is a
 * head and a body. Sends never block: a socket that takes nothing although its peer has credit has
 * lost its peer; so has one whose monitor says that the connection has ended. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "net.h"
#include "zmq_links.h"

enum { FRAMES_PER_POLL = 64, SLEEP_MS = 1000 };

typedef struct zmq_state {
    coll_net net; /* first: context->net points here */
    coll_zmq_links links;
    uint64_t sent[COLL_RANKS_MAX]; /* frames, by context rank */
    uint64_t received[COLL_RANKS_MAX];
    uint8_t *scratch; /* COLL_FRAME_BODY_BYTES_MAX */
} zmq_state;

static zmq_state *state_of(const coll_context *context)
{
    return context->net;
}

static void send_one(coll_context *context, int peer, coll_frame_head *head, const void *body)
{
    zmq_state *state = state_of(context);
    void *socket = state->links.sockets[peer];
    zmq_msg_t message;
    head->number = state->sent[peer]++;
    if (zmq_msg_init_size(&message, sizeof *head + head->body_bytes) != 0) {
        coll_net_fail_peer(context, peer, "could not be sent to: no memory");
        return;
    }
    memcpy(zmq_msg_data(&message), head, sizeof *head);
    if (head->body_bytes > 0) {
        memcpy((uint8_t *)zmq_msg_data(&message) + sizeof *head, body, head->body_bytes);
    }
    int sent = -1;
    do {
        sent = zmq_msg_send(&message, socket, ZMQ_DONTWAIT);
    } while (sent < 0 && errno == EINTR);
    if (sent < 0) {
        (void)zmq_msg_close(&message);
        if (head->kind == COLL_FRAME_CREDIT) {
            return; /* a peer may have sent its last and left; what it sent is still here */
        }
        coll_net_lost(context, peer, "it takes nothing any more");
    }
}

static void link_send(coll_context *context, int peer, const coll_net_frames *frames, bool later)
{
    const uint8_t *body = frames->bodies;
    (void)later;
    for (int i = 0; i < frames->count; i++) {
        send_one(context, peer, &frames->heads[i], body);
        body = body == NULL ? NULL : body + frames->heads[i].body_bytes;
    }
}

static bool link_has_room(coll_context *context, int peer)
{
    (void)context;
    (void)peer;
    return true; /* credits keep far below the sockets' own limits */
}

static void link_forget(coll_context *context, coll_comm *comm)
{
    (void)context; /* frames come whole: none is half placed */
    (void)comm;
}

static const coll_net_links zmq_net_links = {
    .send = link_send, .has_room = link_has_room, .forget = link_forget};

static void deliver(coll_context *context, int peer, zmq_msg_t *message)
{
    zmq_state *state = state_of(context);
    coll_frame_head head;
    uint8_t *body = NULL;
    coll_comm *comm = NULL;
    const size_t size = zmq_msg_size(message);
    const uint8_t *data = zmq_msg_data(message);
    if (size >= sizeof head) {
        memcpy(&head, data, sizeof head);
    }
    if (size < sizeof head || head.body_bytes != size - sizeof head ||
        head.number != state->received[peer]++) {
        coll_net_fail_peer(context, peer, "broke the protocol: a frame of the wrong size or order");
        return;
    }
    const coll_net_verdict verdict =
        coll_net_place(context, peer, &head, state->scratch, &body, &comm);
    if (verdict == COLL_NET_BAD) {
        coll_net_fail_peer(context, peer, "broke the protocol");
    }
    if (verdict != COLL_NET_TAKE) {
        return;
    }
    if (head.body_bytes > 0) {
        memcpy(body, data + sizeof head, head.body_bytes);
    }
    (void)coll_net_commit(context, peer, &head, body);
}

static bool net_poll_sockets(coll_context *context)
{
    zmq_state *state = state_of(context);
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
    if (state->net.watchful) {
        coll_net_look(context);
    }
    return moved;
}

/* The monitors' news: the first lost connection of each peer. */
static bool hear_losses(coll_context *context)
{
    zmq_state *state = state_of(context);
    bool moved = false;
    for (int rank = 0; rank < context->size; rank++) {
        if (state->links.sockets[rank] != NULL && !state->net.left[rank] &&
            coll_zmq_links_is_lost(&state->links, rank)) {
            (void)net_poll_sockets(context); /* what it sent before is here by now */
            coll_net_lost(context, rank, "closed by the other side");
            moved = true;
        }
    }
    return moved;
}

static void net_sleep(coll_context *context, bool (*changed)(coll_context *context),
                      int64_t until_ns)
{
    const zmq_state *state = state_of(context);
    zmq_pollitem_t items[2 * COLL_RANKS_MAX + 1] = {
        {.fd = state->links.wake_fd, .events = ZMQ_POLLIN}};
    int count = 1;
    /* What a peer sent before it went is there before the news of its end. */
    if (changed(context) || hear_losses(context)) {
        return;
    }
    for (int rank = 0; rank < context->size; rank++) {
        if (state->links.sockets[rank] != NULL && !state->net.left[rank]) {
            items[count++] =
                (zmq_pollitem_t){.socket = state->links.sockets[rank], .events = ZMQ_POLLIN};
            items[count++] =
                (zmq_pollitem_t){.socket = state->links.monitors[rank], .events = ZMQ_POLLIN};
        }
    }
    if (zmq_poll(items, count, base_deadline_poll_ms(until_ns, SLEEP_MS)) > 0 &&
        (items[0].revents & ZMQ_POLLIN) != 0) {
        uint64_t rung = 0;
        (void)!read(state->links.wake_fd, &rung, sizeof rung);
    }
}

static void net_wake(coll_context *context)
{
    const zmq_state *state = state_of(context);
    const uint64_t one = 1;
    (void)!write(state->links.wake_fd, &one, sizeof one);
}

static base_status net_open_context(coll_context *context, const coll_context_options *options,
                                    int64_t deadline_ns, base_error *reterr)
{
    zmq_state *state = calloc(1, sizeof *state);
    if (state == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a context");
    }
    state->links.wake_fd = -1;
    state->net.links = &zmq_net_links;
    context->net = state;
    state->scratch = aligned_alloc(64, COLL_FRAME_BODY_BYTES_MAX);
    if (state->scratch == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for frames");
    }
    const base_status status =
        coll_zmq_links_open(context, &state->links, options, deadline_ns, reterr);
    for (int rank = 0; status == BASE_OK && rank < context->size; rank++) {
        state->net.remote[rank] = rank != context->rank;
    }
    return status;
}

static void net_close_context(coll_context *context)
{
    zmq_state *state = state_of(context);
    if (state == NULL) {
        return;
    }
    coll_net_farewell(context);
    /* Peers may need what was sent last, and why this rank goes. */
    coll_zmq_links_close(&state->links, context->broken);
    coll_net_fini(&state->net);
    free(state->scratch);
    free(state);
    context->net = NULL;
}

const coll_transport_table coll_zmq_transport = {
    .transport = COLL_TRANSPORT_ZMQ,
    .shares_memory = false,
    .has_threads = true,
    .open = net_open_context,
    .close = net_close_context,
    .comm_open = coll_net_comm_open,
    .comm_close = coll_net_comm_close,
    .announce = coll_net_announce,
    .finish = coll_net_finish,
    .distress = coll_net_distress,
    .send_begin = coll_net_send_begin,
    .send_end = coll_net_send_end,
    .send_from = coll_net_send_from,
    .receive_begin = coll_net_receive_begin,
    .receive_end = coll_net_receive_end,
    .poll = net_poll_sockets,
    .sleep = net_sleep,
    .wake = net_wake,
    .arena_open = coll_net_arena_open,
    .arena_close = coll_net_arena_close,
};
