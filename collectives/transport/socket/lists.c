/* Ranks that make different communicators, and wait for each other: finds that out from their flags.
 * Called by fail.c while a rank waits for those with which it makes one. */
#include <string.h>

#include "base/clock.h"
#include "core/arrival.h"
#include "core/failure.h"
#include "core/text.h"
#include "core/wait.h"
#include "transport/socket/comm.h"

enum { TEXT_BYTES = 160, LIST_BYTES = 240 };

/* What a peer makes with this rank, as it has shown: the newest, unless it has given that up; NULL.
 * If it has because of a mismatch, it has seen this rank's list, and waits no longer: this rank would
 * wait for it in vain. */
static const coll_net_unexpected *find_made(const coll_net *net, int peer)
{
    const coll_net_unexpected *made = NULL;
    for (int i = 0; i < net->unexpected_count; i++) {
        const coll_net_unexpected *u = &net->unexpected[i];
        if (u->peer != peer || u->body == NULL || coll_net_is_noted(net->blamed, u->head.comm_id)) {
            continue;
        }
        if (u->head.kind == COLL_FRAME_FAILED) {
            const bool is_same = made != NULL && made->head.comm_id == u->head.comm_id;
            made = is_same && coll_net_failure_status(u->body) != COLL_ERR_MISMATCH ? NULL : made;
        } else {
            coll_descriptor shown;
            memcpy(&shown, u->body + sizeof(uint64_t), sizeof shown);
            made = shown.kind == COLL_KIND_COMM ? u : made;
        }
    }
    return made;
}

/* The list that stands beside a flag; how many ranks, 0 if it cannot be one. */
static int read_list(const coll_net_unexpected *made, int ranks[COLL_RANKS_MAX])
{
    const uint32_t count = made->body_bytes - COLL_FRAME_FLAG_BYTES;
    for (uint32_t i = 0; count <= COLL_RANKS_MAX && i < count; i++) {
        ranks[i] = made->body[COLL_FRAME_FLAG_BYTES + i];
    }
    return count <= COLL_RANKS_MAX ? (int)count : 0;
}

static bool is_same(const coll_comm *comm, const int *ranks, int count)
{
    return count == comm->size && memcmp(ranks, comm->ranks, (size_t)count * sizeof *ranks) == 0;
}

/* Whether all ranks of a list are there, as far as this one knows. If not, who makes that communicator
 * will learn it, give it up, and perhaps come to this rank's. */
static bool are_all_there(const coll_comm *comm, const int *ranks, int count)
{
    const coll_net *net = coll_net_of(comm->context);
    bool there = true;
    for (int i = 0; i < count; i++) {
        there = there && ranks[i] < comm->context->size && !net->left[ranks[i]];
    }
    return there;
}

/* Whether a difference has been there for long enough. At first a peer may not know yet that a rank
 * has gone, because of which this rank makes a smaller communicator. */
static bool has_lasted(const coll_context *context, coll_net_comm *link)
{
    const int64_t now_ns = base_now_ns();
    link->differs_ns = link->differs_ns == 0 ? now_ns : link->differs_ns;
    return now_ns - link->differs_ns >= coll_show_after_ns(context);
}

void coll_net_compare_lists(coll_op *op)
{
    coll_comm *comm = op->comm;
    coll_net *net = coll_net_of(comm->context);
    coll_net_comm *link = comm->net;
    bool differs = false;
    for (int peer = 0; peer < comm->size && !comm->failed; peer++) {
        int ranks[COLL_RANKS_MAX];
        const bool is_absent = peer != comm->rank && !coll_op_sees(op, peer);
        const coll_net_unexpected *made = is_absent ? find_made(net, comm->ranks[peer]) : NULL;
        const int count = made != NULL ? read_list(made, ranks) : 0;
        if (count == 0 || is_same(comm, ranks, count) || !are_all_there(comm, ranks, count)) {
            continue;
        }
        differs = true;
        if (!has_lasted(comm->context, link)) {
            continue;
        }
        char them[TEXT_BYTES];
        char me[TEXT_BYTES];
        char theirs[LIST_BYTES];
        char mine[LIST_BYTES];
        coll_context_rank_text(comm->context, comm->ranks[peer], them, sizeof them);
        coll_context_rank_text(comm->context, comm->context->rank, me, sizeof me);
        coll_list_text(ranks, count, coll_comm_number(made->head.comm_id), theirs, sizeof theirs);
        coll_list_text(comm->ranks, comm->size, coll_comm_number(comm->id), mine, sizeof mine);
        (void)coll_comm_fail(comm, COLL_ERR_MISMATCH,
                             "ranks disagree on what they make: %s makes %s, %s makes %s", them,
                             theirs, me, mine);
        net->blamed[net->blamed_count++ % COLL_GONE_MAX] = made->head.comm_id;
    }
    link->differs_ns = differs ? link->differs_ns : 0; /* the next difference is another */
}
