/* Slices that ranks do for each other (shm_slices.c), over seeded schedules of three ranks of one
 * memory: in any order of claims and ends, each slice of each round is done once, no round's end
 * overtakes an earlier one's, and all come to the end. */
#include <stdlib.h>
#include <string.h>

#include "random.h"
#include "support.h"
#include "transport/shm/layout.h"

enum { RANKS = 3, ROUNDS = 6, SCHEDULES = 20000 };

typedef struct runner {
    coll_context context;
    shm_context context_shm;
    coll_comm comm;
    shm_comm shm;
    uint64_t round;
    int slice; /* being done; negative: none */
} runner;

typedef struct world {
    shm_segment *segments[RANKS];
    runner ranks[RANKS];
    int done[ROUNDS][RANKS];
    uint64_t ended[RANKS]; /* the last round that was seen to have ended */
} world;

static void world_begin(world *w, bool crowded)
{
    shm_segment *segments[RANKS];
    memcpy(segments, w->segments, sizeof segments);
    memset(w, 0, sizeof *w);
    memcpy(w->segments, segments, sizeof segments);
    for (int r = 0; r < RANKS; r++) {
        runner *at = &w->ranks[r];
        memset(w->segments[r], 0, sizeof *w->segments[r]);
        at->slice = COLL_SLICE_NONE;
        at->context = (coll_context){
            .rank = r, .size = RANKS, .spins = crowded ? 0 : 1, .shm = &at->context_shm};
        at->comm = (coll_comm){.context = &at->context, .rank = r, .size = RANKS, .shm = &at->shm};
        for (int peer = 0; peer < RANKS; peer++) {
            at->comm.ranks[peer] = peer;
            at->context_shm.doorbells[peer] = &w->segments[peer]->doorbell;
            at->shm.segments[peer] = w->segments[peer];
        }
    }
}

/* A rank enters a round when it has found nothing to take in the one before, as operations do. */
static void step(world *w, runner *at)
{
    if (at->round == ROUNDS) {
        return;
    }
    if (at->slice >= 0) {
        coll_shm_slice_end(&at->comm, at->round, at->slice);
        w->done[at->round][at->slice]++;
        assert_true(coll_shm_slice_ended(&at->comm, at->round, at->slice));
        assert_int_equal(w->ended[at->slice], at->round);
        w->ended[at->slice] = at->round + 1;
    }
    at->slice = coll_shm_slice_next(&at->comm, at->round, at->slice);
    if (at->slice >= 0) {
        assert_false(coll_shm_slice_ended(&at->comm, at->round, at->slice));
        assert_true(coll_shm_slices_await(&at->comm, at->round, (int)(at - w->ranks)));
    } else if (at->slice == COLL_SLICE_NONE) {
        at->round++;
    }
}

static void run_schedules(bool crowded)
{
    world *w = calloc(1, sizeof *w);
    int taken_for_others = 0;
    assert_non_null(w);
    for (int r = 0; r < RANKS; r++) {
        w->segments[r] = aligned_alloc(_Alignof(shm_segment), sizeof(shm_segment));
        assert_non_null(w->segments[r]);
    }
    for (unsigned seed = 0; seed < SCHEDULES; seed++) {
        uint64_t state = seed;
        world_begin(w, crowded);
        /* Ranks that come to nothing are stepped no more often than others: this ends. */
        for (int turn = 0; turn < 40 * ROUNDS * RANKS; turn++) {
            runner *at = &w->ranks[test_random_below(&state, RANKS)];
            step(w, at);
            taken_for_others += at->slice >= 0 && at->slice != at - w->ranks;
        }
        for (int round = 0; round < ROUNDS; round++) {
            for (int slice = 0; slice < RANKS; slice++) {
                assert_int_equal(w->done[round][slice], 1);
            }
        }
        for (int r = 0; r < RANKS; r++) {
            assert_int_equal(w->ranks[r].round, ROUNDS);
            assert_false(coll_shm_slices_await(&w->ranks[0].comm, ROUNDS - 1, r));
        }
    }
    assert_int_equal(taken_for_others > 0, crowded);
    for (int r = 0; r < RANKS; r++) {
        free(w->segments[r]);
    }
    free(w);
}

static void test_crowded(void **state)
{
    (void)state;
    run_schedules(true);
}

static void test_each_its_own(void **state)
{
    (void)state;
    run_schedules(false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crowded),
        cmocka_unit_test(test_each_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
