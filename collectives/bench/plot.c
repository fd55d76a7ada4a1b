/* Draws latency and bandwidth against size. Called by run.c for --plot. */
#include "plot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "chart/picture.h"
#include "options.h"
#include "ringfence/coll_error.h"

enum { TIME, BANDWIDTH, PANELS };

/* Rows of one type, operation and root follow each other: the row after the last of `first`'s. */
static int series_end(const bench_shared *shared, int first)
{
    const bench_row *row = &shared->rows[first];
    int at = first + 1;
    while (at < shared->row_count && shared->rows[at].type == row->type &&
           shared->rows[at].reduce == row->reduce && shared->rows[at].root == row->root) {
        at++;
    }
    return at;
}

static void name_series(const bench_row *row, int place, char name[CHART_NAME_BYTES])
{
    char root[32] = "";
    if (row->root >= 0) {
        (void)snprintf(root, sizeof root, " root %d", row->root);
    }
    (void)snprintf(name, CHART_NAME_BYTES, "%s%s%s%s, %s", coll_type_name(row->type),
                   row->reduce != 0 ? " " : "",
                   row->reduce != 0 ? coll_reduce_op_name(row->reduce) : "", root,
                   place == 0 ? "out of place" : "in place");
}

/* The median time of a row, and the bus bandwidth at that time. */
static void add_row(chart_series *const series[PANELS], const bench_row *row, int place)
{
    const bench_column *column = &row->columns[place];
    const double time_us = column->time_us_p50;
    if (row->size_bytes == 0 || !(time_us > 0)) {
        return; /* logarithmic axes do not have 0 */
    }
    const double busbw = column->busbw * column->time_us / time_us;
    const double values[PANELS] = {[TIME] = time_us, [BANDWIDTH] = busbw};
    static const char *const units[PANELS] = {[TIME] = "us", [BANDWIDTH] = "GB/s"};
    for (int i = 0; i < PANELS; i++) {
        chart_point *point = chart_series_add(series[i], (double)row->size_bytes, values[i]);
        (void)snprintf(point->hint, sizeof point->hint, "%zu bytes: %.2f %s", row->size_bytes,
                       values[i], units[i]);
    }
}

static void fill(chart_figure *const panels[PANELS], const bench_shared *shared)
{
    for (int first = 0; first < shared->row_count; first = series_end(shared, first)) {
        for (int place = 0; place < 2; place++) {
            char name[CHART_NAME_BYTES];
            chart_series *series[PANELS];
            name_series(&shared->rows[first], place, name);
            for (int i = 0; i < PANELS; i++) {
                series[i] = chart_figure_add(panels[i], name, chart_colour(panels[i]->series_count),
                                             CHART_STROKE_POINTS);
            }
            for (int r = first; r < series_end(shared, first); r++) {
                add_row(series, &shared->rows[r], place);
            }
        }
    }
}

/* Sizes grow in every series. */
static chart_axis size_axis(const chart_figure *figure)
{
    double low = INFINITY;
    double high = 0;
    for (int s = 0; s < figure->series_count; s++) {
        const chart_series *series = &figure->series[s];
        if (series->point_count > 0) {
            low = fmin(low, series->points[0].x);
            high = fmax(high, series->points[series->point_count - 1].x);
        }
    }
    return chart_axis_doubling(low, high, true);
}

static base_status draw(const char *path, const bench_options *options, const bench_shared *shared,
                        chart_figure *const panels[PANELS], base_error *reterr)
{
    char title[160];
    double low = 0;
    double high = 0;
    fill(panels, shared);
    chart_figure_keep_positive(panels[TIME]);
    if (!chart_figure_range(panels[TIME], &low, &high)) {
        return base_fail(reterr, BASE_ERR_INVALID, "no plot: all sizes are 0");
    }
    panels[TIME]->x = size_axis(panels[TIME]);
    panels[TIME]->y = chart_axis_log(low, high);
    (void)chart_figure_range(panels[BANDWIDTH], &low, &high);
    panels[BANDWIDTH]->x = panels[TIME]->x;
    panels[BANDWIDTH]->y = chart_axis_make(0, high, 5, true);
    (void)snprintf(title, sizeof title, "%s, %d ranks, %s, %s, %s", bench_kind_name(options->kind),
                   options->ranks, coll_transport_name(shared->transport),
                   coll_algorithm_name(shared->algorithm),
                   options->arena ? "arena" : "ordinary memory");
    return chart_picture_write(
        &(chart_picture){title, "", (const chart_figure *const *)panels, PANELS}, path, reterr);
}

coll_status bench_plot_draw(const char *path, const bench_options *options,
                            const bench_shared *shared, coll_error *reterr)
{
    int series = 0;
    int longest = 0;
    for (int first = 0, end = 0; first < shared->row_count; first = end) {
        end = series_end(shared, first);
        series += 2;
        longest = end - first > longest ? end - first : longest;
    }
    chart_figure *const panels[PANELS] = {
        [TIME] = chart_figure_make("Time", "bytes", "microseconds, median", series, longest),
        [BANDWIDTH] =
            chart_figure_make("Bandwidth", "bytes", "bus bandwidth, GB/s", series, longest),
    };
    const base_status status =
        panels[TIME] != NULL && panels[BANDWIDTH] != NULL
            ? draw(path, options, shared, panels, base_error_of(reterr))
            : base_fail(base_error_of(reterr), BASE_ERR_MEMORY, "no memory to draw %s", path);
    free(panels[TIME]);
    free(panels[BANDWIDTH]);
    return (coll_status)status;
}
