/* The scaling curve's arithmetic, on figures whose answer is known. */
#include "generate/curve.h"

#include <math.h>

#include "support.h"

static bool near(double found, double expected)
{
    return fabs(found - expected) <= 1e-9 * fabs(expected);
}

static void a_curve_has_the_standard_widths_and_those_asked_for(void **state)
{
    (void)state;
    static const int asked[] = {512, 64, 512};
    static const int widths[] = {64, 256, 512, 1024, 4096};
    rank_curve curve;
    rank_curve_plan(asked, 3, 2, &curve);
    assert_int_equal(curve.count, 5);
    for (int i = 0; i < 5; i++) {
        const rank_curve_point *point = &curve.points[i];
        assert_int_equal(point->width, widths[i]);
        assert_int_equal(point->asked, point->width == 64 || point->width == 512);
        assert_int_equal(point->reason[0] != '\0', !point->asked);
        assert_true(isnan(point->single.median) && isnan(point->tp.median));
    }
}

static void heads_are_whole_on_every_rank(void **state)
{
    (void)state;
    assert_int_equal(rank_curve_heads(64, 2), 4);
    assert_int_equal(rank_curve_heads(1024, 2), 16);
    assert_int_equal(rank_curve_heads(64, 16), 16);
}

/* A link gives times; the times give the link. */
static void a_link_follows_from_two_times(void **state)
{
    (void)state;
    const coll_tp_link link = {.latency_s = 5e-6, .bandwidth_bytes_per_s = 2e9};
    const double payload_bytes = 1 << 20;
    for (int ranks = 2; ranks <= 8; ranks *= 2) {
        const double long_s = coll_allreduce_time_s(payload_bytes, ranks, &link);
        const double short_s = (ranks - 1) * link.latency_s;
        const coll_tp_link found = rank_curve_link(short_s, long_s, payload_bytes, ranks);
        assert_true(near(found.latency_s, link.latency_s));
        assert_true(near(found.bandwidth_bytes_per_s, link.bandwidth_bytes_per_s));
    }
    const coll_tp_link none = rank_curve_link(1e-6, 1e-6, payload_bytes, 2);
    assert_true(isfinite(none.bandwidth_bytes_per_s) && none.bandwidth_bytes_per_s > 0);
}

/* 10 MB of weights at 1 GB/s; halves at 2 GB/s; six exchanges of 100 us and next to no bytes. */
static void a_prediction_is_weights_and_exchanges(void **state)
{
    (void)state;
    const rank_curve curve = {.ranks = 2,
                              .link = {.latency_s = 1e-4, .bandwidth_bytes_per_s = 1e18}};
    rank_curve_point point = {
        .width = 64, .weight_bytes = 10e6, .single_rate = 1e9, .tp_rate = 2e9};
    rank_curve_predict(&curve, &point);
    assert_true(near(point.predicted_single_ms, 10));
    assert_true(fabs(point.predicted_tp_ms - (2.5 + 0.6)) < 1e-6);
    assert_true(fabs(point.predicted_comm_fraction - 0.6 / 3.1) < 1e-6);
}

static rank_curve curve_of(const double *single_ms, const double *tp_ms)
{
    rank_curve curve;
    rank_curve_plan(NULL, 0, 2, &curve);
    for (int i = 0; i < curve.count; i++) {
        curve.points[i].single.median = single_ms[i];
        curve.points[i].tp.median = tp_ms[i];
    }
    return curve;
}

static double crossover(const double *single_ms, const double *tp_ms)
{
    const rank_curve curve = curve_of(single_ms, tp_ms);
    assert_true(isnan(rank_curve_crossover(&curve, true))); /* nothing was predicted */
    return rank_curve_crossover(&curve, false);
}

static void the_crossover_lies_between_slower_and_faster(void **state)
{
    (void)state;
    static const double one[] = {1, 1, 1, 1};
    /* twice as slow, twice as fast: in the middle of 256 and 1024, which is 512 */
    assert_true(near(crossover(one, (const double[]){2, 2, 0.5, 0.5}), 512));
    /* just as fast at 256 */
    assert_true(near(crossover(one, (const double[]){2, 1, 0.5, 0.5}), 256));
    /* faster, slower, faster: the last counts */
    assert_true(near(crossover(one, (const double[]){0.5, 0.5, 2, 0.5}), 2048));
    /* a width that was not measured is passed by: 64 and 1024 */
    assert_true(near(crossover(one, (const double[]){2, NAN, 0.5, NAN}), 256));
}

static void there_may_be_no_crossover(void **state)
{
    (void)state;
    static const double one[] = {1, 1, 1, 1};
    assert_true(isnan(crossover(one, (const double[]){0.9, 0.9, 0.9, 0.9})));
    assert_true(isnan(crossover(one, (const double[]){2, 2, 2, 2})));
    assert_true(isnan(crossover(one, (const double[]){0.5, 0.5, 0.5, 2})));
    assert_true(isnan(crossover(one, (const double[]){NAN, NAN, NAN, NAN})));
    assert_true(isnan(crossover(one, (const double[]){2, NAN, NAN, NAN})));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_curve_has_the_standard_widths_and_those_asked_for),
        cmocka_unit_test(heads_are_whole_on_every_rank),
        cmocka_unit_test(a_link_follows_from_two_times),
        cmocka_unit_test(a_prediction_is_weights_and_exchanges),
        cmocka_unit_test(the_crossover_lies_between_slower_and_faster),
        cmocka_unit_test(there_may_be_no_crossover),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
