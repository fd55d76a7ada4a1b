/* Direct: every rank owns one block, and talks to everybody.
 *
 * All-reduce: each rank sends every block to its owner (lane 0); the owner combines all ranks'
 * operands in canonical order and sends the result to everybody (lane 1). Two steps deep for any
 * number of ranks. This is the form for memory that peers cannot reach; over arenas the same
 * algorithm is in arena_path.c, with loads and stores in the place of streams and the same bits.
 *
 * Broadcast: the root sends to each. All-gather: each sends to each. Peers are taken in the order
 * rank + 1, rank + 2, … so that not everybody starts with the same one. */
#include "plan.h"

int coll_direct_track_count(const coll_plan *plan)
{
    const int peers = plan->ranks - 1;
    switch (plan->kind) {
    case COLL_ALL_REDUCE:
        return 3 * peers + 1;
    case COLL_ALL_GATHER:
        return 2 * peers;
    case COLL_BROADCAST:
        return plan->rank == plan->root ? peers : 1;
    default:
        break;
    }
    return 0;
}

static int peer_at(const coll_plan *plan, int place)
{
    return (plan->rank + 1 + place) % plan->ranks;
}

static bool all_reduce_step(const coll_plan *plan, int track, coll_step *step)
{
    const int peers = plan->ranks - 1;
    const int gather = peers; /* track of the owner's combination */
    if (track < peers) {
        step->action = COLL_ACTION_SEND;
        step->peer = peer_at(plan, track);
        step->block = step->peer;
        step->from_input = true;
        return true;
    }
    if (track == gather) {
        step->action = COLL_ACTION_GATHER;
        step->block = plan->rank;
        step->from_input = true;
        return true;
    }
    step->lane = 1;
    if (track <= gather + peers) {
        step->action = COLL_ACTION_SEND;
        step->peer = peer_at(plan, track - gather - 1);
        step->block = plan->rank;
        step->after_track = gather;
        return true;
    }
    step->action = COLL_ACTION_COPY;
    step->peer = peer_at(plan, track - gather - 1 - peers);
    step->block = step->peer;
    return true;
}

bool coll_direct_step(const coll_plan *plan, int track, int index, coll_step *step)
{
    const int peers = plan->ranks - 1;
    if (index > 0) {
        return false;
    }
    if (plan->kind == COLL_ALL_REDUCE) {
        return all_reduce_step(plan, track, step);
    }
    if (plan->kind == COLL_BROADCAST) {
        const bool root = plan->rank == plan->root;
        step->action = root ? COLL_ACTION_SEND : COLL_ACTION_COPY;
        step->peer = root ? peer_at(plan, track) : plan->root;
        step->from_input = root;
        return true;
    }
    step->action = track < peers ? COLL_ACTION_SEND : COLL_ACTION_COPY;
    step->peer = peer_at(plan, track < peers ? track : track - peers);
    step->block = track < peers ? plan->rank : step->peer;
    return true;
}
