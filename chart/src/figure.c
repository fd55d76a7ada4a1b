/* Fills the figures that draw.c draws. Called by whoever makes one. */
#include "chart/figure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"

chart_figure *chart_figure_make(const char *title, const char *x_label, const char *y_label,
                                int series_max, int points_max)
{
    const size_t series_bytes = sizeof(chart_series) + (size_t)points_max * sizeof(chart_point);
    chart_figure *figure = calloc(1, sizeof *figure + (size_t)series_max * series_bytes);
    if (figure == NULL) {
        return NULL;
    }
    chart_point *points = (void *)&figure->series[series_max]; /* those of all series */
    figure->title = title;
    figure->x_label = x_label;
    figure->y_label = y_label;
    figure->series_max = series_max;
    for (int s = 0; s < series_max; s++) {
        figure->series[s].points_max = points_max;
        figure->series[s].points = points + (size_t)s * (size_t)points_max;
    }
    return figure;
}

chart_series *chart_figure_add(chart_figure *figure, const char *name, const char *colour,
                               chart_stroke stroke)
{
    BASE_ASSERT(figure->series_count < figure->series_max);
    chart_series *series = &figure->series[figure->series_count++];
    (void)snprintf(series->name, sizeof series->name, "%s", name != NULL ? name : "");
    series->colour = colour;
    series->stroke = stroke;
    return series;
}

const char *chart_colour(int index)
{
    static const char *const colours[] = {"accent",     "exchange", "good",    "optimizer",
                                          "overlapped", "other",    "waiting", "ink"};
    return colours[(size_t)index % (sizeof colours / sizeof colours[0])];
}

chart_point *chart_series_add(chart_series *series, double x, double y)
{
    static chart_point beyond;
    if (!isfinite(y) || series->point_count == series->points_max) {
        return &beyond;
    }
    chart_point *point = &series->points[series->point_count++];
    *point = (chart_point){.x = x, .y = y, .low = y, .high = y};
    return point;
}

void chart_figure_add_row(chart_figure *figure, const char *name, const double *parts_ms)
{
    BASE_ASSERT(figure->row_count < CHART_ROWS_MAX);
    const int row = figure->row_count++;
    double done_ms = 0;
    (void)snprintf(figure->rows[row], sizeof figure->rows[row], "%s", name);
    for (int s = 0; s < figure->series_count; s++) {
        if (parts_ms[s] > 0) {
            chart_point *point = chart_series_add(&figure->series[s], row, parts_ms[s]);
            point->low = done_ms;
            done_ms += parts_ms[s];
            point->high = done_ms;
        }
    }
    if (done_ms * CHART_ROW_ROOM > figure->x.high) {
        figure->x = chart_axis_make(0, done_ms * CHART_ROW_ROOM, 8, false);
    }
}

void chart_figure_keep_positive(chart_figure *figure)
{
    for (int s = 0; s < figure->series_count; s++) {
        chart_series *series = &figure->series[s];
        int kept = 0;
        for (int i = 0; i < series->point_count; i++) {
            if (series->points[i].low > 0) {
                series->points[kept++] = series->points[i];
            }
        }
        series->point_count = kept;
    }
}

bool chart_figure_range(const chart_figure *figure, double *low, double *high)
{
    *low = INFINITY;
    *high = -INFINITY;
    for (int s = 0; s < figure->series_count; s++) {
        const chart_series *series = &figure->series[s];
        for (int i = 0; i < series->point_count; i++) {
            *low = fmin(*low, series->points[i].low);
            *high = fmax(*high, series->points[i].high);
        }
    }
    return *low <= *high;
}
