/* Direct: every rank owns one block, and talks to everybody.
 * Called through the table of plan.c.
 *
 *     all-reduce of 3 ranks, blocks A B C; rank 0 owns A, rank 1 B, rank 2 C
 *
 *     rank 0   A0 B0 C0      sends B0 to 1, C0 to 2;  (A0+A1)+A2 = A  sends A to 1 and 2
 *     rank 1   A1 B1 C1      sends C1 to 2, A1 to 0;  (B0+B1)+B2 = B  sends B to 2 and 0
 *     rank 2   A2 B2 C2      sends A2 to 0, B2 to 1;  (C0+C1)+C2 = C  sends C to 0 and 1
 *
 * Each rank sends every block to its owner (channel 0); the owner combines all ranks' operands at
 * once, in canonical order, and so rounds a narrow type only once; then it sends the result to
 * everybody (channel 1). Two messages deep for any number of ranks, 2 (n-1)/n of the bytes per
 * rank. This is the form for memory that peers cannot reach; over arenas the same algorithm is in
 * zero_copy.c, with loads and stores in the place of streams and the same bits.
 *
 * Reduce-scatter is the first half, all-gather the second; reduce sends the combined blocks to the
 * root alone. Broadcast and scatter: the root sends to each; gather: each sends to the root;
 * all-to-all: each sends to each; scan: each sends its whole vector to all ranks above it, which
 * combine what they get at once. Peers are taken in the order rank + 1, rank + 2, … so that not
 * everybody starts with the same one. */
#include "plan/generators.h"

static int peer_at(const coll_plan *plan, int place)
{
    return (plan->rank + 1 + place) % plan->ranks;
}

static bool is_root(const coll_plan *plan)
{
    return plan->rank == plan->root;
}

int coll_direct_track_count(const coll_plan *plan)
{
    const int peers = plan->ranks - 1;
    switch (plan->kind) {
    case COLL_ALL_REDUCE:
        return 3 * peers + 1;
    case COLL_REDUCE:
        return peers + 1 + (is_root(plan) ? peers : 1);
    case COLL_REDUCE_SCATTER:
        return peers + 1;
    case COLL_ALL_GATHER:
    case COLL_ALL_TO_ALL:
        return 2 * peers + 1;
    case COLL_SCAN:
    case COLL_EXSCAN:
        return peers - plan->rank + 1;
    case COLL_BROADCAST:
    case COLL_GATHER:
    case COLL_SCATTER:
        return is_root(plan) ? peers + 1 : 1;
    default:
        return 0;
    }
}

/* Tracks 0 … peers - 1 send blocks to their owners, track `peers` combines; what follows spreads
 * or collects the combined blocks. */
static bool reducing_step(const coll_plan *plan, int track, coll_step *step)
{
    const int peers = plan->ranks - 1;
    const int gather = peers;
    if (track < peers) {
        step->action = COLL_ACTION_SEND;
        step->peer = peer_at(plan, track);
        step->block = step->peer;
        step->source = COLL_SPACE_INPUT;
        return true;
    }
    if (track == gather) {
        step->action = COLL_ACTION_GATHER;
        step->block = plan->rank;
        step->source = COLL_SPACE_INPUT;
        step->target = coll_plan_home(plan, plan->rank);
        step->final = true;
        return true;
    }
    const bool root_only = plan->kind == COLL_REDUCE;
    const int sends = !root_only ? peers : is_root(plan) ? 0 : 1;
    const int place = track - gather - 1;
    step->channel = 1;
    if (place < sends) {
        step->action = COLL_ACTION_SEND;
        step->peer = root_only ? plan->root : peer_at(plan, place);
        step->block = plan->rank;
        step->source = coll_plan_home(plan, plan->rank);
        step->after_track = gather;
        return true;
    }
    step->action = COLL_ACTION_COPY;
    step->peer = peer_at(plan, place - sends);
    step->block = step->peer;
    return true;
}

/* The first tracks send, the next ones receive, the last one moves what stays here. In place, an
 * all-to-all's block is sent before the peer's is written over it. */
static bool everybody_step(const coll_plan *plan, int track, coll_step *step)
{
    const int peers = plan->ranks - 1;
    const bool all_to_all = plan->kind == COLL_ALL_TO_ALL;
    step->source = COLL_SPACE_INPUT;
    step->block = plan->rank;
    if (track < peers) {
        step->action = COLL_ACTION_SEND;
        step->peer = peer_at(plan, track);
        step->block = all_to_all ? step->peer : plan->rank;
        return true;
    }
    if (track < 2 * peers) {
        step->action = COLL_ACTION_COPY;
        step->peer = peer_at(plan, track - peers);
        step->block = step->peer;
        step->after_track = all_to_all ? track - peers : -1;
        return true;
    }
    step->action = COLL_ACTION_MOVE;
    return true;
}

/* The last track makes the prefix, the others send. In place, it is written over what is sent: so each
 * byte goes to one peer after the other, and then it is combined. */
static bool scan_step(const coll_plan *plan, int track, coll_step *step)
{
    const int sends = plan->ranks - 1 - plan->rank;
    step->source = COLL_SPACE_INPUT;
    step->after_track = track - 1;
    if (track < sends) {
        step->action = COLL_ACTION_SEND;
        step->peer = plan->rank + 1 + track;
        return true;
    }
    step->group = COLL_GROUP_PREFIX;
    step->action = plan->rank > 0            ? COLL_ACTION_GATHER
                   : plan->kind == COLL_SCAN ? COLL_ACTION_MOVE
                                             : COLL_ACTION_FILL;
    return true;
}

static bool rooted_step(const coll_plan *plan, int track, coll_step *step)
{
    const bool root = is_root(plan);
    const bool gathers = plan->kind == COLL_GATHER;
    const bool by_rank = plan->kind != COLL_BROADCAST;
    step->source = COLL_SPACE_INPUT;
    if (root && track == plan->ranks - 1) {
        step->action = COLL_ACTION_MOVE;
        step->block = by_rank ? plan->rank : 0;
        return true;
    }
    step->action = root == gathers ? COLL_ACTION_COPY : COLL_ACTION_SEND;
    step->peer = root ? peer_at(plan, track) : plan->root;
    step->block = !by_rank ? 0 : root ? step->peer : plan->rank;
    return true;
}

bool coll_direct_step(const coll_plan *plan, int track, int index, coll_step *step)
{
    if (index > 0) {
        return false;
    }
    switch (plan->kind) {
    case COLL_ALL_REDUCE:
    case COLL_REDUCE:
    case COLL_REDUCE_SCATTER:
        return reducing_step(plan, track, step);
    case COLL_SCAN:
    case COLL_EXSCAN:
        return scan_step(plan, track, step);
    case COLL_ALL_GATHER:
    case COLL_ALL_TO_ALL:
        return everybody_step(plan, track, step);
    default:
        return rooted_step(plan, track, step);
    }
}
