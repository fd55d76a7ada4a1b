/* chart/axis.h: axes, ticks, and positions of values. */
#include "chart/axis.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

static void assert_axis(chart_axis axis, double low, double high, double tick, int decimals)
{
    assert_true(fabs(axis.low - low) < 1e-9);
    assert_true(fabs(axis.high - high) < 1e-9);
    assert_true(fabs(axis.tick - tick) < 1e-9);
    assert_int_equal(axis.decimals, decimals);
}

static void axes_have_round_numbers(void **state)
{
    (void)state;
    assert_axis(chart_axis_make(0, 11.3, 5, true), 0, 15, 5, 0);
    assert_axis(chart_axis_make(0.31, 0.87, 5, true), 0.2, 1, 0.2, 1);
    assert_axis(chart_axis_make(0, 99, 8, false), 0, 99, 20, 0);
    assert_axis(chart_axis_make(0, 200000, 5, true), 0, 200000, 50000, 0);
    assert_axis(chart_axis_make(0, 1e-3, 5, true), 0, 1e-3, 2e-4, 4);
    assert_axis(chart_axis_count(0, 2.5, 8), 0, 2.5, 1, 0);
}

static void logarithmic_axes_end_at_ticks(void **state)
{
    (void)state;
    static const double CASES[][4] = {
        {0.9, 6.3, 0.5, 10},  {1, 2, 1, 2},       {0.03, 0.04, 0.02, 0.05}, {5, 5, 5, 10},
        {12, 3000, 10, 5000}, {2e-9, 1, 1e-9, 1}, {0.3, 2e4, 0.1, 1e5},     {1, 1e5, 1, 1e5},
        {0, 4, 2, 5},         {-1, 0, 1, 2},      {NAN, INFINITY, 1, 2},    {3, -INFINITY, 1, 2}};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        const chart_axis axis = chart_axis_log(CASES[i][0], CASES[i][1]);
        assert_true(axis.logarithmic);
        assert_true(fabs(axis.low - log10(CASES[i][2])) < 1e-9);
        assert_true(fabs(axis.high - log10(CASES[i][3])) < 1e-9);
    }
}

static void ticks_are_labelled(void **state)
{
    (void)state;
    static const struct {
        chart_axis axis;
        const char *labels;
    } CASES[] = {
        {{.low = 0, .high = 1, .tick = 0.5, .decimals = 1}, "0.0 0.5 1.0 "},
        {{.low = 0.1, .high = 0.9, .tick = 0.5, .decimals = 1}, "0.5 "},
        {{.low = 0, .high = 120000, .tick = 50000}, "0 50k 100k "},
        {{.low = 0, .high = 1, .tick = 1, .logarithmic = true}, "1 2 5 10 "},
        {{.low = -0.5, .high = 0.5, .tick = 1, .logarithmic = true}, "0.5 1 2 "},
        {{.high = 4, .tick = 1, .logarithmic = true, .mark_count = 2, .marks = {64, 256}},
         "64 256 "},
        {{.low = 0, .high = 4.5, .tick = 1, .logarithmic = true}, "1 10 100 1000 10000 "},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        chart_tick ticks[CHART_TICKS_MAX];
        char labels[256] = "";
        const int count = chart_axis_ticks(&CASES[i].axis, ticks);
        for (int k = 0; k < count; k++) {
            const size_t used = strlen(labels);
            (void)snprintf(labels + used, sizeof labels - used, "%s ", ticks[k].label);
            if (strchr(ticks[k].label, 'k') == NULL) {
                assert_true(fabs(strtod(ticks[k].label, NULL) - ticks[k].value) < 1e-9);
            }
        }
        assert_string_equal(labels, CASES[i].labels);
    }
}

/* Never more ticks than there is room for. */
static void doubling_axes_have_ticks_at_powers_of_two(void **state)
{
    (void)state;
    static const struct {
        double low;
        double high;
        bool bytes;
        const char *labels;
    } cases[] = {
        {8, 8, true, "8 "},
        {512, 4096, true, "512 1Ki 2Ki 4Ki "},
        {2, 4096, false, "2 4 8 16 32 64 128 256 512 1024 2048 4096 "},
        {8, 64 << 20, true, "8 32 128 512 2Ki 8Ki 32Ki 128Ki 512Ki 2Mi 8Mi 32Mi "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        chart_tick ticks[CHART_TICKS_MAX];
        char labels[256] = "";
        const chart_axis axis = chart_axis_doubling(cases[i].low, cases[i].high, cases[i].bytes);
        const int count = chart_axis_ticks(&axis, ticks);
        for (int k = 0; k < count; k++) {
            const size_t used = strlen(labels);
            (void)snprintf(labels + used, sizeof labels - used, "%s ", ticks[k].label);
        }
        assert_string_equal(labels, cases[i].labels);
        assert_true(axis.low < log10(cases[i].low) && axis.high > log10(cases[i].high));
    }
    const chart_axis longest = chart_axis_doubling(1, 1e18, true);
    assert_in_range(longest.mark_count, 2, CHART_AXIS_MARKS_MAX);
}

static void axes_of_nothing_are_ranges_too(void **state)
{
    (void)state;
    static const double ODD[][2] = {{3, 3},        {5, 2},
                                    {NAN, NAN},    {0, INFINITY},
                                    {0, 0},        {5.5529595849216173, 5.5529595849216218},
                                    {6, 6 + 1e-8}, {-6 - 1e-8, -6},
                                    {1e30, 1e30},  {1e30, 1.00000001e30}};
    for (size_t i = 0; i < sizeof ODD / sizeof ODD[0]; i++) {
        const chart_axis axis = chart_axis_make(ODD[i][0], ODD[i][1], 5, true);
        chart_tick ticks[CHART_TICKS_MAX];
        assert_true(axis.high > axis.low);
        assert_true(axis.tick > 0);
        assert_true(fabs(axis.low / axis.tick) < 1e9); /* ticks have numbers */
        assert_in_range(chart_axis_ticks(&axis, ticks), 2, 12);
    }
}

static void values_have_coordinates(void **state)
{
    (void)state;
    const chart_plot plot = {.left = 10,
                             .top = 20,
                             .width = 100,
                             .height = 50,
                             .x = {.low = 0, .high = 4},
                             .y = {.low = 1, .high = 2}};
    assert_true(chart_plot_x(&plot, 0) == 10);
    assert_true(chart_plot_x(&plot, 4) == 110);
    assert_true(chart_plot_y(&plot, 1) == 70); /* upwards on the page is downwards in SVG */
    assert_true(chart_plot_y(&plot, 2) == 20);
    const chart_plot decades = {
        .left = 10, .width = 100, .x = {.low = 0, .high = 2, .logarithmic = true}};
    assert_true(fabs(chart_plot_x(&decades, 10) - 60) < 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(axes_have_round_numbers),
        cmocka_unit_test(logarithmic_axes_end_at_ticks),
        cmocka_unit_test(ticks_are_labelled),
        cmocka_unit_test(doubling_axes_have_ticks_at_powers_of_two),
        cmocka_unit_test(axes_of_nothing_are_ranges_too),
        cmocka_unit_test(values_have_coordinates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
