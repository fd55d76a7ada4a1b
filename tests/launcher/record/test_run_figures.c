/* record/run_figures.h: a training's charts. */
#include "record/run_figures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sample.h"
#include "support.h"

/* The scaling chart of these points on that many CPUs. The caller frees it. */
static chart_figure *scaling_figure(const launch_scaling_point *points, int count, int cpus)
{
    launch_summary summary = {.scaling_count = count, .scaling = (launch_scaling_point *)points};
    const launch_run_info info = {.cpus_allowed = cpus};
    const launch_run run = {.summary = &summary, .info = &info};
    chart_figure *figure = launch_scaling_figure(&run);
    assert_non_null(figure);
    return figure;
}

/* An ideal line is drawn from a measured point of one rank, and up to the number of CPUs. */
static void the_ideal_line_is_measured(void **state)
{
    (void)state;
    const launch_scaling_point points[] = {sample_point(1, 100, 9, 1), sample_point(2, 190, 9, 1),
                                           sample_point(4, 200, 9, 1)};
    chart_figure *figure = scaling_figure(points, 3, 2);
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
    chart_figure_svg(&text, figure);
    assert_has(text.data, "No speed was measured.");
    base_buffer_fini(&text);
    free(figure);
}

static void a_figure_is_drawn_with_its_data(void **state)
{
    (void)state;
    const launch_scaling_point points[] = {sample_point(1, 100, 9, 1), sample_point(2, 190, 9, 1)};
    chart_figure *figure = scaling_figure(points, 2, 2);
    base_buffer svg = {0};
    base_buffer data = {0};
    chart_figure_svg(&svg, figure);
    chart_figure_data(&data, figure);
    char x[32];
    (void)snprintf(x, sizeof x, "points=\"%.1f,", 58 + 1 / 2.5 * (CHART_WIDTH_HALF - 72));
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_ideal_line_is_measured),
        cmocka_unit_test(a_figure_is_drawn_with_its_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
