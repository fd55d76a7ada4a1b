/* Messages of failures: which rank is meant, what was under way, which ranks have arrived and which
 * have not. Called when a wait times out and when flags disagree. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "coll/backend.h"
#include "core/failure.h"
#include "core/report.h"
#include "core/text.h"

enum {
    LIST_BYTES = 400,
    TEXT_BYTES = 160,
    WHAT_BYTES = TEXT_BYTES + 64 + COLL_COMM_TEXT_BYTES, /* an operation */
};

static bool has_arrived(const coll_op *op, int rank)
{
    const coll_flag *flag = &op->comm->peers[rank].flags[op->sequence % COLL_FLAG_COUNT];
    return rank == op->comm->rank || coll_flag_ahead(atomic_load(&flag->word), op->sequence) >= 0;
}

static bool is_awaited(const coll_op *op, int rank)
{
    return rank != op->comm->rank && op->comm->table->awaits(op, rank);
}

static uint64_t bit_of(int rank)
{
    return UINT64_C(1) << rank;
}

/* The ranks of which `predicate` holds, a bit for each. */
static uint64_t ranks_where(const coll_op *op, bool (*predicate)(const coll_op *op, int rank))
{
    uint64_t ranks = 0;
    for (int rank = 0; rank < op->comm->size; rank++) {
        ranks |= predicate(op, rank) ? bit_of(rank) : 0;
    }
    return ranks;
}

void coll_list_ranks(const coll_comm *comm, uint64_t ranks, char *text, size_t size_bytes)
{
    size_t used = 0;
    (void)snprintf(text, size_bytes, "none");
    for (int rank = 0; rank < comm->size && used + 1 < size_bytes; rank++) {
        if ((ranks & bit_of(rank)) == 0) {
            continue;
        }
        char name[TEXT_BYTES];
        coll_rank_text(comm, rank, name, sizeof name);
        const int added =
            snprintf(text + used, size_bytes - used, "%s%s", used == 0 ? "" : ", ", name);
        used += added > 0 ? (size_t)added : 0;
    }
}

/* The newest of a rank's operations before `sequence`, "#16 barrier",
 * as far as it has shown them. */
static void last_text(const coll_comm *comm, int rank, uint64_t sequence, char *text,
                      size_t size_bytes)
{
    const coll_flag *flags = comm->peers[rank].flags;
    int32_t newest = -COLL_FLAG_COUNT; /* whose flag is the one written next */
    (void)snprintf(text, size_bytes, "nothing yet");
    for (int slot = 0; slot < COLL_FLAG_COUNT; slot++) {
        const uint64_t word = atomic_load(&flags[slot].word);
        const int32_t ahead = coll_flag_ahead(word, sequence);
        if (word == 0 || ahead >= 0 || ahead <= newest) {
            continue;
        }
        char what[TEXT_BYTES];
        const coll_descriptor shown = flags[slot].descriptor;
        coll_descriptor_text(&shown, what, sizeof what);
        newest = ahead;
        (void)snprintf(text, size_bytes, "#%" PRIu64 " %s", sequence - (uint64_t) - (int64_t)ahead,
                       what);
    }
}

static bool is_far(const coll_comm *comm, int rank)
{
    return comm->hosts.count > 1 && comm->hosts.host[rank] != comm->hosts.host[comm->rank];
}

static const char *host_name(const coll_comm *comm, int rank)
{
    return comm->context->identities[comm->ranks[rank]].host;
}

/* Appends to text those ranks that have not arrived, of this host or of others. Returns the first; -1:
 * there is none. */
static int list_absent(const coll_op *op, bool far, char *text, size_t size_bytes)
{
    size_t used = strlen(text);
    int first = -1;
    for (int rank = 0; rank < op->comm->size && used + 1 < size_bytes; rank++) {
        if (has_arrived(op, rank) || is_far(op->comm, rank) != far) {
            continue;
        }
        char name[TEXT_BYTES];
        char last[TEXT_BYTES + 32];
        coll_rank_text(op->comm, rank, name, sizeof name);
        last_text(op->comm, rank, op->sequence, last, sizeof last);
        const int added = snprintf(text + used, size_bytes - used, "%s%s, whose last %sis %s",
                                   first >= 0 ? ", "
                                   : far      ? "; not heard of: "
                                              : "; not arrived: ",
                                   name, far ? "known " : "", last);
        used += added > 0 ? (size_t)added : 0;
        first = first < 0 ? rank : first;
    }
    return first;
}

/* "; not arrived: rank 1 (host h, pid 42), whose last is #16 barrier"; empty where all are here. A rank of
 * another host may have arrived, and the network between the hosts may be cut: "; not heard of: …". */
static void absent_text(const coll_op *op, char *text, size_t size_bytes)
{
    const coll_comm *comm = op->comm;
    text[0] = '\0';
    (void)list_absent(op, false, text, size_bytes);
    const int far = list_absent(op, true, text, size_bytes);
    const size_t used = strlen(text);
    if (far >= 0) {
        (void)snprintf(text + used, size_bytes - used,
                       ", or its host cannot be reached: look at the network between %s and %s",
                       host_name(comm, comm->rank), host_name(comm, far));
    }
}

void coll_operation_text(const coll_op *op, char *text, size_t size_bytes)
{
    char what[TEXT_BYTES];
    char comm[COLL_COMM_TEXT_BYTES];
    coll_descriptor_text(&op->descriptor, what, sizeof what);
    coll_of_comm_text(op->comm, comm, sizeof comm);
    (void)snprintf(text, size_bytes, "%s #%" PRIu64 "%s (%zu bytes over %s)", what, op->sequence,
                   comm, op->total_bytes,
                   op->device != NULL ? op->comm->context->backend->name
                                      : coll_transport_name(op->comm->context->transport));
}

/* Whom op waits for, as text. */
static void awaited_text(const coll_op *op, char *text, size_t size_bytes)
{
    if (coll_kind_is_p2p(op->desc.kind)) {
        coll_rank_text(op->comm, op->desc.root, text, size_bytes);
        return;
    }
    if (op->device != NULL) {
        (void)snprintf(text, size_bytes, "the device");
        return;
    }
    if (op->stage == COLL_STAGE_QUEUED && op->comm->head != op) {
        (void)snprintf(text, size_bytes, "the operations before it");
        return;
    }
    coll_list_ranks(op->comm, ranks_where(op, is_awaited), text, size_bytes);
}

void coll_op_text(const coll_op *op, char *text, size_t size_bytes)
{
    char what[WHAT_BYTES];
    char awaited[LIST_BYTES];
    coll_operation_text(op, what, sizeof what);
    awaited_text(op, awaited, sizeof awaited);
    (void)snprintf(text, size_bytes, "%s, waiting for %s", what, awaited);
}

/* The first operation that is not done; op if there is none. An operation that stands behind
 * another one is not the one to name. */
static const coll_op *first_of(const coll_comm *comm, const coll_op *op)
{
    const coll_op *first = coll_comm_first(comm);
    return first != NULL ? first : op;
}

uint64_t coll_comm_waits(const coll_comm *comm, const coll_op *op)
{
    return coll_kind_is_p2p(op->desc.kind) ? bit_of(op->desc.root) & ~bit_of(comm->rank)
                                           : ranks_where(first_of(comm, op), is_awaited);
}

/* The ranks that hold up op, which cannot go on without the ranks `awaited`: those of them, and of
 * those that they wait for in turn, that have not shown that they wait for anybody. `awaited`
 * itself if all have. */
static uint64_t find_blocking(const coll_op *op, uint64_t awaited)
{
    const coll_comm *comm = op->comm;
    uint64_t seen = bit_of(comm->rank) | awaited;
    uint64_t blocking = 0;
    bool more = true;
    while (more) {
        uint64_t next = seen;
        for (int rank = 0; rank < comm->size; rank++) {
            if (rank == comm->rank || (seen & bit_of(rank)) == 0) {
                continue;
            }
            const uint64_t waits = comm->table->notices->waits_of(comm, rank);
            next |= waits;
            blocking |= waits == 0 ? bit_of(rank) : 0;
        }
        more = next != seen;
        seen = next;
    }
    return blocking != 0 ? blocking : awaited;
}

coll_status coll_report_timeout(coll_op *op, coll_error *reterr)
{
    coll_comm *comm = op->comm;
    const double waited_s = (double)comm->context->timeout_ns / (double)BASE_NS_PER_S;
    if (coll_kind_is_p2p(op->desc.kind)) {
        char text[COLL_DESCRIBE_BYTES];
        coll_op_text(op, text, sizeof text);
        (void)coll_comm_fail(comm, COLL_ERR_TIMEOUT, "%s: no end after %.3g s", text, waited_s);
        return coll_comm_check(comm, reterr);
    }
    char what[WHAT_BYTES];
    char awaited[LIST_BYTES];
    char present[LIST_BYTES];
    char absent[LIST_BYTES];
    const coll_op *first = first_of(comm, op);
    const uint64_t arrived = ranks_where(first, has_arrived);
    const uint64_t missing = UINT64_MAX >> (COLL_RANKS_MAX - comm->size) & ~arrived;
    uint64_t blocking = ranks_where(first, is_awaited);
    const bool is_busy = first->stage > COLL_STAGE_ARRIVING && blocking == 0;
    if (blocking != 0) {
        blocking = find_blocking(first, blocking | missing);
    }
    if ((blocking & missing) != 0) {
        blocking &= missing;
    }
    coll_operation_text(first, what, sizeof what);
    coll_list_ranks(comm, blocking, awaited, sizeof awaited);
    coll_list_ranks(comm, arrived, present, sizeof present);
    absent_text(first, absent, sizeof absent);
    (void)coll_comm_fail(
        comm, COLL_ERR_TIMEOUT, "%s: no end after %.3g s; waiting for %s %s%s; arrived: %s", what,
        waited_s, is_busy ? "nobody: this rank has yet" : awaited,
        (blocking & missing) != 0 ? "to arrive" : "to do its part", absent, present);
    return coll_comm_check(comm, reterr);
}

coll_status coll_report_flag(coll_comm *comm, const coll_descriptor *mine, uint64_t sequence,
                             int peer, const coll_flag *flag, uint64_t word)
{
    char my_call[TEXT_BYTES];
    char their_call[TEXT_BYTES];
    char me[TEXT_BYTES];
    char them[TEXT_BYTES];
    coll_rank_text(comm, comm->rank, me, sizeof me);
    coll_rank_text(comm, peer, them, sizeof them);
    if (coll_flag_ahead(word, sequence) > 0) {
        return coll_comm_fail(comm, COLL_ERR_PEER,
                              "%s is at operation #%" PRIu64
                              " (low half %u): a lost or broken flag",
                              them, sequence, (unsigned)(word >> 32));
    }
    char of_comm[COLL_COMM_TEXT_BYTES];
    const coll_descriptor theirs = flag->descriptor;
    coll_of_comm_text(comm, of_comm, sizeof of_comm);
    coll_call_text(mine, my_call, sizeof my_call);
    coll_call_text(&theirs, their_call, sizeof their_call);
    return coll_comm_fail(comm, COLL_ERR_MISMATCH,
                          "ranks disagree on operation #%" PRIu64 "%s: %s calls %s, %s calls %s",
                          sequence, of_comm, me, my_call, them, their_call);
}

static void fail_pair(coll_op *op, int from, uint64_t sent_bytes, int to, uint64_t expected_bytes)
{
    char sender[TEXT_BYTES];
    char receiver[TEXT_BYTES];
    coll_rank_text(op->comm, from, sender, sizeof sender);
    coll_rank_text(op->comm, to, receiver, sizeof receiver);
    (void)coll_comm_fail(op->comm, COLL_ERR_MISMATCH,
                         "ranks disagree on operation #%" PRIu64 ": in %s of %s, %s sends %" PRIu64
                         " elements to %s, which expects %" PRIu64,
                         op->sequence, coll_kind_name(op->desc.kind), coll_type_name(op->desc.type),
                         sender, sent_bytes / op->element_bytes, receiver,
                         expected_bytes / op->element_bytes);
}

bool coll_report_pair(coll_op *op, int peer, const coll_pair *theirs)
{
    const int rank = op->comm->rank;
    const coll_pair own = coll_op_pair(op, peer);
    if (theirs->to_bytes != own.from_bytes) {
        fail_pair(op, peer, theirs->to_bytes, rank, own.from_bytes);
        return false;
    }
    if (theirs->from_bytes != own.to_bytes) {
        fail_pair(op, rank, own.to_bytes, peer, theirs->from_bytes);
        return false;
    }
    return true;
}
