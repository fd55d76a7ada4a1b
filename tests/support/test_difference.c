/* The worst difference keeps a NaN wherever it stands, and skips what lies between the strides. */
#include <math.h>

#include "difference.h"
#include "support.h"

enum { COUNT = 5 };

static const float expected[COUNT] = {1.0f, -2.0f, 3.0f, -4.0f, 0.5f};

static void the_worst_is_found(void **state)
{
    (void)state;
    float got[COUNT] = {1.0f, -2.5f, 3.25f, -4.0f, 0.5f};
    assert_true(test_worst_difference(got, expected, COUNT, 1) == 0.5);
    assert_true(test_worst_difference(got, expected, 0, 1) == 0.0);
    test_check_close("half of a fourth", got, expected, COUNT, 0.5 / 4.0);
}

static void a_nan_is_kept(void **state)
{
    (void)state;
    for (int i = 0; i < COUNT; i++) {
        float got[COUNT] = {1.0f, -2.0f, 3.0f, -4.0f, 1.0f};
        got[i] = NAN;
        assert_true(isnan(test_worst_difference(got, expected, COUNT, 1)));
        assert_true(isnan(test_worst_difference(expected, got, COUNT, 1)));
    }
}

static void a_stride_skips(void **state)
{
    (void)state;
    const float got[2 * COUNT - 1] = {1.0f, NAN, -2.0f, NAN, 3.0f, NAN, -4.0f, NAN, 0.75f};
    assert_true(test_worst_difference(got, expected, COUNT, 2) == 0.25);
}

static void the_largest_has_no_sign(void **state)
{
    (void)state;
    const float values[] = {1.0f, NAN, -4.0f, 2.0f};
    assert_true(test_largest(values, 4) == 4.0);
    assert_true(test_largest(values, 0) == 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_worst_is_found),
        cmocka_unit_test(a_nan_is_kept),
        cmocka_unit_test(a_stride_skips),
        cmocka_unit_test(the_largest_has_no_sign),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
