/* The loss curve, and tokens per second against ranks. */
#include <math.h>

#include "record/chart.h"

enum { LOSS_POINTS_MAX = 600, SMOOTHING_SHARE = 25 /* the window is 1/25 of the run each way */ };

/* The mean loss of steps first … end - 1 over all ranks; NaN where none is known. */
static double mean_loss(const launch_run *run, size_t first, size_t end)
{
    double sum = 0;
    size_t known = 0;
    for (size_t i = first; i < end; i++) {
        const double loss = run->steps->ranks[0].steps[i].loss_global;
        if (isfinite(loss)) {
            sum += loss;
            known++;
        }
    }
    return known > 0 ? sum / (double)known : NAN;
}

typedef struct loss_points {
    size_t count;
    double step[LOSS_POINTS_MAX];
    double loss[LOSS_POINTS_MAX];
    double low;
    double high;
} loss_points;

/* At most LOSS_POINTS_MAX points: each step's loss, or the mean over equal stretches of steps. */
static void gather_loss(const launch_run *run, loss_points *points)
{
    const size_t steps = run->summary->steps_done;
    const size_t buckets = steps < LOSS_POINTS_MAX ? steps : LOSS_POINTS_MAX;
    points->low = INFINITY;
    points->high = -INFINITY;
    for (size_t b = 0; b < buckets; b++) {
        const size_t first = b * steps / buckets;
        const size_t end = (b + 1) * steps / buckets;
        const double loss = mean_loss(run, first, end);
        if (isfinite(loss)) {
            points->step[points->count] = (double)(first + end - 1) / 2;
            points->loss[points->count++] = loss;
            points->low = loss < points->low ? loss : points->low;
            points->high = loss > points->high ? loss : points->high;
        }
    }
}

/* A line through the points, each the mean of those up to `reach` before and after it (as many on
 * both sides, so that a falling curve is not shifted). */
static void put_loss_line(launch_text *text, const launch_plot *plot, const loss_points *points,
                          const char *class, size_t reach)
{
    launch_text_printf(text, "<polyline class=\"%s\" points=\"", class);
    for (size_t i = 0; i < points->count; i++) {
        const size_t after = points->count - 1 - i;
        const size_t nearest = i < after ? i : after;
        const size_t half = nearest < reach ? nearest : reach;
        double sum = 0;
        for (size_t k = i - half; k <= i + half; k++) {
            sum += points->loss[k];
        }
        launch_text_printf(text, "%.1f,%.1f ", launch_plot_x(plot, points->step[i]),
                           launch_plot_y(plot, sum / (double)(2 * half + 1)));
    }
    launch_text_put(text, "\"/>");
}

/* Invisible columns that show step and loss where the pointer rests. */
static void put_loss_hints(launch_text *text, const launch_plot *plot, const loss_points *points)
{
    const double half = plot->width / (double)points->count / 2;
    for (size_t i = 0; i < points->count; i++) {
        launch_text_printf(text,
                           "<rect class=\"hint\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" "
                           "height=\"%.1f\"><title>step %.0f: loss %.4f</title></rect>",
                           launch_plot_x(plot, points->step[i]) - half, plot->top, 2 * half,
                           plot->height, points->step[i], points->loss[i]);
    }
}

void launch_chart_loss(launch_text *text, const launch_run *run)
{
    static const char NOTHING[] = "<p class=\"none\">No loss was reported.</p>\n";
    loss_points points = {0};
    gather_loss(run, &points);
    if (points.count == 0) {
        launch_text_put(text, NOTHING);
        return;
    }
    const double last_step = points.count > 1 ? (double)(run->summary->steps_done - 1) : 1;
    const launch_plot plot = {
        .left = 52,
        .top = 30,
        .width = LAUNCH_CHART_WIDTH_HALF - 52 - 14,
        .height = 250,
        .x = launch_axis_count(last_step, 8),
        .y = launch_axis_make(points.low < 1 && points.low >= 0 ? 0 : points.low, points.high, 5,
                              true),
        .x_label = "step",
        .y_label = "loss",
        .title = "Loss against step",
    };
    launch_plot_begin(text, &plot);
    put_loss_line(text, &plot, &points, "loss-raw", 0);
    put_loss_line(text, &plot, &points, "loss-smooth", points.count / SMOOTHING_SHARE);
    if (points.count == 1) { /* no line to see */
        launch_text_printf(text, "<circle class=\"point\" cx=\"%.1f\" cy=\"%.1f\" r=\"6\"/>",
                           launch_plot_x(&plot, points.step[0]),
                           launch_plot_y(&plot, points.loss[0]));
    }
    put_loss_hints(text, &plot, &points);
    launch_plot_end(text);
}

/* Tokens per second of one rank as the smallest measurement has it: the slope of the ideal line. */
static double ideal_slope(const launch_summary *summary)
{
    return summary->scaling[0].tokens_per_second / summary->scaling[0].ranks;
}

static void put_point(launch_text *text, const launch_plot *plot, const launch_run *run,
                      const launch_scaling_point *point)
{
    const double x = launch_plot_x(plot, point->ranks);
    const double y = launch_plot_y(plot, point->tokens_per_second);
    const double factor = point->tokens_per_second / ideal_slope(run->summary);
    const bool at_end = x > plot->left + plot->width - 140;
    launch_text_printf(text, "<circle class=\"point\" cx=\"%.1f\" cy=\"%.1f\" r=\"6\"/>", x, y);
    launch_text_printf(text, "<text class=\"value\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">",
                       at_end ? x - 12 : x + 12, y + (at_end ? 22 : 18), at_end ? "end" : "start");
    launch_text_count(text, (unsigned long long)llround(point->tokens_per_second));
    if (run->summary->scaling[0].ranks == 1 && point->ranks > 1) {
        launch_text_printf(text, " (%.2f×)", factor);
    }
    launch_text_put(text, "</text>");
}

void launch_chart_scaling(launch_text *text, const launch_run *run)
{
    const launch_summary *summary = run->summary;
    if (summary->scaling_count == 0) {
        launch_text_put(text, "<p class=\"none\">No speed was measured.</p>\n");
        return;
    }
    const int most = summary->scaling[summary->scaling_count - 1].ranks;
    const double slope = ideal_slope(summary);
    double highest = slope * most;
    for (int i = 0; i < summary->scaling_count; i++) {
        highest = fmax(highest, summary->scaling[i].tokens_per_second);
    }
    const launch_plot plot = {
        .left = 58,
        .top = 30,
        .width = LAUNCH_CHART_WIDTH_HALF - 58 - 14,
        .height = 250,
        .x = launch_axis_count(most + 0.5, most < 10 ? most + 1 : 10),
        .y = launch_axis_make(0, highest * 1.02, 5, true),
        .x_label = "processes",
        .y_label = "tokens per second",
        .title = "Tokens per second against processes",
    };
    launch_plot_begin(text, &plot);
    launch_text_printf(text,
                       "<line class=\"ideal\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>",
                       launch_plot_x(&plot, 0), launch_plot_y(&plot, 0), launch_plot_x(&plot, most),
                       launch_plot_y(&plot, slope * most));
    launch_text_put(text, "<polyline class=\"measured\" points=\"");
    for (int i = 0; i < summary->scaling_count; i++) {
        launch_text_printf(text, "%.1f,%.1f ", launch_plot_x(&plot, summary->scaling[i].ranks),
                           launch_plot_y(&plot, summary->scaling[i].tokens_per_second));
    }
    launch_text_put(text, "\"/>");
    for (int i = 0; i < summary->scaling_count; i++) {
        put_point(text, &plot, run, &summary->scaling[i]);
    }
    launch_plot_end(text);
}
