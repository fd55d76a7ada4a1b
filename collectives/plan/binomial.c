/* The binomial tree: log2(n) messages deep, with any root; the form in which recursive doubling and
 * tree serve the rooted kinds.
 * Called through the table of plan.c.
 *
 * Ranks pair up as in the canonical order of tree_order.h: at level t, the aligned groups
 * [j 2^t, (j+1) 2^t), cut off at n, merge two by two, and one without a partner waits. Each group
 * has a holder: the root if it is inside, else its lowest rank. With 6 ranks and root 4:
 *
 *     level 0:  0 1 2 3 4 5        groups of one
 *     level 1:  0─1 2─3 4─5        holders 0, 2, 4
 *     level 2:  0───2   4          holders 0, 4 (waits)
 *     level 3:  0───────4          holder 4
 *
 * Reduce: the holder that gives way sends what its group has combined to the other; the lower
 * group's is the left operand, which is exactly the canonical order. Broadcast: the same merges
 * backwards. Gather and scatter: a group's parts are contiguous blocks, sent as one message. */
#include "plan/generators.h"

/* The first rank of the group of rank at a level. */
static int group_begin(int rank, int level)
{
    return rank >> level << level;
}

static int holder_of(const coll_plan *plan, int begin, int level)
{
    return group_begin(plan->root, level) == begin ? plan->root : begin;
}

static int group_end(const coll_plan *plan, int begin, int level)
{
    const int end = begin + (1 << level);
    return end < plan->ranks ? end : plan->ranks;
}

/* A merge in which this rank takes part as a holder. */
typedef struct merge {
    int level;
    int peer;        /* the other group's holder */
    int peer_begin;  /* the other group's first rank */
    bool gives_way;  /* the peer holds the merged group */
    bool peer_lower; /* the peer's group has the lower ranks */
} merge;

/* The first merge of this rank at `level` or above; false when there is none. */
static bool next_merge(const coll_plan *plan, int level, merge *found)
{
    const int rank = plan->rank;
    for (; (1 << level) < plan->ranks; level++) {
        const int begin = group_begin(rank, level);
        if (holder_of(plan, begin, level) != rank) {
            return false;
        }
        const int other = begin ^ 1 << level;
        if (other >= plan->ranks) {
            continue;
        }
        *found = (merge){.level = level,
                         .peer = holder_of(plan, other, level),
                         .peer_begin = other,
                         .peer_lower = other < begin};
        found->gives_way = holder_of(plan, group_begin(rank, level + 1), level + 1) != rank;
        return true;
    }
    return false;
}

/* Merge number `index` of this rank, from the leaves up; only the last one may give way. */
static bool merge_at(const coll_plan *plan, int index, merge *found)
{
    int level = 0;
    for (int i = 0; next_merge(plan, level, found); i++) {
        if (i == index) {
            return true;
        }
        if (found->gives_way) {
            return false;
        }
        level = found->level + 1;
    }
    return false;
}

static int merge_count(const coll_plan *plan)
{
    merge found;
    int count = 0;
    while (merge_at(plan, count, &found)) {
        count++;
    }
    return count;
}

static bool gives_way(const coll_plan *plan)
{
    return plan->rank != plan->root;
}

static bool collects(const coll_plan *plan)
{
    return plan->kind == COLL_GATHER;
}

/* Reduce: a track for each merge. Gather: everything comes in on one track and goes up on another.
 * Broadcast and scatter: one track receives the part, one for each merge below passes it on, and
 * the last one keeps what is this rank's. */
int coll_binomial_track_count(const coll_plan *plan)
{
    const int merges = merge_count(plan);
    if (plan->kind == COLL_REDUCE) {
        return merges;
    }
    return collects(plan) ? 2 : merges + 2 - (gives_way(plan) ? 1 : 0);
}

static bool reduce_step(const coll_plan *plan, int track, coll_step *step)
{
    merge at;
    merge above;
    if (!merge_at(plan, track, &at)) {
        return false;
    }
    step->peer = at.peer;
    step->after_track = track - 1;
    step->source = track == 0 ? COLL_SPACE_INPUT : coll_plan_home(plan, 0);
    step->action = at.gives_way ? COLL_ACTION_SEND : COLL_ACTION_COMBINE;
    step->target = coll_plan_home(plan, 0);
    step->incoming_left = at.peer_lower;
    step->final = !gives_way(plan) && !merge_at(plan, track + 1, &above);
    return true;
}

/* The blocks of a group. */
static void set_range(const coll_plan *plan, int begin, int level, coll_step *step)
{
    step->block = begin;
    step->block_count = group_end(plan, begin, level) - begin;
}

static bool gather_step(const coll_plan *plan, int track, int index, coll_step *step)
{
    merge at;
    const int received = merge_count(plan) - (gives_way(plan) ? 1 : 0);
    if (track == 0 && index == 0 && received > 0) {
        step->action = COLL_ACTION_MOVE;
        step->block = plan->rank;
        step->source = COLL_SPACE_INPUT;
        step->target = gives_way(plan) ? COLL_SPACE_SCRATCH : COLL_SPACE_OUTPUT;
        return true;
    }
    if (track == 0 && index <= received && merge_at(plan, index - 1, &at)) {
        step->action = COLL_ACTION_COPY;
        step->peer = at.peer;
        set_range(plan, at.peer_begin, at.level, step);
        step->target = gives_way(plan) ? COLL_SPACE_SCRATCH : COLL_SPACE_OUTPUT;
        return true;
    }
    if (track == 0 || index > 0 || !merge_at(plan, received, &at)) {
        return false;
    }
    step->action = COLL_ACTION_SEND;
    step->peer = at.peer;
    set_range(plan, group_begin(plan->rank, at.level), at.level, step);
    step->source = received > 0 ? COLL_SPACE_SCRATCH : COLL_SPACE_INPUT;
    step->after_track = received > 0 ? 0 : -1;
    step->after_step = received;
    return true;
}

/* Downwards, the largest group first: its way is the longest. */
static bool spread_step(const coll_plan *plan, int track, coll_step *step)
{
    merge at;
    const bool by_rank = plan->kind == COLL_SCATTER;
    const int sends = merge_count(plan) - (gives_way(plan) ? 1 : 0);
    const coll_space held = !gives_way(plan)       ? COLL_SPACE_INPUT
                            : by_rank && sends > 0 ? COLL_SPACE_SCRATCH
                                                   : COLL_SPACE_OUTPUT;
    if (track == 0) {
        if (!gives_way(plan) || !merge_at(plan, sends, &at)) {
            return false;
        }
        step->action = COLL_ACTION_COPY;
        step->peer = at.peer;
        step->target = held;
        if (by_rank) {
            set_range(plan, group_begin(plan->rank, at.level), at.level, step);
        }
        return true;
    }
    step->source = held;
    step->after_track = gives_way(plan) ? 0 : -1;
    if (track <= sends && merge_at(plan, sends - track, &at)) {
        step->action = COLL_ACTION_SEND;
        step->peer = at.peer;
        if (by_rank) {
            set_range(plan, at.peer_begin, at.level, step);
        }
        return true;
    }
    step->action = COLL_ACTION_MOVE;
    step->block = by_rank ? plan->rank : 0;
    return held != COLL_SPACE_OUTPUT;
}

bool coll_binomial_step(const coll_plan *plan, int track, int index, coll_step *step)
{
    if (collects(plan)) {
        return gather_step(plan, track, index, step);
    }
    if (index > 0) {
        return false;
    }
    return plan->kind == COLL_REDUCE ? reduce_step(plan, track, step)
                                     : spread_step(plan, track, step);
}
