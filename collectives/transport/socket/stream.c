/* Data frames of plans and their credit, over any table of links. Called by the executor through
 * the tables of tcp and zmq. */
#include <stdlib.h>

#include "core/failure.h"
#include "transport/socket/comm.h"

enum { CREDIT_STEP = COLL_NET_SLOTS / 2 };

/* tells: the frame leaves in this turn, so the peer will know what was taken. */
static void fill_head(coll_comm *comm, int peer, coll_frame_head *head, bool tells)
{
    const coll_net_comm *link = comm->net;
    head->magic = COLL_FRAME_MAGIC;
    head->comm_id = comm->id;
    for (int lane = 0; lane < COLL_LANES; lane++) {
        coll_net_stream *stream = &link->streams[peer][lane];
        head->taken[lane] = (uint32_t)stream->taken;
        stream->told = tells ? stream->taken : stream->told;
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
    fill_head(comm, peer, head, when != COLL_NET_IDLY);
    net->links->send(comm->context, comm->ranks[peer], &frame, when);
    if (head->kind == COLL_FRAME_LINE) {
        coll_net_comm *link = comm->net;
        mark(comm, peer, link->given);
    }
}

/* How many frames there is credit for. */
static int credit(const coll_comm *comm, int peer, int lane)
{
    const coll_net_comm *link = comm->net;
    const coll_net_stream *stream = &link->streams[peer][lane];
    const coll_net *net = coll_net_of(comm->context);
    return net->links->has_room(comm->context, comm->ranks[peer])
               ? (int)(COLL_NET_SLOTS - (stream->sent - stream->sent_taken))
               : 0;
}

size_t coll_net_send_from(coll_comm *comm, int peer, int lane, const void *data, size_t size_bytes)
{
    coll_net_comm *link = comm->net;
    const coll_net *net = coll_net_of(comm->context);
    const int allowed = credit(comm, peer, lane);
    coll_frame_head heads[COLL_FRAMES_AT_ONCE];
    coll_net_frames frames = {.heads = heads, .bodies = data};
    size_t taken = 0;
    for (; frames.count < allowed && taken < size_bytes; frames.count++) {
        const size_t left = size_bytes - taken;
        const size_t body_bytes = left < comm->chunk_bytes ? left : comm->chunk_bytes;
        heads[frames.count] = (coll_frame_head){
            .kind = COLL_FRAME_DATA, .lane = (uint32_t)lane, .body_bytes = (uint32_t)body_bytes};
        fill_head(comm, peer, &heads[frames.count], true);
        taken += body_bytes;
    }
    if (frames.count > 0) {
        link->streams[peer][lane].sent += (uint64_t)frames.count;
        net->links->send(comm->context, comm->ranks[peer], &frames, COLL_NET_NOW);
        mark(comm, peer, lane == COLL_LANE_POINT ? link->points : link->given);
    }
    return taken;
}

void *coll_net_send_begin(coll_comm *comm, int peer, int lane, size_t size_bytes)
{
    const coll_net_comm *link = comm->net;
    (void)size_bytes;
    return credit(comm, peer, lane) > 0 ? link->sending : NULL;
}

void coll_net_send_end(coll_comm *comm, int peer, int lane, size_t size_bytes)
{
    const coll_net_comm *link = comm->net;
    (void)coll_net_send_from(comm, peer, lane, link->sending, size_bytes);
}

void coll_net_receive_into(coll_op *op, int peer, int lane, void *target, size_t size_bytes)
{
    const coll_net_comm *link = op->comm->net;
    coll_net_stream *stream = &link->streams[peer][lane];
    if (stream->received == stream->taken && !stream->placing) {
        stream->place = target;
        stream->place_bytes = size_bytes;
        stream->place_word = op->word;
    }
}

const void *coll_net_receive_begin(coll_comm *comm, int peer, int lane, size_t size_bytes)
{
    const coll_net_comm *link = comm->net;
    const coll_net_stream *stream = &link->streams[peer][lane];
    const uint64_t slot = stream->taken % COLL_NET_SLOTS;
    if (stream->received == stream->taken) {
        return NULL;
    }
    if (stream->bytes[slot] != size_bytes) {
        (void)coll_comm_fail(comm, BASE_ERR_PEER, "rank %d sent a frame of %u bytes, not %zu", peer,
                             (unsigned)stream->bytes[slot], size_bytes);
        return NULL;
    }
    return stream->bodies[slot];
}

static void give_back(const coll_comm *comm, coll_net_stream *stream, size_t slot)
{
    if (stream->loans[slot] != NULL) {
        coll_net_of(comm->context)->links->give_back(comm->context, stream->loans[slot]);
        stream->loans[slot] = NULL;
    }
}

void coll_net_receive_end(coll_comm *comm, int peer, int lane)
{
    const coll_net_comm *link = comm->net;
    coll_net_stream *stream = &link->streams[peer][lane];
    give_back(comm, stream, stream->taken % COLL_NET_SLOTS);
    stream->taken++;
    if (stream->taken - stream->told >= CREDIT_STEP) {
        coll_frame_head head = {.kind = COLL_FRAME_CREDIT};
        coll_net_send_frame(comm, peer, &head, NULL, COLL_NET_SOON);
    }
}

bool coll_net_take_credit(coll_comm *comm, int peer, const coll_frame_head *head)
{
    const coll_net_comm *link = comm->net;
    for (int lane = 0; lane < COLL_LANES; lane++) {
        coll_net_stream *stream = &link->streams[peer][lane];
        const uint32_t news = head->taken[lane] - (uint32_t)stream->sent_taken;
        if (news > stream->sent - stream->sent_taken) {
            return false;
        }
        stream->sent_taken += news;
    }
    return true;
}

/* Where the operation that waits for the frame wants its body; NULL if it does not say, or if the
 * peer is not at the same operation. */
static uint8_t *place_of_op(const coll_comm *comm, int peer, coll_net_stream *stream,
                            const coll_frame_head *head)
{
    const size_t slot = (size_t)(stream->place_word >> 32) % COLL_LINE_SLOTS;
    const size_t left = stream->place_bytes;
    uint8_t *place = stream->place;
    if (left == 0 || comm->failed ||
        head->body_bytes != (left < comm->chunk_bytes ? left : comm->chunk_bytes) ||
        atomic_load(&comm->peers[peer].lines[slot].word) != stream->place_word) {
        stream->place_bytes = 0;
        return NULL;
    }
    stream->place += head->body_bytes;
    stream->place_bytes -= head->body_bytes;
    return place;
}

coll_net_verdict coll_net_stream_place(coll_comm *comm, int peer, const coll_frame_head *head,
                                       uint8_t **body)
{
    const coll_net_comm *link = comm->net;
    coll_net_stream *stream = &link->streams[peer][head->lane];
    uint8_t **kept = &stream->bodies[stream->received % COLL_NET_SLOTS];
    if (stream->received - stream->taken >= COLL_NET_SLOTS || head->body_bytes == 0 ||
        head->body_bytes > comm->chunk_bytes) {
        return COLL_NET_BAD;
    }
    stream->placing = true;
    *kept = place_of_op(comm, peer, stream, head);
    *body = *kept;
    if (*body != NULL) {
        return COLL_NET_TAKE;
    }
    if (coll_net_of(comm->context)->links->give_back != NULL) {
        return COLL_NET_LEND;
    }
    if (stream->slots == NULL) {
        stream->slots = aligned_alloc(64, (size_t)COLL_NET_SLOTS * comm->chunk_bytes);
        if (stream->slots == NULL) {
            (void)coll_comm_fail(comm, BASE_ERR_MEMORY, "no memory for frames");
            return COLL_NET_DROP; /* the peer has done nothing wrong */
        }
    }
    /* An empty stream begins with the first slot, which the caches hold. */
    stream->slot =
        stream->received == stream->taken ? 0 : (stream->slot + 1) % (unsigned)COLL_NET_SLOTS;
    *kept = stream->slots + stream->slot * comm->chunk_bytes;
    *body = *kept;
    return COLL_NET_TAKE;
}

void coll_net_stream_lend(coll_comm *comm, int peer, const coll_frame_head *head, uint8_t *body,
                          void *loan)
{
    const coll_net_comm *link = comm->net;
    coll_net_stream *stream = &link->streams[peer][head->lane];
    const size_t slot = stream->received % COLL_NET_SLOTS;
    give_back(comm, stream, slot); /* of a frame that was refused after all */
    stream->bodies[slot] = body;
    stream->loans[slot] = loan;
}

void coll_net_stream_close(coll_comm *comm, int peer)
{
    const coll_net_comm *link = comm->net;
    for (int lane = 0; lane < COLL_LANES; lane++) {
        for (size_t slot = 0; slot < COLL_NET_SLOTS; slot++) {
            give_back(comm, &link->streams[peer][lane], slot);
        }
    }
}

void coll_net_stream_commit(coll_comm *comm, int peer, const coll_frame_head *head)
{
    const coll_net_comm *link = comm->net;
    coll_net_stream *stream = &link->streams[peer][head->lane];
    stream->bytes[stream->received % COLL_NET_SLOTS] = head->body_bytes;
    stream->received++;
    stream->placing = false;
}
