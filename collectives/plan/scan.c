/* Scans by recursive doubling: log2(n) rounds, rounded up, each prefix in canonical order; the form in which
 * all algorithms but ring, tree and direct scan.
 * Called through the table of plan.c.
 *
 *     6 ranks     round 0: 0⇄1 2⇄3 4→5        prefixes inside pairs
 *                 round 1: 0→2 1→3             those inside fours; 4 and 5 have no partner
 *                 round 2: 0→4 1→5
 *
 * At level t the aligned groups of 2^t ranks merge two by two. A rank has two values: its prefix, the operands
 * of its group up to its own, and the total of its group. It sends its total to the rank of the other group with
 * the same offset, r XOR 2^t. In the upper group that comes before the prefix, on its left, and before the total; in
 * the lower one it comes after the total. The prefix of r + 1 = 2^a + 2^b + … ranks is so the sum of
 * groups of these sizes, added up from the right: the canonical order of as many ranks.
 *
 * A total that no rank follows is of no use, so it is neither sent nor kept: there the lower group only sends. An
 * exclusive prefix is that without the own operand, and empty until the first total comes. The
 * prefix is in OUTPUT, the total in SCRATCH, and each in INPUT as long as it is the own operand.
 *
 * R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations in
 * MPICH (2005) has the exchanges; what is left out of them is ours. */
#include "plan/generators.h"

/* MOVE_TRACK is rank 0's, whose prefix is its operand, or nothing. */
enum { SEND_TRACK = 0, RECEIVE_TRACK, MOVE_TRACK, TRACKS };

/* What this rank does at the level of `bit`. */
typedef struct level {
    int peer;
    bool upper; /* in the upper of the two groups */
    bool keeps; /* the merged group's total */
    bool sends;
    bool receives;
} level;

/* What has happened before a level. */
typedef struct history {
    int sends;
    int receives;
    bool has_prefix; /* something came from a lower group */
    bool is_split;   /* something came from an upper group: prefix and total differ */
} history;

static level level_at(const coll_plan *plan, int bit)
{
    const int merged = plan->rank & -(2 * bit);
    level at = {.peer = plan->rank ^ bit,
                .upper = (plan->rank & bit) != 0,
                .keeps = merged + 2 * bit < plan->ranks};
    at.sends = at.upper ? at.keeps : at.peer < plan->ranks;
    at.receives = at.upper || at.keeps;
    return at;
}

/* The level of this rank's send, or receive, number `index`; false where there is none. */
static bool find(const coll_plan *plan, bool sends, int index, level *at, history *before)
{
    *before = (history){.sends = 0};
    for (int bit = 1; bit < plan->ranks; bit *= 2) {
        *at = level_at(plan, bit);
        if ((sends && at->sends && before->sends == index) ||
            (!sends && at->receives && before->receives == index)) {
            return true;
        }
        before->sends += at->sends ? 1 : 0;
        before->receives += at->receives ? 1 : 0;
        before->has_prefix = before->has_prefix || at->upper;
        before->is_split = before->is_split || (at->receives && !at->upper);
    }
    return false;
}

static coll_space total_in(const coll_plan *plan, const history *before)
{
    return before->receives == 0                           ? COLL_SPACE_INPUT
           : plan->kind == COLL_EXSCAN || before->is_split ? COLL_SPACE_SCRATCH
                                                           : COLL_SPACE_OUTPUT;
}

int coll_scan_track_count(const coll_plan *plan)
{
    return plan->rank == 0 ? TRACKS : TRACKS - 1;
}

static bool send_step(const coll_plan *plan, int index, coll_step *step)
{
    level at;
    history before;
    if (!find(plan, true, index, &at, &before)) {
        return false;
    }
    step->action = COLL_ACTION_SEND;
    step->peer = at.peer;
    step->source = total_in(plan, &before);
    step->after_track = before.receives == 0 ? -1 : RECEIVE_TRACK;
    step->after_step = before.receives - 1;
    return true;
}

/* What was sent so far has left before it is written over. */
static bool receive_step(const coll_plan *plan, int index, coll_step *step)
{
    level at;
    history before;
    if (!find(plan, false, index, &at, &before)) {
        return false;
    }
    const int sends = before.sends + (at.sends ? 1 : 0);
    step->action = COLL_ACTION_COMBINE;
    step->peer = at.peer;
    step->after_track = sends == 0 ? -1 : SEND_TRACK;
    step->after_step = sends - 1;
    step->total = total_in(plan, &before);
    if (!at.upper) {
        step->source = step->total;
        step->target = COLL_SPACE_SCRATCH;
        return true;
    }
    const bool exclusive = plan->kind == COLL_EXSCAN;
    step->incoming_left = true;
    step->source = before.has_prefix ? COLL_SPACE_OUTPUT : COLL_SPACE_INPUT;
    step->action = exclusive && !before.has_prefix ? COLL_ACTION_COPY : COLL_ACTION_COMBINE;
    step->adds_total = at.keeps && (exclusive || before.is_split);
    return true;
}

bool coll_scan_step(const coll_plan *plan, int track, int index, coll_step *step)
{
    level at;
    history all;
    if (track == SEND_TRACK) {
        return send_step(plan, index, step);
    }
    if (track == RECEIVE_TRACK) {
        return receive_step(plan, index, step);
    }
    (void)find(plan, true, plan->ranks, &at, &all);
    step->action = plan->kind == COLL_EXSCAN ? COLL_ACTION_FILL : COLL_ACTION_MOVE;
    step->source = COLL_SPACE_INPUT;
    step->after_track = SEND_TRACK; /* the last send comes after all that reads the operand */
    step->after_step = all.sends - 1;
    return index == 0;
}
