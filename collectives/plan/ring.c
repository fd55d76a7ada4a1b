/* The ring: every rank sends to the next one only, and receives from the one before.
 *
 *      ┌─► rank 0 ──► rank 1 ──► rank 2 ─┐
 *      └─────────────────────────────────┘
 *
 * All-reduce. Each of n ranks has a vector, its operand, and all get the sum of the n vectors. (Or
 * what another reduction makes of them: "adds" stands for any.) The vector is cut into n blocks.
 * Block b starts at rank b+1 and goes round once: each rank adds its own operand on the right, until
 * the block is complete at rank b. That is a reduce-scatter: each rank has one block of the sum.
 * Then the block goes round again to be copied, which is an all-gather. All n blocks travel at the
 * same time, each one link behind the next, so every link is busy in every round. With 3 ranks and
 * blocks A B C (A0 is rank 0's operand of block A):
 *
 *     round    rank 0 sends to 1    rank 1 sends to 2    rank 2 sends to 0
 *       0      C0                   A1                   B2                   reduce-scatter
 *       1      B2+B0                C0+C1                A1+A2
 *              after it rank 0 has A1+A2+A0 = A, rank 1 B2+B0+B1 = B, rank 2 C0+C1+C2 = C
 *       2      A                    B                    C                    all-gather
 *       3      C                    A                    B
 *
 * In round k a rank sends block rank-1-k and receives block rank-2-k (both modulo n). The first n-1
 * rounds combine, the others copy. (An all-gather alone begins with the rank's own block: it sends
 * rank-k and receives rank-1-k.) The order of block b is ((r[b+1] + r[b+2]) + …) + r[b]: fixed,
 * the same on every rank, but another one for each block and not the canonical order.
 *
 * Each link carries 2 (n-1)/n of the vector's bytes, in 2 (n-1) rounds. In no all-reduce does the
 * busiest rank send less. So the ring is best where bytes cost more than messages.
 *
 * Broadcast is a chain from the root on, reduce a chain that ends at the root,
 * ((r[root+1] + r[root+2]) + …) + r[root]. A scan's chain goes from rank 0 to the last,
 * (r0 + r1) + r2 and so on, and each rank passes on the sum up to its own operand. All of them are
 * pipelined: a rank passes on a chunk, which is a piece of a block, while the next one still comes.
 *
 * The code. This file computes what a rank does, as steps; the transports do it. plan.h explains
 * tracks, spaces and the fields of a step. A field that is not set here has the default of
 * coll_plan_step in plan.c, which calls this file through its table. round_step is the whole
 * all-reduce.
 *
 * P. Patarasuk, X. Yuan: Bandwidth optimal all-reduce algorithms for clusters of workstations.
 * Journal of Parallel and Distributed Computing 69 (2009). */
#include "common/kinds.h"
#include "plan/generators.h"

/* Sending and receiving run side by side. A send follows the receive of the round before, chunk by
 * chunk. MOVE_TRACK puts this rank's own block, or the first value of an exclusive scan, into its
 * place. */
enum { SEND_TRACK = 0, RECEIVE_TRACK = 1, MOVE_TRACK = 2, TRACKS = 3 };

int coll_ring_track_count(const coll_plan *plan)
{
    const bool moves = plan->kind == COLL_ALL_GATHER ||
                       (plan->kind == COLL_BROADCAST && plan->rank == plan->root) ||
                       (coll_kind_is_scan(plan->kind) && plan->rank == 0);
    return moves ? TRACKS : TRACKS - 1;
}

static int wrap(int index, int ranks)
{
    const int rest = index % ranks;
    return rest < 0 ? rest + ranks : rest;
}

/* Rounds of which the first `combining` combine; `first` is the block that this rank starts. What
 * comes in is the left operand: it has the ranks before this one. */
static bool round_step(const coll_plan *plan, int track, int round, coll_step *step)
{
    const int n = plan->ranks;
    const int combining = plan->kind == COLL_ALL_GATHER ? 0 : n - 1;
    const int copying = plan->kind == COLL_REDUCE_SCATTER ? 0 : n - 1;
    const int first = combining > 0 ? plan->rank - 1 : plan->rank;
    if (round >= combining + copying) {
        return false;
    }
    if (track == SEND_TRACK) {
        step->action = COLL_ACTION_SEND;
        step->peer = wrap(plan->rank + 1, n);
        step->block = wrap(first - round, n);
        step->source = round == 0 ? COLL_SPACE_INPUT : coll_plan_home(plan, step->block);
        step->after_track = round == 0 ? -1 : RECEIVE_TRACK;
        step->after_step = round - 1;
        return true;
    }
    /* OUTPUT[block] = what came in + INPUT[block], or what came in where it is only copied: so the
     * send of the next round takes it from OUTPUT. (coll_plan_home: in a reduce-scatter, OUTPUT has
     * room for the own block only. The others are in SCRATCH.) */
    const bool combines = round < combining;
    step->action = combines ? COLL_ACTION_COMBINE : COLL_ACTION_COPY;
    step->peer = wrap(plan->rank - 1, n);
    step->block = wrap(first - 1 - round, n);
    step->source = COLL_SPACE_INPUT;
    step->target = coll_plan_home(plan, step->block);
    step->incoming_left = true;
    step->final = round == combining - 1;
    return true;
}

/* Broadcast, reduce and scans: from the first place of a chain to the last. An exclusive scan passes
 * on the sum that it keeps in SCRATCH, because OUTPUT lacks the own operand. */
static bool chain_step(const coll_plan *plan, int track, coll_step *step)
{
    const int n = plan->ranks;
    const bool reduces = plan->kind == COLL_REDUCE;
    const bool exclusive = plan->kind == COLL_EXSCAN;
    const int place = coll_kind_is_scan(plan->kind)
                          ? plan->rank
                          : wrap(plan->rank - plan->root - (reduces ? 1 : 0), n);
    if (track == SEND_TRACK) {
        step->action = COLL_ACTION_SEND;
        step->peer = wrap(plan->rank + 1, n);
        step->source = place == 0  ? COLL_SPACE_INPUT
                       : exclusive ? COLL_SPACE_SCRATCH
                                   : coll_plan_home(plan, 0);
        step->after_track = place == 0 ? -1 : RECEIVE_TRACK;
        return place < n - 1;
    }
    step->action = reduces || plan->kind == COLL_SCAN ? COLL_ACTION_COMBINE : COLL_ACTION_COPY;
    step->peer = wrap(plan->rank - 1, n);
    step->source = COLL_SPACE_INPUT;
    step->target = coll_plan_home(plan, 0);
    step->incoming_left = true;
    step->final = reduces && place == n - 1;
    step->adds_total = exclusive && place < n - 1;
    step->total = COLL_SPACE_INPUT;
    return place > 0;
}

bool coll_ring_step(const coll_plan *plan, int track, int index, coll_step *step)
{
    if (track == MOVE_TRACK) { /* of a scan in place: once the operand is sent */
        step->action = plan->kind == COLL_EXSCAN ? COLL_ACTION_FILL : COLL_ACTION_MOVE;
        step->source = COLL_SPACE_INPUT;
        step->block = plan->kind == COLL_ALL_GATHER ? plan->rank : 0;
        step->after_track = coll_kind_is_scan(plan->kind) ? SEND_TRACK : -1;
        return index == 0;
    }
    if (plan->kind == COLL_BROADCAST || plan->kind == COLL_REDUCE ||
        coll_kind_is_scan(plan->kind)) {
        return index == 0 && chain_step(plan, track, step);
    }
    return round_step(plan, track, index, step);
}
