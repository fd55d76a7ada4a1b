/* What charts have in common: axes with round numbers, the frame, and the style sheet, from which
 * colours come by class and by name. Pure. */
#ifndef LAUNCH_CHART_H
#define LAUNCH_CHART_H

#include "base/buffer.h"
#include "record/run.h"

enum { LAUNCH_TICKS_MAX = 64, LAUNCH_AXIS_MARKS_MAX = 16 };

typedef struct launch_axis {
    double low;
    double high;
    double tick; /* between two ticks: 1, 2 or 5 times a power of ten */
    int decimals;
    bool logarithmic; /* low and high are logarithms to base 10; ticks at 1, 2, 5 times a power */
    int mark_count;   /* if not 0, the ticks are these instead */
    double marks[LAUNCH_AXIS_MARKS_MAX];
} launch_axis;

typedef struct launch_tick {
    double value;
    char label[24];
} launch_tick;

/* An axis from low to high in about tick_count steps. With `round` its ends are ticks too. If the
 * ends make no range (equal, falling, not finite), the range is 1. */
launch_axis launch_axis_make(double low, double high, int tick_count, bool round);

/* An axis of counts, 0 … high. It has no tick between whole numbers. */
launch_axis launch_axis_count(double high, int tick_count);

/* A logarithmic axis of values above 0. It ends at 1, 2 or 5 times a power of ten. */
launch_axis launch_axis_log(double low, double high);

/* The ticks of the axis, from below. Returns how many. */
int launch_axis_ticks(const launch_axis *axis, launch_tick ticks[LAUNCH_TICKS_MAX]);

/* A drawing area with its axes. Lengths are in SVG units; the page scales the whole. */
typedef struct launch_plot {
    double left;
    double top;
    double width;
    double height;
    launch_axis x;
    launch_axis y;
    const char *x_label; /* plain text, ours: not escaped */
    const char *y_label;
} launch_plot;

enum {
    LAUNCH_PLOT_RIGHT = 14,        /* beside the drawing area, for the last tick */
    LAUNCH_PLOT_BELOW = 46,        /* for ticks and label */
    LAUNCH_CHART_WIDTH = 1000,     /* of a drawing across the page */
    LAUNCH_CHART_WIDTH_HALF = 480, /* of one of two beside each other, so that text is as large */
    LAUNCH_CHART_RANKS_MAX = 32,
    LAUNCH_CHART_COLUMNS_MAX = 240,
};

/* Where a value lies, in SVG units. On a logarithmic axis, too, this is the value itself. */
double launch_plot_x(const launch_plot *plot, double value);
double launch_plot_y(const launch_plot *plot, double value);

/* An svg element of a page. class: besides "chart"; may be empty. title: for screen readers. */
void launch_svg_begin(base_buffer *text, const char *class, double width, double height,
                      const char *title);
void launch_svg_end(base_buffer *text);

/* Grid, ticks and labels. */
void launch_plot_frame(base_buffer *text, const launch_plot *plot);

/* The style sheet for a page with charts: the colours, light and dark, as custom properties, and the
 * rules. The rules alone, in which var(--NAME) stands for a colour. */
extern const char LAUNCH_CHART_STYLE[];
extern const char LAUNCH_CHART_RULES[];

/* Puts a text of ours with the light colour itself in place of each var(--NAME): not everything
 * that shows SVG knows custom properties. */
void launch_chart_put_light(base_buffer *text, const char *with_names);

/* The x axis alone, with ticks and label, for a drawing that opens its own svg element. */
void launch_plot_x_axis(base_buffer *text, const launch_plot *plot);

/* The parts of the step over the whole run, as areas: of each step, or of the mean of several in each of
 * LAUNCH_CHART_COLUMNS_MAX columns. A sentence if no step was finished. */
void launch_chart_step_times(base_buffer *text, const launch_run *run);

#endif
