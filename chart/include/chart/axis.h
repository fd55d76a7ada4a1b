/* What charts have in common: axes with round numbers, and the frame. Colours come from the style
 * sheet (style.h), by class. Pure. */
#ifndef CHART_AXIS_H
#define CHART_AXIS_H

#include "base/buffer.h"

enum { CHART_TICKS_MAX = 64, CHART_AXIS_MARKS_MAX = 16 };

typedef struct chart_axis {
    double low;
    double high;
    double tick; /* between two ticks: 1, 2 or 5 times a power of ten */
    int decimals;
    bool logarithmic; /* low and high are logarithms to base 10; ticks at 1, 2, 5 times a power, or
                       * at powers alone if the axis is long */
    bool bytes;       /* 65536 is labelled "64Ki" */
    int mark_count;   /* if not 0, the ticks are these instead */
    double marks[CHART_AXIS_MARKS_MAX];
} chart_axis;

typedef struct chart_tick {
    double value;
    char label[24];
} chart_tick;

/* An axis from low to high in about tick_count steps. With `round` its ends are ticks too. If the
 * ends make no range (equal but for rounding, falling, not finite), the range is 1, or a millionth of large ends. */
chart_axis chart_axis_make(double low, double high, int tick_count, bool round);

/* An axis of counts, low … high. It has no tick between whole numbers. */
chart_axis chart_axis_count(double low, double high, int tick_count);

/* A logarithmic axis of values above 0. It ends at 1, 2 or 5 times a power of ten, or at powers if it is
 * long. An end that is not above 0 or not finite becomes the other one, or 1. */
chart_axis chart_axis_log(double low, double high);

/* A logarithmic axis of values above 0 with ticks at powers of two, and a margin. For ends the
 * same holds. */
chart_axis chart_axis_doubling(double low, double high, bool bytes);

/* The ticks of the axis, from below. Returns how many. */
int chart_axis_ticks(const chart_axis *axis, chart_tick ticks[CHART_TICKS_MAX]);

/* A drawing area with its axes. Lengths are in SVG units; the page scales the whole. */
typedef struct chart_plot {
    double left;
    double top;
    double width;
    double height;
    chart_axis x;
    chart_axis y;
    const char *x_label; /* plain text, ours: not escaped */
    const char *y_label;
} chart_plot;

enum {
    CHART_PLOT_RIGHT = 14,  /* beside the drawing area, for the last tick */
    CHART_PLOT_BELOW = 46,  /* for ticks and label */
    CHART_WIDTH = 1000,     /* of a drawing across the page */
    CHART_WIDTH_HALF = 480, /* of one of two beside each other, so that text is as large */
};

/* Where a value lies, in SVG units. On a logarithmic axis, too, this is the value itself. */
double chart_plot_x(const chart_plot *plot, double value);
double chart_plot_y(const chart_plot *plot, double value);

/* An svg element of a page. class: besides "chart"; may be empty. title: for screen readers. */
void chart_svg_begin(base_buffer *text, const char *class, double width, double height,
                     const char *title);
void chart_svg_end(base_buffer *text);

/* Grid, ticks and labels. A logarithmic x axis has a grid, too. */
void chart_plot_frame(base_buffer *text, const chart_plot *plot);

/* The lines upwards from the ticks of the x axis. */
void chart_plot_x_grid(base_buffer *text, const chart_plot *plot);

/* The x axis alone, with ticks and label, for a drawing that opens its own svg element. */
void chart_plot_x_axis(base_buffer *text, const chart_plot *plot);

#endif
