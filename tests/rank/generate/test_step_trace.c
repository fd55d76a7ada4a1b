/* How long ranks wait for each other in a step, on spans with a known answer: first alone, then in
 * the logs that ranks (threads) gather. */
#include "generate/step_trace.h"

#include "ranks.h"
#include "support.h"

enum { RANKS = 3, EXCHANGES = 2, STRIDE = EXCHANGES + 1 };

static const rank_step_shape shape = {
    .reduces = 1, .exchanges = EXCHANGES, .tokens = 5, .drawn = 2};

/* Rank 2 enters the all-reduce last, at 50; rank 0 the gather, at 85. */
static const rank_span known[RANKS][STRIDE] = {
    {{0, 100}, {10, 60}, {85, 95}},
    {{5, 97}, {30, 62}, {70, 96}},
    {{2, 99}, {50, 61}, {80, 97}},
};

static void a_known_step(rank_step_share shares[RANKS], rank_step_cost *cost)
{
    rank_step_compare(known[0], STRIDE, RANKS, &shape, shares, cost);
}

static void waiting_ends_when_the_last_rank_enters(void **state)
{
    (void)state;
    rank_step_share shares[RANKS] = {{.step_ns = 0}};
    rank_step_cost cost;
    static const double reduce_waiting[] = {40, 20, 0};
    static const double reduce_transfer[] = {10, 12, 11};
    static const double gather_waiting[] = {0, 15, 5};
    static const double gather_transfer[] = {10, 11, 12};
    static const double step[] = {100, 92, 97};
    a_known_step(shares, &cost);
    for (int r = 0; r < RANKS; r++) {
        assert_true(shares[r].reduce_waiting_ns == reduce_waiting[r]);
        assert_true(shares[r].reduce_transfer_ns == reduce_transfer[r]);
        assert_true(shares[r].gather_waiting_ns == gather_waiting[r]);
        assert_true(shares[r].gather_transfer_ns == gather_transfer[r]);
        assert_true(shares[r].step_ns == step[r]);
    }
    assert_int_equal(cost.step_ns, 100);
    assert_int_equal(cost.waiting_ns, (40 + 20 + 15 + 5) / 3);
    assert_int_equal(cost.transfer_ns, (10 + 12 + 11 + 10 + 11 + 12) / 3);
    assert_int_equal(cost.tokens, 5);
    assert_int_equal(cost.drawn, 2);
}

static void the_slowest_has_held_up_the_others_longest(void **state)
{
    (void)state;
    rank_step_share shares[RANKS] = {{.step_ns = 0}};
    rank_step_cost cost;
    a_known_step(shares, &cost);
    a_known_step(shares, &cost);
    assert_int_equal(cost.slowest, 2);
    assert_int_equal(cost.held_up_ns, 60);
    assert_true(shares[2].held_up_ns == 2 * 60 && shares[2].slowest_steps == 2);
    assert_true(shares[0].held_up_ns == 2 * 20 && shares[0].slowest_steps == 0);
    assert_true(shares[1].held_up_ns == 0 && shares[1].slowest_steps == 0);
}

/* All enter at once: no rank waits, and none is the slowest. A rank that left before the last one
 * came (an all-reduce of nothing) has waited as long as it was there. */
static void nobody_needs_to_be_the_slowest(void **state)
{
    (void)state;
    static const rank_span together[2][2] = {{{0, 9}, {3, 5}}, {{0, 9}, {3, 6}}};
    static const rank_span apart[2][2] = {{{0, 9}, {1, 3}}, {{0, 9}, {4, 6}}};
    const rank_step_shape one = {.reduces = 1, .exchanges = 1, .tokens = 1};
    rank_step_share shares[2] = {{.step_ns = 0}};
    rank_step_cost cost;
    rank_step_compare(together[0], 2, 2, &one, shares, &cost);
    assert_int_equal(cost.slowest, -1);
    assert_int_equal(cost.held_up_ns, 0);
    rank_step_compare(apart[0], 2, 2, &one, shares, &cost);
    assert_int_equal(cost.slowest, 1);
    assert_true(shares[0].reduce_waiting_ns == 2 && shares[0].reduce_transfer_ns == 2);
}

/* ---- ranks that log ---- */

enum { STEPS = 9000, LATE_NS = 20, TOOK_NS = 7, WARM = 5 };

/* One step, its times made up: rank 1 enters the all-reduce LATE_NS behind rank 0, and both leave
 * it TOOK_NS later; nobody waits in the gather. */
static void make_step(test_rank *rank, rank_step_trace *trace, int64_t begin_ns, int32_t tokens)
{
    rank_exchange_log *log = rank_step_trace_log(trace);
    const int64_t end_ns = begin_ns + LATE_NS + TOOK_NS;
    rank_step_trace_begin(trace, begin_ns);
    rank_exchange_log_add(
        log, (rank_span){.begin_ns = begin_ns + (rank->rank == 1 ? LATE_NS : 0), .end_ns = end_ns});
    rank_step_trace_reduced(trace);
    rank_exchange_log_add(log, (rank_span){.begin_ns = end_ns, .end_ns = end_ns + 1});
    rank_step_trace_end(trace, end_ns + 2, tokens, 1);
}

static void check_shares(test_rank *rank, const rank_step_share *shares)
{
    RANK_CHECK(rank, shares != NULL);
    RANK_CHECK(rank, shares[0].reduce_waiting_ns == (double)STEPS * LATE_NS);
    RANK_CHECK(rank, shares[1].reduce_waiting_ns == 0);
    RANK_CHECK(rank, shares[0].reduce_transfer_ns == (double)STEPS * TOOK_NS);
    RANK_CHECK(rank, shares[1].reduce_transfer_ns == (double)STEPS * TOOK_NS);
    RANK_CHECK(rank, shares[0].gather_transfer_ns == STEPS && shares[0].gather_waiting_ns == 0);
    RANK_CHECK(rank, shares[1].held_up_ns == (double)STEPS * LATE_NS);
    RANK_CHECK(rank, shares[1].slowest_steps == STEPS && shares[0].slowest_steps == 0);
}

/* So many steps that the log is gathered several times. */
static void log_body(test_rank *rank)
{
    rank_step_trace *trace = NULL;
    size_t count = 0;
    RANK_OK(rank,
            rank_step_trace_create(coll_context_world(rank->context), &trace, &rank->failure));
    RANK_CHECK(rank, trace != NULL);
    for (int i = 0; i < WARM; i++) {
        make_step(rank, trace, 1, 7);
    }
    rank_step_trace_reset(trace);
    for (int i = 0; i < STEPS; i++) {
        make_step(rank, trace, 1000 * i, 2);
        make_step(rank, trace, 1000 * i + 500, 0); /* idle: it does not count */
        RANK_OK(rank, rank_step_trace_gather(trace, false, &rank->failure));
    }
    RANK_OK(rank, rank_step_trace_gather(trace, true, &rank->failure));
    check_shares(rank, rank_step_trace_shares(trace));
    const rank_step_cost *steps = rank_step_trace_steps(trace, &count);
    RANK_CHECK(rank, count == (rank->rank == 0 ? STEPS : 0));
    RANK_CHECK(rank, (steps != NULL) == (rank->rank == 0));
    for (size_t i = 0; i < count; i++) {
        RANK_CHECK(rank, steps[i].tokens == 2 && steps[i].drawn == 1 && steps[i].slowest == 1);
        RANK_CHECK(rank, steps[i].held_up_ns == LATE_NS && steps[i].waiting_ns == LATE_NS / 2);
        RANK_CHECK(rank, steps[i].step_ns == LATE_NS + TOOK_NS + 2);
    }
    rank_step_trace_destroy(trace);
}

static void ranks_gather_what_they_have_logged(void **state)
{
    (void)state;
    test_ranks_as_threads(&(test_ranks_options){.size = 2, .transport = COLL_TRANSPORT_SHM},
                          log_body);
}

/* More in one step than the log holds: then nothing is known, and the ranks still agree. */
static void overflow_body(test_rank *rank)
{
    rank_step_trace *trace = NULL;
    size_t count = 0;
    RANK_OK(rank,
            rank_step_trace_create(coll_context_world(rank->context), &trace, &rank->failure));
    make_step(rank, trace, 1, 1);
    rank_exchange_log *log = rank_step_trace_log(trace);
    const rank_span span = {.begin_ns = 1, .end_ns = 2};
    rank_step_trace_begin(trace, 1);
    while (!log->overflowed) {
        rank_exchange_log_add(log, span);
    }
    rank_step_trace_end(trace, 2, 1, 1);
    RANK_OK(rank, rank_step_trace_gather(trace, false, &rank->failure));
    make_step(rank, trace, 1, 1);
    RANK_OK(rank, rank_step_trace_gather(trace, true, &rank->failure));
    RANK_CHECK(rank, rank_step_trace_shares(trace) == NULL);
    RANK_CHECK(rank, rank_step_trace_steps(trace, &count) == NULL && count == 0);
    rank_step_trace_destroy(trace);
}

static void what_does_not_fit_is_not_known(void **state)
{
    (void)state;
    test_ranks_as_threads(&(test_ranks_options){.size = 2, .transport = COLL_TRANSPORT_SHM},
                          overflow_body);
}

/* More steps than one log holds. */
static void alone_steps_have_their_times(void **state)
{
    (void)state;
    enum { ALONE = 40000 };
    base_error error;
    rank_step_trace *trace = NULL;
    size_t count = 0;
    assert_ok(rank_step_trace_create(NULL, &trace, &error), &error);
    for (int i = 0; i < ALONE; i++) {
        rank_step_trace_begin(trace, 10 * i);
        rank_step_trace_reduced(trace);
        rank_step_trace_end(trace, 10 * i + 4, 3, 1);
        assert_ok(rank_step_trace_gather(trace, false, &error), &error);
    }
    assert_ok(rank_step_trace_gather(trace, true, &error), &error);
    const rank_step_cost *steps = rank_step_trace_steps(trace, &count);
    assert_int_equal(count, ALONE);
    for (size_t i = 0; i < count; i++) {
        assert_true(steps[i].step_ns == 4 && steps[i].tokens == 3 && steps[i].drawn == 1);
        assert_true(steps[i].slowest == -1 && steps[i].waiting_ns == 0);
    }
    assert_null(rank_step_trace_shares(trace)); /* there is nobody to share with */
    rank_step_trace_destroy(trace);
}

static void without_a_trace_nothing_is_logged(void **state)
{
    (void)state;
    base_error error;
    size_t count = 1;
    rank_step_trace_begin(NULL, 1);
    rank_step_trace_reduced(NULL);
    rank_step_trace_end(NULL, 2, 1, 1);
    rank_step_trace_reset(NULL);
    assert_ok(rank_step_trace_gather(NULL, true, &error), &error);
    assert_null(rank_step_trace_log(NULL));
    assert_null(rank_step_trace_shares(NULL));
    assert_null(rank_step_trace_steps(NULL, &count));
    assert_int_equal(count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiting_ends_when_the_last_rank_enters),
        cmocka_unit_test(the_slowest_has_held_up_the_others_longest),
        cmocka_unit_test(nobody_needs_to_be_the_slowest),
        cmocka_unit_test(ranks_gather_what_they_have_logged),
        cmocka_unit_test(what_does_not_fit_is_not_known),
        cmocka_unit_test(alone_steps_have_their_times),
        cmocka_unit_test(without_a_trace_nothing_is_logged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
