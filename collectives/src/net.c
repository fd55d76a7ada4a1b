#include "net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "segment.h"
#include "shape.h"

enum {
    CREDIT_STEP = COLL_NET_SLOTS / 2,
    LINES_KEPT = COLL_UNDERWAY_MAX / 2, /* that nobody waits for */
};

/* A stream from a peer, and one to it. */
typedef struct net_stream {
    uint8_t *slots;                  /* COLL_NET_SLOTS bodies; NULL before the first */
    uint8_t *bodies[COLL_NET_SLOTS]; /* of the frames by turns: a slot, or a place of op's */
    uint32_t bytes[COLL_NET_SLOTS];  /* of each body */
    unsigned slot;                   /* that the newest frame lies in */
    uint8_t *place;                  /* where the next frames belong, if they are this word's */
    size_t place_bytes;
    uint64_t place_word;
    bool placing;      /* a frame is on its way to its place */
    uint64_t received; /* frames put into the slots, */
    uint64_t taken;    /* taken out of them, */
    uint64_t told;     /* and told to the peer to have been taken */
    uint64_t sent;
    uint64_t sent_taken; /* by the peer, as far as it has told */
} net_stream;

/* What a failure's frame begins with; the text follows. */
typedef struct reason_head {
    uint64_t sequence; /* of the operation that failed; 0: it is not about one */
    int32_t status;
    uint32_t zero;
} reason_head;

_Static_assert(sizeof(reason_head) + BASE_ERROR_MESSAGE_BYTES <= COLL_FRAME_REASON_BYTES,
               "a failure fits its frame");

typedef struct net_comm {
    coll_line (*lines)[COLL_LINE_SLOTS]; /* of every rank of the communicator */
    _Atomic uint64_t finished;           /* not used: nothing is shared */
    net_stream (*streams)[COLL_LANES];   /* by rank in the communicator */
    uint8_t *payloads;                   /* of every rank: inline_bytes for each of its lines */
    uint32_t newest[COLL_RANKS_MAX];     /* low half of each rank's newest operation seen */
    uint8_t *told; /* a peer's failure that is not this rank's yet: its frame's body */
    size_t told_bytes;
    int told_by;
    uint64_t failed_at; /* the operation that the failure is about; 0: none */
    uint8_t *sending;   /* a body between send_begin and send_end */
} net_comm;

bool coll_frame_head_is_sound(const coll_frame_head *head)
{
    for (size_t i = 0; i < sizeof head->zero; i++) {
        if (head->zero[i] != 0) {
            return false;
        }
    }
    return head->magic == COLL_FRAME_MAGIC && head->kind >= COLL_FRAME_HELLO &&
           head->kind <= COLL_FRAME_FAILED && head->lane < COLL_LANES &&
           head->body_bytes <= COLL_FRAME_BODY_BYTES_MAX;
}

static coll_net *net_of(const coll_context *context)
{
    return context->net;
}

static void fill_head(coll_comm *comm, int peer, coll_frame_head *head)
{
    const net_comm *link = comm->net;
    head->magic = COLL_FRAME_MAGIC;
    head->comm_id = comm->id;
    for (int lane = 0; lane < COLL_LANES; lane++) {
        net_stream *stream = &link->streams[peer][lane];
        head->taken[lane] = (uint32_t)stream->taken;
        stream->told = stream->taken;
    }
}

static void send_frame(coll_comm *comm, int peer, coll_frame_head *head, const void *body,
                       coll_net_when when)
{
    const coll_net *net = net_of(comm->context);
    const coll_net_frames frame = {.heads = head, .count = 1, .bodies = body};
    fill_head(comm, peer, head);
    net->links->send(comm->context, comm->ranks[peer], &frame, when);
}

/* Where the payload of a rank's line belongs. */
static uint8_t *payload_at(const coll_comm *comm, int rank, uint64_t word)
{
    const net_comm *link = comm->net;
    const size_t slot = (size_t)(word >> 32) % COLL_LINE_SLOTS;
    return link->payloads + ((size_t)rank * COLL_LINE_SLOTS + slot) * comm->inline_bytes;
}

/* When a peer is to have the line: at once where it takes its payload; data of the plan may go the
 * same way in the same turn; and where nobody waits for it, with what comes next, but now and then
 * in time for those who must not run ahead. */
static coll_net_when line_leaves(const coll_op *op, bool is_taken)
{
    const bool alone = coll_op_is_rooted(op) && (!is_taken || op->path == COLL_PATH_PLAN);
    if (alone && op->comm->hybrid == NULL) { /* else data may go another way than lines */
        return op->sequence % LINES_KEPT == 0 ? COLL_NET_SOON : COLL_NET_IDLY;
    }
    return op->path == COLL_PATH_PLAN ? COLL_NET_SOON : COLL_NET_NOW;
}

void coll_net_announce(coll_op *op, const void *payload, size_t payload_bytes)
{
    coll_comm *comm = op->comm;
    const coll_net *net = net_of(comm->context);
    const net_comm *link = comm->net;
    uint8_t *body = link->sending;
    coll_line *line = &comm->lines[op->sequence % COLL_LINE_SLOTS];
    line->descriptor = op->descriptor;
    if (payload_bytes > 0) {
        memcpy(body + COLL_FRAME_LINE_BYTES, payload, payload_bytes);
        memcpy(payload_at(comm, comm->rank, op->word), payload, payload_bytes);
    }
    atomic_store(&line->word, op->word);
    memcpy(body, &op->word, sizeof op->word);
    memcpy(body + sizeof op->word, &op->descriptor, sizeof op->descriptor);
    for (int i = 1; i < comm->size; i++) {
        const int peer = (comm->rank + i) % comm->size;
        if (net->remote[comm->ranks[peer]]) {
            const bool taken = coll_shape_takes(op, peer, comm->rank);
            coll_frame_head head = {
                .kind = COLL_FRAME_LINE,
                .body_bytes = (uint32_t)(COLL_FRAME_LINE_BYTES + (taken ? payload_bytes : 0))};
            send_frame(comm, peer, &head, body, line_leaves(op, taken));
        }
    }
}

bool coll_net_may_announce(const coll_op *op)
{
    const coll_comm *comm = op->comm;
    const coll_net *net = net_of(comm->context);
    const net_comm *link = comm->net;
    for (int rank = 0; rank < comm->size; rank++) {
        const int32_t ahead = (int32_t)((uint32_t)op->sequence - link->newest[rank]);
        if (net->remote[comm->ranks[rank]] && ahead > COLL_UNDERWAY_MAX) {
            return false;
        }
    }
    return true;
}

void coll_net_finish(coll_comm *comm, uint64_t sequence)
{
    (void)comm;
    (void)sequence;
}

/* How many frames there is credit for. */
static int credit(const coll_comm *comm, int peer, int lane)
{
    const net_comm *link = comm->net;
    const net_stream *stream = &link->streams[peer][lane];
    const coll_net *net = net_of(comm->context);
    return net->links->has_room(comm->context, comm->ranks[peer])
               ? (int)(COLL_NET_SLOTS - (stream->sent - stream->sent_taken))
               : 0;
}

size_t coll_net_send_from(coll_comm *comm, int peer, int lane, const void *data, size_t size_bytes)
{
    const net_comm *link = comm->net;
    const coll_net *net = net_of(comm->context);
    const int allowed = credit(comm, peer, lane);
    coll_frame_head heads[COLL_FRAMES_AT_ONCE];
    coll_net_frames frames = {.heads = heads, .bodies = data};
    size_t taken = 0;
    for (; frames.count < allowed && taken < size_bytes; frames.count++) {
        const size_t left = size_bytes - taken;
        const size_t body_bytes = left < comm->chunk_bytes ? left : comm->chunk_bytes;
        heads[frames.count] = (coll_frame_head){
            .kind = COLL_FRAME_DATA, .lane = (uint32_t)lane, .body_bytes = (uint32_t)body_bytes};
        fill_head(comm, peer, &heads[frames.count]);
        taken += body_bytes;
    }
    if (frames.count > 0) {
        link->streams[peer][lane].sent += (uint64_t)frames.count;
        net->links->send(comm->context, comm->ranks[peer], &frames, COLL_NET_NOW);
    }
    return taken;
}

void *coll_net_send_begin(coll_comm *comm, int peer, int lane, size_t size_bytes)
{
    const net_comm *link = comm->net;
    (void)size_bytes;
    return credit(comm, peer, lane) > 0 ? link->sending : NULL;
}

void coll_net_send_end(coll_comm *comm, int peer, int lane, size_t size_bytes)
{
    const net_comm *link = comm->net;
    (void)coll_net_send_from(comm, peer, lane, link->sending, size_bytes);
}

void coll_net_receive_into(coll_op *op, int peer, int lane, void *target, size_t size_bytes)
{
    const net_comm *link = op->comm->net;
    net_stream *stream = &link->streams[peer][lane];
    if (stream->received == stream->taken && !stream->placing) {
        stream->place = target;
        stream->place_bytes = size_bytes;
        stream->place_word = op->word;
    }
}

const void *coll_net_receive_begin(coll_comm *comm, int peer, int lane, size_t size_bytes)
{
    const net_comm *link = comm->net;
    const net_stream *stream = &link->streams[peer][lane];
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

void coll_net_receive_end(coll_comm *comm, int peer, int lane)
{
    const net_comm *link = comm->net;
    net_stream *stream = &link->streams[peer][lane];
    stream->taken++;
    if (stream->taken - stream->told >= CREDIT_STEP) {
        coll_frame_head head = {.kind = COLL_FRAME_CREDIT};
        send_frame(comm, peer, &head, NULL, COLL_NET_SOON);
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

static int rank_in(const coll_comm *comm, int context_rank)
{
    for (int rank = 0; rank < comm->size; rank++) {
        if (comm->ranks[rank] == context_rank) {
            return rank;
        }
    }
    return -1;
}

/* The communicator that a frame is for, and the sender's rank in it; NULL if it is not made here.
 */
static coll_comm *comm_of(coll_context *context, int context_rank, uint64_t id, int *peer)
{
    for (coll_comm *comm = context->comms; comm != NULL; comm = comm->next) {
        if (comm->id == id && comm->net != NULL) {
            *peer = rank_in(comm, context_rank);
            return *peer >= 0 ? comm : NULL;
        }
    }
    return NULL;
}

void coll_net_fail_peer(coll_context *context, int peer, const char *what)
{
    for (coll_comm *comm = context->comms; comm != NULL; comm = comm->next) {
        const int rank = rank_in(comm, peer);
        if (rank >= 0) {
            char who[160];
            coll_rank_text(comm, rank, who, sizeof who);
            (void)coll_comm_fail(comm, BASE_ERR_PEER, "%s %s", who, what);
        }
    }
}

/* Where the operation that waits for the frame wants its body; NULL if it does not say, or if the
 * peer is not at the same operation. */
static uint8_t *place_of_op(const coll_comm *comm, int peer, net_stream *stream,
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

/* Room for the body of a data frame; NULL if there is no credit, or no memory. */
static uint8_t *place_data(coll_comm *comm, int peer, const coll_frame_head *head)
{
    const net_comm *link = comm->net;
    net_stream *stream = &link->streams[peer][head->lane];
    uint8_t **body = &stream->bodies[stream->received % COLL_NET_SLOTS];
    if (stream->received - stream->taken >= COLL_NET_SLOTS || head->body_bytes == 0 ||
        head->body_bytes > comm->chunk_bytes) {
        return NULL;
    }
    stream->placing = true;
    *body = place_of_op(comm, peer, stream, head);
    if (*body != NULL) {
        return *body;
    }
    if (stream->slots == NULL) {
        stream->slots = aligned_alloc(64, (size_t)COLL_NET_SLOTS * comm->chunk_bytes);
        if (stream->slots == NULL) {
            (void)coll_comm_fail(comm, BASE_ERR_MEMORY, "no memory for frames");
            return NULL;
        }
    }
    /* An empty stream begins with the first slot, which the caches hold. */
    stream->slot =
        stream->received == stream->taken ? 0 : (stream->slot + 1) % (unsigned)COLL_NET_SLOTS;
    *body = stream->slots + stream->slot * comm->chunk_bytes;
    return *body;
}

coll_net_verdict coll_net_place(coll_context *context, int peer, const coll_frame_head *head,
                                uint8_t *scratch, uint8_t **body, coll_comm **comm)
{
    int rank = 0;
    *body = scratch;
    *comm = NULL;
    if (!coll_frame_head_is_sound(head) || net_of(context)->left[peer]) {
        return COLL_NET_BAD;
    }
    if (head->kind != COLL_FRAME_DATA) {
        return COLL_NET_TAKE;
    }
    *comm = comm_of(context, peer, head->comm_id, &rank);
    if (*comm == NULL) {
        return COLL_NET_DROP;
    }
    *body = place_data(*comm, rank, head);
    return *body != NULL ? COLL_NET_TAKE : COLL_NET_BAD;
}

/* Lines of communicators that this rank has yet to make are kept; others are dropped. The oldest
 * goes where there is no room: it is of a communicator that is gone. */
static void keep_orphan(coll_net *net, int peer, const coll_frame_head *head, const uint8_t *body)
{
    if (net->orphan_count == COLL_ORPHANS_MAX) {
        free(net->orphans[0].body);
        net->orphan_count--;
        memmove(&net->orphans[0], &net->orphans[1],
                (size_t)net->orphan_count * sizeof net->orphans[0]);
    }
    uint8_t *copy = malloc(head->body_bytes);
    if (copy != NULL) {
        memcpy(copy, body, head->body_bytes);
        net->orphans[net->orphan_count++] = (coll_net_orphan){
            .peer = peer, .body_bytes = head->body_bytes, .head = *head, .body = copy};
    }
}

/* The operation that this rank is at: the first that is not done, or the last that was. */
static uint64_t current(const coll_comm *comm)
{
    const coll_op *op = comm->head;
    while (op != NULL && op->stage >= COLL_STAGE_FINISHING) {
        op = op->next;
    }
    return op != NULL ? op->sequence : comm->sequence;
}

/* A line for an operation that has ended here already, because it did not wait for the peer: it
 * must show the same one all the same. */
static void compare_with_past(coll_comm *comm, int peer, const coll_line *line, uint64_t word)
{
    net_comm *link = comm->net;
    const coll_line *own = &comm->lines[(word >> 32) % COLL_LINE_SLOTS];
    const uint64_t own_word = atomic_load(&own->word);
    const uint64_t sequence = own->descriptor.sequence;
    if (own_word >> 32 == word >> 32 && own_word != word &&
        (comm->head == NULL || comm->head->sequence > sequence)) {
        link->failed_at = sequence;
        (void)coll_report_line(comm, &own->descriptor, sequence, peer, line, word);
    }
}

static bool commit_line(coll_comm *comm, int peer, const coll_frame_head *head, const uint8_t *body)
{
    net_comm *link = comm->net;
    uint64_t word = 0;
    memcpy(&word, body, sizeof word);
    coll_line *line = &link->lines[peer][(word >> 32) % COLL_LINE_SLOTS];
    memcpy(&line->descriptor, body + sizeof word, sizeof line->descriptor);
    memcpy(payload_at(comm, peer, word), body + COLL_FRAME_LINE_BYTES,
           head->body_bytes - COLL_FRAME_LINE_BYTES);
    atomic_store(&line->word, word);
    link->newest[peer] = (uint32_t)(word >> 32);
    compare_with_past(comm, peer, line, word);
    return true;
}

/* A peer's failure is this rank's: with its own words where they name whom it is about, else with
 * the peer's name before them. */
static void take_failure(coll_comm *comm, int peer, const uint8_t *body, size_t body_bytes)
{
    char text[BASE_ERROR_MESSAGE_BYTES];
    char who[160];
    reason_head head;
    memcpy(&head, body, sizeof head);
    const size_t length = body_bytes - sizeof head;
    const size_t kept = length < sizeof text ? length : sizeof text - 1;
    memcpy(text, body + sizeof head, kept);
    text[kept] = '\0';
    for (unsigned char *at = (unsigned char *)text; *at != '\0'; at++) {
        *at = *at < ' ' || *at == 0x7f ? '?' : *at;
    }
    coll_rank_text(comm, peer, who, sizeof who);
    net_comm *link = comm->net;
    link->failed_at = head.sequence;
    switch (head.status) {
    case BASE_ERR_MISMATCH:
    case BASE_ERR_TIMEOUT:
    case BASE_ERR_PEER:
        (void)coll_comm_fail(comm, (base_status)head.status, "%s", text);
        return;
    case BASE_ERR_ABORTED:
        (void)coll_comm_fail(comm, BASE_ERR_ABORTED, "%s was %s", who, text);
        return;
    default:
        (void)coll_comm_fail(comm, BASE_ERR_PEER, "%s failed: %s", who, text);
        return;
    }
}

/* Takes a failure, or keeps it until this rank has come as far: what stands before the operation
 * that failed can still end well. */
static void hear_failure(coll_comm *comm, int peer, const uint8_t *body, size_t body_bytes)
{
    net_comm *link = comm->net;
    reason_head head;
    memcpy(&head, body, sizeof head);
    if (head.sequence <= current(comm)) {
        take_failure(comm, peer, body, body_bytes);
        return;
    }
    if (link->told != NULL) {
        return; /* one is enough */
    }
    link->told = malloc(body_bytes);
    if (link->told == NULL) {
        take_failure(comm, peer, body, body_bytes);
        return;
    }
    memcpy(link->told, body, body_bytes);
    link->told_bytes = body_bytes;
    link->told_by = peer;
    net_of(comm->context)->watchful = true;
}

/* Fails communicators that wait for a peer which has left. */
static void check_left(coll_context *context)
{
    const coll_net *net = net_of(context);
    for (coll_comm *comm = context->comms; net->left_count > 0 && comm != NULL; comm = comm->next) {
        const coll_op *op = comm->head;
        while (op != NULL && (op->stage == COLL_STAGE_QUEUED || op->arrived == comm->size)) {
            op = op->stage == COLL_STAGE_QUEUED ? NULL : op->next;
        }
        for (int rank = 0; op != NULL && comm->net != NULL && rank < comm->size; rank++) {
            const coll_line *line = &comm->peers[rank].lines[op->sequence % COLL_LINE_SLOTS];
            if (net->left[comm->ranks[rank]] &&
                coll_line_ahead(atomic_load(&line->word), op->sequence) < 0) {
                net_comm *link = comm->net;
                link->failed_at = op->sequence;
                char who[160];
                char what[160];
                coll_rank_text(comm, rank, who, sizeof who);
                coll_descriptor_text(&op->descriptor, what, sizeof what);
                (void)coll_comm_fail(comm, BASE_ERR_PEER, "%s has left the job before %s #%llu",
                                     who, what, (unsigned long long)op->sequence);
            }
        }
    }
}

void coll_net_look(coll_context *context)
{
    for (coll_comm *comm = context->comms; comm != NULL; comm = comm->next) {
        const net_comm *link = comm->net;
        reason_head head;
        if (link == NULL || link->told == NULL || comm->failed) {
            continue;
        }
        memcpy(&head, link->told, sizeof head);
        if (head.sequence <= current(comm)) {
            take_failure(comm, link->told_by, link->told, link->told_bytes);
        }
    }
    check_left(context);
}

static void mark_left(coll_net *net, int peer)
{
    if (!net->left[peer]) {
        net->left[peer] = true;
        net->watchful = true;
        net->left_count++;
    }
}

/* Whether a communicator was made here, and is closed: one that nobody waited for may still get
 * lines. */
static bool is_gone(const coll_net *net, uint64_t comm_id)
{
    for (int i = 0; i < COLL_GONE_MAX; i++) {
        if (net->gone[i] == comm_id) {
            return true;
        }
    }
    return false;
}

bool coll_net_commit(coll_context *context, int peer, const coll_frame_head *head,
                     const uint8_t *body)
{
    coll_net *net = net_of(context);
    int rank = 0;
    if (head->kind == COLL_FRAME_GOODBYE) {
        mark_left(net, peer);
        return true;
    }
    const bool line = head->kind == COLL_FRAME_LINE;
    const bool failed = head->kind == COLL_FRAME_FAILED;
    if (head->kind == COLL_FRAME_HELLO ||
        (line && (head->body_bytes < COLL_FRAME_LINE_BYTES ||
                  head->body_bytes > COLL_FRAME_LINE_BYTES + COLL_INLINE_BYTES_MAX)) ||
        (failed &&
         (head->body_bytes <= sizeof(reason_head) || head->body_bytes > COLL_FRAME_REASON_BYTES)) ||
        (head->kind == COLL_FRAME_CREDIT && head->body_bytes != 0)) {
        coll_net_fail_peer(context, peer, "broke the protocol");
        return false;
    }
    coll_comm *comm = comm_of(context, peer, head->comm_id, &rank);
    if (comm == NULL) {
        if ((line || failed) && !is_gone(net, head->comm_id)) {
            keep_orphan(net, peer, head, body);
        }
        return true;
    }
    net_comm *link = comm->net;
    if (!take_credit(link, rank, head) ||
        (line && head->body_bytes > COLL_FRAME_LINE_BYTES + comm->inline_bytes)) {
        coll_net_fail_peer(context, peer, "broke the protocol");
        return false;
    }
    if (head->kind == COLL_FRAME_FAILED) {
        hear_failure(comm, rank, body, head->body_bytes);
        return true;
    }
    if (line) {
        return commit_line(comm, rank, head, body);
    }
    if (head->kind == COLL_FRAME_DATA) {
        net_stream *stream = &link->streams[rank][head->lane];
        stream->bytes[stream->received % COLL_NET_SLOTS] = head->body_bytes;
        stream->received++;
        stream->placing = false;
    }
    return true;
}

void coll_net_lost(coll_context *context, int peer, const char *how)
{
    coll_net *net = net_of(context);
    if (net->left[peer]) {
        return;
    }
    mark_left(net, peer);
    for (coll_comm *comm = context->comms; comm != NULL; comm = comm->next) {
        const int rank = rank_in(comm, peer);
        if (rank >= 0) {
            char who[160];
            coll_rank_text(comm, rank, who, sizeof who);
            (void)coll_comm_fail(comm, BASE_ERR_PEER, "the connection to %s is lost: %s", who, how);
        }
    }
}

void coll_net_distress(coll_comm *comm)
{
    const coll_net *net = net_of(comm->context);
    const net_comm *link = comm->net;
    if (link == NULL || comm->failure.message[0] == '\0') {
        return;
    }
    net->links->forget(comm->context, comm); /* the caller may take its buffers back */
    const bool mismatch = comm->failure.status == BASE_ERR_MISMATCH && comm->head != NULL;
    const uint64_t here = mismatch ? current(comm) : 0;
    const reason_head reason = {.status = comm->failure.status,
                                .sequence = link->failed_at != 0 ? link->failed_at : here};
    uint8_t body[COLL_FRAME_REASON_BYTES];
    const size_t length = strlen(comm->failure.message);
    memcpy(body, &reason, sizeof reason);
    memcpy(body + sizeof reason, comm->failure.message, length);
    for (int i = 1; i < comm->size; i++) {
        const int peer = (comm->rank + i) % comm->size;
        if (net->remote[comm->ranks[peer]] && !net->left[comm->ranks[peer]]) {
            coll_frame_head head = {.kind = COLL_FRAME_FAILED,
                                    .body_bytes = (uint32_t)(sizeof reason + length)};
            send_frame(comm, peer, &head, body, COLL_NET_NOW);
        }
    }
}

void coll_net_farewell(coll_context *context)
{
    const coll_net *net = net_of(context);
    for (int rank = 0; rank < context->size; rank++) {
        if (net->remote[rank] && !net->left[rank]) {
            coll_frame_head head = {.magic = COLL_FRAME_MAGIC, .kind = COLL_FRAME_GOODBYE};
            const coll_net_frames frame = {.heads = &head, .count = 1};
            net->links->send(context, rank, &frame, COLL_NET_NOW);
        }
    }
}

static void adopt_orphans(coll_comm *comm)
{
    coll_net *net = net_of(comm->context);
    coll_net_orphan own[COLL_ORPHANS_MAX]; /* taken out first: committing may keep new ones */
    int own_count = 0;
    int kept = 0;
    for (int i = 0; i < net->orphan_count; i++) {
        if (net->orphans[i].head.comm_id == comm->id) {
            own[own_count++] = net->orphans[i];
        } else {
            net->orphans[kept++] = net->orphans[i];
        }
    }
    net->orphan_count = kept;
    for (int i = 0; i < own_count; i++) {
        (void)coll_net_commit(comm->context, own[i].peer, &own[i].head, own[i].body);
        free(own[i].body);
    }
}

/* What goes with a line saves a round trip, and costs its bytes once per peer: the same on every
 * rank. */
static size_t inline_bytes(const coll_comm *comm)
{
    const size_t share = 2 * COLL_INLINE_BYTES_MAX / (size_t)comm->size;
    return comm->size <= 2 ? COLL_INLINE_BYTES_MAX : share / 64 * 64;
}

/* Long frames cost fewer calls per byte, and each stream's slots are as long: 32 KiB of them make a
 * megabyte take half as long again. The same on every rank. */
static size_t chunk_bytes(const coll_comm *comm)
{
    if (comm->hybrid != NULL) {
        return COLL_CHUNK_BYTES; /* as in the shared memory of a host */
    }
    return comm->size <= 4    ? COLL_NET_CHUNK_BYTES_MAX
           : comm->size <= 16 ? COLL_NET_CHUNK_BYTES_MAX / 2
                              : COLL_NET_CHUNK_BYTES_MAX / 4;
}

base_status coll_net_comm_open(coll_comm *comm, int64_t deadline_ns, base_error *reterr)
{
    (void)deadline_ns;
    const size_t size = (size_t)comm->size;
    net_comm *link = calloc(1, sizeof *link);
    if (link != NULL) {
        link->streams = calloc(size, sizeof *link->streams);
        link->lines = aligned_alloc(_Alignof(coll_line), size * sizeof *link->lines);
        comm->inline_bytes = inline_bytes(comm);
        comm->chunk_bytes = chunk_bytes(comm);
        link->sending = aligned_alloc(64, comm->chunk_bytes);
        link->payloads = calloc(size * COLL_LINE_SLOTS, comm->inline_bytes);
    }
    comm->net = link;
    if (link == NULL || link->streams == NULL || link->lines == NULL || link->sending == NULL ||
        link->payloads == NULL) {
        coll_net_comm_close(comm);
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a communicator");
    }
    memset(link->lines, 0, size * sizeof *link->lines);
    const coll_net *net = net_of(comm->context);
    for (int rank = 0; rank < comm->size; rank++) {
        if (comm->peers[rank].lines == NULL || net->remote[comm->ranks[rank]]) {
            comm->peers[rank] = (coll_peer_view){.lines = link->lines[rank],
                                                 .payloads = payload_at(comm, rank, 0),
                                                 .finished = &link->finished};
        }
    }
    if (comm->lines == NULL) {
        comm->lines = link->lines[comm->rank];
        comm->finished = &link->finished;
    }
    adopt_orphans(comm);
    return BASE_OK;
}

void coll_net_comm_close(coll_comm *comm)
{
    net_comm *link = comm->net;
    coll_net *net = net_of(comm->context);
    if (link == NULL) {
        return;
    }
    net->links->forget(comm->context, comm);
    net->gone[net->gone_count++ % COLL_GONE_MAX] = comm->id;
    for (int rank = 0; link->streams != NULL && rank < comm->size; rank++) {
        for (int lane = 0; lane < COLL_LANES; lane++) {
            free(link->streams[rank][lane].slots);
        }
    }
    free(link->sending);
    free(link->payloads);
    free(link->told);
    free(link->lines);
    free(link->streams);
    free(link);
    comm->net = NULL;
}

base_status coll_net_arena_open(coll_arena *arena, int64_t deadline_ns, base_error *reterr)
{
    (void)deadline_ns;
    void *data = NULL;
    const base_status status = coll_segment_create_private(arena->mapped_bytes, &data, reterr);
    arena->data = data;
    return status;
}

void coll_net_arena_close(coll_arena *arena)
{
    coll_segment_free_private(arena->data, arena->mapped_bytes);
}

void coll_net_fini(coll_net *net)
{
    for (int i = 0; i < net->orphan_count; i++) {
        free(net->orphans[i].body);
    }
    net->orphan_count = 0;
}
