/* Frames, flags and streams with credit, over any table of links. Called by tcp.c, zmq.c and
 * hybrid.c; their links hand received frames to it. */
#include "transport/socket/comm.h"

#include <stdlib.h>
#include <string.h>

#include "core/exec.h"
#include "core/failure.h"
#include "core/parts.h"
#include "core/report.h"
#include "core/segment.h"
#include "core/shape.h"
#include "core/text.h"

bool coll_frame_head_is_sound(const coll_frame_head *head)
{
    for (size_t i = 0; i < sizeof head->zero; i++) {
        if (head->zero[i] != 0) {
            return false;
        }
    }
    return head->magic == COLL_FRAME_MAGIC && head->kind >= COLL_FRAME_HELLO &&
           head->kind <= COLL_FRAME_WAITS && head->channel < COLL_CHANNELS &&
           head->body_bytes <= COLL_FRAME_BODY_BYTES_MAX;
}

/* Where the payload of a rank's flag belongs. */
static uint8_t *payload_at(const coll_comm *comm, int rank, uint64_t word)
{
    const coll_net_comm *link = comm->net;
    const size_t slot = (size_t)(word >> 32) % COLL_FLAG_COUNT;
    return link->payloads + ((size_t)rank * COLL_FLAG_COUNT + slot) * comm->inline_bytes;
}

/* Whether what comes from a peer to whoever takes it in op
 * is more than the system's packets hold. */
static bool comes_in_several(const coll_op *op, int peer)
{
    const coll_net *net = coll_net_of(op->comm->context);
    const size_t packet_bytes = net->packet_bytes[op->comm->ranks[peer]];
    return packet_bytes > 0 &&
           op->shape.largest_bytes + COLL_FRAME_HEAD_BYTES + COLL_FRAME_FLAG_BYTES > packet_bytes;
}

/* Whether a peer that takes nothing in op may have its flag later, in a packet with other frames.
 *
 * Worth while where other frames went to that peer lately, or where the peer's own bytes come in
 * several packets, which the system acknowledges anyhow. (It acknowledges a single packet more
 * cheaply with a flag than without.) Not where ranks share processors: a peer that sleeps takes
 * longer to wake than a flag to send.
 *
 * Allowed in a blocking call that takes from the root or from all. When such a call ends, this rank
 * agrees with the root or with all. A peer that disagrees with this rank then disagrees with one of
 * those, too, and finds it by their flags. */
static bool may_delay_flag(const coll_op *op, int peer)
{
    const coll_comm *comm = op->comm;
    const coll_net_comm *link = comm->net;
    const bool is_worth =
        op->sequence - link->gave[peer] < COLL_FLAGS_KEPT || comes_in_several(op, peer);
    return is_worth && comm->context->spins > 0 && op == comm->blocking &&
           op->shape.take != COLL_TAKE_NOTHING && op->protocol == COLL_PROTOCOL_INLINE &&
           op->sequence - link->let_go[peer] < COLL_FLAGS_KEPT;
}

/* A flag that the peer waits for, mostly for its payload, leaves at once; others with what follows
 * in this turn, for instance the data of a plan. */
static coll_net_when when_to_send_flag(const coll_op *op, int peer, bool is_awaited)
{
    coll_net_comm *link = op->comm->net;
    if (!is_awaited && may_delay_flag(op, peer)) {
        return COLL_NET_IDLE;
    }
    link->let_go[peer] = op->sequence;
    if (is_awaited) {
        link->gave[peer] = op->sequence;
    }
    return is_awaited && op->protocol == COLL_PROTOCOL_INLINE ? COLL_NET_NOW : COLL_NET_THIS_TURN;
}

void coll_net_post(coll_op *op, const void *payload, size_t payload_bytes)
{
    coll_comm *comm = op->comm;
    const coll_net_comm *link = comm->net;
    const bool is_inline = op->protocol == COLL_PROTOCOL_INLINE; /* others have no operand in it */
    uint8_t *body = link->sending;
    coll_flag *flag = &comm->flags[op->sequence % COLL_FLAG_COUNT];
    flag->descriptor = op->descriptor;
    if (payload_bytes > 0) {
        memcpy(body + COLL_FRAME_FLAG_BYTES, payload, payload_bytes);
    }
    atomic_store(&flag->word, op->word);
    memcpy(body, &op->word, sizeof op->word);
    memcpy(body + sizeof op->word, &op->descriptor, sizeof op->descriptor);
    for (int i = 1; i < comm->size; i++) {
        const int peer = (comm->rank + i) % comm->size;
        const bool taken = coll_shape_takes(op, peer, comm->rank);
        const bool awaited = taken || coll_kind_is_scan(op->desc.kind);
        if (op->pairwise) { /* in the payload's place: what the peer has to agree with */
            const coll_pair pair = coll_op_pair(op, peer);
            payload_bytes = sizeof pair;
            memcpy(body + COLL_FRAME_FLAG_BYTES, &pair, sizeof pair);
        }
        coll_frame_head head = {
            .kind = COLL_FRAME_FLAG,
            .body_bytes = (uint32_t)(COLL_FRAME_FLAG_BYTES + (taken ? payload_bytes : 0))};
        comm->context->bytes_sent += taken && is_inline ? payload_bytes : 0;
        coll_net_send_frame(comm, peer, &head, body, when_to_send_flag(op, peer, awaited));
    }
}

/* Whether bytes that a peer takes in op have not all been taken by the system, whatever has been
 * handed over behind them for other communicators, or as messages: the peer may be out of the
 * library as soon as it has those. */
static bool is_owed(const coll_op *op, int peer)
{
    const coll_comm *comm = op->comm;
    const coll_net *net = coll_net_of(comm->context);
    const coll_net_comm *link = comm->net;
    const int target = comm->ranks[peer];
    return net->remote[target] && net->links->is_through != NULL &&
           !net->links->is_through(comm->context, target) &&
           !net->links->has_gone(comm->context, target, link->given[peer]) &&
           (op->protocol != COLL_PROTOCOL_INLINE || coll_shape_takes(op, peer, comm->rank) ||
            coll_kind_is_scan(op->desc.kind));
}

/* The same of a message. */
static bool has_sent(const coll_op *op)
{
    const coll_comm *comm = op->comm;
    const coll_net *net = coll_net_of(comm->context);
    const coll_net_comm *link = comm->net;
    const int target = comm->ranks[op->desc.root];
    return net->links->has_gone == NULL ||
           net->links->has_gone(comm->context, target, link->messages[op->desc.root]);
}

bool coll_net_has_given(const coll_op *op)
{
    if (op->desc.kind == COLL_SEND) {
        return has_sent(op);
    }
    int peer = 0;
    while (peer < op->comm->size && !is_owed(op, peer)) {
        peer++;
    }
    return peer == op->comm->size;
}

/* Whether op would be further ahead of a peer's newest flag than flags are kept for. */
static bool is_withheld(const coll_op *op, int peer)
{
    const coll_comm *comm = op->comm;
    const coll_net_comm *link = comm->net;
    return coll_net_of(comm->context)->remote[comm->ranks[peer]] &&
           op->sequence > link->newest[peer] + COLL_UNDERWAY_MAX;
}

bool coll_net_may_post(const coll_op *op)
{
    const coll_comm *comm = op->comm;
    coll_net_comm *link = comm->net;
    if (op->sequence <= link->least + COLL_UNDERWAY_MAX) {
        return true;
    }
    uint64_t least = UINT64_MAX - COLL_UNDERWAY_MAX;
    for (int rank = 0; rank < comm->size; rank++) {
        if (coll_net_of(comm->context)->remote[comm->ranks[rank]] && link->newest[rank] < least) {
            least = link->newest[rank];
        }
    }
    link->least = least;
    return op->sequence <= least + COLL_UNDERWAY_MAX;
}

bool coll_net_awaits(const coll_op *op, int peer)
{
    const coll_net_comm *link = op->comm->net;
    const bool absent = link->newest[peer] < op->sequence;
    if (op->stage == COLL_STAGE_QUEUED) {
        return is_withheld(op, peer);
    }
    if (op->protocol == COLL_PROTOCOL_INLINE) {
        return (absent && coll_shape_awaits(op, peer)) || is_owed(op, peer);
    }
    return absent || is_owed(op, peer) ||
           (op->stage == COLL_STAGE_RUNNING && coll_exec_awaits(op, peer));
}

/* The communicator that a frame is for, and the sender's rank in it;
 * NULL if it is not made here. It comes to the front of the list: the next frame is likely to be
 * for it, too. */
static coll_comm *comm_of(coll_context *context, int context_rank, uint64_t id, int *peer)
{
    coll_comm **link = &context->comms;
    while (*link != NULL && ((*link)->id != id || (*link)->net == NULL)) {
        link = &(*link)->next;
    }
    coll_comm *comm = *link;
    if (comm == NULL) {
        return NULL;
    }
    *link = comm->next;
    comm->next = context->comms;
    context->comms = comm;
    *peer = coll_net_rank_in(comm, context_rank);
    return *peer >= 0 ? comm : NULL;
}

coll_net_verdict coll_net_find_body(coll_context *context, int peer, const coll_frame_head *head,
                                    uint8_t *scratch, uint8_t **body, coll_comm **comm)
{
    int rank = 0;
    *body = scratch;
    *comm = NULL;
    if (!coll_frame_head_is_sound(head) || coll_net_of(context)->left[peer]) {
        return COLL_NET_BAD;
    }
    if (head->kind != COLL_FRAME_DATA) {
        return COLL_NET_TAKE;
    }
    *comm = comm_of(context, peer, head->comm_id, &rank);
    if (*comm == NULL) {
        return COLL_NET_DROP;
    }
    return coll_net_stream_find_body(*comm, rank, head, body);
}

bool coll_net_lend(coll_comm *comm, int peer, const coll_frame_head *head, uint8_t *body,
                   void *loan)
{
    coll_net_stream_lend(comm, coll_net_rank_in(comm, peer), head, body, loan);
    return coll_net_commit(comm->context, peer, head, body);
}

/* Flags of communicators that this rank has yet to make are kept; others are dropped. The oldest
 * goes where there is no room: it is of a communicator that is gone. */
static void keep_unexpected(coll_net *net, int peer, const coll_frame_head *head,
                            const uint8_t *body)
{
    if (net->unexpected_count == COLL_UNEXPECTED_MAX) {
        free(net->unexpected[0].body);
        net->unexpected_count--;
        memmove(&net->unexpected[0], &net->unexpected[1],
                (size_t)net->unexpected_count * sizeof net->unexpected[0]);
    }
    uint8_t *copy = malloc(head->body_bytes);
    if (copy != NULL) {
        memcpy(copy, body, head->body_bytes);
    }
    net->unexpected[net->unexpected_count++] = (coll_net_unexpected){
        .peer = peer, .body_bytes = head->body_bytes, .head = *head, .body = copy};
}

/* A rank's flags come in the order of its operations, and none is left out. One of an operation
 * that has ended here already, because it did not wait for the peer, must show the same operation
 * all the same: the last COLL_FLAG_COUNT are there to compare with. */
static void check_flag(coll_comm *comm, int peer, const coll_flag *flag, uint64_t word)
{
    coll_net_comm *link = comm->net;
    const coll_flag *own = &comm->flags[(word >> 32) % COLL_FLAG_COUNT];
    const uint64_t own_word = atomic_load(&own->word);
    const uint64_t sequence = ++link->newest[peer];
    if (word >> 32 != (uint32_t)sequence) {
        char name[160];
        coll_rank_text(comm, peer, name, sizeof name);
        (void)coll_comm_fail(comm, COLL_ERR_PEER,
                             "%s is at operation #%llu (low half %u): a lost or broken flag", name,
                             (unsigned long long)sequence, (unsigned)(word >> 32));
    } else if (own_word != word && own->descriptor.sequence == sequence &&
               (comm->head == NULL || comm->head->sequence > sequence)) {
        link->failed_at = sequence;
        (void)coll_report_flag(comm, &own->descriptor, sequence, peer, flag, word);
    }
}

static void commit_flag(coll_comm *comm, int peer, const coll_frame_head *head, const uint8_t *body)
{
    coll_net_comm *link = comm->net;
    uint64_t word = 0;
    memcpy(&word, body, sizeof word);
    coll_flag *flag = &link->flags[peer][(word >> 32) % COLL_FLAG_COUNT];
    memcpy(&flag->descriptor, body + sizeof word, sizeof flag->descriptor);
    memcpy(payload_at(comm, peer, word), body + COLL_FRAME_FLAG_BYTES,
           head->body_bytes - COLL_FRAME_FLAG_BYTES);
    atomic_store(&flag->word, word);
    check_flag(comm, peer, flag, word);
}

/* Whether a body has a size that its kind can have. */
static bool body_is_sound(const coll_frame_head *head)
{
    switch (head->kind) {
    case COLL_FRAME_FLAG:
        return head->body_bytes >= COLL_FRAME_FLAG_BYTES &&
               head->body_bytes <= COLL_FRAME_FLAG_BYTES + COLL_INLINE_BYTES_MAX;
    case COLL_FRAME_FAILED:
        return coll_net_failure_is_sound(head);
    case COLL_FRAME_WAITS:
        return head->body_bytes == sizeof(uint64_t);
    case COLL_FRAME_CREDIT:
        return head->body_bytes == 0;
    default:
        return head->kind != COLL_FRAME_HELLO; /* that comes before */
    }
}

/* Makes a frame for a communicator visible. False: it cannot be one of this communicator's. */
static bool commit_to(coll_comm *comm, int rank, const coll_frame_head *head, const uint8_t *body)
{
    coll_net_comm *link = comm->net;
    const bool flag = head->kind == COLL_FRAME_FLAG;
    if (!coll_net_take_credit(comm, rank, head) ||
        (flag && head->body_bytes > COLL_FRAME_FLAG_BYTES + comm->inline_bytes)) {
        return false;
    }
    if (flag) {
        commit_flag(comm, rank, head, body);
    } else if (head->kind == COLL_FRAME_DATA) {
        coll_net_stream_commit(comm, rank, head);
    } else if (head->kind == COLL_FRAME_FAILED) {
        coll_net_receive_failure(comm, rank, body, head->body_bytes);
    } else if (head->kind == COLL_FRAME_WAITS) {
        memcpy(&link->waits[rank], body, sizeof link->waits[rank]);
    }
    return true;
}

/* What is for a communicator that is not made here yet waits for it, unless it was closed: one that
 * nobody waited for may still get flags. */
bool coll_net_commit(coll_context *context, int peer, const coll_frame_head *head,
                     const uint8_t *body)
{
    coll_net *net = coll_net_of(context);
    int rank = 0;
    if (head->kind == COLL_FRAME_GOODBYE) {
        coll_net_mark_left(context, peer);
        return true;
    }
    const bool sound = body_is_sound(head);
    coll_comm *comm = sound ? comm_of(context, peer, head->comm_id, &rank) : NULL;
    if (!sound || (comm != NULL && !commit_to(comm, rank, head, body))) {
        coll_net_fail_peer(context, peer, "broke the protocol");
        return false;
    }
    if (comm == NULL && (head->kind == COLL_FRAME_FLAG || head->kind == COLL_FRAME_FAILED) &&
        !coll_net_is_noted(net->gone, head->comm_id)) {
        keep_unexpected(net, peer, head, body);
    }
    return true;
}

static void take_unexpected(coll_comm *comm)
{
    coll_net *net = coll_net_of(comm->context);
    coll_net_unexpected
        own[COLL_UNEXPECTED_MAX]; /* taken out first: committing may keep new ones */
    int own_count = 0;
    int kept = 0;
    for (int i = 0; i < net->unexpected_count; i++) {
        if (net->unexpected[i].head.comm_id == comm->id) {
            own[own_count++] = net->unexpected[i];
        } else {
            net->unexpected[kept++] = net->unexpected[i];
        }
    }
    net->unexpected_count = kept;
    for (int i = 0; i < own_count; i++) {
        if (own[i].body != NULL) {
            (void)coll_net_commit(comm->context, own[i].peer, &own[i].head, own[i].body);
        } else if (coll_net_rank_in(comm, own[i].peer) >= 0) {
            (void)coll_comm_fail(comm, COLL_ERR_MEMORY, "no memory for what rank %d has sent",
                                 coll_net_rank_in(comm, own[i].peer));
        }
        free(own[i].body);
    }
}

/* What goes with a flag saves a round trip, and costs its bytes once per peer: the same on every
 * rank. */
static size_t inline_bytes(const coll_comm *comm)
{
    const size_t share = 2 * COLL_INLINE_BYTES_MAX / (size_t)comm->size;
    return comm->size <= 2 ? COLL_INLINE_BYTES_MAX : share / 64 * 64;
}

/* Long frames cost fewer calls per byte, but every stream has buffers for as many bytes. 32 KiB of
 * them make a megabyte take half as long again. The same on every rank. */
static size_t chunk_bytes(const coll_comm *comm)
{
    if (comm->hybrid != NULL) {
        return COLL_CHUNK_BYTES; /* as in the shared memory of a host */
    }
    const size_t most = coll_net_of(comm->context)->chunk_bytes_max;
    const size_t bytes = comm->size <= 4    ? COLL_NET_CHUNK_BYTES_MAX
                         : comm->size <= 16 ? COLL_NET_CHUNK_BYTES_MAX / 2
                                            : COLL_NET_CHUNK_BYTES_MAX / 4;
    return most != 0 && most < bytes ? most : bytes;
}

coll_status coll_net_comm_open(coll_comm *comm, int64_t deadline_ns, coll_error *reterr)
{
    (void)deadline_ns;
    const size_t size = (size_t)comm->size;
    coll_net_comm *link = calloc(1, sizeof *link);
    if (link != NULL) {
        link->streams = calloc(size, sizeof *link->streams);
        link->flags = aligned_alloc(_Alignof(coll_flag), size * sizeof *link->flags);
        comm->inline_bytes = inline_bytes(comm);
        comm->chunk_bytes = chunk_bytes(comm);
        link->sending = aligned_alloc(64, comm->chunk_bytes);
        link->payloads = calloc(size * COLL_FLAG_COUNT, comm->inline_bytes);
    }
    comm->net = link;
    if (link == NULL || link->streams == NULL || link->flags == NULL || link->sending == NULL ||
        link->payloads == NULL) {
        coll_net_comm_close(comm);
        return coll_fail(reterr, COLL_ERR_MEMORY, "no memory for a communicator");
    }
    memset(link->flags, 0, size * sizeof *link->flags);
    for (int rank = 0; rank < comm->size; rank++) {
        comm->peers[rank] =
            (coll_peer_view){.flags = link->flags[rank], .payloads = payload_at(comm, rank, 0)};
    }
    comm->flags = link->flags[comm->rank];
    take_unexpected(comm);
    return COLL_OK;
}

void coll_net_comm_close(coll_comm *comm)
{
    coll_net_comm *link = comm->net;
    coll_net *net = coll_net_of(comm->context);
    if (link == NULL) {
        return;
    }
    coll_net_forget(comm);
    net->gone[net->gone_count++ % COLL_GONE_MAX] = comm->id;
    for (int rank = 0; link->streams != NULL && rank < comm->size; rank++) {
        coll_net_stream_close(comm, rank);
        for (int channel = 0; channel < COLL_CHANNELS; channel++) {
            const coll_net_stream *stream = &link->streams[rank][channel];
            net->owed[comm->ranks[rank]] |= stream->sent != stream->sent_taken;
            free(stream->buffers);
        }
        net->owed[comm->ranks[rank]] |= link->newest[rank] < comm->sequence; /* its flag */
    }
    free(link->sending);
    free(link->payloads);
    free(link->notice);
    free(link->flags);
    free(link->streams);
    free(link);
    comm->net = NULL;
}

coll_status coll_net_arena_open(coll_arena *arena, int64_t deadline_ns, coll_error *reterr)
{
    (void)deadline_ns;
    void *data = NULL;
    const coll_status status = coll_segment_create_private(arena->mapped_bytes, &data, reterr);
    arena->data = data;
    return status;
}

void coll_net_arena_close(coll_arena *arena)
{
    coll_segment_free_private(arena->data, arena->mapped_bytes);
}

void coll_net_fini(coll_net *net)
{
    for (int i = 0; i < net->unexpected_count; i++) {
        free(net->unexpected[i].body);
    }
    net->unexpected_count = 0;
}
