/* The ring: everybody talks to two neighbours only, and each link carries 2 (n-1)/n of the bytes.
 *
 * All-reduce: block b starts at rank b+1 and goes round once, each rank adding its own operand on
 * the right, until it is complete at rank b; then it goes round again to be copied. Round k sends
 * block rank-1-k and receives block rank-2-k; the first n-1 rounds combine, the others copy.
 *
 * Broadcast: a chain from the root. All-gather: the second half of the all-reduce. */
#include "plan.h"

enum { SEND_TRACK = 0, RECEIVE_TRACK = 1, TRACKS = 2 };

int coll_ring_track_count(const coll_plan *plan)
{
    (void)plan;
    return TRACKS;
}

static int wrap(int index, int ranks)
{
    const int rest = index % ranks;
    return rest < 0 ? rest + ranks : rest;
}

static bool chain_step(const coll_plan *plan, int track, int index, coll_step *step)
{
    const int n = plan->ranks;
    const int place = wrap(plan->rank - plan->root, n);
    if (index > 0) {
        return false;
    }
    if (track == SEND_TRACK) {
        step->action = COLL_ACTION_SEND;
        step->peer = wrap(plan->rank + 1, n);
        step->from_input = place == 0;
        step->after_track = place == 0 ? -1 : RECEIVE_TRACK;
        return place < n - 1;
    }
    step->action = COLL_ACTION_COPY;
    step->peer = wrap(plan->rank - 1, n);
    return place > 0;
}

bool coll_ring_step(const coll_plan *plan, int track, int index, coll_step *step)
{
    const int n = plan->ranks;
    if (plan->kind == COLL_BROADCAST) {
        return chain_step(plan, track, index, step);
    }
    const bool reduces = plan->kind == COLL_ALL_REDUCE;
    const int rounds = reduces ? 2 * (n - 1) : n - 1;
    const int first = reduces ? plan->rank - 1 : plan->rank; /* the block that starts here */
    if (index >= rounds) {
        return false;
    }
    if (track == SEND_TRACK) {
        step->action = COLL_ACTION_SEND;
        step->peer = wrap(plan->rank + 1, n);
        step->block = wrap(first - index, n);
        step->from_input = reduces && index == 0;
        step->after_track = index == 0 ? -1 : RECEIVE_TRACK;
        step->after_step = index - 1;
        return true;
    }
    const bool combines = reduces && index < n - 1;
    step->action = combines ? COLL_ACTION_COMBINE : COLL_ACTION_COPY;
    step->peer = wrap(plan->rank - 1, n);
    step->block = wrap(first - 1 - index, n);
    step->from_input = combines;
    step->incoming_left = combines;
    return true;
}
