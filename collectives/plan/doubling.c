/* Recursive doubling: all-reduce in log2(n) exchanges of the whole vector, in canonical order.
 * Fewest rounds of all, so best while a message costs more than its bytes.
 * Called through the table of plan.c.
 *
 *     4 ranks     round 0: 0⇄1 2⇄3     both have r0+r1, or r2+r3
 *                 round 1: 0⇄2 1⇄3     all have (r0+r1)+(r2+r3)
 *
 * At level t the aligned groups of 2^t ranks merge two by two, and each rank swaps its group's
 * value with the rank of the other group that has the same offset, r XOR 2^t; the lower group's
 * value is the left operand, so all end with the same bits.
 *
 * Where n is no power of two, the last group of a level may be short. Its ranks all have a partner
 * in the full group to their left, but not the other way round:
 *
 *     5 ranks     0⇄1 2⇄3            4 waits
 *                 0⇄2 1⇄3            4 waits, but has sent r4 to 0 already;
 *                 0⇄4                0 has passed r4 on to 1 and 2, and 1 to 3
 *
 * So the short group's value is spread inside the full group by a binomial tree, which goes on
 * beside the exchanges; each rank keeps it in SCRATCH and merges it when its own group is ready.
 * This happens to a rank on one level at most, since the merged group is the last one ever after.
 *
 * R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations in
 * MPICH (2005), for powers of two; the order for other numbers is ours. */
#include "plan/generators.h"

enum { SEND_TRACK = 0, RECEIVE_TRACK, SPREAD_TRACK, CHILD_TRACK };

/* A level at which this rank's group merges with another. */
typedef struct level {
    int bit;         /* 2^t */
    int begin;       /* of the own group */
    int other_ranks; /* in the other group */
    bool other_left;
    bool spread; /* the other group is short: its value comes by way of SCRATCH */
} level;

/* Merge number `index` of this rank. */
static bool level_at(const coll_plan *plan, int index, level *found)
{
    for (int bit = 1; bit < plan->ranks; bit *= 2) {
        const int begin = plan->rank & -bit;
        const int other = begin ^ bit;
        if (other >= plan->ranks || index-- > 0) {
            continue;
        }
        const int rest = plan->ranks - other;
        *found = (level){.bit = bit,
                         .begin = begin,
                         .other_ranks = rest < bit ? rest : bit,
                         .other_left = other < begin,
                         .spread = rest < bit};
        return true;
    }
    return false;
}

/* The merge that is spread: its number, or that after the last merge. */
static int spread_index(const coll_plan *plan, level *found)
{
    int index = 0;
    *found = (level){.bit = 0};
    while (level_at(plan, index, found) && !found->spread) {
        index++;
    }
    return index;
}

/* The offset that offset receives the short group's value from; -1: from the group itself. */
static int spread_parent(const level *at, int offset)
{
    int reach = at->other_ranks;
    if (offset < reach) {
        return -1;
    }
    while (2 * reach <= offset) {
        reach *= 2;
    }
    return offset - reach;
}

/* Child number `index` of an offset, those with the longest way first; -1: no more. */
static int spread_child(const level *at, int offset, int index)
{
    int reach = at->other_ranks;
    while (reach <= offset) {
        reach *= 2;
    }
    for (; offset + reach < at->bit; reach *= 2) {
        if (index-- == 0) {
            return offset + reach;
        }
    }
    return -1;
}

int coll_doubling_track_count(const coll_plan *plan)
{
    level at;
    int children = 0;
    if (level_at(plan, spread_index(plan, &at), &at)) {
        while (spread_child(&at, plan->rank - at.begin, children) >= 0) {
            children++;
        }
    }
    return CHILD_TRACK + children;
}

static bool spread_step(const coll_plan *plan, int track, coll_step *step)
{
    level at;
    if (!level_at(plan, spread_index(plan, &at), &at)) {
        return false;
    }
    const int offset = plan->rank - at.begin;
    step->channel = 1;
    step->source = COLL_SPACE_SCRATCH;
    step->target = COLL_SPACE_SCRATCH;
    if (track >= CHILD_TRACK) {
        step->action = COLL_ACTION_SEND;
        step->peer = at.begin + spread_child(&at, offset, track - CHILD_TRACK);
        step->after_track = SPREAD_TRACK;
        return true;
    }
    const int parent = spread_parent(&at, offset);
    step->action = COLL_ACTION_COPY;
    step->peer = parent < 0 ? plan->rank + at.bit : at.begin + parent;
    step->channel = parent < 0 ? 0 : 1;
    return true;
}

/* The steps of RECEIVE_TRACK: one per merge, but for the one that is spread, where a rank that has
 * a partner in the short group first sends its value to it: MERGE would write over it. */
static bool receive_step(const coll_plan *plan, int index, coll_step *step)
{
    level at;
    level last;
    const int spread = spread_index(plan, &at);
    const bool answers = at.spread && plan->rank - at.begin < at.other_ranks;
    const int number = index > spread && answers ? index - 1 : index;
    if (!level_at(plan, number, &at)) {
        return false;
    }
    step->peer = plan->rank ^ at.bit;
    step->source = number == 0 ? COLL_SPACE_INPUT : COLL_SPACE_OUTPUT;
    if (index == spread && answers) {
        step->action = COLL_ACTION_SEND;
        return true;
    }
    step->action = at.spread ? COLL_ACTION_MERGE : COLL_ACTION_COMBINE;
    step->incoming_left = at.other_left;
    step->final = !level_at(plan, number + 1, &last);
    /* The own value has left before the merged one is written over it. */
    step->after_track = at.spread ? SPREAD_TRACK : SEND_TRACK;
    step->after_step = at.spread ? 0 : number > spread ? number - 1 : number;
    return true;
}

static bool send_step(const coll_plan *plan, int index, coll_step *step)
{
    level at;
    const int spread = spread_index(plan, &at);
    const bool answers = at.spread && plan->rank - at.begin < at.other_ranks;
    const int number = index >= spread ? index + 1 : index; /* that one is in RECEIVE_TRACK */
    if (!level_at(plan, number, &at)) {
        return false;
    }
    step->action = COLL_ACTION_SEND;
    step->peer = plan->rank ^ at.bit;
    step->source = number == 0 ? COLL_SPACE_INPUT : COLL_SPACE_OUTPUT;
    step->after_track = number == 0 ? -1 : RECEIVE_TRACK;
    step->after_step = number - 1 + (number > spread && answers ? 1 : 0);
    return true;
}

bool coll_doubling_step(const coll_plan *plan, int track, int index, coll_step *step)
{
    if (track == SEND_TRACK) {
        return send_step(plan, index, step);
    }
    if (track == RECEIVE_TRACK) {
        return receive_step(plan, index, step);
    }
    return index == 0 && spread_step(plan, track, step);
}
