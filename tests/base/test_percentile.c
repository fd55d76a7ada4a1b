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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(percentiles_interpolate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
