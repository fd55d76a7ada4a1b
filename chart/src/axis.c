/* Axes, and the frame that all charts share. Called by draw.c, and by the launcher's reports for
 * drawings of their own. */
#include <math.h>
#include <stdio.h>

#include "chart/axis.h"

static double round_tick(double wanted)
{
    const double power = pow(10, floor(log10(wanted)));
    const double digit = wanted / power;
    return power * (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10);
}

/* Ends that differ less, as a share of the larger one, make no range: rounding alone can do that, and so
 * many ticks from 0 on no number counts. */
static const double RANGE_SHARE_MIN = 1e-6;

chart_axis chart_axis_make(double low, double high, int tick_count, bool round)
{
    chart_axis axis = {.low = low, .high = high};
    if (!isfinite(low) || !isfinite(high) ||
        !(high - low > RANGE_SHARE_MIN * fmax(fabs(low), fabs(high)))) {
        axis.low = isfinite(low) ? low : 0;
        axis.high = axis.low + fmax(1, RANGE_SHARE_MIN * fabs(axis.low));
    }
    axis.tick = round_tick((axis.high - axis.low) / tick_count);
    axis.decimals = axis.tick < 1 ? (int)-floor(log10(axis.tick) + 1e-9) : 0;
    if (round) {
        axis.low = floor(axis.low / axis.tick + 1e-9) * axis.tick;
        axis.high = ceil(axis.high / axis.tick - 1e-9) * axis.tick;
    }
    return axis;
}

chart_axis chart_axis_count(double low, double high, int tick_count)
{
    chart_axis axis = chart_axis_make(low, high, tick_count, false);
    if (axis.tick < 1) {
        axis.tick = 1;
        axis.decimals = 0;
    }
    return axis;
}

enum {
    LOG_TICK_COUNT = 3, /* in a decade: 1, 2, 5 */
    LOG_DECADES = 4,    /* an axis of more has only ticks of 1 */
};

/* The value of tick i: 0 is 1, 1 is 2, -1 is 0.5. */
static double log_tick(int i)
{
    const int within = ((i % LOG_TICK_COUNT) + LOG_TICK_COUNT) % LOG_TICK_COUNT;
    const int decade = (i - within) / LOG_TICK_COUNT;
    return (within == 0 ? 1 : within == 1 ? 2 : 5) * pow(10, decade);
}

/* Ends of which both have a logarithm. */
static void make_positive(double *low, double *high)
{
    if (!isfinite(*high) || !(*high > 0)) {
        *high = 1;
    }
    if (!isfinite(*low) || !(*low > 0) || *low > *high) {
        *low = *high;
    }
}

chart_axis chart_axis_log(double low, double high)
{
    make_positive(&low, &high);
    int first = LOG_TICK_COUNT * (int)floor(log10(low));
    while (log_tick(first + 1) <= low * (1 + 1e-9)) {
        first++;
    }
    int last = first + 1;
    while (log_tick(last) < high * (1 - 1e-9)) {
        last++;
    }
    if (last - first > LOG_DECADES * LOG_TICK_COUNT) { /* down and up to ticks of 1 */
        first -= ((first % LOG_TICK_COUNT) + LOG_TICK_COUNT) % LOG_TICK_COUNT;
        last += ((-last % LOG_TICK_COUNT) + LOG_TICK_COUNT) % LOG_TICK_COUNT;
    }
    return (chart_axis){
        .low = log10(log_tick(first)),
        .high = log10(log_tick(last)),
        .tick = 1,
        .logarithmic = true,
    };
}

chart_axis chart_axis_doubling(double low, double high, bool bytes)
{
    const double margin = sqrt(2);
    make_positive(&low, &high);
    chart_axis axis = {.low = log10(low / margin),
                       .high = log10(high * margin),
                       .tick = 1,
                       .logarithmic = true,
                       .bytes = bytes};
    const int first = (int)ceil(log2(low / margin));
    const int last = (int)floor(log2(high * margin));
    const int stride = (last - first) / CHART_AXIS_MARKS_MAX + 1;
    for (int power = first; power <= last; power += stride) {
        axis.marks[axis.mark_count++] = exp2(power);
    }
    return axis;
}

static void label_bytes(double value, chart_tick *tick)
{
    static const char *const units[] = {"", "Ki", "Mi", "Gi", "Ti"};
    size_t unit = 0;
    while (value >= 1024 && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1024;
        unit++;
    }
    (void)snprintf(tick->label, sizeof tick->label, "%g%s", value, units[unit]);
}

/* "120k" for 120 000, so that labels stay short. */
static void label_of(const chart_axis *axis, double value, chart_tick *tick)
{
    const bool thousands = axis->high >= 10000 && axis->tick >= 100;
    tick->value = value;
    if (axis->bytes) {
        label_bytes(value, tick);
    } else if (axis->logarithmic) {
        (void)snprintf(tick->label, sizeof tick->label, "%g", value);
    } else if (thousands) {
        (void)snprintf(tick->label, sizeof tick->label, value > 0 ? "%gk" : "%g", value / 1000);
    } else {
        (void)snprintf(tick->label, sizeof tick->label, "%.*f", axis->decimals, value + 0.0);
    }
}

/* Tick i of an axis without marks; i may be below 0. */
static double tick_value(const chart_axis *axis, int i)
{
    return axis->logarithmic ? log_tick(i) : i * axis->tick;
}

int chart_axis_ticks(const chart_axis *axis, chart_tick ticks[CHART_TICKS_MAX])
{
    int count = 0;
    const double margin = axis->tick * 1e-9;
    const int stride =
        axis->logarithmic && axis->high - axis->low > LOG_DECADES ? LOG_TICK_COUNT : 1;
    const int first = axis->logarithmic ? LOG_TICK_COUNT * (int)floor(axis->low)
                                        : (int)ceil(axis->low / axis->tick - 1e-9);
    for (int i = 0; i < axis->mark_count && count < CHART_TICKS_MAX; i++) {
        label_of(axis, axis->marks[i], &ticks[count++]);
    }
    for (int i = first; axis->mark_count == 0 && count < CHART_TICKS_MAX; i += stride) {
        const double value = tick_value(axis, i);
        const double at = axis->logarithmic ? log10(value) : value;
        if (at > axis->high + margin) {
            break;
        }
        if (at >= axis->low - margin) {
            label_of(axis, value, &ticks[count++]);
        }
    }
    return count;
}

/* The share of the axis below a value. */
static double share_below(const chart_axis *axis, double value)
{
    const double at = axis->logarithmic ? log10(value) : value;
    return (at - axis->low) / (axis->high - axis->low);
}

double chart_plot_x(const chart_plot *plot, double value)
{
    return plot->left + share_below(&plot->x, value) * plot->width;
}

double chart_plot_y(const chart_plot *plot, double value)
{
    return plot->top + plot->height - share_below(&plot->y, value) * plot->height;
}

static void put_x_ticks(base_buffer *text, const chart_plot *plot)
{
    chart_tick ticks[CHART_TICKS_MAX];
    const int count = chart_axis_ticks(&plot->x, ticks);
    for (int i = 0; i < count; i++) {
        /* a tick at the right end would reach out of the drawing */
        const double x = chart_plot_x(plot, ticks[i].value);
        const bool at_end = x > plot->left + plot->width - CHART_PLOT_RIGHT;
        base_buffer_printf(
            text, "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>",
            at_end ? plot->left + plot->width + CHART_PLOT_RIGHT : x, plot->top + plot->height + 18,
            at_end ? "end" : "middle", ticks[i].label);
    }
}

static void put_x_label(base_buffer *text, const chart_plot *plot)
{
    base_buffer_printf(
        text, "<text class=\"label\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>",
        plot->left + plot->width / 2, plot->top + plot->height + 38, plot->x_label);
}

/* Horizontal lines with their labels. */
static void put_y_ticks(base_buffer *text, const chart_plot *plot)
{
    chart_tick ticks[CHART_TICKS_MAX];
    const int count = chart_axis_ticks(&plot->y, ticks);
    for (int i = 0; i < count; i++) {
        const double y = chart_plot_y(plot, ticks[i].value);
        base_buffer_printf(text,
                           "<line class=\"%s\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>"
                           "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\" "
                           "text-anchor=\"end\">%s</text>",
                           i == 0 ? "axis" : "grid", plot->left, plot->left + plot->width, y, y,
                           plot->left - 8, y + 4, ticks[i].label);
    }
}

void chart_plot_x_axis(base_buffer *text, const chart_plot *plot)
{
    const double bottom = plot->top + plot->height;
    base_buffer_printf(text,
                       "<line class=\"axis\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>",
                       plot->left, plot->left + plot->width, bottom, bottom);
    put_x_ticks(text, plot);
    put_x_label(text, plot);
}

void chart_svg_begin(base_buffer *text, const char *class, double width, double height,
                     const char *title)
{
    base_buffer_printf(text,
                       "<svg class=\"chart%s%s\" viewBox=\"0 0 %.0f %.0f\" role=\"img\" "
                       "aria-label=\"%s\">",
                       class[0] != '\0' ? " " : "", class, width, height, title);
}

void chart_plot_x_grid(base_buffer *text, const chart_plot *plot)
{
    chart_tick ticks[CHART_TICKS_MAX];
    const int count = chart_axis_ticks(&plot->x, ticks);
    for (int i = 0; i < count; i++) {
        const double x = chart_plot_x(plot, ticks[i].value);
        base_buffer_printf(text,
                           "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>",
                           x, x, plot->top, plot->top + plot->height);
    }
}

void chart_plot_frame(base_buffer *text, const chart_plot *plot)
{
    if (plot->x.logarithmic) {
        chart_plot_x_grid(text, plot);
    }
    put_y_ticks(text, plot);
    put_x_ticks(text, plot);
    put_x_label(text, plot);
    base_buffer_printf(text, "<text class=\"label\" x=\"%.1f\" y=\"%.1f\">%s</text>", 4.0,
                       plot->top - 12, plot->y_label);
}

void chart_svg_end(base_buffer *text)
{
    base_buffer_put(text, "</svg>\n");
}
