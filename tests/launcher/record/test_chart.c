/* record/chart.h: axes, ticks, positions of values, and the ideal line. */
#include "record/chart.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sample.h"
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

static void logarithmic_axes_end_at_ticks(void **state)
{
    (void)state;
    static const double CASES[][4] = {{0.9, 6.3, 0.5, 10},      {1, 2, 1, 2},
                                      {0.03, 0.04, 0.02, 0.05}, {5, 5, 5, 10},
                                      {12, 3000, 10, 5000},     {2e-9, 1, 2e-9, 1}};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        const launch_axis axis = launch_axis_log(CASES[i][0], CASES[i][1]);
        assert_true(axis.logarithmic);
        assert_true(fabs(axis.low - log10(CASES[i][2])) < 1e-9);
        assert_true(fabs(axis.high - log10(CASES[i][3])) < 1e-9);
    }
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

static void values_have_coordinates(void **state)
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

/* The scaling chart of these points on that many CPUs. */
static char *scaling_chart(const launch_scaling_point *points, int count, int cpus)
{
    launch_text text = {0};
    launch_summary summary = {.scaling_count = count, .scaling = (launch_scaling_point *)points};
    const launch_run_info info = {.cpus_allowed = cpus};
    const launch_run run = {.summary = &summary, .info = &info};
    launch_chart_scaling(&text, &run);
    assert_false(text.failed);
    return text.data;
}

/* An ideal line is drawn from a measured point of one rank, and up to the number of CPUs. */
static void the_ideal_line_is_measured(void **state)
{
    (void)state;
    const launch_scaling_point points[] = {sample_point(1, 100, 9, 1), sample_point(2, 190, 9, 1),
                                           sample_point(4, 200, 9, 1)};
    char *chart = scaling_chart(points, 3, 2);
    char *line = strstr(chart, "<line class=\"ideal\"");
    assert_non_null(line);
    const char *x2 = strstr(line, " x2=\"");
    assert_non_null(x2);
    const double right = 58 + 2 / 4.5 * (LAUNCH_CHART_WIDTH_HALF - 58 - 14); /* at 2 of 4.5 */
    assert_true(fabs(strtod(x2 + strlen(" x2=\""), NULL) - right) < 0.1);
    assert_non_null(strstr(chart, "200 (2.00×)"));
    assert_non_null(strstr(chart, "<title>198 to 202 tokens/s in 3 rounds</title>"));
    free(chart);
    chart = scaling_chart(points + 1, 2, 4);
    assert_null(strstr(chart, "ideal"));
    assert_null(strstr(chart, "×"));
    free(chart);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(axes_have_round_numbers),
        cmocka_unit_test(logarithmic_axes_end_at_ticks),
        cmocka_unit_test(axes_of_nothing_are_ranges_too),
        cmocka_unit_test(values_have_coordinates),
        cmocka_unit_test(the_ideal_line_is_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
