#include "record/chart.h"

#include <math.h>

#include "support.h"

static void assert_axis(launch_axis axis, double low, double high, double tick, int decimals)
{
    assert_true(fabs(axis.low - low) < 1e-9);
    assert_true(fabs(axis.high - high) < 1e-9);
    assert_true(fabs(axis.tick - tick) < 1e-9);
    assert_int_equal(axis.decimals, decimals);
}

static void axes_have_round_numbers(void **state)
{
    (void)state;
    assert_axis(launch_axis_make(0, 11.3, 5, true), 0, 15, 5, 0);
    assert_axis(launch_axis_make(0.31, 0.87, 5, true), 0.2, 1, 0.2, 1);
    assert_axis(launch_axis_make(0, 99, 8, false), 0, 99, 20, 0);
    assert_axis(launch_axis_make(0, 200000, 5, true), 0, 200000, 50000, 0);
    assert_axis(launch_axis_make(0, 1e-3, 5, true), 0, 1e-3, 2e-4, 4);
    assert_axis(launch_axis_count(2.5, 8), 0, 2.5, 1, 0);
}

static void axes_of_nothing_are_ranges_too(void **state)
{
    (void)state;
    static const double ODD[][2] = {{3, 3}, {5, 2}, {NAN, NAN}, {0, INFINITY}, {0, 0}};
    for (size_t i = 0; i < sizeof ODD / sizeof ODD[0]; i++) {
        const launch_axis axis = launch_axis_make(ODD[i][0], ODD[i][1], 5, true);
        assert_true(axis.high > axis.low);
        assert_true(axis.tick > 0);
    }
}

static void values_have_their_places(void **state)
{
    (void)state;
    const launch_plot plot = {.left = 10,
                              .top = 20,
                              .width = 100,
                              .height = 50,
                              .x = {.low = 0, .high = 4},
                              .y = {.low = 1, .high = 2}};
    assert_true(launch_plot_x(&plot, 0) == 10);
    assert_true(launch_plot_x(&plot, 4) == 110);
    assert_true(launch_plot_y(&plot, 1) == 70); /* upwards on the page is downwards in SVG */
    assert_true(launch_plot_y(&plot, 2) == 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(axes_have_round_numbers),
        cmocka_unit_test(axes_of_nothing_are_ranges_too),
        cmocka_unit_test(values_have_their_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
