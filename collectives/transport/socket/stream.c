/* Data frames of plans and their credit, over any table of links. Called by the executor through
 * the tables of tcp and zmq. */
#include <stdlib.h>

#include "base/assert.h"
#include "core/failure.h"
#include "transport/socket/comm.h"

enum { CREDIT_STEP = COLL_NET_CREDITS / 2 };

/* leaves_now: the frame leaves in this turn, so the peer will know what was taken. There is no
 * stream where a communicator could not be opened. */
static void fill_head(coll_comm *comm, int peer, coll_frame_head *head, bool leaves_now)
{
    const coll_net_comm *link = comm->net;
    head->magic = COLL_FRAME_MAGIC;
    head->comm_id = comm->id;
    for (int channel = 0; link != NULL && channel < COLL_CHANNELS; channel++) {
        coll_net_stream *stream = &link->streams[peer][channel];
        head->taken[channel] = (uint32_t)stream->taken;
        stream->credit_sent = leaves_now ? stream->taken : stream->credit_sent;
    }
}

/* What is handed over from here on is no part of what was given. */
static void mark(const coll_comm *comm, int peer, uint64_t *given)
{
    const coll_net *net = coll_net_of(comm->context);
    if (net->links->handed != NULL) {
        given[peer] = net->links->handed(comm->context, comm->ranks[peer]);
    }
}

void coll_net_send_frame(coll_comm *comm, int peer, coll_frame_head *head, const void *body,
                         coll_net_when when)
{
    const coll_net *net = coll_net_of(comm->context);
    const coll_net_frames frame = {.heads = head, .count = 1, .bodies = body};
    fill_head(comm, peer, head, when != COLL_NET_IDLE);
    net->links->send(comm->context, comm->ranks[peer], &frame, when);
    if (head->kind == COLL_FRAME_FLAG) {
        coll_net_comm *link = comm->net;
        mark(comm, peer, link->given);
    }
}

/* How many frames there is credit for. */
static int credit(const coll_comm *comm, int peer, int channel)
{
    const coll_net_comm *link = comm->net;
    const coll_net_stream *stream = &link->streams[peer][channel];
    const coll_net *net = coll_net_of(comm->context);
    BASE_ASSERT(stream->sent - stream->sent_taken <= COLL_NET_CREDITS);
    return net->links->has_room == NULL || net->links->has_room(comm->context, comm->ranks[peer])
               ? (int)(COLL_NET_CREDITS - (stream->sent - stream->sent_taken))
               : 0;
}

size_t coll_net_send_from(coll_comm *comm, int peer, int channel, const void *data,
                          size_t size_bytes)
{
    coll_net_comm *link = comm->net;
    const coll_net *net = coll_net_of(comm->context);
    const int allowed = credit(comm, peer, channel);
    coll_frame_head heads[COLL_FRAMES_AT_ONCE];
    coll_net_frames frames = {.heads = heads, .bodies = data};
    size_t taken = 0;
    for (; frames.count < allowed && taken < size_bytes; frames.count++) {
        const size_t left = size_bytes - taken;
        const size_t body_bytes = left < comm->chunk_bytes ? left : comm->chunk_bytes;
        heads[frames.count] = (coll_frame_head){.kind = COLL_FRAME_DATA,
                                                .channel = (uint32_t)channel,
                                                .body_bytes = (uint32_t)body_bytes};
        fill_head(comm, peer, &heads[frames.count], true);
        taken += body_bytes;
    }
    if (frames.count > 0) {
        link->streams[peer][channel].sent += (uint64_t)frames.count;
        net->links->send(comm->context, comm->ranks[peer], &frames, COLL_NET_NOW);
        mark(comm, peer, channel == COLL_CHANNEL_P2P ? link->messages : link->given);
    }
    return taken;
}

void *coll_net_send_begin(coll_comm *comm, int peer, int channel, size_t size_bytes)
{
    const coll_net_comm *link = comm->net;
    (void)size_bytes;
    return credit(comm, peer, channel) > 0 ? link->sending : NULL;
}

void coll_net_send_end(coll_comm *comm, int peer, int channel, size_t size_bytes)
{
    const coll_net_comm *link = comm->net;
    const size_t sent = coll_net_send_from(comm, peer, channel, link->sending, size_bytes);
    BASE_ASSERT(sent == size_bytes); /* send_begin has found credit */
}

void coll_net_receive_into(coll_op *op, int peer, int channel, void *target, size_t size_bytes)
{
    const coll_net_comm *link = op->comm->net;
    coll_net_stream *stream = &link->streams[peer][channel];
    if (stream->received == stream->taken && !stream->body_found) {
        stream->target = target;
        stream->target_bytes = size_bytes;
        stream->target_word = op->word;
    }
}

const void *coll_net_receive_begin(coll_comm *comm, int peer, int channel, size_t size_bytes)
{
    const coll_net_comm *link = comm->net;
    const coll_net_stream *stream = &link->streams[peer][channel];
    const uint64_t at = stream->taken % COLL_NET_CREDITS;
    if (stream->received == stream->taken) {
        return NULL;
    }
    if (stream->bytes[at] != size_bytes) {
        (void)coll_comm_fail(comm, COLL_ERR_PEER, "rank %d sent a frame of %u bytes, not %zu", peer,
                             (unsigned)stream->bytes[at], size_bytes);
        return NULL;
    }
    return stream->bodies[at];
}

static void give_back(const coll_comm *comm, coll_net_stream *stream, size_t at)
{
    if (stream->loans[at] != NULL) {
        coll_net_of(comm->context)->links->give_back(comm->context, stream->loans[at]);
        stream->loans[at] = NULL;
    }
}

void coll_net_receive_end(coll_comm *comm, int peer, int channel)
{
    const coll_net_comm *link = comm->net;
    coll_net_stream *stream = &link->streams[peer][channel];
    BASE_ASSERT(stream->taken < stream->received);
    give_back(comm, stream, stream->taken % COLL_NET_CREDITS);
    stream->taken++;
    if (stream->taken - stream->credit_sent >= CREDIT_STEP) {
        coll_frame_head head = {.kind = COLL_FRAME_CREDIT};
        coll_net_send_frame(comm, peer, &head, NULL, COLL_NET_THIS_TURN);
    }
}

bool coll_net_take_credit(coll_comm *comm, int peer, const coll_frame_head *head)
{
    const coll_net_comm *link = comm->net;
    for (int channel = 0; channel < COLL_CHANNELS; channel++) {
        coll_net_stream *stream = &link->streams[peer][channel];
        const uint32_t news = head->taken[channel] - (uint32_t)stream->sent_taken;
        if (news > stream->sent - stream->sent_taken) {
            return false;
        }
        stream->sent_taken += news;
    }
    return true;
}

/* Where the operation that waits for the frame wants its body; NULL if it does not say, or if the
 * peer is not at the same operation. */
static uint8_t *target_of_op(const coll_comm *comm, int peer, coll_net_stream *stream,
                             const coll_frame_head *head)
{
    const size_t at = (size_t)(stream->target_word >> 32) % COLL_FLAG_COUNT;
    const size_t left = stream->target_bytes;
    uint8_t *target = stream->target;
    if (left == 0 || comm->failed ||
        head->body_bytes != (left < comm->chunk_bytes ? left : comm->chunk_bytes) ||
        atomic_load(&comm->peers[peer].flags[at].word) != stream->target_word) {
        stream->target_bytes = 0;
        return NULL;
    }
    stream->target += head->body_bytes;
    stream->target_bytes -= head->body_bytes;
    return target;
}

coll_net_verdict coll_net_stream_find_body(coll_comm *comm, int peer, const coll_frame_head *head,
                                           uint8_t **body)
{
    const coll_net_comm *link = comm->net;
    coll_net_stream *stream = &link->streams[peer][head->channel];
    uint8_t **kept = &stream->bodies[stream->received % COLL_NET_CREDITS];
    if (stream->received - stream->taken >= COLL_NET_CREDITS || head->body_bytes == 0 ||
        head->body_bytes > comm->chunk_bytes) {
        return COLL_NET_BAD;
    }
    stream->body_found = true;
    *kept = target_of_op(comm, peer, stream, head);
    *body = *kept;
    if (*body != NULL) {
        return COLL_NET_TAKE;
    }
    if (coll_net_of(comm->context)->links->give_back != NULL) {
        return COLL_NET_LEND;
    }
    if (stream->buffers == NULL) {
        stream->buffers = aligned_alloc(64, (size_t)COLL_NET_CREDITS * comm->chunk_bytes);
        if (stream->buffers == NULL) {
            (void)coll_comm_fail(comm, COLL_ERR_MEMORY, "no memory for frames (%zu bytes)",
                                 (size_t)COLL_NET_CREDITS * comm->chunk_bytes);
            return COLL_NET_DROP; /* the peer has done nothing wrong */
        }
    }
    /* An empty stream begins with the first buffer, which the caches hold. */
    stream->buffer =
        stream->received == stream->taken ? 0 : (stream->buffer + 1) % (unsigned)COLL_NET_CREDITS;
    *kept = stream->buffers + stream->buffer * comm->chunk_bytes;
    *body = *kept;
    return COLL_NET_TAKE;
}

void coll_net_stream_lend(coll_comm *comm, int peer, const coll_frame_head *head, uint8_t *body,
                          void *loan)
{
    const coll_net_comm *link = comm->net;
    coll_net_stream *stream = &link->streams[peer][head->channel];
    const size_t at = stream->received % COLL_NET_CREDITS;
    give_back(comm, stream, at); /* of a frame that was refused after all */
    stream->bodies[at] = body;
    stream->loans[at] = loan;
}

void coll_net_stream_close(coll_comm *comm, int peer)
{
    const coll_net_comm *link = comm->net;
    for (int channel = 0; channel < COLL_CHANNELS; channel++) {
        for (size_t at = 0; at < COLL_NET_CREDITS; at++) {
            give_back(comm, &link->streams[peer][channel], at);
        }
    }
}

void coll_net_stream_commit(coll_comm *comm, int peer, const coll_frame_head *head)
{
    const coll_net_comm *link = comm->net;
    coll_net_stream *stream = &link->streams[peer][head->channel];
    stream->bytes[stream->received % COLL_NET_CREDITS] = head->body_bytes;
    stream->received++;
    stream->body_found = false;
}
