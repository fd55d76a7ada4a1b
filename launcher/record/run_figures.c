/* Makes the charts of a training: loss, accuracy, speed, and where a step's time went. Called by
 * report.c, and by record.c for the files. */
#include "record/run_figures.h"

#include <math.h>
#include <stdio.h>

enum {
    POINTS_MAX = 600,
    SMOOTHING_SHARE = 25, /* the window is 1/25 of the run each way */
};

/* The losses of steps first … end - 1 over all ranks; NaN if none is known. */
typedef struct stretch {
    double mean;
    double low;
    double high;
} stretch;

static stretch stretch_of(const double *losses, size_t first, size_t end)
{
    stretch found = {.mean = NAN, .low = NAN, .high = NAN};
    double sum = 0;
    size_t known = 0;
    for (size_t i = first; i < end; i++) {
        if (isfinite(losses[i])) {
            sum += losses[i];
            known++;
            found.low = fmin(found.low, losses[i]); /* of NaN and a number the number */
            found.high = fmax(found.high, losses[i]);
        }
    }
    found.mean = known > 0 ? sum / (double)known : NAN;
    return found;
}

/* Each step's loss, or of equal stretches of steps, if there are more steps than points, the mean; the data have the
 * least and the greatest, too. */
static void add_losses(const launch_run *run, const double *losses, chart_series *series)
{
    const size_t steps = run->summary->steps_done;
    const size_t points = steps < POINTS_MAX ? steps : POINTS_MAX;
    for (size_t i = 0; i < points; i++) {
        const size_t first = i * steps / points;
        const size_t end = (i + 1) * steps / points;
        const unsigned long long step = run->steps->first + first;
        const unsigned long long last = run->steps->first + end - 1;
        const stretch found = stretch_of(losses, first, end);
        chart_point *point = chart_series_add(series, (double)(step + last) / 2, found.mean);
        point->low = found.low;
        point->high = found.high;
        if (end - first > 1) {
            (void)snprintf(point->hint, sizeof point->hint, "steps %llu to %llu, mean loss %.4f",
                           step, last, point->y);
        } else {
            (void)snprintf(point->hint, sizeof point->hint, "step %llu: loss %.4f", step, point->y);
        }
    }
}

/* Averages each point with up to `reach` points before and after it, as many on both sides, so that
 * a falling curve is not shifted. */
static void add_smoothed(const chart_series *raw, chart_series *smooth)
{
    const int reach = raw->point_count / SMOOTHING_SHARE;
    for (int i = 0; i < raw->point_count; i++) {
        const int after = raw->point_count - 1 - i;
        const int nearest = i < after ? i : after;
        const int half = nearest < reach ? nearest : reach;
        double sum = 0;
        for (int k = i - half; k <= i + half; k++) {
            sum += raw->points[k].y;
        }
        (void)chart_series_add(smooth, raw->points[i].x, sum / (2 * half + 1));
    }
}

/* Whether the result of --eval-every can be shown: it is one, of a step that all ranks have finished. Of a
 * plain text there is no accuracy. */
static bool can_show(const launch_run *run, const launch_evaluation *found, bool is_loss)
{
    return found->index < run->summary->steps_done && (is_loss || found->sentences > 0) &&
           isfinite(found->heldout_loss);
}

static void put_hint(chart_point *point, unsigned long long step, const launch_evaluation *found,
                     double percent)
{
    if (found->sentences == 0) {
        (void)snprintf(point->hint, sizeof point->hint, "step %llu: held-out loss %.4f", step,
                       found->heldout_loss);
    } else {
        (void)snprintf(point->hint, sizeof point->hint,
                       "step %llu: held-out loss %.4f, %.1f %% exact", step, found->heldout_loss,
                       percent);
    }
}

/* The results of --eval-every, losses or accuracies: all, or the last one and every nth before. */
static void add_heldout(const launch_run *run, chart_series *series, bool is_loss)
{
    const launch_steps *steps = run->steps;
    size_t all = 0;
    size_t index = 0;
    for (size_t i = 0; i < steps->evaluation_count; i++) {
        all += can_show(run, &steps->evaluations[i], is_loss);
    }
    const size_t stride = all / POINTS_MAX + 1;
    for (size_t i = 0; i < steps->evaluation_count; i++) {
        const launch_evaluation *found = &steps->evaluations[i];
        if (!can_show(run, found, is_loss) || (all - ++index) % stride != 0) {
            continue;
        }
        const double percent =
            found->sentences > 0 ? 100 * (double)found->correct / (double)found->sentences : 0;
        const unsigned long long step = steps->first + found->index;
        chart_point *point =
            chart_series_add(series, (double)step, is_loss ? found->heldout_loss : percent);
        put_hint(point, step, found, percent);
    }
}

static chart_axis step_axis(const launch_run *run)
{
    const double first = (double)run->steps->first;
    const size_t steps = run->summary->steps_done;
    return chart_axis_count(first, first + (steps > 1 ? (double)(steps - 1) : 1), 8);
}

chart_figure *launch_loss_figure(const launch_run *run, bool logarithmic)
{
    double low = 0;
    double high = 0;
    chart_figure *figure =
        chart_figure_make("Loss against step", "step", "loss per token", 4, POINTS_MAX);
    if (figure == NULL) {
        return NULL;
    }
    figure->nothing = "No loss was reported.";
    figure->width = CHART_WIDTH_HALF;
    figure->height = 250;
    const size_t stretch_steps = (run->summary->steps_done + POINTS_MAX - 1) / POINTS_MAX;
    char name[32] = "each step";
    if (stretch_steps > 1) {
        (void)snprintf(name, sizeof name, "mean of %zu steps", stretch_steps);
    }
    chart_series *raw = chart_figure_add(figure, name, "accent", CHART_STROKE_FAINT);
    add_losses(run, run->steps->losses, raw);
    add_smoothed(raw, chart_figure_add(figure, "smoothed", "accent", CHART_STROKE_LINE));
    add_heldout(
        run, chart_figure_add(figure, "held-out sentences", "exchange", CHART_STROKE_POINTS), true);
    if (run->summary->steps_done > 0 && run->steps->router_losses[0] > 0) {
        add_losses(run, run->steps->router_losses,
                   chart_figure_add(figure, "router's loss", "optimizer", CHART_STROKE_LINE));
    }
    const bool any = chart_figure_range(figure, &low, &high);
    if (any && logarithmic && !(low > 0)) {
        figure->nothing = "A loss of 0 has no logarithm.";
        figure->series_count = 0;
    }
    figure->x = step_axis(run);
    figure->y = any && logarithmic && low > 0
                    ? chart_axis_log(low, high)
                    : chart_axis_make(low < 1 && low >= 0 ? 0 : low, high, 5, true);
    return figure;
}

chart_figure *launch_accuracy_figure(const launch_run *run)
{
    chart_figure *figure = chart_figure_make("Held-out accuracy against step", "step",
                                             "% of held-out sentences exact", 1, POINTS_MAX);
    if (figure == NULL) {
        return NULL;
    }
    figure->width = CHART_WIDTH_HALF;
    figure->height = 150;
    figure->x = step_axis(run);
    figure->y = chart_axis_make(0, 100, 5, true);
    add_heldout(run, chart_figure_add(figure, NULL, "exchange", CHART_STROKE_POINTS), false);
    return figure;
}

/* Up to how many ranks the ideal line goes: as many as were measured, or as there are CPUs. 0 if
 * one rank was not measured, or on a disturbed machine. */
static int ideal_ranks(const launch_run *run, int most)
{
    if (launch_summary_point(run->summary, 1) == NULL || run->summary->suspect[0] != '\0') {
        return 0;
    }
    return most < run->info->cpus_allowed ? most : run->info->cpus_allowed;
}

static void add_speed(const launch_summary *summary, const launch_scaling_point *from,
                      chart_series *series)
{
    const double speedup = launch_scaling_speedup(summary->scaling, summary->scaling_count, from);
    chart_point *point = chart_series_add(series, from->ranks, from->tokens_per_second);
    base_buffer label = {0};
    base_buffer_count(&label, (unsigned long long)llround(point->y));
    if (from->ranks > 1 && isfinite(speedup) && summary->suspect[0] == '\0') {
        base_buffer_printf(&label, " (%.2f×)", speedup);
    }
    (void)snprintf(point->label, sizeof point->label, "%s", label.failed ? "" : label.data);
    base_buffer_fini(&label);
    if (isfinite(from->tokens_per_second_low) && isfinite(from->tokens_per_second_high)) {
        point->low = from->tokens_per_second_low;
        point->high = from->tokens_per_second_high;
        (void)snprintf(point->hint, sizeof point->hint, "%.0f to %.0f tokens/s in %d rounds",
                       point->low, point->high, from->rounds);
    }
}

chart_figure *launch_scaling_figure(const launch_run *run)
{
    const launch_summary *summary = run->summary;
    const int count = summary->scaling_count;
    const int most = count > 0 ? summary->scaling[count - 1].ranks : 1;
    double low = 0;
    double high = 0;
    chart_figure *figure = chart_figure_make("Tokens per second against processes", "processes",
                                             "tokens per second", 2, count > 2 ? count : 2);
    if (figure == NULL) {
        return NULL;
    }
    figure->nothing = "No speed was measured.";
    figure->width = CHART_WIDTH_HALF;
    figure->height = 250;
    chart_series *measured = chart_figure_add(figure, "measured", "accent", CHART_STROKE_POINTS);
    for (int i = 0; i < count; i++) {
        add_speed(summary, &summary->scaling[i], measured);
    }
    const int ranks = count > 0 ? ideal_ranks(run, most) : 0;
    if (ranks > 0) { /* the first point is of one rank */
        chart_series *ideal =
            chart_figure_add(figure, "one process times as many, up to the number of CPUs", "soft",
                             CHART_STROKE_DASHED);
        (void)chart_series_add(ideal, 0, 0);
        (void)chart_series_add(ideal, ranks, ranks * summary->scaling[0].tokens_per_second);
    }
    (void)chart_figure_range(figure, &low, &high);
    figure->x = chart_axis_count(0, most + 0.5, most < 10 ? most + 1 : 10);
    figure->y = chart_axis_make(0, high * 1.02, 5, true);
    return figure;
}

bool launch_exchanges_inside(const proto_job *job)
{
    return proto_job_tensor(job) > 1 || proto_job_context_ranks(job) > 1 ||
           proto_job_expert_ranks(job) > 1;
}

static void add_parts(chart_figure *figure, const char *name, const launch_breakdown *breakdown)
{
    double ms[LAUNCH_SHOWN_PARTS];
    launch_breakdown_shown(breakdown, ms);
    chart_figure_add_row(figure, name, ms);
}

chart_figure *launch_step_figure(const launch_run *run)
{
    chart_figure *figure = chart_figure_make("Mean step time by rank, in parts", "ms per step",
                                             "ms", LAUNCH_SHOWN_PARTS, CHART_ROWS_MAX);
    if (figure == NULL) {
        return NULL;
    }
    figure->nothing = "No step was finished by every rank.";
    figure->width = CHART_WIDTH;
    for (int p = 0; p < LAUNCH_SHOWN_PARTS; p++) {
        (void)chart_figure_add(figure, launch_shown_name(p, launch_exchanges_inside(run->job)),
                               launch_shown_key(p), CHART_STROKE_BAR);
    }
    if (run->summary->steps_done > 0) {
        if (run->job->job.world_size > 1) {
            add_parts(figure, LAUNCH_LAST_NAME, &run->summary->mean_step);
        }
        for (int r = 0; r < (int)run->job->job.world_size && r < LAUNCH_CHART_RANKS_MAX; r++) {
            char name[16];
            (void)snprintf(name, sizeof name, "rank %d", r);
            add_parts(figure, name, &run->summary->ranks[r]);
        }
    }
    return figure;
}
