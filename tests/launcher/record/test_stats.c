#include "record/stats.h"

#include <math.h>

#include "support.h"

static void percentiles_interpolate(void **state)
{
    (void)state;
    const double values[] = {10, 20, 30, 40};
    assert_true(launch_percentile(values, 4, 0) == 10);
    assert_true(launch_percentile(values, 4, 0.5) == 25);
    assert_true(fabs(launch_percentile(values, 4, 0.95) - 38.5) < 1e-12);
    assert_true(launch_percentile(values, 4, 1) == 40);
    assert_true(launch_percentile(values, 1, 0.95) == 10);
    assert_true(isnan(launch_percentile(values, 0, 0.5)));
}

static void spreads_sort_first(void **state)
{
    (void)state;
    double values[] = {3, 1, 2, 5, 4};
    const launch_spread spread = launch_spread_of(values, 5);
    assert_true(spread.mean == 3);
    assert_true(spread.p50 == 3);
    assert_true(fabs(spread.p95 - 4.8) < 1e-12);
    const launch_spread none = launch_spread_of(values, 0);
    assert_true(isnan(none.mean) && isnan(none.p50) && isnan(none.p95));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(percentiles_interpolate),
        cmocka_unit_test(spreads_sort_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
