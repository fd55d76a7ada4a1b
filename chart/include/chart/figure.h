/* Charts as plain data: curves, or times in parts as a bar for each rank. The same code draws them
 * into pages (chart_figure_svg) and into files of their own (picture.h). Pure. */
#ifndef CHART_FIGURE_H
#define CHART_FIGURE_H

#include "chart/axis.h"

enum {
    CHART_ROWS_MAX = 33,
    CHART_NAME_BYTES = 80,
};

#define CHART_ROW_ROOM 1.11 /* the x axis ends at the longest row times this */

typedef enum chart_stroke {
    CHART_STROKE_POINTS, /* a line, and a circle at each point */
    CHART_STROKE_DOTS,   /* circles alone */
    CHART_STROKE_LINE,
    CHART_STROKE_FAINT,
    CHART_STROKE_DASHED,
    CHART_STROKE_BAR, /* a part of the rows */
    CHART_STROKE_COUNT,
} chart_stroke;

typedef struct chart_point {
    double x;
    double y;
    double low; /* of a bar up to high; both are y if there is none */
    double high;
    char label[32]; /* beside the point; empty: none */
    char hint[64];  /* on the page, under the pointer; empty: none */
} chart_point;

typedef struct chart_series {
    char name[CHART_NAME_BYTES]; /* in the key, ours: not escaped; empty: not in the key */
    const char *colour;          /* of the style sheet: "accent" */
    chart_stroke stroke;
    int point_count;
    int points_max;
    chart_point *points;
} chart_series;

/* With rows, each series is a part of the rows' times. Its points have the row as x, the part's
 * time in ms as y, and where it begins and ends in the bar as low and high. */
typedef struct chart_figure {
    const char *title;
    const char *x_label;
    const char *y_label;
    const char *nothing; /* the sentence instead of a chart without points; NULL: none */
    double width;        /* CHART_WIDTH…; on a page */
    double height;       /* of the drawing area */
    chart_axis x;
    chart_axis y;
    int row_count; /* 0: curves */
    char rows[CHART_ROWS_MAX][16];
    double mark_x;       /* a line upwards here, with its label */
    char mark_label[64]; /* empty: no line */
    int series_count;
    int series_max;
    chart_series series[];
} chart_figure;

/* An empty figure with room for so many series of so many points each, to be freed with free().
 * The texts are borrowed. NULL: no memory. */
chart_figure *chart_figure_make(const char *title, const char *x_label, const char *y_label,
                                int series_max, int points_max);

/* Adds a series without points. Its name is copied; NULL: none. */
chart_series *chart_figure_add(chart_figure *figure, const char *name, const char *colour,
                               chart_stroke stroke);

/* A colour for the index-th of many series. They repeat after the eighth. */
const char *chart_colour(int index);

/* Adds a point. Does nothing, and returns a point that nobody draws, if y is not finite or the
 * series is full. */
chart_point *chart_series_add(chart_series *series, double x, double y);

/* Adds a row: the time of each series' part in ms. Parts that are not above 0 are left out. Makes
 * the x axis, with room for a label behind the longest row. */
void chart_figure_add_row(chart_figure *figure, const char *name, const double *parts_ms);

/* Leaves out points whose value, or whose bar's lower end, is not above 0: a logarithmic axis has no
 * place for them. */
void chart_figure_keep_positive(chart_figure *figure);

/* The least and the greatest y of all points and their bars. False if there is no point. */
bool chart_figure_range(const chart_figure *figure, double *low, double *high);

/* The name of a stroke in the style sheet. */
const char *chart_stroke_class(chart_stroke stroke);

/* Whether circles are at its points: one point makes no line. */
bool chart_series_has_circles(const chart_series *series);

/* The key alone, for another drawing of the same parts. NULL: as below. */
void chart_figure_key(base_buffer *text, const chart_figure *figure);

typedef struct chart_drawing {
    double width;
    double height; /* of the drawing area of curves; rows are as high as they are */
    bool row_axis; /* rows have an axis */
} chart_drawing;

/* Draws a figure that has a point, without key and svg element, at x = 0, y = 0. */
void chart_figure_draw(base_buffer *text, const chart_figure *figure, const chart_drawing *drawing);

/* How high that is with axis and labels. */
double chart_figure_height(const chart_figure *figure, const chart_drawing *drawing);

/* The key, and an svg element. Curves across the page can be scrolled. Rows have a second element,
 * for narrow screens. NULL: the text has failed. */
void chart_figure_svg(base_buffer *text, const chart_figure *figure);

/* The data: for each series a block of lines x, y, low, high. Two empty lines end a block. */
void chart_figure_data(base_buffer *text, const chart_figure *figure);

#endif
