/* chart/figure.h, chart/picture.h: what is drawn of a figure, on a page and in a file. */
#include "chart/picture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support.h"

static void dots_have_no_line(void **state)
{
    (void)state;
    chart_figure *figure = chart_figure_make("t", "x", "y", 1, 2);
    assert_non_null(figure);
    chart_series *dots = chart_figure_add(figure, "d", "accent", CHART_STROKE_DOTS);
    (void)chart_series_add(dots, 1, 1);
    (void)chart_series_add(dots, 2, 2);
    figure->x = chart_axis_make(0, 3, 3, true);
    figure->y = chart_axis_make(0, 3, 3, true);
    for (int line = 0; line < 2; line++) {
        base_buffer svg = {0};
        dots->stroke = line != 0 ? CHART_STROKE_POINTS : CHART_STROKE_DOTS;
        chart_figure_svg(&svg, figure);
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
    chart_figure *figure = chart_figure_make("t", "x", "y", 2, MAX);
    double low = 0;
    double high = 0;
    assert_non_null(figure);
    chart_series *series = chart_figure_add(figure, NULL, "accent", CHART_STROKE_LINE);
    chart_series *other = chart_figure_add(figure, NULL, "accent", CHART_STROKE_LINE);
    assert_false(chart_figure_range(figure, &low, &high));
    (void)chart_series_add(series, 1, (double)NAN);
    assert_int_equal(series->point_count, 0);
    for (int i = 0; i < MAX + 1; i++) {
        chart_series_add(series, i, i)->low = -1;
    }
    assert_int_equal(series->point_count, MAX);
    (void)chart_series_add(other, 5, 9);
    series->points[0].high = 1;
    assert_true(series->points[MAX - 1].y == MAX - 1); /* other has points of its own */
    assert_true(chart_figure_range(figure, &low, &high));
    assert_true(low == -1 && high == 9);
    free(figure);
}

static void rows_are_drawn_with_their_data(void **state)
{
    (void)state;
    base_buffer svg = {0};
    base_buffer data = {0};
    chart_figure *figure = chart_figure_make("t", "ms per step", "ms", 3, 2);
    assert_non_null(figure);
    (void)chart_figure_add(figure, "work", "compute", CHART_STROKE_BAR);
    (void)chart_figure_add(figure, "none", "other", CHART_STROKE_BAR);
    (void)chart_figure_add(figure, "rest", "waiting", CHART_STROKE_BAR);
    chart_figure_add_row(figure, "rank 0", (const double[]){3, 0, 1});
    chart_figure_add_row(figure, "rank 1", (const double[]){2.00000024, (double)NAN, 0});
    chart_figure_svg(&svg, figure);
    chart_figure_data(&data, figure);
    assert_has(svg.data, "<title>work: 3.000 ms, 75.0 %</title>");
    assert_has(svg.data, ">4.00 ms</text>");
    assert_has(svg.data, "<i class=\"part\" style=\"color:var(--waiting)\"></i>rest</li>");
    assert_null(strstr(svg.data, ">none</li>"));
    assert_string_equal(data.data, "# work: row, ms, low, high\n0 3 0 3\n1 2.00000024 0 "
                                   "2.00000024\n\n\n" /* a float32 has 9 digits */
                                   "# rest: row, ms, low, high\n0 1 3 4\n\n\n");
    base_buffer_fini(&svg);
    base_buffer_fini(&data);
    free(figure);
}

/* In a file bars have an axis, on a page they have not. */
static void rows_have_an_axis_in_a_file(void **state)
{
    (void)state;
    base_buffer page = {0};
    base_buffer file = {0};
    chart_figure *figure = chart_figure_make("t", "ms per step", "ms", 1, 1);
    assert_non_null(figure);
    (void)chart_figure_add(figure, "work", "compute", CHART_STROKE_BAR);
    chart_figure_add_row(figure, "rank 0", (const double[]){4});
    chart_figure_svg(&page, figure);
    chart_picture_svg(&file, &(chart_picture){"t", "", &(const chart_figure *){figure}, 1});
    assert_has(file.data, ">ms per step</text>");
    assert_has(file.data, "class=\"grid\"");
    assert_has(file.data, ">4</text>");
    assert_null(strstr(page.data, "ms per step"));
    base_buffer_fini(&page);
    base_buffer_fini(&file);
    free(figure);
}

/* The bars begin behind the longest name, and a narrow screen has a drawing of its own. */
static void rows_have_room_for_their_names(void **state)
{
    (void)state;
    for (int wide = 0; wide < 2; wide++) {
        base_buffer svg = {0};
        chart_figure *figure = chart_figure_make("t", "ms per step", "ms", 1, 1);
        assert_non_null(figure);
        figure->width = CHART_WIDTH;
        (void)chart_figure_add(figure, "work", "compute", CHART_STROKE_BAR);
        chart_figure_add_row(figure, wide != 0 ? "last to arrive" : "rank 0", (const double[]){9});
        chart_figure_svg(&svg, figure);
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

/* Values at 1, 2 and 3. */
static chart_figure *made_up(const char *title)
{
    chart_figure *figure = chart_figure_make(title, "x", "y", 1, 3);
    assert_non_null(figure);
    chart_series *series = chart_figure_add(figure, "measured", "accent", CHART_STROKE_POINTS);
    for (int i = 1; i <= 3; i++) {
        (void)chart_series_add(series, i, i);
    }
    (void)snprintf(series->points[1].label, sizeof series->points[1].label, "two");
    (void)snprintf(series->points[1].hint, sizeof series->points[1].hint, "1 to 3");
    figure->x = chart_axis_make(0, 3, 3, true);
    figure->y = chart_axis_make(0, 3, 3, true);
    return figure;
}

/* The same drawing as on a page, with colours in place of their names, title, subtitle and key. */
static void a_picture_needs_no_page(void **state)
{
    (void)state;
    chart_figure *figure = made_up("t");
    base_buffer picture = {0};
    chart_picture_svg(&picture,
                      &(chart_picture){"<t>", "a & b", &(const chart_figure *){figure}, 1});
    assert_has(picture.data, "<svg xmlns=\"http://www.w3.org/2000/svg\"");
    assert_has(picture.data, ">&lt;t&gt;</text>");
    assert_has(picture.data, ">a &amp; b</text>");
    assert_has(picture.data, ">measured</text>");
    assert_has(picture.data, "<title>1 to 3</title>");
    assert_has(picture.data, ">two</text>");
    assert_has(picture.data, "style=\"color:#2f6fd0\"");
    assert_has(picture.data, "fill:#16202c"); /* the ink of the light page, in the style sheet */
    assert_null(strstr(picture.data, "var("));
    assert_null(strstr(picture.data, "prefers-color-scheme"));
    base_buffer_fini(&picture);
    free(figure);
}

/* Of three figures the middle one has no point, and no place. The first has the key of all. */
static void panels_lie_under_each_other(void **state)
{
    (void)state;
    double heights[2];
    chart_figure *const figures[] = {made_up("a"), made_up("b"), made_up("c")};
    figures[1]->series[0].point_count = 0;
    for (int all = 0; all < 2; all++) {
        base_buffer picture = {0};
        chart_picture_svg(&picture, &(chart_picture){"t", "", (const chart_figure *const *)figures,
                                                     all != 0 ? 3 : 1});
        assert_int_equal(test_count(picture.data, ">measured</text>"), 1);
        assert_int_equal(test_count(picture.data, ">y</text>"), 1 + all);
        const char *height = strstr(picture.data, " height=\"");
        assert_non_null(height);
        heights[all] = strtod(strchr(height, '"') + 1, NULL);
        base_buffer_fini(&picture);
    }
    assert_true(heights[1] - heights[0] > 380 && heights[1] < 2 * heights[0]);
    for (int i = 0; i < 3; i++) {
        free(figures[i]);
    }
}

static void of_nothing_there_is_no_picture(void **state)
{
    (void)state;
    chart_figure *figure = made_up("t");
    base_buffer picture = {0};
    figure->series[0].point_count = 0;
    chart_picture_svg(&picture, &(chart_picture){"t", "s", &(const chart_figure *){figure}, 1});
    assert_null(picture.data);
    assert_false(picture.failed);
    free(figure);
}

/* A key of many long names has several lines, none of which leaves the picture. */
static void a_long_key_is_wrapped(void **state)
{
    (void)state;
    enum { MANY = 9 };
    chart_figure *figure = chart_figure_make("t", "x", "y", MANY, 1);
    base_buffer picture = {0};
    assert_non_null(figure);
    for (int s = 0; s < MANY; s++) {
        chart_series *series =
            chart_figure_add(figure, "a name of some thirty letters", "accent", CHART_STROKE_LINE);
        (void)chart_series_add(series, 1, 1);
    }
    figure->x = chart_axis_make(0, 3, 3, true);
    figure->y = chart_axis_make(0, 3, 3, true);
    chart_picture_svg(&picture, &(chart_picture){"t", "", &(const chart_figure *){figure}, 1});
    int lines = 0;
    const char *at = picture.data;
    while ((at = strstr(at, "<text x=\"")) != NULL) {
        const double x = strtod(at + strlen("<text x=\""), NULL);
        assert_true(x < 600);
        lines += x < 40;
        at++;
    }
    assert_int_equal(lines, 3);
    base_buffer_fini(&picture);
    free(figure);
}

/* Nothing drawn is no success, and leaves no empty file. */
static void of_nothing_no_file_is_written(void **state)
{
    (void)state;
    base_error error;
    test_directory directory;
    double low = 0;
    double high = 0;
    chart_figure *figure = chart_figure_make("t", "x", "y", 1, 3);
    assert_non_null(figure);
    chart_series *series = chart_figure_add(figure, "s", "accent", CHART_STROKE_DOTS);
    (void)chart_series_add(series, 1, 0);
    (void)chart_series_add(series, 2, -1);
    (void)chart_series_add(series, 3, 5);
    chart_figure_keep_positive(figure);
    assert_true(chart_figure_range(figure, &low, &high));
    assert_true(low == 5 && high == 5 && series->points[0].x == 3);
    series->points[0].low = 0;
    chart_figure_keep_positive(figure);
    test_directory_make(&directory);
    const char *path = test_directory_path(&directory, "none.svg");
    const chart_picture picture = {"t", "", &(const chart_figure *){figure}, 1};
    assert_status(chart_picture_write(&picture, path, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.message, "there is nothing to draw"));
    assert_int_not_equal(access(path, F_OK), 0);
    test_directory_remove(&directory);
    free(figure);
}

static void a_picture_has_the_ending_svg(void **state)
{
    (void)state;
    base_error error;
    assert_ok(chart_picture_name_check("a.b/c.svg", &error), &error);
    assert_int_equal(chart_picture_name_check("c.png", &error), BASE_ERR_INVALID);
    assert_string_equal(error.message, "c.png: a picture's name must end with .svg");
    assert_int_equal(chart_picture_name_check("svg", NULL), BASE_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dots_have_no_line),
        cmocka_unit_test(a_series_has_room_for_its_points),
        cmocka_unit_test(rows_are_drawn_with_their_data),
        cmocka_unit_test(rows_have_room_for_their_names),
        cmocka_unit_test(rows_have_an_axis_in_a_file),
        cmocka_unit_test(a_picture_needs_no_page),
        cmocka_unit_test(panels_lie_under_each_other),
        cmocka_unit_test(of_nothing_there_is_no_picture),
        cmocka_unit_test(a_long_key_is_wrapped),
        cmocka_unit_test(of_nothing_no_file_is_written),
        cmocka_unit_test(a_picture_has_the_ending_svg),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
