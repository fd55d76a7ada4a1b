/* The tree: a single binomial tree; log2(n) steps deep, for latency across many ranks.
 *
 * Rank r's parent is r without its lowest set bit; its children are r + 1, r + 2, r + 4, … below
 * that bit. Child r + 2^t holds the combination of 2^t ranks that follow those r already has, so
 * adding the children on the right, smallest first, gives exactly the canonical order of
 * tree_order.h.
 *
 * All-reduce: up to rank 0, and down again, chunk by chunk. Broadcast: down from the root, with
 * ranks counted from it. Down, the child with the deepest subtree comes first. */
#include "plan.h"

/* Children of place r among n places; a child's place is r + (1 << t), t < the count. */
static int child_count(int place, int ranks)
{
    int count = 0;
    while ((place & (1 << count)) == 0 && place + (1 << count) < ranks) {
        count++;
    }
    return count;
}

static int parent_of(int place)
{
    return place & (place - 1);
}

int coll_binomial_track_count(const coll_plan *plan)
{
    if (plan->kind == COLL_BROADCAST) {
        const int place = (plan->rank - plan->root + plan->ranks) % plan->ranks;
        return 1 + child_count(place, plan->ranks);
    }
    return 2 * child_count(plan->rank, plan->ranks) + 2;
}

static bool broadcast_step(const coll_plan *plan, int track, coll_step *step)
{
    const int n = plan->ranks;
    const int place = (plan->rank - plan->root + n) % n;
    if (track == 0) {
        step->action = COLL_ACTION_COPY;
        step->peer = (parent_of(place) + plan->root) % n;
        return place != 0;
    }
    const int child = child_count(place, n) - track;
    step->action = COLL_ACTION_SEND;
    step->peer = (place + (1 << child) + plan->root) % n;
    step->from_input = place == 0;
    step->after_track = place == 0 ? -1 : 0;
    return true;
}

bool coll_binomial_step(const coll_plan *plan, int track, int index, coll_step *step)
{
    if (index > 0) {
        return false;
    }
    if (plan->kind == COLL_BROADCAST) {
        return broadcast_step(plan, track, step);
    }
    const int rank = plan->rank;
    const int children = child_count(rank, plan->ranks);
    const int up = children;       /* track that sends to the parent */
    const int down = children + 1; /* track that hears the result from it */
    if (track < children) {
        step->action = COLL_ACTION_COMBINE;
        step->peer = rank + (1 << track);
        step->from_input = track == 0;
        step->after_track = track - 1;
        return true;
    }
    if (track == up) {
        step->action = COLL_ACTION_SEND;
        step->peer = parent_of(rank);
        step->from_input = children == 0;
        step->after_track = children - 1;
        return rank != 0;
    }
    if (track == down) {
        step->action = COLL_ACTION_COPY;
        step->peer = parent_of(rank);
        return rank != 0;
    }
    const int child = children - 1 - (track - down - 1);
    step->action = COLL_ACTION_SEND;
    step->peer = rank + (1 << child);
    step->after_track = rank == 0 ? children - 1 : down;
    return true;
}
