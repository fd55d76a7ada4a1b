/* Sends and receives: from one rank to another, in a stream of their own. Called by op.c where they
 * start, and by progress.c.
 *
 * Each pair of ranks has a queue for each direction, apart from the communicator's queue of
 * collectives. A message is one frame of P2P_FIRST_BYTES with a head and the first bytes, and then
 * frames of chunks. The sender does not wait for the receive. It is done when the stream has taken
 * all bytes, as far as its credit goes, and the transport can deliver them without the sender's
 * help.
 *
 * A message that is longer than a stream, and lies in an arena that the receiver can read, is its head alone.
 * The receiver reads the bytes where they lie, without the sender's help, and then gives the head's room
 * back. So the sender sees that it is done; messages behind it need not wait for that.
 *
 * The receiver compares the head with its own arguments. If they differ it fails, and the
 * sender gets a failure notice.
 *
 * A message from a rank to itself stays in the queues until both ends are there. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/failure.h"
#include "core/p2p.h"
#include "core/progress.h"
#include "core/queue.h"
#include "core/record.h"
#include "core/text.h"
#include "ringfence/coll_error.h"

enum { P2P_FIRST_BYTES = 256, P2P_MAGIC = 0x31744f50, TEXT_BYTES = 160 };

typedef struct p2p_head {
    uint32_t magic;
    int32_t type;
    uint64_t sequence; /* of the message, in its direction, from 1 */
    uint64_t count;
    uint64_t offset_bytes; /* in the sender's arena of that number; 0: frames follow */
    uint32_t arena;
    uint8_t zero[28];
} p2p_head;

_Static_assert(sizeof(p2p_head) == 64, "the head fills a cache line");

enum { P2P_FIRST_DATA = P2P_FIRST_BYTES - sizeof(p2p_head) };

typedef struct p2p_queue {
    coll_op *head;
    coll_op *tail;
    uint64_t sequence; /* of the newest message */
} p2p_queue;

struct coll_p2p {
    uint64_t sending; /* a bit per peer with something in its queue */
    uint64_t receiving;
    uint64_t frames[COLL_RANKS_MAX]; /* sent to each peer */
    p2p_queue sends[COLL_RANKS_MAX];
    p2p_queue receives[COLL_RANKS_MAX];
};

_Static_assert(COLL_RANKS_MAX <= 64, "a bit per rank");

coll_status coll_p2p_open(coll_comm *comm, coll_error *reterr)
{
    if (comm->p2p == NULL) {
        comm->p2p = calloc(1, sizeof *comm->p2p);
    }
    return comm->p2p != NULL ? COLL_OK
                             : coll_comm_lacks(comm, sizeof *comm->p2p, "messages", reterr);
}

void coll_p2p_close(coll_comm *comm)
{
    free(comm->p2p);
    comm->p2p = NULL;
}

static p2p_queue *queue_of(const coll_op *op)
{
    coll_p2p *p2p = op->comm->p2p;
    return op->desc.kind == COLL_SEND ? &p2p->sends[op->desc.root] : &p2p->receives[op->desc.root];
}

static void mark(const coll_op *op, bool busy)
{
    coll_p2p *p2p = op->comm->p2p;
    uint64_t *set = op->desc.kind == COLL_SEND ? &p2p->sending : &p2p->receiving;
    const uint64_t bit = UINT64_C(1) << op->desc.root;
    *set = busy ? *set | bit : *set & ~bit;
}

void coll_p2p_leave(coll_op *op)
{
    p2p_queue *queue = queue_of(op);
    coll_op_unlink(&queue->head, &queue->tail, op);
    mark(op, queue->head != NULL);
}

static void complete(coll_op *op)
{
    op->stage = COLL_STAGE_DONE;
    op->queued = false;
    coll_record_end(op);
    coll_p2p_leave(op);
}

/* Whether the receiver of the message reads it where it lies. */
static bool stays(const coll_op *op)
{
    enum { STREAM_BYTES = COLL_STREAM_CREDITS * COLL_CHUNK_BYTES };
    return op->ref.send_arena != 0 && op->total_bytes > STREAM_BYTES;
}

static p2p_head head_of(const coll_op *op)
{
    const bool there = stays(op);
    return (p2p_head){.magic = P2P_MAGIC,
                      .type = (int32_t)op->desc.type,
                      .sequence = op->sequence,
                      .count = op->desc.count,
                      .offset_bytes = there ? op->ref.send_offset_bytes : 0,
                      .arena = there ? op->ref.send_arena : 0};
}

/* A message that this rank does not receive as it was sent: `done` is what it does instead. */
static void fail_message(coll_comm *comm, int peer, uint64_t sequence, const p2p_head *head,
                         const char *done)
{
    char sender[TEXT_BYTES];
    char receiver[TEXT_BYTES];
    char of_comm[COLL_COMM_TEXT_BYTES];
    coll_rank_text(comm, peer, sender, sizeof sender);
    coll_rank_text(comm, comm->rank, receiver, sizeof receiver);
    coll_of_comm_text(comm, of_comm, sizeof of_comm);
    (void)coll_comm_fail(
        comm, COLL_ERR_MISMATCH,
        "ranks disagree on message #%" PRIu64 "%s: %s calls send %s × %" PRIu64 ", %s %s", sequence,
        of_comm, sender, coll_type_name((coll_type)head->type), head->count, receiver, done);
}

/* Whether op receives what the head says; else the communicator fails. */
static bool agrees(const coll_op *op, const p2p_head *head)
{
    char done[TEXT_BYTES];
    if (head->type == (int32_t)op->desc.type && head->count == op->desc.count) {
        return true;
    }
    (void)snprintf(done, sizeof done, "calls receive %s × %zu", coll_type_name(op->desc.type),
                   op->desc.count);
    fail_message(op->comm, op->desc.root, op->sequence, head, done);
    return false;
}

/* What the next frame has of the message. The first has its head, and less. */
static size_t next_data_bytes(const coll_op *op)
{
    return coll_smaller(op->total_bytes - op->p2p.offset_bytes,
                        op->p2p.head_done ? op->comm->chunk_bytes : P2P_FIRST_DATA);
}

/* The next frame of the message; false if there is no credit for it. */
static bool send_frame(coll_op *op)
{
    coll_comm *comm = op->comm;
    const coll_transport_table *table = comm->table;
    const int peer = op->desc.root;
    size_t data = next_data_bytes(op);
    const size_t size = op->p2p.head_done ? data : P2P_FIRST_BYTES;
    uint8_t *frame = table->send_begin(comm, peer, COLL_CHANNEL_P2P, size);
    if (frame == NULL) {
        return false;
    }
    if (!op->p2p.head_done) {
        const p2p_head head = head_of(op);
        memset(frame, 0, P2P_FIRST_BYTES);
        memcpy(frame, &head, sizeof head);
        frame += sizeof head;
        op->p2p.head_done = true;
    }
    const uint64_t number = ++comm->p2p->frames[peer];
    if (stays(op)) {
        op->p2p.frame = number;
        data = op->total_bytes;
    } else if (data > 0) {
        memcpy(frame, (const uint8_t *)op->desc.send + op->p2p.offset_bytes, data);
    }
    table->send_end(comm, peer, COLL_CHANNEL_P2P, size);
    comm->context->bytes_sent += data;
    op->p2p.offset_bytes += data;
    return true;
}

/* Whether the first frame is of the message that op receives. Notes where the message lies. */
static bool is_expected(coll_op *op, const void *frame)
{
    p2p_head head;
    memcpy(&head, frame, sizeof head);
    if (head.magic != P2P_MAGIC || head.sequence != op->sequence) {
        char sender[TEXT_BYTES];
        coll_rank_text(op->comm, op->desc.root, sender, sizeof sender);
        (void)coll_comm_fail(op->comm, COLL_ERR_PEER, "%s sent no message #%" PRIu64, sender,
                             op->sequence);
        return false;
    }
    if (!agrees(op, &head)) {
        return false;
    }
    if (head.arena == 0) {
        return true;
    }
    op->p2p.from =
        coll_arena_of_peer(op->comm, op->desc.root, head.arena, head.offset_bytes, op->total_bytes);
    if (op->p2p.from == NULL) {
        (void)coll_comm_fail(op->comm, COLL_ERR_PEER, "rank %d sent a message that is in no arena",
                             op->desc.root);
    }
    return op->p2p.from != NULL;
}

/* The next piece of a message that lies in the sender's arena. */
static void read_piece(coll_op *op)
{
    coll_comm *comm = op->comm;
    const size_t data =
        coll_smaller(op->total_bytes - op->p2p.offset_bytes, (size_t)COLL_PIECE_BYTES);
    memcpy((uint8_t *)op->desc.recv + op->p2p.offset_bytes, op->p2p.from + op->p2p.offset_bytes,
           data);
    op->p2p.offset_bytes += data;
    if (op->p2p.offset_bytes == op->total_bytes && comm->table->memory->confirm_reads(comm)) {
        comm->table->receive_end(comm, op->desc.root, COLL_CHANNEL_P2P);
    }
}

static bool receive_frame(coll_op *op)
{
    coll_comm *comm = op->comm;
    const coll_transport_table *table = comm->table;
    const int peer = op->desc.root;
    const size_t data = next_data_bytes(op);
    if (op->p2p.from != NULL) {
        read_piece(op);
        return true;
    }
    const uint8_t *frame = table->receive_begin(comm, peer, COLL_CHANNEL_P2P,
                                                op->p2p.head_done ? data : P2P_FIRST_BYTES);
    if (frame == NULL) {
        return false;
    }
    if (!op->p2p.head_done) {
        if (!is_expected(op, frame)) {
            return false;
        }
        frame += sizeof(p2p_head);
        op->p2p.head_done = true;
    }
    if (op->p2p.from != NULL) {
        read_piece(op);
        return true;
    }
    if (data > 0) {
        memcpy((uint8_t *)op->desc.recv + op->p2p.offset_bytes, frame, data);
    }
    table->receive_end(comm, peer, COLL_CHANNEL_P2P);
    op->p2p.offset_bytes += data;
    return true;
}

static bool is_whole(const coll_op *op)
{
    return op->p2p.head_done && op->p2p.offset_bytes == op->total_bytes;
}

/* Whether a message, whole, may end: one that this rank gives must be on its way, or have been read. */
static bool may_end(const coll_op *op)
{
    const coll_transport_table *table = op->comm->table;
    if (op->p2p.frame > 0) {
        return table->memory->has_taken(op->comm, op->desc.root, COLL_CHANNEL_P2P, op->p2p.frame);
    }
    return op->desc.kind == COLL_RECEIVE || table->has_given == NULL || table->has_given(op);
}

/* Moves the message on until it is whole, or there is neither credit nor frame; at most so many times. */
static bool move_message(coll_op *op, bool (*move)(coll_op *op), int *turns, bool *moved)
{
    while (!is_whole(op) && !op->comm->failed) {
        if (--*turns < 0 || !move(op)) {
            return false;
        }
        *moved = true;
    }
    return !op->comm->failed;
}

/* Moves one queue's messages on, as far as credit or frames go, but no further than a stream is
 * long: the other side may be adding to it all the time. */
static bool advance_queue(p2p_queue *queue, bool (*move)(coll_op *op))
{
    bool moved = false;
    int turns = COLL_STREAM_CREDITS;
    coll_op *op = queue->head;
    while (op != NULL && move_message(op, move, &turns, &moved)) {
        coll_op *next = op->next;
        const bool ends = may_end(op);
        if (ends) {
            moved = true;
            complete(op);
        } else if (op->p2p.frame == 0) {
            break;
        }
        op = next; /* what lies in an arena keeps nothing waiting */
    }
    return moved;
}

/* What this rank sends to itself. */
static bool advance_own(coll_comm *comm)
{
    coll_op *send = comm->p2p->sends[comm->rank].head;
    coll_op *receive = comm->p2p->receives[comm->rank].head;
    if (send == NULL || receive == NULL) {
        return false;
    }
    const p2p_head head = head_of(send);
    if (!agrees(receive, &head)) {
        return false;
    }
    if (send->total_bytes > 0) {
        memmove(receive->desc.recv, send->desc.send, send->total_bytes);
    }
    complete(send);
    complete(receive);
    return true;
}

bool coll_p2p_advance(coll_comm *comm)
{
    coll_p2p *p2p = comm->p2p;
    bool moved = false;
    uint64_t busy = p2p->sending | p2p->receiving;
    for (; busy != 0 && !comm->failed; busy &= busy - 1) {
        const int peer = __builtin_ctzll(busy);
        if (peer == comm->rank) {
            moved = advance_own(comm) || moved;
            continue;
        }
        moved = advance_queue(&p2p->sends[peer], send_frame) || moved;
        moved = advance_queue(&p2p->receives[peer], receive_frame) || moved;
    }
    return moved;
}

void coll_p2p_finalize(coll_comm *comm)
{
    for (int peer = 0; peer < comm->size && !comm->failed; peer++) {
        const void *frame =
            peer == comm->rank
                ? NULL
                : comm->table->receive_begin(comm, peer, COLL_CHANNEL_P2P, P2P_FIRST_BYTES);
        if (frame != NULL) {
            p2p_head head;
            const uint64_t received = comm->p2p != NULL ? comm->p2p->receives[peer].sequence : 0;
            memcpy(&head, frame, sizeof head);
            fail_message(comm, peer, received + 1, &head, "has not received it");
        }
    }
}

bool coll_p2p_is_busy(const coll_comm *comm)
{
    return (comm->p2p->sending | comm->p2p->receiving) != 0;
}

coll_op *coll_p2p_first(const coll_comm *comm, int peer)
{
    const coll_p2p *p2p = comm->p2p;
    return p2p->receives[peer].head != NULL ? p2p->receives[peer].head : p2p->sends[peer].head;
}

/* A rank that only sends need not wait for anything. So it learns here that its peer has failed or
 * gone: before it sends, because the peer may go when it has received the message. */
static void listen_to_peer(coll_op *op)
{
    coll_context *context = op->comm->context;
    if (op->desc.kind == COLL_SEND && coll_watch_is_due(context)) {
        (void)coll_progress(context);
        op->comm->table->notices->watch(op);
    }
}

void coll_p2p_start(coll_op *op)
{
    p2p_queue *queue = queue_of(op);
    op->sequence = ++queue->sequence;
    op->descriptor.sequence = op->sequence;
    op->p2p = (coll_op_p2p){.head_done = false};
    op->stage = COLL_STAGE_RUNNING;
    coll_record_begin(op);
    listen_to_peer(op);
    coll_op_append(&queue->head, &queue->tail, op);
    mark(op, true);
    coll_busy_add(op->comm);
    const bool first = queue->head == op || queue->head->p2p.frame > 0;
    if (first && op->desc.root != op->comm->rank) {
        (void)advance_queue(queue, op->desc.kind == COLL_SEND ? send_frame : receive_frame);
    }
}
