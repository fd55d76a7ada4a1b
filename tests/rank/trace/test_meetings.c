/* Which rank the others wait for in an exchange, on spans with a known answer. */
#include "trace/meetings.h"

#include "support.h"

enum { ALL = RANK_TRACE_THREAD | RANK_TRACE_EXCHANGE | RANK_TRACE_ALL_RANKS, ROOM = 8 };

static rank_trace_span exchange(rank_trace_kind kind, int64_t begin_ns, int64_t end_ns)
{
    return (rank_trace_span){
        .kind = (uint8_t)kind, .of = ALL, .index = -1, .begin_ns = begin_ns, .end_ns = end_ns};
}

static rank_trace_span layer(int64_t begin_ns, int64_t end_ns)
{
    return (rank_trace_span){
        .kind = RANK_TRACE_LAYER, .of = RANK_TRACE_THREAD, .begin_ns = begin_ns, .end_ns = end_ns};
}

static size_t meet(const rank_trace_of_rank *ranks, int count, rank_trace_clock *clocks,
                   rank_trace_meeting *meetings)
{
    const rank_trace_all all = {.ranks = ranks, .rank_count = count, .clocks = clocks};
    return rank_trace_meet(&all, meetings);
}

/* Three ranks, two exchanges: rank 2 is last in the first one, rank 0 in the second. Rank 1 has a clock that is 1000
 * ahead, and layers in between. */
static void the_last_rank_to_enter_is_found(void **state)
{
    (void)state;
    rank_trace_span a[] = {exchange(RANK_TRACE_PARTS, 10, 60),
                           exchange(RANK_TRACE_CANDIDATES, 95, 99)};
    rank_trace_span b[] = {layer(1001, 1002), exchange(RANK_TRACE_PARTS, 1020, 1061),
                           layer(1062, 1063), exchange(RANK_TRACE_CANDIDATES, 1070, 1099)};
    rank_trace_span c[] = {exchange(RANK_TRACE_PARTS, 50, 62),
                           exchange(RANK_TRACE_CANDIDATES, 80, 98), layer(99, 100)};
    const rank_trace_of_rank ranks[] = {{"a", 0, a, 2}, {"b", 1, b, 4}, {"a", 0, c, 3}};
    rank_trace_clock clocks[] = {
        {.known = true}, {.known = true, .offset_ns = 1000}, {.known = false}};
    rank_trace_meeting found[ROOM];
    assert_int_equal(rank_trace_meeting_count(&ranks[0]), 2);
    assert_int_equal(rank_trace_meeting_count(&ranks[1]), 2);
    assert_int_equal(meet(ranks, 3, clocks, found), 2);
    assert_true(found[0].all_there_ns == 95 && found[0].last == 0); /* the last one comes first */
    assert_true(found[1].all_there_ns == 50 && found[1].last == 2);
    clocks[1].known = false;
    assert_int_equal(meet(ranks, 3, clocks, found), 0);
}

/* From the end on, as long as the ranks' exchanges are alike. */
static void exchanges_are_matched_from_the_end(void **state)
{
    (void)state;
    rank_trace_span a[] = {exchange(RANK_TRACE_PARTS, 1, 2), exchange(RANK_TRACE_PARTS, 3, 5),
                           exchange(RANK_TRACE_SUMS, 6, 8)};
    rank_trace_span b[] = {exchange(RANK_TRACE_BARRIER, 1, 3), exchange(RANK_TRACE_PARTS, 4, 5),
                           exchange(RANK_TRACE_SUMS, 6, 8)};
    const rank_trace_of_rank ranks[] = {{"a", 0, a, 3}, {"a", 0, b, 3}};
    rank_trace_clock clocks[] = {{.known = true}, {.known = false}};
    rank_trace_meeting found[ROOM];
    assert_int_equal(meet(ranks, 2, clocks, found), 2);
    assert_true(found[0].all_there_ns == 6);
    assert_true(found[1].all_there_ns == 4 && found[1].last == 1);
    b[1].index = 3;
    assert_int_equal(meet(ranks, 2, clocks, found), 1);
}

/* Of buckets that are exchanged meanwhile, the thread is not in the exchange all the time. */
static void only_what_threads_are_in_counts(void **state)
{
    (void)state;
    rank_trace_span a[] = {exchange(RANK_TRACE_REDUCE, 1, 2)};
    rank_trace_span b[] = {exchange(RANK_TRACE_REDUCE, 1, 2)};
    const rank_trace_of_rank ranks[] = {{"a", 0, a, 1}, {"a", 0, b, 1}};
    rank_trace_clock clocks[] = {{.known = true}, {.known = false}};
    rank_trace_meeting found[ROOM];
    assert_int_equal(meet(ranks, 2, clocks, found), 1);
    assert_int_equal(meet(ranks, 1, clocks, found), 0); /* nobody to wait for */
    a[0].of = b[0].of = RANK_TRACE_EXCHANGE | RANK_TRACE_ALL_RANKS;
    assert_int_equal(meet(ranks, 2, clocks, found), 0);
    a[0].of = b[0].of = RANK_TRACE_EXCHANGE | RANK_TRACE_THREAD;
    assert_int_equal(meet(ranks, 2, clocks, found), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_rank_to_enter_is_found),
        cmocka_unit_test(exchanges_are_matched_from_the_end),
        cmocka_unit_test(only_what_threads_are_in_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
