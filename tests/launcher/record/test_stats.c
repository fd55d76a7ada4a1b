/* record/stats.h: a spread sorts its values first. */
#include "record/stats.h"

#include <math.h>

#include "support.h"

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
        cmocka_unit_test(spreads_sort_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
