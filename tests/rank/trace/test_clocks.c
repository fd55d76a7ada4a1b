/* Clocks of two hosts, found from exchanges between them. */
#include "trace/clocks.h"

#include "base/splitmix.h"
#include "support.h"

static rank_trace_span exchange(int64_t begin_ns, int64_t end_ns, int32_t index)
{
    return (rank_trace_span){.kind = RANK_TRACE_REDUCE,
                             .of = RANK_TRACE_EXCHANGE | RANK_TRACE_ALL_RANKS,
                             .index = index,
                             .begin_ns = begin_ns,
                             .end_ns = end_ns};
}

static rank_trace_clock between(const rank_trace_span *a, size_t a_count, const rank_trace_span *b,
                                size_t b_count)
{
    rank_trace_bounds bounds = RANK_TRACE_UNBOUNDED;
    rank_trace_narrow_all(&bounds, a, a_count, b, b_count);
    return rank_trace_clock_of(&bounds);
}

/* b's clock is 1000 ahead. In the first exchange a waits for b, in the second b for a. */
static void all_exchanges_narrow_the_offset(void **state)
{
    (void)state;
    const rank_trace_span a[] = {exchange(100, 210, 0), exchange(400, 412, 1)};
    const rank_trace_span b[] = {exchange(1200, 1212, 0), exchange(1300, 1410, 1)};
    rank_trace_clock found = between(a, 1, b, 1); /* 1200 - 210 to 1212 - 100 */
    assert_true(found.known);
    assert_int_equal(found.offset_ns, 1051);
    assert_int_equal(found.uncertainty_ns, 61);
    found = between(a, 2, b, 2); /* and 1300 - 412 to 1410 - 400 */
    assert_true(found.known);
    assert_int_equal(found.offset_ns, 1000);
    assert_int_equal(found.uncertainty_ns, 10);
}

static void nothing_is_known_without_exchanges(void **state)
{
    (void)state;
    const rank_trace_span a[] = {exchange(100, 210, 0)};
    const rank_trace_span others[] = {{.kind = RANK_TRACE_LAYER, .begin_ns = 1, .end_ns = 2}};
    assert_false(between(a, 1, a, 0).known);
    assert_false(between(a, 1, others, 1).known);
    assert_false(between(others, 1, others, 1).known);
}

/* No clock fits both of these. */
static void contradictions_are_no_offset(void **state)
{
    (void)state;
    const rank_trace_span a[] = {exchange(100, 110, 0), exchange(200, 210, 1)};
    const rank_trace_span b[] = {exchange(1100, 1110, 0), exchange(5200, 5210, 1)};
    assert_false(between(a, 2, b, 2).known);
}

/* One rank has lost its older spans, or has others in between: exchanges are matched from the end. */
static void exchanges_are_matched_from_the_end(void **state)
{
    (void)state;
    const rank_trace_span a[] = {exchange(0, 10, 7), exchange(100, 110, 0), exchange(200, 210, 1)};
    const rank_trace_span b[] = {exchange(5104, 5106, 0),
                                 {.kind = RANK_TRACE_LAYER, .begin_ns = 1, .end_ns = 2},
                                 exchange(5204, 5206, 1)};
    const rank_trace_clock found = between(a, 3, b, 3);
    assert_true(found.known);
    assert_int_equal(found.offset_ns, 5000);
    assert_int_equal(found.uncertainty_ns, 6);
}

/* Whatever happens between two ranks whose clocks differ by so much, the offset is off by its uncertainty at
 * most. */
static void the_offset_is_never_off_by_more(void **state)
{
    (void)state;
    uint64_t seed = 7;
    for (int round = 0; round < 200; round++) {
        enum { EXCHANGES = 6 };
        const int64_t offset_ns = (int64_t)(base_splitmix_next(&seed) % 2000000) - 1000000;
        rank_trace_span a[EXCHANGES];
        rank_trace_span b[EXCHANGES];
        int64_t now_ns = 5000000;
        for (int i = 0; i < EXCHANGES; i++) {
            const int64_t a_begin = now_ns + (int64_t)(base_splitmix_next(&seed) % 1000);
            const int64_t b_begin = now_ns + (int64_t)(base_splitmix_next(&seed) % 1000);
            const int64_t all_begun = a_begin > b_begin ? a_begin : b_begin;
            a[i] = exchange(a_begin, all_begun + (int64_t)(base_splitmix_next(&seed) % 300), i);
            b[i] = exchange(b_begin + offset_ns,
                            all_begun + (int64_t)(base_splitmix_next(&seed) % 300) + offset_ns, i);
            now_ns = all_begun + 300;
        }
        const rank_trace_clock found = between(a, EXCHANGES, b, EXCHANGES);
        const int64_t off_ns = found.offset_ns - offset_ns;
        assert_true(found.known);
        assert_true((off_ns < 0 ? -off_ns : off_ns) <= found.uncertainty_ns);
        assert_true(found.uncertainty_ns <= 650);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_exchanges_narrow_the_offset),
        cmocka_unit_test(nothing_is_known_without_exchanges),
        cmocka_unit_test(contradictions_are_no_offset),
        cmocka_unit_test(exchanges_are_matched_from_the_end),
        cmocka_unit_test(the_offset_is_never_off_by_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
