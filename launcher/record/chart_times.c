/* Draws where the milliseconds went over the run, as areas. Called by report.c. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/percentile.h"
#include "record/run_figures.h"

static const double MS_PER_NS = 1e-6;

/* The parts of one stretch of steps, stacked: the last top is the whole. */
static void column_of(const launch_run *run, size_t first, size_t end,
                      double tops[LAUNCH_SHOWN_PARTS])
{
    const launch_breakdown mean =
        launch_breakdown_of(run->steps, LAUNCH_LAST_TO_ARRIVE, first, end - first);
    double parts_ms[LAUNCH_SHOWN_PARTS];
    double top_ms = 0;
    launch_breakdown_shown(&mean, parts_ms);
    for (int p = 0; p < LAUNCH_SHOWN_PARTS; p++) {
        top_ms += parts_ms[p];
        tops[p] = top_ms;
    }
}

typedef struct columns {
    size_t count;
    size_t steps;
    uint64_t first; /* the number of the step with index 0 */
    double tops[LAUNCH_CHART_COLUMNS_MAX][LAUNCH_SHOWN_PARTS];
    double high; /* of the axis: higher columns of rare slow steps are cut */
    double highest;
    size_t slowest; /* index of a step, which a column of several does not show */
    double slowest_ms;
} columns;

/* The index of a column's first step; of the column behind the last: the number of steps. */
static size_t first_step(const columns *gathered, size_t column)
{
    return column * gathered->steps / gathered->count;
}

static void find_slowest(const launch_run *run, columns *gathered)
{
    for (size_t i = 0; i < gathered->steps; i++) {
        const double step_ms = (double)launch_steps_slowest_ns(run->steps, i) * MS_PER_NS;
        if (step_ms > gathered->slowest_ms) {
            gathered->slowest = i;
            gathered->slowest_ms = step_ms;
        }
    }
}

static void gather_columns(const launch_run *run, columns *gathered)
{
    double wholes[LAUNCH_CHART_COLUMNS_MAX];
    const size_t steps = run->summary->steps_done;
    gathered->steps = steps;
    gathered->first = run->steps->first;
    gathered->count = steps < LAUNCH_CHART_COLUMNS_MAX ? steps : LAUNCH_CHART_COLUMNS_MAX;
    for (size_t c = 0; c < gathered->count; c++) {
        column_of(run, first_step(gathered, c), first_step(gathered, c + 1), gathered->tops[c]);
        wholes[c] = gathered->tops[c][LAUNCH_SHOWN_PARTS - 1];
    }
    base_sort(wholes, gathered->count);
    gathered->highest = gathered->count > 0 ? wholes[gathered->count - 1] : 0;
    find_slowest(run, gathered);
    gathered->high = fmin(gathered->highest, 1.6 * base_percentile(wholes, gathered->count, 0.5));
}

/* Where a column begins. */
static double column_x(const chart_plot *plot, const columns *gathered, size_t column)
{
    const double width = (double)gathered->steps / (double)gathered->count;
    return chart_plot_x(plot, (double)gathered->first + (double)column * width);
}

/* The area of one part: along its top, then back along its bottom, in steps. */
static void put_area(base_buffer *text, const chart_plot *plot, const columns *gathered, int part)
{
    base_buffer_printf(text, "<path class=\"%s\" d=\"", launch_shown_key(part));
    for (size_t c = 0; c < gathered->count; c++) {
        const double y = chart_plot_y(plot, fmin(gathered->tops[c][part], plot->y.high));
        base_buffer_printf(text, "%s%.1f %.1fH%.1f", c == 0 ? "M" : "L",
                           column_x(plot, gathered, c), y, column_x(plot, gathered, c + 1));
    }
    for (size_t c = gathered->count; c-- > 0;) {
        const double below = part == 0 ? 0 : gathered->tops[c][part - 1];
        base_buffer_printf(text, "L%.1f %.1fH%.1f", column_x(plot, gathered, c + 1),
                           chart_plot_y(plot, fmin(below, plot->y.high)),
                           column_x(plot, gathered, c));
    }
    base_buffer_put(text, "Z\"/>");
}

/* Whose time follows. */
static void put_steps(base_buffer *text, const columns *gathered, size_t column)
{
    const uint64_t first = gathered->first + first_step(gathered, column);
    const uint64_t end = gathered->first + first_step(gathered, column + 1);
    if (end - first > 1) {
        base_buffer_printf(text, "steps %" PRIu64 " to %" PRIu64 ", mean: ", first, end - 1);
    } else {
        base_buffer_printf(text, "step %" PRIu64 ": ", first);
    }
}

static void put_hints(base_buffer *text, const chart_plot *plot, const columns *gathered,
                      bool exchanges_inside)
{
    for (size_t c = 0; c < gathered->count; c++) {
        const double *tops = gathered->tops[c];
        const double x = column_x(plot, gathered, c);
        base_buffer_printf(text,
                           "<rect class=\"hint\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" "
                           "height=\"%.1f\"><title>",
                           x, plot->top, column_x(plot, gathered, c + 1) - x, plot->height);
        put_steps(text, gathered, c);
        base_buffer_printf(text, "%.2f ms", tops[LAUNCH_SHOWN_PARTS - 1]);
        for (int p = 0; p < LAUNCH_SHOWN_PARTS; p++) {
            if (p != LAUNCH_SHOWN_INNER || exchanges_inside) {
                base_buffer_printf(text, " %s %.2f %s", p == 0 ? "=" : "+",
                                   p == 0 ? tops[0] : tops[p] - tops[p - 1],
                                   launch_shown_name(p, exchanges_inside));
            }
        }
        base_buffer_put(text, "</title></rect>");
    }
}

/* The line between warm-up and the measured steps. */
static void put_warm_up(base_buffer *text, const chart_plot *plot, const launch_run *run)
{
    const double x = chart_plot_x(plot, (double)(run->steps->first + run->summary->measured_first));
    base_buffer_printf(
        text,
        "<line class=\"divide\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>"
        "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">warm-up</text>"
        "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\">measured</text>",
        x, x, plot->top - 20, plot->top + plot->height, x - 6, plot->top - 10, x + 6,
        plot->top - 10);
}

void launch_chart_step_times(base_buffer *text, const launch_run *run)
{
    columns *gathered = calloc(1, sizeof *gathered);
    if (gathered == NULL) {
        text->failed = true;
        return;
    }
    gather_columns(run, gathered);
    if (gathered->count > 0 && gathered->highest > 0) {
        const chart_plot plot = {
            .left = 52,
            .top = 34,
            .width = CHART_WIDTH - 52 - CHART_PLOT_RIGHT,
            .height = 200,
            .x = chart_axis_count((double)gathered->first,
                                  (double)(gathered->first + gathered->steps), 8),
            .y = chart_axis_make(0, gathered->high, 5, true),
            .x_label = "step",
            .y_label = "ms per step",
        };
        chart_svg_begin(text, "", CHART_WIDTH, plot.top + plot.height + CHART_PLOT_BELOW,
                        "Step time over the run, in parts");
        chart_plot_frame(text, &plot);
        for (int p = 0; p < LAUNCH_SHOWN_PARTS; p++) {
            put_area(text, &plot, gathered, p);
        }
        if (run->summary->measured_first > 0) {
            put_warm_up(text, &plot, run);
        }
        put_hints(text, &plot, gathered, launch_exchanges_inside(run->job));
        chart_svg_end(text);
        if (gathered->highest > plot.y.high || gathered->slowest_ms > gathered->highest) {
            base_buffer_printf(
                text, "<p class=\"none\">%sThe slowest step, %" PRIu64 ", took %.1f ms.</p>\n",
                gathered->highest > plot.y.high ? "Higher columns are cut at the top. " : "",
                gathered->first + gathered->slowest, gathered->slowest_ms);
        }
    } else {
        base_buffer_put(text, "<p class=\"none\">No step was finished by every rank.</p>\n");
    }
    free(gathered);
}
