/* Every plan for 1 to 64 ranks, played out: each rank ends with every contribution exactly once and
 * in the documented order, every send meets its receive, nothing is left over, and nobody is stuck
 * even where a stream holds a single frame. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "plan.h"
#include "support.h"

enum { RANKS_MAX = 64, TRACKS_MAX = 3 * RANKS_MAX + 4, LANES = 2 };

/* What a block holds: which ranks' operands, and in what order combined. */
typedef struct value {
    uint64_t ranks;
    uint64_t order;
} value;

typedef struct stream {
    bool full;
    value frame;
    int sender_track; /* the only track that uses it; -1 before */
    int receiver_track;
} stream;

typedef struct player {
    coll_plan plan;
    int track_count;
    int at[TRACKS_MAX]; /* next step of each track */
    value output[RANKS_MAX];
    bool written[RANKS_MAX];
} player;

typedef struct world {
    int ranks;
    player players[RANKS_MAX];
    stream streams[RANKS_MAX][RANKS_MAX][LANES];
    bool broken; /* operands combined twice, a track shared */
} world;

static world w;

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t x = (a * UINT64_C(0x9e3779b97f4a7c15)) ^ (b + UINT64_C(0x7f4a7c159e3779b9));
    x ^= x >> 31;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    return x ^ x >> 27;
}

static value leaf(int rank)
{
    return (value){UINT64_C(1) << rank, mix(UINT64_C(77), (uint64_t)rank)};
}

static value combine(value left, value right)
{
    w.broken = w.broken || (left.ranks & right.ranks) != 0;
    return (value){left.ranks | right.ranks, mix(left.order, right.order)};
}

static value canonical(const value *operands, int count)
{
    value level[RANKS_MAX];
    memcpy(level, operands, (size_t)count * sizeof level[0]);
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

/* The own operand of a step: this rank's input, or what the output holds. */
static value own(const player *p, const coll_step *step)
{
    if (step->from_input) {
        return leaf(p->plan.rank);
    }
    w.broken = w.broken || !p->written[step->block];
    return p->output[step->block];
}

static void put(player *p, int block, value v)
{
    p->output[block] = v;
    p->written[block] = true;
}

static stream *incoming(const player *p, int peer, int lane, int track)
{
    stream *s = &w.streams[peer][p->plan.rank][lane];
    w.broken = w.broken || (s->receiver_track >= 0 && s->receiver_track != track);
    s->receiver_track = track;
    return s;
}

static bool gather(player *p, const coll_step *step, int track)
{
    value operands[RANKS_MAX];
    for (int rank = 0; rank < w.ranks; rank++) {
        if (rank != p->plan.rank && !incoming(p, rank, step->lane, track)->full) {
            return false;
        }
    }
    for (int rank = 0; rank < w.ranks; rank++) {
        stream *s = &w.streams[rank][p->plan.rank][step->lane];
        operands[rank] = rank == p->plan.rank ? own(p, step) : s->frame;
        s->full = false;
    }
    put(p, step->block, canonical(operands, w.ranks));
    return true;
}

static bool play_step(player *p, const coll_step *step, int track)
{
    if (step->action == COLL_ACTION_GATHER) {
        return gather(p, step, track);
    }
    if (step->peer < 0 || step->peer >= w.ranks || step->peer == p->plan.rank || step->lane < 0 ||
        step->lane >= LANES || step->block < 0 || step->block >= coll_plan_block_count(&p->plan)) {
        w.broken = true;
        return false;
    }
    if (step->action == COLL_ACTION_SEND) {
        stream *s = &w.streams[p->plan.rank][step->peer][step->lane];
        w.broken = w.broken || (s->sender_track >= 0 && s->sender_track != track);
        s->sender_track = track;
        if (s->full) {
            return false;
        }
        s->frame = own(p, step);
        s->full = true;
        return true;
    }
    stream *s = incoming(p, step->peer, step->lane, track);
    if (!s->full) {
        return false;
    }
    s->full = false;
    if (step->action == COLL_ACTION_COPY) {
        put(p, step->block, s->frame);
    } else {
        const value mine = own(p, step);
        put(p, step->block,
            step->incoming_left ? combine(s->frame, mine) : combine(mine, s->frame));
    }
    return true;
}

/* One step of a track; *ended when there is none left. */
static bool play_track(player *p, int track, bool *ended)
{
    coll_step step;
    *ended = !coll_plan_step(&p->plan, track, p->at[track], &step);
    if (*ended) {
        return false;
    }
    if (step.after_track >= 0 && p->at[step.after_track] <= step.after_step) {
        return false;
    }
    if (!play_step(p, &step, track)) {
        return false;
    }
    p->at[track]++;
    return true;
}

/* Plays until nothing moves; true if all tracks have ended then. */
static bool play(void)
{
    for (bool moved = true; moved && !w.broken;) {
        bool all_ended = true;
        moved = false;
        for (int rank = 0; rank < w.ranks; rank++) {
            for (int track = 0; track < w.players[rank].track_count; track++) {
                bool ended = false;
                moved = play_track(&w.players[rank], track, &ended) || moved;
                all_ended = all_ended && ended;
            }
        }
        if (all_ended) {
            return true;
        }
    }
    return false;
}

static void set_up(coll_algorithm algorithm, coll_kind kind, int ranks, int root)
{
    memset(&w, 0, sizeof w);
    w.ranks = ranks;
    for (int a = 0; a < ranks; a++) {
        for (int b = 0; b < ranks; b++) {
            for (int lane = 0; lane < LANES; lane++) {
                w.streams[a][b][lane].sender_track = -1;
                w.streams[a][b][lane].receiver_track = -1;
            }
        }
    }
    for (int rank = 0; rank < ranks; rank++) {
        player *p = &w.players[rank];
        p->plan = (coll_plan){
            .algorithm = algorithm, .kind = kind, .ranks = ranks, .rank = rank, .root = root};
        p->track_count = coll_plan_track_count(&p->plan);
        assert_true(p->track_count <= TRACKS_MAX);
        if (kind == COLL_ALL_GATHER) {
            put(p, rank, leaf(rank)); /* the executor copies the own block before it starts */
        }
    }
}

static value expected(coll_algorithm algorithm, coll_kind kind, int ranks, int root, int block)
{
    value operands[RANKS_MAX];
    if (kind != COLL_ALL_REDUCE) {
        return leaf(kind == COLL_BROADCAST ? root : block);
    }
    for (int i = 0; i < ranks; i++) {
        operands[i] = leaf(algorithm == COLL_ALGORITHM_RING ? (block + 1 + i) % ranks : i);
    }
    if (algorithm != COLL_ALGORITHM_RING) {
        return canonical(operands, ranks);
    }
    value sum = operands[0];
    for (int i = 1; i < ranks; i++) {
        sum = combine(sum, operands[i]);
    }
    return sum;
}

static void check(coll_algorithm algorithm, coll_kind kind, int ranks, int root)
{
    set_up(algorithm, kind, ranks, root);
    const bool complete = play();
    bool good = complete && !w.broken;
    const int blocks = coll_plan_block_count(&w.players[0].plan);
    for (int rank = 0; good && rank < ranks && ranks > 1; rank++) {
        for (int block = 0; block < blocks; block++) {
            const value want = expected(algorithm, kind, ranks, root, block);
            const value got = w.players[rank].output[block];
            const bool is_root = kind == COLL_BROADCAST && rank == root;
            good = good && (is_root || (w.players[rank].written[block] && got.ranks == want.ranks &&
                                        got.order == want.order));
        }
        for (int peer = 0; peer < ranks; peer++) {
            good = good && !w.streams[rank][peer][0].full && !w.streams[rank][peer][1].full;
        }
    }
    if (!good || w.broken) {
        fail_msg("%s, kind %d, %d ranks, root %d: %s", coll_algorithm_name(algorithm), (int)kind,
                 ranks, root, complete ? "wrong result" : "stuck");
    }
}

static const coll_algorithm algorithms[] = {COLL_ALGORITHM_RING, COLL_ALGORITHM_TREE,
                                            COLL_ALGORITHM_DIRECT};

static void test_all_reduce(void **state)
{
    (void)state;
    for (int a = 0; a < 3; a++) {
        for (int ranks = 1; ranks <= RANKS_MAX; ranks++) {
            check(algorithms[a], COLL_ALL_REDUCE, ranks, 0);
        }
    }
}

static void test_all_gather(void **state)
{
    (void)state;
    for (int a = 0; a < 3; a++) {
        for (int ranks = 1; ranks <= RANKS_MAX; ranks++) {
            check(algorithms[a], COLL_ALL_GATHER, ranks, 0);
        }
    }
}

static void test_broadcast_every_root(void **state)
{
    (void)state;
    for (int a = 0; a < 3; a++) {
        for (int ranks = 1; ranks <= RANKS_MAX; ranks++) {
            const int step = ranks <= 17 ? 1 : 7;
            for (int root = 0; root < ranks; root += step) {
                check(algorithms[a], COLL_BROADCAST, ranks, root);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_reduce),
        cmocka_unit_test(test_all_gather),
        cmocka_unit_test(test_broadcast_every_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
