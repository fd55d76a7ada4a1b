/* Dissemination: all-gather in log2(n) rounds, rounded up, for any number of ranks; the form in
 * which recursive_doubling and halving_doubling gather.
 * Called through the table of plan.c.
 *
 * After round k a rank has 2^(k+1) blocks: its own and those of the ranks that follow it, modulo n.
 * In round k it sends all it has (in the last round only what is missing) to rank - 2^k and
 * receives as much from rank + 2^k. With 5 ranks, what rank 0 has:
 *
 *     0     →  0 1  (from 1)  →  0 1 2 3  (from 2)  →  0 1 2 3 4  (from 4)
 *
 * Ranges that run over the end are sent as two messages.
 *
 * Halving_doubling's broadcast is the same after the root has dealt one block to each rank (channel
 * 0): the root sends each byte once or twice, whatever n is. It needs nothing back, so nothing is
 * sent to it.
 *
 * J. Bruck et al.: Efficient algorithms for all-to-all communications in multiport message-passing
 * systems (1997). */
#include "plan/generators.h"

enum { SEND_TRACK = 0, RECEIVE_TRACK, DEAL_TRACK };

/* One message: blocks [block, block + count) of the round in which 2^k is `reach`. */
typedef struct part {
    int reach;
    int block;
    int count;
} part;

/* Message number `index` in which the blocks from rank + shift × reach on travel. */
static bool part_at(const coll_plan *plan, int shift, int index, part *found)
{
    const int n = plan->ranks;
    for (int reach = 1; reach < n; reach *= 2) {
        const int count = reach < n - reach ? reach : n - reach;
        const int block = (plan->rank + shift * reach) % n;
        const int head = block + count > n ? n - block : count;
        const int parts = head < count ? 2 : 1;
        if (index < parts) {
            *found = (part){.reach = reach,
                            .block = index == 0 ? block : 0,
                            .count = index == 0 ? head : count - head};
            return true;
        }
        index -= parts;
    }
    return false;
}

/* How many messages come in before the round of `reach`. */
static int parts_before(const coll_plan *plan, int reach)
{
    part at;
    int count = 0;
    while (part_at(plan, 1, count, &at) && at.reach < reach) {
        count++;
    }
    return count;
}

static bool deals(const coll_plan *plan)
{
    return plan->kind == COLL_BROADCAST;
}

static bool is_dealer(const coll_plan *plan)
{
    return deals(plan) && plan->rank == plan->root;
}

int coll_dissemination_track_count(const coll_plan *plan)
{
    return is_dealer(plan) ? DEAL_TRACK + plan->ranks - 1 : DEAL_TRACK;
}

static bool send_step(const coll_plan *plan, int index, coll_step *step)
{
    part at;
    if (!part_at(plan, 0, index, &at)) {
        return false;
    }
    step->action = COLL_ACTION_SEND;
    step->peer = (plan->rank - at.reach + plan->ranks) % plan->ranks;
    step->block = at.block;
    step->block_count = at.count;
    if (is_dealer(plan) || (at.reach == 1 && !deals(plan))) {
        step->source = COLL_SPACE_INPUT;
        return true;
    }
    /* RECEIVE_TRACK's step 0 is the own block, the others are messages. */
    step->after_track = RECEIVE_TRACK;
    step->after_step = parts_before(plan, at.reach);
    return true;
}

/* Nothing is sent to the dealer: those messages are left out. */
static bool skip_dealer(const coll_plan *plan, int *index)
{
    part at;
    if (!deals(plan)) {
        return true;
    }
    for (int i = 0; i <= *index; i++) {
        if (!part_at(plan, 0, i, &at)) {
            return false;
        }
        if ((plan->rank - at.reach + plan->ranks) % plan->ranks == plan->root) {
            (*index)++;
        }
    }
    return true;
}

static bool receive_step(const coll_plan *plan, int index, coll_step *step)
{
    part at;
    if (index == 0) {
        const bool receives = deals(plan) && !is_dealer(plan);
        step->action = receives ? COLL_ACTION_COPY : COLL_ACTION_MOVE;
        step->peer = receives ? plan->root : 0;
        step->block = is_dealer(plan) ? 0 : plan->rank;
        step->block_count = is_dealer(plan) ? plan->ranks : 1;
        step->source = COLL_SPACE_INPUT;
        return true;
    }
    if (is_dealer(plan) || !part_at(plan, 1, index - 1, &at)) {
        return false;
    }
    step->action = COLL_ACTION_COPY;
    step->peer = (plan->rank + at.reach) % plan->ranks;
    step->block = at.block;
    step->block_count = at.count;
    step->channel = deals(plan) ? 1 : 0;
    return true;
}

bool coll_dissemination_step(const coll_plan *plan, int track, int index, coll_step *step)
{
    if (track == SEND_TRACK) {
        step->channel = deals(plan) ? 1 : 0;
        return skip_dealer(plan, &index) && send_step(plan, index, step);
    }
    if (track == RECEIVE_TRACK) {
        return receive_step(plan, index, step);
    }
    step->action = COLL_ACTION_SEND;
    step->peer = (plan->root + 1 + track - DEAL_TRACK) % plan->ranks;
    step->block = step->peer;
    step->source = COLL_SPACE_INPUT;
    return index == 0;
}
