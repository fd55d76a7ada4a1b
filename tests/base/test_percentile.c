/* base/percentile.h: percentiles interpolate between sorted values. */
#include "base/percentile.h"

#include <math.h>

#include "support.h"

static void percentiles_interpolate(void **state)
{
    (void)state;
    double values[] = {40, 10, 30, 20};
    base_sort(values, 4);
    assert_true(values[0] == 10 && values[3] == 40);
    assert_true(base_percentile(values, 4, 0) == 10);
    assert_true(base_percentile(values, 4, 0.5) == 25);
    assert_true(fabs(base_percentile(values, 4, 0.95) - 38.5) < 1e-12);
    assert_true(base_percentile(values, 4, 1) == 40);
    assert_true(base_percentile(values, 1, 0.95) == 10);
    assert_true(isnan(base_percentile(values, 0, 0.5)));
    base_sort(values, 0);
}

static void times_are_sorted_first(void **state)
{
    (void)state;
    int64_t values[] = {INT64_MAX / 2, 10, 30, 20, -5};
    assert_true(base_percentile_int64(values, 5, 0.5) == 20);
    assert_true(base_percentile_int64(values, 5, 0.25) == 10);
    assert_true(base_percentile_int64(values, 5, 0.125) == 2.5);
    assert_true(base_percentile_int64(values, 5, 1) == (double)(INT64_MAX / 2));
    assert_true(isnan(base_percentile_int64(values, 0, 0.5)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(percentiles_interpolate),
        cmocka_unit_test(times_are_sorted_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
