/* record/chart.h, record/figure.h, record/picture.h: axes, ticks, positions of values, and what is
 * drawn. */
#include "record/picture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record/run_figures.h"
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

static void ticks_are_labelled(void **state)
{
    (void)state;
    static const struct {
        launch_axis axis;
        const char *labels;
    } CASES[] = {
        {{.low = 0, .high = 1, .tick = 0.5, .decimals = 1}, "0.0 0.5 1.0 "},
        {{.low = 0.1, .high = 0.9, .tick = 0.5, .decimals = 1}, "0.5 "},
        {{.low = 0, .high = 120000, .tick = 50000}, "0 50k 100k "},
        {{.low = 0, .high = 1, .tick = 1, .logarithmic = true}, "1 2 5 10 "},
        {{.low = -0.5, .high = 0.5, .tick = 1, .logarithmic = true}, "0.5 1 2 "},
        {{.high = 4, .tick = 1, .logarithmic = true, .mark_count = 2, .marks = {64, 256}},
         "64 256 "},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        launch_tick ticks[LAUNCH_TICKS_MAX];
        char labels[256] = "";
        const int count = launch_axis_ticks(&CASES[i].axis, ticks);
        for (int k = 0; k < count; k++) {
            (void)strcat(strcat(labels, ticks[k].label), " ");
            if (strchr(ticks[k].label, 'k') == NULL) {
                assert_true(fabs(strtod(ticks[k].label, NULL) - ticks[k].value) < 1e-9);
            }
        }
        assert_string_equal(labels, CASES[i].labels);
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
    const launch_plot decades = {
        .left = 10, .width = 100, .x = {.low = 0, .high = 2, .logarithmic = true}};
    assert_true(fabs(launch_plot_x(&decades, 10) - 60) < 1e-9);
}

/* The scaling chart of these points on that many CPUs. The caller frees it. */
static launch_figure *scaling_figure(const launch_scaling_point *points, int count, int cpus)
{
    launch_summary summary = {.scaling_count = count, .scaling = (launch_scaling_point *)points};
    const launch_run_info info = {.cpus_allowed = cpus};
    const launch_run run = {.summary = &summary, .info = &info};
    launch_figure *figure = launch_scaling_figure(&run);
    assert_non_null(figure);
    return figure;
}

/* An ideal line is drawn from a measured point of one rank, and up to the number of CPUs. */
static void the_ideal_line_is_measured(void **state)
{
    (void)state;
    const launch_scaling_point points[] = {sample_point(1, 100, 9, 1), sample_point(2, 190, 9, 1),
                                           sample_point(4, 200, 9, 1)};
    launch_figure *figure = scaling_figure(points, 3, 2);
    assert_int_equal(figure->series_count, 2);
    assert_true(figure->series[1].points[1].x == 2 && figure->series[1].points[1].y == 200);
    assert_string_equal(figure->series[0].points[2].label, "200 (2.00×)");
    assert_string_equal(figure->series[0].points[2].hint, "198 to 202 tokens/s in 3 rounds");
    free(figure);
    figure = scaling_figure(points + 1, 2, 4);
    assert_int_equal(figure->series_count, 1);
    assert_string_equal(figure->series[0].points[1].label, "200");
    free(figure);
    figure = scaling_figure(points, 0, 4);
    base_buffer text = {0};
    launch_picture_svg(&text, &(launch_picture){"t", "", &(const launch_figure *){figure}, 1});
    assert_null(text.data); /* of nothing there is no picture */
    launch_figure_svg(&text, figure);
    assert_has(text.data, "No speed was measured.");
    base_buffer_fini(&text);
    free(figure);
}

static void a_figure_is_drawn_with_its_data(void **state)
{
    (void)state;
    const launch_scaling_point points[] = {sample_point(1, 100, 9, 1), sample_point(2, 190, 9, 1)};
    launch_figure *figure = scaling_figure(points, 2, 2);
    base_buffer svg = {0};
    base_buffer data = {0};
    launch_figure_svg(&svg, figure);
    launch_figure_data(&data, figure);
    char x[32];
    (void)snprintf(x, sizeof x, "points=\"%.1f,", 58 + 1 / 2.5 * (LAUNCH_CHART_WIDTH_HALF - 72));
    assert_has(svg.data, x); /* one rank lies at 1 of 2.5 */
    assert_has(svg.data, "<title>188 to 192 tokens/s in 3 rounds</title>");
    assert_has(svg.data, ">190 (1.90×)</text>");
    assert_has(svg.data, "color:var(--accent)");
    assert_has(svg.data, ">150</text>");
    assert_has(data.data, "\n2 190 188.1 191.9\n\n\n# ");
    assert_has(data.data, "\n0 0 0 0\n2 200 200 200\n");
    base_buffer_fini(&svg);
    base_buffer_fini(&data);
    free(figure);
}

/* The same drawing as on a page, with colours in place of their names, title, subtitle and key. */
static void a_picture_needs_no_page(void **state)
{
    (void)state;
    const launch_scaling_point points[] = {sample_point(1, 100, 9, 1), sample_point(2, 190, 9, 1)};
    launch_figure *figure = scaling_figure(points, 2, 2);
    base_buffer picture = {0};
    launch_picture_svg(&picture,
                       &(launch_picture){"<t>", "a & b", &(const launch_figure *){figure}, 1});
    assert_has(picture.data, "<svg xmlns=\"http://www.w3.org/2000/svg\"");
    assert_has(picture.data, ">&lt;t&gt;</text>");
    assert_has(picture.data, ">a &amp; b</text>");
    assert_has(picture.data, ">measured</text>");
    assert_has(picture.data, "<title>188 to 192 tokens/s in 3 rounds</title>");
    assert_has(picture.data, ">190 (1.90×)</text>");
    assert_has(picture.data, "style=\"color:#2f6fd0\"");
    assert_has(picture.data, "fill:#16202c"); /* the ink of the light page, in the style sheet */
    assert_null(strstr(picture.data, "var("));
    assert_null(strstr(picture.data, "prefers-color-scheme"));
    base_buffer_fini(&picture);
    free(figure);
}

static void dots_have_no_line(void **state)
{
    (void)state;
    launch_figure *figure = launch_figure_make("t", "x", "y", 1, 2);
    assert_non_null(figure);
    launch_series *dots = launch_figure_add(figure, "d", "accent", LAUNCH_STROKE_DOTS);
    (void)launch_series_add(dots, 1, 1);
    (void)launch_series_add(dots, 2, 2);
    figure->x = launch_axis_make(0, 3, 3, true);
    figure->y = launch_axis_make(0, 3, 3, true);
    for (int line = 0; line < 2; line++) {
        base_buffer svg = {0};
        dots->stroke = line != 0 ? LAUNCH_STROKE_POINTS : LAUNCH_STROKE_DOTS;
        launch_figure_svg(&svg, figure);
        assert_has(svg.data, "<circle class=\"point\"");
        assert_int_equal(strstr(svg.data, "<polyline") != NULL, line);
        base_buffer_fini(&svg);
    }
    free(figure);
}

static void a_series_has_room_for_its_points(void **state)
{
    (void)state;
    enum { MAX = 3 };
    launch_figure *figure = launch_figure_make("t", "x", "y", 2, MAX);
    double low = 0;
    double high = 0;
    assert_non_null(figure);
    launch_series *series = launch_figure_add(figure, NULL, "accent", LAUNCH_STROKE_LINE);
    launch_series *other = launch_figure_add(figure, NULL, "accent", LAUNCH_STROKE_LINE);
    assert_false(launch_figure_range(figure, &low, &high));
    (void)launch_series_add(series, 1, (double)NAN);
    assert_int_equal(series->point_count, 0);
    for (int i = 0; i < MAX + 1; i++) {
        launch_series_add(series, i, i)->low = -1;
    }
    assert_int_equal(series->point_count, MAX);
    (void)launch_series_add(other, 5, 9);
    series->points[0].high = 1;
    assert_true(series->points[MAX - 1].y == MAX - 1); /* other has points of its own */
    assert_true(launch_figure_range(figure, &low, &high));
    assert_true(low == -1 && high == 9);
    free(figure);
}

static void rows_are_drawn_with_their_data(void **state)
{
    (void)state;
    base_buffer svg = {0};
    base_buffer data = {0};
    launch_figure *figure = launch_figure_make("t", "ms per step", "ms", 3, 2);
    assert_non_null(figure);
    (void)launch_figure_add(figure, "work", "compute", LAUNCH_STROKE_BAR);
    (void)launch_figure_add(figure, "none", "other", LAUNCH_STROKE_BAR);
    (void)launch_figure_add(figure, "rest", "waiting", LAUNCH_STROKE_BAR);
    launch_figure_add_row(figure, "rank 0", (const double[]){3, 0, 1});
    launch_figure_add_row(figure, "rank 1", (const double[]){2, (double)NAN, 0});
    launch_figure_svg(&svg, figure);
    launch_figure_data(&data, figure);
    assert_has(svg.data, "<title>work: 3.000 ms, 75.0 %</title>");
    assert_has(svg.data, ">4.00 ms</text>");
    assert_has(svg.data, "<i class=\"part\" style=\"color:var(--waiting)\"></i>rest</li>");
    assert_null(strstr(svg.data, ">none</li>"));
    assert_string_equal(data.data, "# work: row, ms, low, high\n0 3 0 3\n1 2 0 2\n\n\n"
                                   "# rest: row, ms, low, high\n0 1 3 4\n\n\n");
    base_buffer_fini(&svg);
    base_buffer_fini(&data);
    free(figure);
}

/* The bars begin behind the longest name, and a narrow screen has a drawing of its own. */
static void rows_have_room_for_their_names(void **state)
{
    (void)state;
    for (int wide = 0; wide < 2; wide++) {
        base_buffer svg = {0};
        launch_figure *figure = launch_figure_make("t", "ms per step", "ms", 1, 1);
        assert_non_null(figure);
        figure->width = LAUNCH_CHART_WIDTH;
        (void)launch_figure_add(figure, "work", "compute", LAUNCH_STROKE_BAR);
        launch_figure_add_row(figure, wide != 0 ? "last to arrive" : "rank 0", (const double[]){9});
        launch_figure_svg(&svg, figure);
        assert_has(svg.data, wide != 0 ? "<rect class=\"part\" x=\"112.80\""
                                       : "<rect class=\"part\" x=\"66.00\"");
        assert_has(svg.data, "<svg class=\"chart broad\" viewBox=\"0 0 1000 ");
        const char *narrow = strstr(svg.data, "<svg class=\"chart narrow\" viewBox=\"0 0 480 ");
        assert_non_null(narrow);
        const char *value = strstr(narrow, "<text class=\"value\" x=\"");
        assert_non_null(value);
        assert_true(strtod(strchr(value, 'x') + 3, NULL) < 480 - 70); /* room for "9.00 ms" */
        base_buffer_fini(&svg);
        free(figure);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(axes_have_round_numbers),
        cmocka_unit_test(logarithmic_axes_end_at_ticks),
        cmocka_unit_test(axes_of_nothing_are_ranges_too),
        cmocka_unit_test(values_have_coordinates),
        cmocka_unit_test(ticks_are_labelled),
        cmocka_unit_test(the_ideal_line_is_measured),
        cmocka_unit_test(a_figure_is_drawn_with_its_data),
        cmocka_unit_test(a_picture_needs_no_page),
        cmocka_unit_test(dots_have_no_line),
        cmocka_unit_test(a_series_has_room_for_its_points),
        cmocka_unit_test(rows_are_drawn_with_their_data),
        cmocka_unit_test(rows_have_room_for_their_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
