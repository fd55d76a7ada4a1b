/* Halving and doubling: all-reduce in 2 log2(n) messages and 2 (n-1)/n of the bytes, in canonical
 * order, for any number of ranks. The ring's bytes for little more than recursive doubling's
 * rounds: best in the wide middle between the two.
 * Called through the table of plan.c.
 *
 * For a power of two, first the vector is halved: in round t a rank swaps half of what it still
 * works on with rank XOR 2^t, and combines the half that it keeps. After log2(n) rounds each rank
 * has one piece, complete. Then the rounds run backwards, and the pieces are doubled by copying:
 *
 *     4 ranks     round 0: 0⇄1, 2⇄3; 0 and 2 keep pieces 01, 1 and 3 keep 23      (halves)
 *                 round 1: 0⇄2, 1⇄3; 0 keeps piece 0, 2 keeps 1, 1 keeps 2, 3 keeps 3
 *                 round 1 again: 0⇄2 both have 01 …;  round 0 again: all have 0123
 *
 * Partners are near first, so what is combined is always two aligned groups: the canonical order.
 *
 * Any other n is a sum of powers of two, n = 2^a + 2^b + … with a > b > …, and so are the ranks:
 * one segment of each size. The canonical order is S0 + (S1 + (S2 + …)), where Si is what segment i
 * has combined by itself. So each segment halves by itself, and then passes its value to the
 * segment on its left, which has it cut finer: a rank of segment i sends each part of its piece to
 * the rank of segment i-1 that works on that part. All that is complete arises in segment 0. On the
 * way back the same messages run the other way.
 *
 *     6 ranks = 4 + 2     0⇄1 2⇄3 4⇄5;  0⇄2 1⇄3;  4 has pieces 01 and sends 0 to rank 0, 1 to 2;
 *                         5 has 23 and sends 2 to 1, 3 to 3; back: 0, 2 → 4 and 1, 3 → 5; 4⇄5
 *
 * Reduce-scatter stops at the complete pieces and hands each block to its rank, in one more
 * message; reduce hands them to the root.
 *
 * R. Rabenseifner: Optimization of collective reduction operations (2004), for powers of two; the
 * segments are ours. */
#include "plan/generators.h"

enum { SEND_TRACK = 0, RECEIVE_TRACK, JOIN_TRACK, PASS_TRACK, BACK_TRACK, SHARE_TRACK, TRACKS };

typedef struct segment {
    int begin;
    int log; /* of the number of ranks */
    int size;
    int offset; /* of this rank */
    int left;   /* size of the segment before; 0: none */
    int right;  /* and of the one after */
} segment;

/* Pieces [begin, begin + count) of the segment-0 many. */
typedef struct pieces {
    int begin;
    int count;
} pieces;

int coll_plan_top_power(int ranks)
{
    int power = 1;
    while (2 * power <= ranks) {
        power *= 2;
    }
    return power;
}

static int log_of(int power)
{
    int log = 0;
    while (1 << log < power) {
        log++;
    }
    return log;
}

static segment segment_of(const coll_plan *plan)
{
    segment at = {.size = coll_plan_top_power(plan->ranks)};
    int rest = plan->ranks - at.size;
    while (plan->rank >= at.begin + at.size) {
        at.begin += at.size;
        at.left = at.size;
        at.size = coll_plan_top_power(rest);
        rest -= at.size;
    }
    at.offset = plan->rank - at.begin;
    at.right = rest > 0 ? coll_plan_top_power(rest) : 0;
    at.log = log_of(at.size);
    return at;
}

/* What the rank with an offset works on after `rounds` of halving. */
static pieces pieces_of(const coll_plan *plan, int offset, int rounds)
{
    pieces found = {0, coll_plan_top_power(plan->ranks)};
    for (int t = 0; t < rounds; t++) {
        found.count /= 2;
        found.begin += (offset >> t & 1) * found.count;
    }
    return found;
}

/* The first block of a piece: pieces are blocks, but in reduce-scatter, whose blocks are ranks'. */
static int first_block(const coll_plan *plan, int piece)
{
    return plan->kind == COLL_REDUCE_SCATTER
               ? piece * plan->ranks / coll_plan_top_power(plan->ranks)
               : piece;
}

static void set_range(const coll_plan *plan, pieces range, coll_step *step)
{
    step->block = first_block(plan, range.begin);
    step->block_count = first_block(plan, range.begin + range.count) - step->block;
}

static coll_space work_space(const coll_plan *plan)
{
    return plan->kind == COLL_REDUCE_SCATTER ? COLL_SPACE_SCRATCH : coll_plan_home(plan, 0);
}

/* The rank of segment 0 that completes a piece: bits in reverse. */
static int owner_of(const coll_plan *plan, int piece)
{
    int owner = 0;
    const int top = coll_plan_top_power(plan->ranks);
    for (int bit = 1; bit < top; bit *= 2) {
        owner = owner * 2 + ((piece & bit) != 0 ? 1 : 0);
    }
    return owner;
}

/* The step after which this rank's piece is as complete as its segment makes it. */
static void come_after_piece(const segment *at, coll_step *step)
{
    step->after_track = at->right > 0 ? JOIN_TRACK : at->log > 0 ? RECEIVE_TRACK : -1;
    step->after_step = at->right > 0 ? 0 : at->log - 1;
}

/* The step after which the piece holds the complete value. */
static void come_after_value(const segment *at, coll_step *step)
{
    if (at->left == 0) {
        come_after_piece(at, step);
        return;
    }
    step->after_track = BACK_TRACK;
    step->after_step = at->left / at->size - 1;
}

/* Rounds 0 … log-1 halve; then, in an all-reduce, as many double. */
static bool round_step(const coll_plan *plan, int track, int index, coll_step *step)
{
    const segment at = segment_of(plan);
    const bool halves = index < at.log;
    const int round = halves ? index : 2 * at.log - 1 - index;
    if (round < 0 || (!halves && plan->kind != COLL_ALL_REDUCE)) {
        return false;
    }
    const int partner = at.offset ^ 1 << round;
    const bool sends = track == SEND_TRACK;
    step->peer = at.begin + partner;
    /* Halving: what leaves is the partner's half; doubling: what comes is. */
    set_range(plan, pieces_of(plan, sends == halves ? partner : at.offset, round + 1), step);
    step->source = halves && index == 0 ? COLL_SPACE_INPUT : work_space(plan);
    step->target = work_space(plan);
    if (!sends) {
        step->action = halves ? COLL_ACTION_COMBINE : COLL_ACTION_COPY;
        step->incoming_left = halves && partner < at.offset;
        step->final = halves && index == at.log - 1 && at.left == 0 && at.right == 0;
        return true;
    }
    step->action = COLL_ACTION_SEND;
    step->after_track = index == 0 ? -1 : RECEIVE_TRACK;
    step->after_step = index - 1;
    if (!halves && index == at.log) {
        come_after_value(&at, step);
    }
    return true;
}

/* Between neighbouring segments. PASS_TRACK gives a rank's piece to the segment on its left, in parts,
 * and JOIN_TRACK combines what comes from the right. In an all-reduce the same messages run the other
 * way: BACK_TRACK gets the value from the left, in parts, and SHARE_TRACK hands it to the right. */
static bool cross_step(const coll_plan *plan, int track, int index, coll_step *step)
{
    const segment at = segment_of(plan);
    const bool with_left = track == PASS_TRACK || track == BACK_TRACK;
    if (with_left ? index >= at.left / at.size : index > 0 || at.right == 0) {
        return false;
    }
    const int offset = at.offset + index * at.size; /* in the segment on the left */
    step->peer =
        with_left ? at.begin - at.left + offset : at.begin + at.size + at.offset % at.right;
    set_range(plan,
              with_left ? pieces_of(plan, offset, log_of(at.left))
                        : pieces_of(plan, at.offset, at.log),
              step);
    step->source = work_space(plan);
    step->target = work_space(plan);
    switch (track) {
    case JOIN_TRACK:
        step->action = COLL_ACTION_COMBINE;
        step->source = at.log == 0 ? COLL_SPACE_INPUT : step->source;
        step->final = at.left == 0;
        step->after_track = at.log > 0 ? RECEIVE_TRACK : -1;
        step->after_step = at.log - 1;
        break;
    case PASS_TRACK:
        step->action = COLL_ACTION_SEND;
        step->source = at.log == 0 && at.right == 0 ? COLL_SPACE_INPUT : step->source;
        come_after_piece(&at, step);
        break;
    case BACK_TRACK:
        step->action = COLL_ACTION_COPY;
        break;
    default:
        step->action = COLL_ACTION_SEND;
        come_after_value(&at, step);
    }
    return true;
}

/* Reduce: tracks from BACK_TRACK on bring the pieces to the root, from each owner. */
static bool collect_step(const coll_plan *plan, int track, int index, coll_step *step)
{
    const segment at = segment_of(plan);
    const bool root = plan->rank == plan->root;
    step->channel = 1;
    if (root) {
        step->action = COLL_ACTION_COPY;
        step->block = track - BACK_TRACK;
        step->peer = owner_of(plan, step->block);
        return index == 0 && step->peer != plan->rank;
    }
    step->action = COLL_ACTION_SEND;
    step->peer = plan->root;
    step->source = work_space(plan);
    set_range(plan, pieces_of(plan, at.offset, at.log), step);
    come_after_piece(&at, step);
    return index == 0 && at.left == 0;
}

/* Reduce-scatter: each block goes from the owner of its piece to its rank. */
static bool deal_step(const coll_plan *plan, int track, int index, coll_step *step)
{
    const segment at = segment_of(plan);
    int piece = 0;
    while (first_block(plan, piece + 1) <= plan->rank) {
        piece++;
    }
    step->channel = 1;
    step->source = COLL_SPACE_SCRATCH;
    if (track == BACK_TRACK) {
        const int owner = owner_of(plan, piece);
        step->action = owner == plan->rank ? COLL_ACTION_MOVE : COLL_ACTION_COPY;
        step->peer = owner;
        step->block = plan->rank;
        if (owner == plan->rank) {
            come_after_piece(&at, step);
        }
        return index == 0;
    }
    if (at.left > 0) {
        return false;
    }
    const int mine = pieces_of(plan, at.offset, at.log).begin;
    const int first = first_block(plan, mine);
    const int end = first_block(plan, mine + 1);
    step->block = first + index;
    if (plan->rank >= first && step->block >= plan->rank) {
        step->block += plan->rank < end ? 1 : 0; /* the own block stays */
    }
    step->action = COLL_ACTION_SEND;
    step->peer = step->block;
    come_after_piece(&at, step);
    return step->block < end;
}

int coll_halving_track_count(const coll_plan *plan)
{
    const bool collects = plan->kind == COLL_REDUCE && plan->rank == plan->root;
    return collects ? BACK_TRACK + coll_plan_top_power(plan->ranks) : TRACKS;
}

bool coll_halving_step(const coll_plan *plan, int track, int index, coll_step *step)
{
    if (track <= RECEIVE_TRACK) {
        return round_step(plan, track, index, step);
    }
    if (track <= PASS_TRACK || plan->kind == COLL_ALL_REDUCE) {
        return cross_step(plan, track, index, step);
    }
    if (plan->kind == COLL_REDUCE) {
        return (plan->rank == plan->root || track == BACK_TRACK) &&
               collect_step(plan, track, index, step);
    }
    return deal_step(plan, track, index, step);
}
