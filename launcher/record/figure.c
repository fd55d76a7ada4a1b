/* Draws a figure as SVG, and writes gnuplot's script and data for the same. The record of an
 * inference run has its scaling curve drawn so. */
#include "record/figure.h"

#include <math.h>
#include <string.h>

#include "record/chart.h"

static const double MARGIN = 1.25; /* of the axes, as a factor beyond the outermost points */

typedef struct range {
    double low;
    double high;
} range;

static range y_range(const launch_figure *figure)
{
    range found = {.low = INFINITY, .high = -INFINITY};
    for (int s = 0; s < figure->series_count; s++) {
        for (int i = 0; i < figure->point_count; i++) {
            const double y = figure->series[s].y[i];
            if (isfinite(y) && y > 0) {
                found.low = fmin(found.low, y);
                found.high = fmax(found.high, y);
            }
        }
    }
    return found;
}

bool launch_figure_has_points(const launch_figure *figure)
{
    return isfinite(y_range(figure).low);
}

static void put_key(launch_text *text, const launch_figure *figure)
{
    launch_text_put(text, "<ul class=\"key\">");
    for (int s = 0; s < figure->series_count; s++) {
        const launch_series *series = &figure->series[s];
        launch_text_printf(text, "<li><i class=\"%s %s\"></i>%s</li>",
                           series->dashed ? "dash" : "solid", series->class, series->name);
    }
    launch_text_put(text, "</ul>\n");
}

static void put_series(launch_text *text, const launch_plot *plot, const launch_figure *figure,
                       const launch_series *series)
{
    launch_text_printf(text, "<polyline class=\"curve %s %s\" points=\"", series->class,
                       series->dashed ? "dashed" : "plain");
    for (int i = 0; i < figure->point_count; i++) {
        if (isfinite(series->y[i])) {
            launch_text_printf(text, "%.1f,%.1f ", launch_plot_x(plot, log10(figure->x[i])),
                               launch_plot_y(plot, log10(series->y[i])));
        }
    }
    launch_text_put(text, "\"/>");
    for (int i = 0; i < figure->point_count && !series->dashed; i++) {
        if (isfinite(series->y[i])) {
            launch_text_printf(text,
                               "<circle class=\"curve-point %s\" cx=\"%.1f\" cy=\"%.1f\" r=\"5\">"
                               "<title>%s: %g at %g</title></circle>",
                               series->class, launch_plot_x(plot, log10(figure->x[i])),
                               launch_plot_y(plot, log10(series->y[i])), series->name, series->y[i],
                               figure->x[i]);
        }
    }
}

static void put_mark(launch_text *text, const launch_plot *plot, const launch_figure *figure)
{
    if (!isfinite(figure->mark_x)) {
        return;
    }
    const double x = launch_plot_x(plot, log10(figure->mark_x));
    const bool left = x > plot->left + plot->width / 2;
    launch_text_printf(text,
                       "<line class=\"divide\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>"
                       "<text class=\"value\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">",
                       x, x, plot->top, plot->top + plot->height, left ? x - 8 : x + 8,
                       plot->top + 16, left ? "end" : "start");
    launch_text_html(text, figure->mark_label);
    launch_text_put(text, "</text>");
}

void launch_figure_svg(launch_text *text, const launch_figure *figure)
{
    const range y = y_range(figure);
    if (!isfinite(y.low)) {
        launch_text_put(text, "<p class=\"none\">Nothing was measured.</p>\n");
        return;
    }
    const launch_plot plot = {
        .left = 64,
        .top = 34,
        .width = LAUNCH_CHART_WIDTH - 64 - 14,
        .height = 330,
        .x = {.low = log10(figure->x[0] / MARGIN),
              .high = log10(figure->x[figure->point_count - 1] * MARGIN),
              .tick = 1,
              .logarithmic = true},
        .y = launch_axis_log(y.low / MARGIN, y.high * MARGIN),
        .x_ticks = figure->x,
        .x_tick_count = figure->point_count,
        .x_label = figure->x_label,
        .y_label = figure->y_label,
        .title = figure->title,
    };
    put_key(text, figure);
    launch_text_put(text, "<div class=\"scroll\">");
    launch_plot_begin(text, &plot);
    for (int s = 0; s < figure->series_count; s++) {
        put_series(text, &plot, figure, &figure->series[s]);
    }
    put_mark(text, &plot, figure);
    launch_plot_end(text);
    launch_text_put(text, "</div>");
}

void launch_figure_data(launch_text *text, const launch_figure *figure)
{
    launch_text_printf(text, "# %s", figure->x_label);
    for (int s = 0; s < figure->series_count; s++) {
        launch_text_printf(text, "  \"%s\"", figure->series[s].name);
    }
    launch_text_put(text, "\n");
    for (int i = 0; i < figure->point_count; i++) {
        launch_text_printf(text, "%g", figure->x[i]);
        for (int s = 0; s < figure->series_count; s++) {
            const double y = figure->series[s].y[i];
            if (isfinite(y)) {
                launch_text_printf(text, " %.6g", y);
            } else {
                launch_text_put(text, " nan");
            }
        }
        launch_text_put(text, "\n");
    }
}

/* Leaves out what has a meaning in a double-quoted gnuplot string. */
static void put_words(launch_text *text, const char *words)
{
    for (; *words != '\0'; words++) {
        const char letter[2] = {*words, '\0'};
        launch_text_put(text, strchr("\"\\`", *words) == NULL ? letter : "");
    }
}

void launch_figure_script(launch_text *text, const launch_figure *figure, const char *subtitle,
                          const char *data_name, const char *png_name)
{
    launch_text_printf(text, "\nset output '%s'\nset title \"%s\\n", png_name, figure->title);
    put_words(text, subtitle);
    launch_text_printf(
        text,
        "\" noenhanced\nset xlabel '%s' noenhanced\nset ylabel '%s' noenhanced\nset logscale xy\n"
        "set key top left Left reverse samplen 3\n"
        "set xrange [%g:%g]\nset yrange [*:*]\nset offsets 0, 0, 0, 0\nset xtics (",
        figure->x_label, figure->y_label, figure->x[0] / MARGIN,
        figure->x[figure->point_count - 1] * MARGIN);
    for (int i = 0; i < figure->point_count; i++) {
        launch_text_printf(text, "%s%g", i > 0 ? ", " : "", figure->x[i]);
    }
    launch_text_put(text, ")\n");
    if (isfinite(figure->mark_x)) {
        launch_text_printf(text,
                           "set arrow 1 from %g, graph 0 to %g, graph 1 nohead dashtype 3 "
                           "linecolor rgb '#5c6877'\nset label 1 '%s' at %g, graph 0.06 offset 1,0 "
                           "noenhanced\n",
                           figure->mark_x, figure->mark_x, figure->mark_label, figure->mark_x);
    }
    launch_text_put(text, "plot ");
    for (int s = 0; s < figure->series_count; s++) {
        const launch_series *series = &figure->series[s];
        launch_text_printf(text,
                           "%s'%s' using 1:%d with %s linewidth 3 linecolor rgb '%s' title "
                           "'%s'",
                           s > 0 ? ", \\\n     " : "", data_name, s + 2,
                           series->dashed ? "lines dashtype 2"
                                          : "linespoints pointtype 7 pointsize 1.6",
                           series->colour, series->name);
    }
    launch_text_put(text, "\nunset arrow\nunset label\nunset logscale\nset xtics autofreq\n");
}
