/* Draws the axes and the frame that all charts share. Called by chart_curves.c, chart_times.c and
 * flight_timeline.c. */
#include <math.h>

#include "record/chart.h"

enum { TICKS_MAX = 64, MARGIN_BELOW = 46, MARGIN_RIGHT = 14 };

static double round_tick(double wanted)
{
    const double power = pow(10, floor(log10(wanted)));
    const double digit = wanted / power;
    return power * (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10);
}

launch_axis launch_axis_make(double low, double high, int tick_count, bool round)
{
    launch_axis axis = {.low = low, .high = high};
    if (!isfinite(low) || !isfinite(high) || !(high > low)) {
        axis.low = isfinite(low) ? low : 0;
        axis.high = axis.low + 1;
    }
    axis.tick = round_tick((axis.high - axis.low) / tick_count);
    axis.decimals = axis.tick < 1 ? (int)-floor(log10(axis.tick) + 1e-9) : 0;
    if (round) {
        axis.low = floor(axis.low / axis.tick + 1e-9) * axis.tick;
        axis.high = ceil(axis.high / axis.tick - 1e-9) * axis.tick;
    }
    return axis;
}

launch_axis launch_axis_count(double high, int tick_count)
{
    launch_axis axis = launch_axis_make(0, high, tick_count, false);
    if (axis.tick < 1) {
        axis.tick = 1;
        axis.decimals = 0;
    }
    return axis;
}

enum { LOG_TICK_COUNT = 3 }; /* in a decade: 1, 2, 5 */

/* The value of tick i: 0 is 1, 1 is 2, -1 is 0.5. */
static double log_tick(int i)
{
    const int within = ((i % LOG_TICK_COUNT) + LOG_TICK_COUNT) % LOG_TICK_COUNT;
    const int decade = (i - within) / LOG_TICK_COUNT;
    return (within == 0 ? 1 : within == 1 ? 2 : 5) * pow(10, decade);
}

launch_axis launch_axis_log(double low, double high)
{
    int first = LOG_TICK_COUNT * (int)floor(log10(low));
    while (log_tick(first + 1) <= low * (1 + 1e-9)) {
        first++;
    }
    int last = first + 1;
    while (log_tick(last) < high * (1 - 1e-9)) {
        last++;
    }
    return (launch_axis){
        .low = log10(log_tick(first)),
        .high = log10(log_tick(last)),
        .tick = 1,
        .logarithmic = true,
    };
}

double launch_plot_x(const launch_plot *plot, double value)
{
    return plot->left + (value - plot->x.low) / (plot->x.high - plot->x.low) * plot->width;
}

double launch_plot_y(const launch_plot *plot, double value)
{
    return plot->top + plot->height -
           (value - plot->y.low) / (plot->y.high - plot->y.low) * plot->height;
}

/* "120k" for 120 000, so that labels stay short. */
static void put_tick(launch_text *text, const launch_axis *axis, double value)
{
    if (axis->high >= 10000 && axis->tick >= 100) {
        launch_text_printf(text, value > 0 ? "%gk" : "%g", value / 1000);
    } else {
        launch_text_printf(text, "%.*f", axis->decimals, value + 0.0);
    }
}

static void put_x_tick(launch_text *text, const launch_plot *plot, double value)
{
    /* a tick at the right end would reach out of the drawing */
    const double x = launch_plot_x(plot, value);
    const bool at_end = x > plot->left + plot->width - MARGIN_RIGHT;
    launch_text_printf(text, "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">",
                       at_end ? plot->left + plot->width + MARGIN_RIGHT : x,
                       plot->top + plot->height + 18, at_end ? "end" : "middle");
}

static void put_x_ticks(launch_text *text, const launch_plot *plot)
{
    for (int i = 0; i < plot->x_tick_count; i++) {
        put_x_tick(text, plot, log10(plot->x_ticks[i]));
        launch_text_printf(text, "%g</text>", plot->x_ticks[i]);
    }
    if (plot->x.logarithmic) {
        return;
    }
    const double first = ceil(plot->x.low / plot->x.tick - 1e-9);
    for (int i = 0; i < TICKS_MAX; i++) {
        const double value = (first + i) * plot->x.tick;
        if (value > plot->x.high + 1e-9 * plot->x.tick) {
            break;
        }
        put_x_tick(text, plot, value);
        put_tick(text, &plot->x, value);
        launch_text_put(text, "</text>");
    }
}

static void put_x_label(launch_text *text, const launch_plot *plot)
{
    launch_text_printf(
        text, "<text class=\"label\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>",
        plot->left + plot->width / 2, plot->top + plot->height + 38, plot->x_label);
}

/* Draws a horizontal line at this height, and the beginning of its label. */
static void put_y_line(launch_text *text, const launch_plot *plot, double value, bool is_axis)
{
    const double y = launch_plot_y(plot, value);
    launch_text_printf(text,
                       "<line class=\"%s\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>"
                       "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">",
                       is_axis ? "axis" : "grid", plot->left, plot->left + plot->width, y, y,
                       plot->left - 8, y + 4);
}

static void put_log_ticks(launch_text *text, const launch_plot *plot)
{
    int i = LOG_TICK_COUNT * (int)floor(plot->y.low);
    while (log10(log_tick(i)) < plot->y.low - 1e-9) {
        i++;
    }
    for (int n = 0; n < TICKS_MAX && log10(log_tick(i)) <= plot->y.high + 1e-9; n++, i++) {
        put_y_line(text, plot, log10(log_tick(i)), n == 0);
        launch_text_printf(text, "%g</text>", log_tick(i));
    }
}

static void put_y_ticks(launch_text *text, const launch_plot *plot)
{
    const double first = ceil(plot->y.low / plot->y.tick - 1e-9);
    if (plot->y.logarithmic) {
        put_log_ticks(text, plot);
        return;
    }
    for (int i = 0; i < TICKS_MAX; i++) {
        const double value = (first + i) * plot->y.tick;
        if (value > plot->y.high + 1e-9 * plot->y.tick) {
            break;
        }
        put_y_line(text, plot, value, i == 0);
        put_tick(text, &plot->y, value);
        launch_text_put(text, "</text>");
    }
}

void launch_plot_x_axis(launch_text *text, const launch_plot *plot)
{
    const double bottom = plot->top + plot->height;
    launch_text_printf(text,
                       "<line class=\"axis\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>",
                       plot->left, plot->left + plot->width, bottom, bottom);
    put_x_ticks(text, plot);
    put_x_label(text, plot);
}

void launch_plot_begin(launch_text *text, const launch_plot *plot)
{
    const double bottom = plot->top + plot->height;
    launch_text_printf(text,
                       "<svg class=\"chart\" viewBox=\"0 0 %.0f %.0f\" role=\"img\" "
                       "aria-label=\"%s\">",
                       plot->left + plot->width + MARGIN_RIGHT, bottom + MARGIN_BELOW, plot->title);
    put_y_ticks(text, plot);
    put_x_ticks(text, plot);
    put_x_label(text, plot);
    launch_text_printf(text, "<text class=\"label\" x=\"%.1f\" y=\"%.1f\">%s</text>", 4.0,
                       plot->top - 12, plot->y_label);
}

void launch_plot_end(launch_text *text)
{
    launch_text_put(text, "</svg>\n");
}
