/* Failure notices between ranks, and peers that leave. Called by net.c, and through the tables of
 * the transports over sockets. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "core/arrival.h"
#include "core/failure.h"
#include "core/p2p.h"
#include "core/progress.h"
#include "core/text.h"
#include "core/wait.h"
#include "transport/socket/comm.h"

#define FINALIZE_STEP_NS (2 * BASE_NS_PER_MS) /* an answer of the system's is no event */

/* What a failure's frame begins with; the text follows. */
typedef struct reason_head {
    uint64_t sequence; /* of the operation that failed; 0: it is not about one */
    int32_t status;
    uint32_t origin; /* 1 + the rank that failed first; 0: the sender */
    uint64_t gone;   /* bits of the context's ranks that the sender knows to have gone */
} reason_head;

_Static_assert(sizeof(reason_head) + COLL_ERROR_MESSAGE_BYTES <= COLL_FRAME_REASON_BYTES,
               "a failure fits its frame");

int coll_net_rank_in(const coll_comm *comm, int context_rank)
{
    for (int rank = 0; rank < comm->size; rank++) {
        if (comm->ranks[rank] == context_rank) {
            return rank;
        }
    }
    return -1;
}

/* Fails every communicator that peer is in, with its name between the texts. */
static void fail_naming(coll_context *context, int peer, const char *before, const char *behind,
                        const char *what)
{
    for (coll_comm *comm = context->comms; comm != NULL; comm = comm->next) {
        const int rank = coll_net_rank_in(comm, peer);
        if (rank >= 0) {
            char name[160];
            coll_rank_text(comm, rank, name, sizeof name);
            (void)coll_comm_fail(comm, COLL_ERR_PEER, "%s%s%s%s", before, name, behind, what);
        }
    }
}

void coll_net_fail_peer(coll_context *context, int peer, const char *what)
{
    fail_naming(context, peer, "", " ", what);
}

void coll_net_fail_unsent(coll_context *context, int peer, size_t size_bytes)
{
    char what[64];
    (void)snprintf(what, sizeof what, "could not be sent to: no memory for %zu bytes", size_bytes);
    coll_net_fail_peer(context, peer, what);
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

/* A peer's failure is this rank's. */
static void take_failure(coll_comm *comm, int peer, const uint8_t *body, size_t body_bytes)
{
    char text[COLL_ERROR_MESSAGE_BYTES];
    reason_head head;
    memcpy(&head, body, sizeof head);
    const size_t length = body_bytes - sizeof head;
    const size_t kept = length < sizeof text ? length : sizeof text - 1;
    memcpy(text, body + sizeof head, kept);
    text[kept] = '\0';
    if (text[0] == '\0') {
        (void)snprintf(text, sizeof text, "a failure without a message");
    }
    coll_net_comm *link = comm->net;
    link->failed_at = head.sequence;
    coll_comm_fail_as(comm, peer, head.origin, head.status, text);
}

/* Takes a failure, or keeps it until this rank has come as far: what stands before the operation
 * that failed can still end well. */
void coll_net_receive_failure(coll_comm *comm, int peer, const uint8_t *body, size_t body_bytes)
{
    coll_net_comm *link = comm->net;
    reason_head head;
    memcpy(&head, body, sizeof head);
    coll_context_note_gone(comm->context, head.gone);
    if (head.sequence <= current(comm)) {
        take_failure(comm, peer, body, body_bytes);
        return;
    }
    if (link->notice != NULL) {
        reason_head kept;
        memcpy(&kept, link->notice, sizeof kept);
        if (kept.sequence <= head.sequence) {
            return; /* one is enough, the first */
        }
        free(link->notice);
    }
    link->notice = malloc(body_bytes);
    if (link->notice == NULL) {
        take_failure(comm, peer, body, body_bytes);
        return;
    }
    memcpy(link->notice, body, body_bytes);
    link->notice_bytes = body_bytes;
    link->notice_from = peer;
    coll_net_of(comm->context)->keeps_notices = true;
    coll_net_of(comm->context)->watchful = true;
}

static void fail_left(coll_comm *comm, int rank, const coll_op *op)
{
    char name[160];
    char what[160];
    char of_comm[COLL_COMM_TEXT_BYTES];
    coll_rank_text(comm, rank, name, sizeof name);
    coll_descriptor_text(&op->descriptor, what, sizeof what);
    coll_of_comm_text(comm, of_comm, sizeof of_comm);
    (void)coll_comm_fail(comm, COLL_ERR_PEER, "%s has left the job before %s #%llu%s", name, what,
                         (unsigned long long)op->sequence, of_comm);
}

/* Fails a communicator with a message to or from a peer which has left. What it sent before is
 * taken first. */
static void check_messages(coll_comm *comm)
{
    const coll_net *net = coll_net_of(comm->context);
    while (!comm->failed && coll_p2p_advance(comm)) {
    }
    for (int rank = 0; !comm->failed && rank < comm->size; rank++) {
        const coll_op *op = coll_p2p_first(comm, rank);
        if (op != NULL && net->left[comm->ranks[rank]]) {
            fail_left(comm, rank, op);
        }
    }
}

static bool has_lost_a_rank(const coll_comm *comm)
{
    const coll_net *net = coll_net_of(comm->context);
    int rank = 0;
    while (rank < comm->size && !net->left[comm->ranks[rank]]) {
        rank++;
    }
    return rank < comm->size;
}

/* Fails a communicator that waits for a peer which has left. */
static void check_left(coll_comm *comm)
{
    const coll_net *net = coll_net_of(comm->context);
    const coll_op *op = comm->head;
    while (op != NULL && op->arrived == comm->size) {
        op = op->next;
    }
    for (int rank = 0; op != NULL && rank < comm->size; rank++) {
        const coll_flag *flag = &comm->peers[rank].flags[op->sequence % COLL_FLAG_COUNT];
        if (net->left[comm->ranks[rank]] &&
            coll_flag_ahead(atomic_load(&flag->word), op->sequence) < 0) {
            coll_net_comm *link = comm->net;
            link->failed_at = op->sequence;
            fail_left(comm, rank, op);
        }
    }
    if (comm->p2p != NULL) {
        check_messages(comm);
    }
}

/* Takes the notices that this rank has come to; true if others are kept. */
static bool take_notices(coll_context *context)
{
    bool keeps = false;
    for (coll_comm *comm = context->comms; comm != NULL; comm = comm->next) {
        const coll_net_comm *link = comm->net;
        reason_head head;
        if (link == NULL || link->notice == NULL || comm->failed) {
            continue;
        }
        memcpy(&head, link->notice, sizeof head);
        if (head.sequence <= current(comm)) {
            take_failure(comm, link->notice_from, link->notice, link->notice_bytes);
        } else {
            keeps = true;
        }
    }
    return keeps;
}

/* After a failure other communicators go on. So this costs them something only while a notice is
 * kept, and for good, where a peer has left, no more than a look at the ranks of those that are
 * under way: only such can wait for it. */
void coll_net_look(coll_context *context)
{
    coll_net *net = coll_net_of(context);
    net->keeps_notices = net->keeps_notices && take_notices(context);
    for (coll_comm *comm = net->left_count > 0 ? context->busy : NULL; comm != NULL;
         comm = comm->busy_next) {
        if (comm->net != NULL && !comm->failed && has_lost_a_rank(comm)) {
            check_left(comm);
        }
    }
    net->watchful = net->keeps_notices || net->left_count > 0;
}

void coll_net_mark_left(coll_context *context, int peer)
{
    coll_net *net = coll_net_of(context);
    coll_context_note_gone(context, UINT64_C(1) << peer);
    if (!net->left[peer]) {
        net->left[peer] = true;
        net->watchful = true;
        net->left_count++;
    }
}

void coll_net_lost(coll_context *context, int peer, const char *how)
{
    if (!coll_net_of(context)->left[peer]) {
        coll_net_mark_left(context, peer);
        fail_naming(context, peer, "the connection to ", " is lost: ", how);
    }
}

static void send_failure(coll_comm *comm)
{
    const coll_net *net = coll_net_of(comm->context);
    const coll_net_comm *link = comm->net; /* NULL: it could not be opened here */
    coll_net_forget(comm);                 /* the caller may take its buffers back */
    const bool mismatch = comm->failure.status == COLL_ERR_MISMATCH && comm->head != NULL;
    const uint64_t here = mismatch ? current(comm) : 0;
    const reason_head reason = {.status = comm->failure.status,
                                .sequence =
                                    link != NULL && link->failed_at != 0 ? link->failed_at : here,
                                .origin = (uint32_t)comm->origin,
                                .gone = comm->context->gone};
    uint8_t body[COLL_FRAME_REASON_BYTES];
    const char *message = comm->failure.message + comm->message_offset_bytes;
    const size_t length = strlen(message);
    memcpy(body, &reason, sizeof reason);
    memcpy(body + sizeof reason, message, length);
    for (int i = 1; i < comm->size; i++) {
        const int peer = (comm->rank + i) % comm->size;
        if (!net->left[comm->ranks[peer]]) {
            coll_frame_head head = {.kind = COLL_FRAME_FAILED,
                                    .body_bytes = (uint32_t)(sizeof reason + length)};
            coll_net_send_frame(comm, peer, &head, body, COLL_NET_NOW);
        }
    }
}

static void show_waits(coll_comm *comm, uint64_t waits)
{
    const coll_net *net = coll_net_of(comm->context);
    for (int i = 1; i < comm->size; i++) {
        const int peer = (comm->rank + i) % comm->size;
        if (!net->left[comm->ranks[peer]]) {
            coll_frame_head head = {.kind = COLL_FRAME_WAITS, .body_bytes = sizeof waits};
            coll_net_send_frame(comm, peer, &head, &waits, COLL_NET_NOW);
        }
    }
}

static uint64_t waits_of(const coll_comm *comm, int peer)
{
    const coll_net_comm *link = comm->net;
    return link->waits[peer];
}

/* A peer to which bytes of this rank are still on their way; -1: none. A peer may disagree with the
 * newest operation. This rank's flag has to be there before it looks for the last time: of two that
 * do so, one finds the other's. A peer that has shown the newest operation needs the data of it all
 * the same. */
static int find_undelivered(const coll_comm *comm)
{
    const coll_net *net = coll_net_of(comm->context);
    int found = -1;
    for (int rank = 0; rank < comm->size; rank++) {
        const int target = comm->ranks[rank];
        if (net->remote[target] && !net->left[target] &&
            !net->links->deliver(comm->context, target)) {
            found = rank;
        }
    }
    return found;
}

/* While one peer is waited for, the flag of another may show something else already. */
static void watch(coll_op *op)
{
    coll_op *first = op->comm->head;
    const bool shown = first != NULL && first->stage != COLL_STAGE_QUEUED;
    for (int rank = 0; shown && rank < op->comm->size; rank++) {
        (void)coll_op_sees(first, rank);
    }
    if (shown && first->descriptor.kind == COLL_KIND_COMM) {
        coll_net_compare_lists(first);
    }
}

static void finalize(coll_comm *comm)
{
    coll_context *context = comm->context;
    const coll_net_comm *link = comm->net;
    const int64_t deadline_ns = base_deadline_after_ns(context->timeout_ns);
    int late = find_undelivered(comm);
    while (late >= 0 && !comm->failed && atomic_load(&context->abort_state) == 0) {
        const int64_t now_ns = base_now_ns();
        if (now_ns >= deadline_ns) {
            char name[160];
            coll_rank_text(comm, late, name, sizeof name);
            (void)coll_comm_fail(comm, COLL_ERR_TIMEOUT, "%s does not take what was sent to it",
                                 name);
            return;
        }
        context->table->sleep->sleep(context, coll_has_changed, now_ns + FINALIZE_STEP_NS);
        late = find_undelivered(comm);
    }
    while (!comm->failed && coll_progress(context) && base_now_ns() < deadline_ns) {
    }
    /* Of an operation that this rank will not come to. */
    if (!comm->failed && link->notice != NULL) {
        take_failure(comm, link->notice_from, link->notice, link->notice_bytes);
    }
}

void coll_net_farewell(coll_context *context)
{
    const coll_net *net = coll_net_of(context);
    for (int rank = 0; rank < context->size; rank++) {
        if (net->remote[rank] && !net->left[rank]) {
            coll_frame_head head = {.magic = COLL_FRAME_MAGIC, .kind = COLL_FRAME_GOODBYE};
            const coll_net_frames frame = {.heads = &head, .count = 1};
            net->links->send(context, rank, &frame, COLL_NET_NOW);
        }
    }
}

bool coll_net_failure_is_sound(const coll_frame_head *head)
{
    return head->body_bytes > sizeof(reason_head) && head->body_bytes <= COLL_FRAME_REASON_BYTES;
}

int32_t coll_net_failure_status(const uint8_t *body)
{
    reason_head head;
    memcpy(&head, body, sizeof head);
    return head.status;
}

const coll_notice_table coll_net_notices = {
    .send_failure = send_failure,
    .finalize = finalize,
    .watch = watch,
    .show_waits = show_waits,
    .waits_of = waits_of,
};
