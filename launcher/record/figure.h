/* A line chart as plain data, which is drawn twice: as SVG for the page, and by gnuplot for a PNG.
 * Both axes are logarithmic. Pure. */
#ifndef LAUNCH_FIGURE_H
#define LAUNCH_FIGURE_H

#include <stdbool.h>

#include "record/text.h"

enum { LAUNCH_FIGURE_SERIES_MAX = 4, LAUNCH_FIGURE_POINTS_MAX = 16 };

/* Points whose y is NaN are left out. */
typedef struct launch_series {
    const char *name;   /* ours: not escaped */
    const char *class;  /* of the SVG elements: the page's colour */
    const char *colour; /* the same for gnuplot: #rrggbb */
    bool dashed;        /* a line without points */
    double y[LAUNCH_FIGURE_POINTS_MAX];
} launch_series;

typedef struct launch_figure {
    const char *title;
    const char *x_label;
    const char *y_label;
    int point_count;
    double x[LAUNCH_FIGURE_POINTS_MAX]; /* ascending, above 0 */
    int series_count;
    launch_series series[LAUNCH_FIGURE_SERIES_MAX];
    double mark_x; /* a line upwards here, with its label; NaN: none */
    char mark_label[64];
} launch_figure;

/* Whether any series has a point. */
bool launch_figure_has_points(const launch_figure *figure);

/* An svg element, and the key above it. */
void launch_figure_svg(launch_text *text, const launch_figure *figure);

/* The data: x, then a column for each series. */
void launch_figure_data(launch_text *text, const launch_figure *figure);

/* The script that draws data_name into png_name. subtitle: under the title; what has a meaning in a
 * gnuplot string is left out of it. */
void launch_figure_script(launch_text *text, const launch_figure *figure, const char *subtitle,
                          const char *data_name, const char *png_name);

#endif
