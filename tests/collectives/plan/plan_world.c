/* Plays the plans of all ranks on symbolic values, and stops at the first broken rule. Called by
 * test_plan.c. */
#include "plan_world.h"

#include <stdlib.h>
#include <string.h>

#include "common/kinds.h"

enum {
    TRACKS_MAX = COLL_PLAN_TRACKS_MAX(WORLD_RANKS_MAX),
    CHANNELS = 2,
    EXPRS_MAX = 1 << 20,
    SLOTS = 1 << 21,
    SPACES = 3,
};

typedef struct expression {
    uint32_t left;
    uint32_t right;
    uint64_t ranks;
} expression;

typedef struct stream {
    bool full;
    world_value frame;
    int16_t sender_track; /* the only track that uses it; -1 before */
    int16_t receiver_track;
} stream;

typedef struct track {
    coll_step step;
    int index;
    int done; /* cells of the step */
    bool loaded;
    bool ended;
} track;

typedef struct player {
    coll_plan plan;
    int track_count;
    int tracks_ended;
    int scratch_first;
    int scratch_count;
    bool queued;
    track tracks[TRACKS_MAX];
    world_value cells[SPACES][WORLD_BLOCKS_MAX * WORLD_CELLS];
} player;

static expression exprs[EXPRS_MAX];
static uint32_t expr_count = WORLD_EXPR_NEUTRAL + 1;
static uint32_t expr_slots[SLOTS];

static player players[WORLD_RANKS_MAX];
static stream streams[WORLD_RANKS_MAX][WORLD_RANKS_MAX][CHANNELS];
static int queue[WORLD_RANKS_MAX];
static int queue_first;
static int queue_count;
static bool in_place;
static const char *broken;

static void breaks(const char *what)
{
    broken = broken == NULL ? what : broken;
}

static uint32_t intern(uint32_t left, uint32_t right, uint64_t ranks)
{
    uint64_t hash = ((uint64_t)left << 32 | right) * UINT64_C(0x9e3779b97f4a7c15);
    hash ^= hash >> 29;
    for (uint64_t i = hash;; i++) {
        uint32_t *slot = &expr_slots[i % SLOTS];
        if (*slot == 0) {
            if (expr_count == EXPRS_MAX) {
                abort();
            }
            exprs[expr_count] = (expression){left, right, ranks};
            *slot = expr_count;
            return expr_count++;
        }
        if (exprs[*slot].left == left && exprs[*slot].right == right) {
            return *slot;
        }
    }
}

uint32_t world_leaf(int rank)
{
    return intern(0, (uint32_t)rank, UINT64_C(1) << rank);
}

uint32_t world_combine(uint32_t left, uint32_t right)
{
    return intern(left, right, exprs[left].ranks | exprs[right].ranks);
}

uint32_t world_canonical(int first, int count)
{
    int half = 1;
    if (count == 1) {
        return world_leaf(first);
    }
    while (2 * half < count) {
        half *= 2;
    }
    return world_combine(world_canonical(first, half), world_canonical(first + half, count - half));
}

/* Whether rank's INPUT (or OUTPUT) has the block. */
static bool holds(const coll_plan *plan, coll_space space, int block)
{
    const bool root = plan->rank == plan->root;
    const bool input = space == COLL_SPACE_INPUT;
    switch (plan->kind) {
    case COLL_BROADCAST:
        return !input || root;
    case COLL_ALL_GATHER:
        return !input || block == plan->rank;
    case COLL_REDUCE:
        return input || root;
    case COLL_REDUCE_SCATTER:
        return input || block == plan->rank;
    case COLL_GATHER:
        return input ? block == plan->rank : root;
    case COLL_SCATTER:
        return input ? root : block == plan->rank;
    default:
        return true;
    }
}

static world_value *cell_at(player *p, coll_space space, int cell)
{
    const int block = cell / WORLD_CELLS;
    static world_value nowhere;
    if (space == COLL_SPACE_SCRATCH) {
        if (block < p->scratch_first || block >= p->scratch_first + p->scratch_count) {
            breaks("uses scratch it did not ask for");
        }
        return &p->cells[space][cell];
    }
    if (!holds(&p->plan, space, block)) {
        breaks("names a buffer that is not there");
        return &nowhere;
    }
    /* In place, what both hold is one. */
    const bool shared = in_place && holds(&p->plan, COLL_SPACE_INPUT, block) &&
                        holds(&p->plan, COLL_SPACE_OUTPUT, block);
    return &p->cells[shared ? COLL_SPACE_INPUT : space][cell];
}

static world_value read_cell(player *p, coll_space space, int cell)
{
    const world_value value = *cell_at(p, space, cell);
    if (value.expr == WORLD_EXPR_NONE) {
        breaks("reads what was not written");
    }
    return value;
}

static void write_cell(player *p, coll_space space, int cell, world_value value)
{
    if (space == COLL_SPACE_INPUT) {
        breaks("writes into the input");
        return;
    }
    *cell_at(p, space, cell) = value;
}

static world_value combine(world_value left, world_value right)
{
    world_value value = left;
    if (left.block != right.block || left.cell != right.cell) {
        breaks("combines different blocks");
    }
    if ((exprs[left.expr].ranks & exprs[right.expr].ranks) != 0) {
        breaks("combines an operand twice");
    }
    value.expr = world_combine(left.expr, right.expr);
    return value;
}

/* The mark stands where the last operand joins, and nowhere else. */
static world_value marked(const player *p, const coll_step *step, world_value value)
{
    const int ranks = p->plan.ranks;
    const uint64_t all = ranks == 64 ? UINT64_MAX : (UINT64_C(1) << ranks) - 1;
    if (!coll_kind_is_scan(p->plan.kind) && (exprs[value.expr].ranks == all) != step->final) {
        breaks(step->final ? "marks a partial value as final" : "does not mark the final value");
    }
    value.final = step->final;
    return value;
}

static void wake(int rank)
{
    if (!players[rank].queued) {
        players[rank].queued = true;
        queue[(queue_first + queue_count++) % WORLD_RANKS_MAX] = rank;
    }
}

static stream *stream_in(const player *p, int peer, const coll_step *step, int number)
{
    stream *s = &streams[peer][p->plan.rank][step->channel];
    if (s->receiver_track >= 0 && s->receiver_track != number) {
        breaks("receives one stream on two tracks");
    }
    s->receiver_track = (int16_t)number;
    return s;
}

static bool take(player *p, int peer, const coll_step *step, int number, world_value *value)
{
    stream *s = stream_in(p, peer, step, number);
    if (!s->full) {
        return false;
    }
    *value = s->frame;
    s->full = false;
    wake(peer);
    return true;
}

static bool play_send(player *p, const coll_step *step, int number, int cell)
{
    stream *s = &streams[p->plan.rank][step->peer][step->channel];
    if (s->sender_track >= 0 && s->sender_track != number) {
        breaks("sends one stream on two tracks");
    }
    s->sender_track = (int16_t)number;
    if (s->full) {
        return false;
    }
    s->frame = read_cell(p, step->source, cell);
    s->full = true;
    wake(step->peer);
    return true;
}

/* The canonical order over whoever the members are: neighbours pair up level by level. */
static world_value canonical_of(world_value *level, int count)
{
    for (; count > 1; count = (count + 1) / 2) {
        for (int i = 0; i < count / 2; i++) {
            level[i] = combine(level[2 * i], level[2 * i + 1]);
        }
        if (count % 2 == 1) {
            level[count / 2] = level[count - 1];
        }
    }
    return level[0];
}

static bool play_gather(player *p, const coll_step *step, int number, int cell)
{
    int members[WORLD_RANKS_MAX];
    world_value operands[WORLD_RANKS_MAX];
    const int count = coll_plan_members(&p->plan, step->group, members);
    for (int i = 0; i < count; i++) {
        if (members[i] != p->plan.rank && !stream_in(p, members[i], step, number)->full) {
            return false;
        }
    }
    for (int i = 0; i < count; i++) {
        if (members[i] == p->plan.rank) {
            operands[i] = read_cell(p, step->source, cell);
        } else {
            (void)take(p, members[i], step, number, &operands[i]);
        }
    }
    write_cell(p, step->target, cell, marked(p, step, canonical_of(operands, count)));
    return true;
}

static bool play_cell(player *p, const coll_step *step, int number, int cell)
{
    world_value incoming;
    switch (step->action) {
    case COLL_ACTION_SEND:
        return play_send(p, step, number, cell);
    case COLL_ACTION_GATHER:
        return play_gather(p, step, number, cell);
    case COLL_ACTION_MOVE:
        write_cell(p, step->target, cell, read_cell(p, step->source, cell));
        return true;
    case COLL_ACTION_FILL:
        write_cell(p, step->target, cell, (world_value){.expr = WORLD_EXPR_NEUTRAL});
        return true;
    case COLL_ACTION_MERGE:
        incoming = read_cell(p, COLL_SPACE_SCRATCH, cell);
        break;
    default:
        if (!take(p, step->peer, step, number, &incoming)) {
            return false;
        }
        break;
    }
    if (step->adds_total) {
        const world_value total = read_cell(p, step->total, cell);
        write_cell(p, COLL_SPACE_SCRATCH, cell, combine(incoming, total));
    }
    if (step->action != COLL_ACTION_COPY) {
        const world_value own = read_cell(p, step->source, cell);
        incoming = step->incoming_left ? combine(incoming, own) : combine(own, incoming);
        incoming = marked(p, step, incoming);
    }
    write_cell(p, step->target, cell, incoming);
    return true;
}

static bool step_is_sound(const player *p, const coll_step *step)
{
    const coll_plan *plan = &p->plan;
    const bool has_peer = step->action <= COLL_ACTION_COMBINE;
    return step->block >= 0 && step->block_count >= 1 &&
           step->block + step->block_count <= coll_plan_block_count(plan) && step->channel >= 0 &&
           step->channel < CHANNELS && step->after_track < p->track_count &&
           (!has_peer || (step->peer >= 0 && step->peer < plan->ranks && step->peer != plan->rank));
}

/* Loads the track's next step where there is one. */
static bool load(player *p, int number)
{
    track *t = &p->tracks[number];
    if (t->ended || t->loaded) {
        return t->loaded;
    }
    t->loaded = coll_plan_step(&p->plan, number, t->index, &t->step);
    t->ended = !t->loaded;
    p->tracks_ended += t->ended ? 1 : 0;
    if (t->loaded && !step_is_sound(p, &t->step)) {
        breaks("has a step out of range");
    }
    return t->loaded && broken == NULL;
}

/* Whether the step before allows to handle the cell. */
static bool is_released(player *p, const coll_step *step, int cell)
{
    if (step->after_track < 0) {
        return true;
    }
    (void)load(p, step->after_track);
    const track *before = &p->tracks[step->after_track];
    if (before->ended || before->index != step->after_step) {
        return before->ended || before->index > step->after_step;
    }
    const int begin = before->step.block * WORLD_CELLS;
    const int end = begin + before->step.block_count * WORLD_CELLS;
    return cell < begin || cell >= end || cell < begin + before->done;
}

/* Moves the track as far as it goes. */
static bool play_track(player *p, int number)
{
    track *t = &p->tracks[number];
    bool moved = false;
    while (broken == NULL && load(p, number)) {
        const int cell = t->step.block * WORLD_CELLS + t->done;
        if (!is_released(p, &t->step, cell) || !play_cell(p, &t->step, number, cell)) {
            break;
        }
        moved = true;
        if (++t->done == t->step.block_count * WORLD_CELLS) {
            t->loaded = false;
            t->done = 0;
            t->index++;
        }
    }
    return moved;
}

static void play_rank(int rank)
{
    player *p = &players[rank];
    for (bool moved = true; moved && broken == NULL;) {
        moved = false;
        for (int number = 0; number < p->track_count; number++) {
            moved = play_track(p, number) || moved;
        }
    }
}

static void set_up(const world_case *c, int rank)
{
    player *p = &players[rank];
    p->plan = c->plan;
    p->plan.rank = rank;
    p->track_count = coll_plan_track_count(&p->plan);
    p->tracks_ended = 0;
    p->queued = false;
    p->scratch_count = coll_plan_scratch(&p->plan, &p->scratch_first);
    const int blocks = coll_plan_block_count(&p->plan);
    if (p->track_count > COLL_PLAN_TRACKS_MAX(c->plan.ranks) || blocks > WORLD_BLOCKS_MAX) {
        breaks("has more tracks or blocks than it may");
        return;
    }
    for (int number = 0; number < p->track_count; number++) {
        p->tracks[number] = (track){.index = 0};
    }
    for (int space = 0; space < SPACES; space++) {
        memset(p->cells[space], 0, (size_t)(blocks * WORLD_CELLS) * sizeof p->cells[0][0]);
    }
    for (int cell = 0; cell < blocks * WORLD_CELLS; cell++) {
        const int block = cell / WORLD_CELLS;
        if (holds(&p->plan, COLL_SPACE_INPUT, block)) {
            p->cells[COLL_SPACE_INPUT][cell] = (world_value){.expr = world_leaf(rank),
                                                             .block = (uint16_t)block,
                                                             .cell = (uint8_t)(cell % WORLD_CELLS)};
        }
    }
    for (int peer = 0; peer < c->plan.ranks; peer++) {
        for (int channel = 0; channel < CHANNELS; channel++) {
            streams[rank][peer][channel] = (stream){.sender_track = -1, .receiver_track = -1};
        }
    }
}

/* Out of place, the input is what it was. */
static void check_inputs(const player *p)
{
    const int cells = in_place ? 0 : coll_plan_block_count(&p->plan) * WORLD_CELLS;
    for (int cell = 0; cell < cells; cell++) {
        const world_value *value = &p->cells[COLL_SPACE_INPUT][cell];
        if (value->expr != WORLD_EXPR_NONE && value->expr != world_leaf(p->plan.rank)) {
            breaks("changed the input");
        }
    }
}

const char *world_play(const world_case *c)
{
    const int ranks = c->plan.ranks;
    broken = NULL;
    in_place = c->in_place;
    queue_first = 0;
    queue_count = 0;
    for (int rank = 0; rank < ranks; rank++) {
        set_up(c, rank);
        wake(rank);
    }
    while (queue_count > 0 && broken == NULL) {
        const int rank = queue[queue_first];
        queue_first = (queue_first + 1) % WORLD_RANKS_MAX;
        queue_count--;
        players[rank].queued = false;
        if (rank == c->slow - 1 && queue_count > 0) {
            wake(rank);
        } else {
            play_rank(rank);
        }
    }
    for (int rank = 0; rank < ranks && broken == NULL; rank++) {
        if (players[rank].tracks_ended != players[rank].track_count) {
            breaks("is stuck");
        }
        for (int peer = 0; peer < ranks; peer++) {
            if (streams[rank][peer][0].full || streams[rank][peer][1].full) {
                breaks("leaves a message behind");
            }
        }
        check_inputs(&players[rank]);
    }
    return broken;
}

world_value world_output(int rank, int block, int cell)
{
    return *cell_at(&players[rank], COLL_SPACE_OUTPUT, block * WORLD_CELLS + cell);
}
