/* Draws the loss curve, and tokens per second against ranks. Called by report.c. */
#include <math.h>

#include "record/chart.h"

enum { LOSS_POINTS_MAX = 600, SMOOTHING_SHARE = 25 /* the window is 1/25 of the run each way */ };

/* The mean loss of steps first … end - 1 over all ranks; NaN if none is known. */
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

/* At most LOSS_POINTS_MAX points: each step's loss, or means over equal stretches of steps. */
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

static double loss_y(const launch_plot *plot, double loss)
{
    return launch_plot_y(plot, plot->y.logarithmic ? log10(loss) : loss);
}

/* A line through the points. Each is averaged with up to `reach` points before and after it, as
 * many on both sides, so that a falling curve is not shifted. */
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
                           loss_y(plot, sum / (double)(2 * half + 1)));
    }
    launch_text_put(text, "\"/>");
}

/* Invisible columns that show step and loss under the pointer. */
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

static bool was_evaluated(const launch_run *run, size_t step)
{
    const launch_step *own = &run->steps->ranks[0].steps[step];
    return own->evaluated && own->heldout_sentences > 0 && isfinite(own->heldout_loss);
}

static double accuracy(const launch_step *step)
{
    return 100 * (double)step->heldout_correct / (double)step->heldout_sentences;
}

/* Extends the range of losses to the held-out ones. Returns whether there are any. */
static bool add_heldout(const launch_run *run, loss_points *points)
{
    bool any = false;
    for (size_t i = 0; i < run->summary->steps_done; i++) {
        if (was_evaluated(run, i)) {
            const double loss = run->steps->ranks[0].steps[i].heldout_loss;
            points->low = fmin(points->low, loss);
            points->high = fmax(points->high, loss);
            any = true;
        }
    }
    return any;
}

/* A line through the results of --eval-every: losses or accuracies. */
static void put_heldout(launch_text *text, const launch_plot *plot, const launch_run *run,
                        bool is_loss)
{
    launch_text line = {0};
    for (size_t i = 0; i < run->summary->steps_done; i++) {
        const launch_step *step = &run->steps->ranks[0].steps[i];
        if (!was_evaluated(run, i)) {
            continue;
        }
        const double x = launch_plot_x(plot, (double)i);
        const double y =
            is_loss ? loss_y(plot, step->heldout_loss) : launch_plot_y(plot, accuracy(step));
        launch_text_printf(&line, "%.1f,%.1f ", x, y);
        launch_text_printf(text,
                           "<circle class=\"heldout-point\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"><title>"
                           "step %zu: held-out loss %.4f, %.1f %% exact</title></circle>",
                           x, y, i, step->heldout_loss, accuracy(step));
    }
    launch_text_printf(text, "<polyline class=\"heldout\" points=\"%s\"/>",
                       line.data != NULL ? line.data : "");
    text->failed = text->failed || line.failed;
    launch_text_fini(&line);
}

void launch_chart_accuracy(launch_text *text, const launch_run *run)
{
    loss_points unused = {0};
    if (!add_heldout(run, &unused)) {
        return;
    }
    const size_t steps = run->summary->steps_done;
    const launch_plot plot = {
        .left = 52,
        .top = 30,
        .width = LAUNCH_CHART_WIDTH_HALF - 52 - 14,
        .height = 150,
        .x = launch_axis_count(steps > 1 ? (double)(steps - 1) : 1, 8),
        .y = launch_axis_make(0, 100, 5, true),
        .x_label = "step",
        .y_label = "% of held-out sentences exact",
        .title = "Held-out accuracy against step",
    };
    launch_plot_begin(text, &plot);
    put_heldout(text, &plot, run, false);
    launch_plot_end(text);
}

void launch_chart_loss(launch_text *text, const launch_run *run, bool logarithmic)
{
    static const char NOTHING[] = "<p class=\"none\">No loss was reported.</p>\n";
    loss_points points = {0};
    gather_loss(run, &points);
    if (points.count == 0) {
        launch_text_put(text, NOTHING);
        return;
    }
    const bool heldout = add_heldout(run, &points);
    if (logarithmic && !(points.low > 0)) {
        launch_text_put(text, "<p class=\"none\">A loss of 0 has no logarithm.</p>\n");
        return;
    }
    const double last_step = points.count > 1 ? (double)(run->summary->steps_done - 1) : 1;
    const launch_plot plot = {
        .left = 52,
        .top = 30,
        .width = LAUNCH_CHART_WIDTH_HALF - 52 - 14,
        .height = 250,
        .x = launch_axis_count(last_step, 8),
        .y = logarithmic ? launch_axis_log(points.low, points.high)
                         : launch_axis_make(points.low < 1 && points.low >= 0 ? 0 : points.low,
                                            points.high, 5, true),
        .x_label = "step",
        .y_label = "loss",
        .title = "Loss against step",
    };
    launch_plot_begin(text, &plot);
    put_loss_line(text, &plot, &points, "loss-raw", 0);
    put_loss_line(text, &plot, &points, "loss-smooth", points.count / SMOOTHING_SHARE);
    if (points.count == 1) { /* one point makes no line */
        launch_text_printf(text, "<circle class=\"point\" cx=\"%.1f\" cy=\"%.1f\" r=\"6\"/>",
                           launch_plot_x(&plot, points.step[0]), loss_y(&plot, points.loss[0]));
    }
    put_loss_hints(text, &plot, &points);
    if (heldout) {
        put_heldout(text, &plot, run, true);
    }
    launch_plot_end(text);
}

/* The range between the slowest and the fastest round. */
static void put_spread(launch_text *text, const launch_plot *plot,
                       const launch_scaling_point *point)
{
    const double x = launch_plot_x(plot, point->ranks);
    if (isfinite(point->tokens_per_second_low) && isfinite(point->tokens_per_second_high)) {
        launch_text_printf(text,
                           "<line class=\"spread\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\">"
                           "<title>%.0f to %.0f tokens/s in %d rounds</title></line>",
                           x, x, launch_plot_y(plot, point->tokens_per_second_low),
                           launch_plot_y(plot, point->tokens_per_second_high),
                           point->tokens_per_second_low, point->tokens_per_second_high,
                           point->rounds);
    }
}

static void put_point(launch_text *text, const launch_plot *plot, const launch_run *run,
                      const launch_scaling_point *point)
{
    const launch_summary *summary = run->summary;
    const double x = launch_plot_x(plot, point->ranks);
    const double y = launch_plot_y(plot, point->tokens_per_second);
    const double speedup = launch_scaling_speedup(summary->scaling, summary->scaling_count, point);
    const bool at_end = x > plot->left + plot->width - 140;
    put_spread(text, plot, point);
    launch_text_printf(text, "<circle class=\"point\" cx=\"%.1f\" cy=\"%.1f\" r=\"6\"/>", x, y);
    launch_text_printf(text, "<text class=\"value\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">",
                       at_end ? x - 12 : x + 12, y + (at_end ? -12 : 18), at_end ? "end" : "start");
    launch_text_count(text, (unsigned long long)llround(point->tokens_per_second));
    if (point->ranks > 1 && isfinite(speedup)) {
        launch_text_printf(text, " (%.2f×)", speedup);
    }
    launch_text_put(text, "</text>");
}

int launch_chart_ideal_ranks(const launch_run *run)
{
    const launch_summary *summary = run->summary;
    const int most =
        summary->scaling_count > 0 ? summary->scaling[summary->scaling_count - 1].ranks : 0;
    if (launch_summary_point(summary, 1) == NULL) {
        return 0;
    }
    return most < run->info->cpus_allowed ? most : run->info->cpus_allowed;
}

void launch_chart_scaling(launch_text *text, const launch_run *run)
{
    const launch_summary *summary = run->summary;
    if (summary->scaling_count == 0) {
        launch_text_put(text, "<p class=\"none\">No speed was measured.</p>\n");
        return;
    }
    const int most = summary->scaling[summary->scaling_count - 1].ranks;
    const int ideal_ranks = launch_chart_ideal_ranks(run);
    const double ideal =
        ideal_ranks * summary->scaling[0].tokens_per_second; /* the first point is of one rank */
    double highest = ideal;
    for (int i = 0; i < summary->scaling_count; i++) {
        highest = fmax(highest, summary->scaling[i].tokens_per_second);
        highest = fmax(highest, summary->scaling[i].tokens_per_second_high); /* fmax ignores NaN */
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
    if (ideal_ranks > 0) {
        launch_text_printf(
            text, "<line class=\"ideal\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>",
            launch_plot_x(&plot, 0), launch_plot_y(&plot, 0), launch_plot_x(&plot, ideal_ranks),
            launch_plot_y(&plot, ideal));
    }
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
