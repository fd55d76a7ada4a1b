/* The tree: a single binomial tree; log2(n) steps deep, for latency across many ranks.
 *
 * Rank r's parent is r without its lowest set bit; its children are r + 1, r + 2, r + 4, … below
 * that bit. Child r + 2^t holds the combination of 2^t ranks that follow those r already has, so
 * adding the children on the right, smallest first, gives exactly the canonical order of
 * tree_order.h. All-reduce: up to rank 0, and down again, chunk by chunk; down, the child with the
 * deepest subtree comes first. */
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

int coll_tree_track_count(const coll_plan *plan)
{
    return 2 * child_count(plan->rank, plan->ranks) + 2;
}

bool coll_tree_step(const coll_plan *plan, int track, int index, coll_step *step)
{
    if (index > 0) {
        return false;
    }
    const int rank = plan->rank;
    const int children = child_count(rank, plan->ranks);
    const int up = children;       /* track that sends to the parent */
    const int down = children + 1; /* track that hears the result from it */
    if (track < children) {
        step->action = COLL_ACTION_COMBINE;
        step->peer = rank + (1 << track);
        step->source = track == 0 ? COLL_SPACE_INPUT : COLL_SPACE_OUTPUT;
        step->final = rank == 0 && track == children - 1;
        step->after_track = track - 1;
        return true;
    }
    if (track == up) {
        step->action = COLL_ACTION_SEND;
        step->peer = parent_of(rank);
        step->source = children == 0 ? COLL_SPACE_INPUT : COLL_SPACE_OUTPUT;
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
