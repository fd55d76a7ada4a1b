/* Draws a figure as SVG, and writes gnuplot's data and script for the same. Called by report.c and
 * inference_report.c for the page, by plots.c and inference.c for the PNG. */
#include <math.h>
#include <string.h>

#include "record/figure.h"

#include "record/report.h"

/* A stroke's name in the style sheet, and how gnuplot draws it. */
static const struct {
    const char *class;
    const char *gnuplot;
    const char *transparency; /* before gnuplot's rrggbb */
} strokes[LAUNCH_STROKE_COUNT] = {
    [LAUNCH_STROKE_POINTS] = {"solid", "linespoints pointtype 7 pointsize 1.6 linewidth 3", ""},
    [LAUNCH_STROKE_LINE] = {"solid", "lines linewidth 3", ""},
    [LAUNCH_STROKE_FAINT] = {"faint", "lines linewidth 1", "99"},
    [LAUNCH_STROKE_DASHED] = {"dash", "lines dashtype 2 linewidth 2", ""},
    [LAUNCH_STROKE_BAR] = {"part", "boxxyerror", ""},
};

enum { BAR_HEIGHT = 26, ROW_HEIGHT = 38, LABEL_WIDTH = 140 };

static const double ROW_VALUE_WIDTH = 84; /* of the time behind a row */
static const double ROWS_LEFT_MIN = 66;
static const double ROW_LETTER = 7.2;      /* the width of a letter of a row's name */
static const double INSIDE_WIDTH_MIN = 70; /* a part narrower than this has no label inside */

/* One point makes no line. */
static bool has_circles(const launch_series *series)
{
    return series->stroke == LAUNCH_STROKE_POINTS ||
           (series->stroke != LAUNCH_STROKE_BAR && series->point_count == 1);
}

void launch_figure_key(base_buffer *text, const launch_figure *figure)
{
    if (figure == NULL) {
        text->failed = true;
        return;
    }
    base_buffer_put(text, "<ul class=\"key\">");
    for (int s = 0; s < figure->series_count; s++) {
        const launch_series *series = &figure->series[s];
        if (series->name != NULL && series->point_count > 0) {
            base_buffer_printf(text, "<li style=\"--of:var(--%s)\"><i class=\"%s\"></i>%s</li>",
                               series->colour, strokes[series->stroke].class, series->name);
        }
    }
    base_buffer_put(text, "</ul>\n");
}

static void put_line(base_buffer *text, const launch_plot *plot, const launch_series *series)
{
    base_buffer_printf(text, "<polyline class=\"curve %s\" style=\"--of:var(--%s)\" points=\"",
                       strokes[series->stroke].class, series->colour);
    for (int i = 0; i < series->point_count; i++) {
        base_buffer_printf(text, "%.1f,%.1f ", launch_plot_x(plot, series->points[i].x),
                           launch_plot_y(plot, series->points[i].y));
    }
    base_buffer_put(text, "\"/>");
}

static void put_title(base_buffer *text, const launch_point *point)
{
    if (point->hint[0] != '\0') {
        base_buffer_printf(text, "<title>%s</title>", point->hint);
    }
}

/* Invisible columns that show the hints of a line without circles. */
static void put_columns(base_buffer *text, const launch_plot *plot, const launch_series *series)
{
    const double half = plot->width / (double)series->point_count / 2;
    for (int i = 0; i < series->point_count && series->points[i].hint[0] != '\0'; i++) {
        base_buffer_printf(
            text, "<rect class=\"hint\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\">",
            launch_plot_x(plot, series->points[i].x) - half, plot->top, 2 * half, plot->height);
        put_title(text, &series->points[i]);
        base_buffer_put(text, "</rect>");
    }
}

/* Where a point's label lies: to the right and below, but to the left if there is no room. There a
 * line that rises to the point leaves room above, one that falls leaves it below. If the label of
 * the next point comes to lie to the left and below, and near, this one lies above. */
typedef struct label_side {
    bool left;
    bool above;
} label_side;

static label_side label_side_of(const launch_plot *plot, const launch_series *series, int i)
{
    const launch_point *point = &series->points[i];
    const double x = launch_plot_x(plot, point->x);
    const double left_from = plot->left + plot->width - LABEL_WIDTH;
    if (x > left_from) {
        return (label_side){.left = true, .above = i == 0 || point[-1].y <= point->y};
    }
    const double next_x =
        i + 1 < series->point_count ? launch_plot_x(plot, point[1].x) : plot->left;
    return (label_side){.above = next_x > left_from && next_x < x + 2 * LABEL_WIDTH &&
                                 point[1].y < point->y};
}

static void put_circles(base_buffer *text, const launch_plot *plot, const launch_series *series)
{
    base_buffer_printf(text, "<g style=\"--of:var(--%s)\">", series->colour);
    for (int i = 0; i < series->point_count; i++) {
        const launch_point *point = &series->points[i];
        const double x = launch_plot_x(plot, point->x);
        const double y = launch_plot_y(plot, point->y);
        base_buffer_put(text, "<g>");
        put_title(text, point);
        if (point->low < point->high) {
            base_buffer_printf(
                text, "<line class=\"spread\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>", x,
                x, launch_plot_y(plot, point->low), launch_plot_y(plot, point->high));
        }
        base_buffer_printf(text, "<circle class=\"point\" cx=\"%.1f\" cy=\"%.1f\" r=\"5\"/></g>", x,
                           y);
        if (point->label[0] != '\0') {
            const label_side side = label_side_of(plot, series, i);
            base_buffer_printf(
                text, "<text class=\"value\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>",
                side.left ? x - 12 : x + 12, side.above ? y - 12 : y + 18,
                side.left ? "end" : "start", point->label);
        }
    }
    base_buffer_put(text, "</g>");
}

/* Whether the mark's label lies to its left. */
static bool mark_label_left(const launch_plot *plot, const launch_figure *figure)
{
    return launch_plot_x(plot, figure->mark_x) > plot->left + plot->width / 2;
}

static void put_mark(base_buffer *text, const launch_plot *plot, const launch_figure *figure)
{
    const double x = launch_plot_x(plot, figure->mark_x);
    const bool left = mark_label_left(plot, figure);
    base_buffer_printf(text,
                       "<line class=\"divide\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>"
                       "<text class=\"value\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">",
                       x, x, plot->top, plot->top + plot->height, left ? x - 8 : x + 8,
                       plot->top + 16, left ? "end" : "start");
    base_buffer_html(text, figure->mark_label);
    base_buffer_put(text, "</text>");
}

static launch_plot plot_of(const launch_figure *figure)
{
    return (launch_plot){
        .left = 58,
        .top = 30,
        .width = figure->width - 58 - 14,
        .height = figure->height,
        .x = figure->x,
        .y = figure->y,
        .x_label = figure->x_label,
        .y_label = figure->y_label,
        .title = figure->title,
    };
}

/* How long each row's bar is. */
static void row_lengths(const launch_figure *figure, double whole_ms[LAUNCH_FIGURE_ROWS_MAX])
{
    memset(whole_ms, 0, LAUNCH_FIGURE_ROWS_MAX * sizeof *whole_ms);
    for (int s = 0; s < figure->series_count; s++) {
        for (int i = 0; i < figure->series[s].point_count; i++) {
            const launch_point *point = &figure->series[s].points[i];
            whole_ms[(int)point->x] += point->y;
        }
    }
}

static int row_decimals(const launch_figure *figure)
{
    return figure->x.high < 1 ? 4 : 2;
}

/* One part of all rows. */
static void put_parts(base_buffer *text, const launch_plot *plot, const launch_series *series,
                      const double *whole_ms, int decimals)
{
    base_buffer_printf(text, "<g style=\"--of:var(--%s)\">", series->colour);
    for (int i = 0; i < series->point_count; i++) {
        const launch_point *point = &series->points[i];
        const double x = launch_plot_x(plot, point->low);
        const double y = plot->top + point->x * ROW_HEIGHT + (ROW_HEIGHT - BAR_HEIGHT) / 2.0;
        const double width = launch_plot_x(plot, point->high) - x;
        base_buffer_printf(text,
                           "<rect class=\"part\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" "
                           "height=\"%d\"><title>%s: %.*f ms, %.1f %%</title></rect>",
                           x, y, width, BAR_HEIGHT, series->name, decimals + 1, point->y,
                           launch_share_percent(point->y, whole_ms[(int)point->x]));
        if (width >= INSIDE_WIDTH_MIN) {
            base_buffer_printf(text,
                               "<text class=\"inside\" x=\"%.1f\" y=\"%.1f\" "
                               "text-anchor=\"middle\">%.*f ms</text>",
                               x + width / 2, y + 18, decimals, point->y);
        }
    }
    base_buffer_put(text, "</g>");
}

/* Where the bars begin: behind the longest name. */
static double rows_left(const launch_figure *figure)
{
    size_t longest = 0;
    for (int r = 0; r < figure->row_count; r++) {
        const size_t length = strlen(figure->rows[r]);
        longest = length > longest ? length : longest;
    }
    return fmax(ROWS_LEFT_MIN, ROW_LETTER * (double)longest + 12);
}

/* The bars in a drawing of that width. class: the screens that show it. */
static void put_rows(base_buffer *text, const launch_figure *figure, double width,
                     const char *class)
{
    double whole_ms[LAUNCH_FIGURE_ROWS_MAX];
    const int decimals = row_decimals(figure);
    const double left = rows_left(figure);
    const double room =
        (width - left) * (1 - 1 / LAUNCH_FIGURE_ROW_ROOM); /* of the axis, behind the longest row */
    const launch_plot plot = {.left = left,
                              .top = 4,
                              .width = width - left - fmax(0, ROW_VALUE_WIDTH - room),
                              .height = figure->row_count * (double)ROW_HEIGHT,
                              .x = figure->x};
    row_lengths(figure, whole_ms);
    base_buffer_printf(text,
                       "<svg class=\"chart %s\" viewBox=\"0 0 %.0f %.0f\" role=\"img\" "
                       "aria-label=\"%s\">",
                       class, width, plot.top + plot.height + 6, figure->title);
    for (int s = 0; s < figure->series_count; s++) {
        put_parts(text, &plot, &figure->series[s], whole_ms, decimals);
    }
    for (int r = 0; r < figure->row_count; r++) {
        const double y = plot.top + r * ROW_HEIGHT + ROW_HEIGHT / 2.0 + 5;
        base_buffer_printf(text,
                           "<text class=\"row\" x=\"4\" y=\"%.1f\">%s</text>"
                           "<text class=\"value\" x=\"%.1f\" y=\"%.1f\">%.*f ms</text>",
                           y, figure->rows[r], launch_plot_x(&plot, whole_ms[r]) + 8, y, decimals,
                           whole_ms[r]);
    }
    launch_plot_end(text);
}

static void put_curves(base_buffer *text, const launch_figure *figure)
{
    const launch_plot plot = plot_of(figure);
    launch_plot_begin(text, &plot);
    for (int s = 0; s < figure->series_count; s++) {
        put_line(text, &plot, &figure->series[s]);
    }
    for (int s = 0; s < figure->series_count; s++) {
        if (!has_circles(&figure->series[s])) {
            put_columns(text, &plot, &figure->series[s]);
        }
    }
    for (int s = 0; s < figure->series_count; s++) {
        if (has_circles(&figure->series[s])) {
            put_circles(text, &plot, &figure->series[s]);
        }
    }
    if (figure->mark_label[0] != '\0') {
        put_mark(text, &plot, figure);
    }
    launch_plot_end(text);
}

void launch_figure_svg(base_buffer *text, const launch_figure *figure)
{
    double low = 0;
    double high = 0;
    if (figure == NULL) {
        text->failed = true;
    } else if (launch_figure_range(figure, &low, &high)) {
        launch_figure_key(text, figure);
        if (figure->row_count > 0) {
            put_rows(text, figure, figure->width, "broad");
            put_rows(text, figure, LAUNCH_CHART_WIDTH_HALF, "narrow");
        } else if (figure->width == LAUNCH_CHART_WIDTH) {
            base_buffer_put(text, "<div class=\"scroll wide\">");
            put_curves(text, figure);
            base_buffer_put(text, "</div>");
        } else {
            put_curves(text, figure);
        }
    } else if (figure->nothing != NULL) {
        base_buffer_printf(text, "<p class=\"none\">%s</p>\n", figure->nothing);
    }
}

void launch_figure_data(base_buffer *text, const launch_figure *figure)
{
    for (int s = 0; s < figure->series_count; s++) {
        const launch_series *series = &figure->series[s];
        for (int i = 0; i < series->point_count; i++) {
            const launch_point *point = &series->points[i];
            if (i == 0) {
                base_buffer_printf(text, "# %s: %s, %s, low, high\n",
                                   series->name != NULL ? series->name : figure->title,
                                   figure->row_count > 0 ? "row" : figure->x_label,
                                   figure->y_label);
            }
            base_buffer_printf(text, "%.7g %.7g %.7g %.7g%s", point->x, point->y, point->low,
                               point->high, i + 1 < series->point_count ? "\n" : "\n\n\n");
        }
    }
}

/* ---- the script ---- */

/* Text for a string in gnuplot's double quotes, without the characters that gnuplot interprets. */
static void put_quoted(base_buffer *text, const char *quoted)
{
    for (; *quoted != '\0'; quoted++) {
        const char letter[2] = {*quoted, '\0'};
        base_buffer_put(text, strchr("\"\\`", *quoted) == NULL ? letter : "");
    }
}

/* The range and the ticks, which are those of the page. */
static void put_axis(base_buffer *text, const launch_axis *axis, char name, const char *label)
{
    launch_tick ticks[LAUNCH_TICKS_MAX];
    const int count = launch_axis_ticks(axis, ticks);
    const bool log = axis->logarithmic;
    base_buffer_printf(text, "set %clabel '%s' noenhanced\nset %crange [%.9g:%.9g]\nset %ctics (",
                       name, label, name, log ? pow(10, axis->low) : axis->low,
                       log ? pow(10, axis->high) : axis->high, name);
    for (int i = 0; i < count; i++) {
        base_buffer_printf(text, "%s'%s' %.9g", i > 0 ? ", " : "", ticks[i].label, ticks[i].value);
    }
    base_buffer_printf(text, ")\n");
    if (log) {
        base_buffer_printf(text, "set logscale %c\n", name);
    }
}

static void put_labels(base_buffer *text, const launch_plot *plot, const launch_series *series)
{
    for (int i = 0; i < series->point_count; i++) {
        const launch_point *point = &series->points[i];
        if (point->label[0] != '\0') {
            const label_side side = label_side_of(plot, series, i);
            base_buffer_printf(text, "set label '%s' at %.9g, %.9g %s offset %d,%d noenhanced\n",
                               point->label, point->x, point->y, side.left ? "right" : "left",
                               side.left ? -1 : 1, side.above ? 1 : -1);
        }
    }
}

/* The rows' names instead of a y axis, and how long they are. */
static void put_row_names(base_buffer *text, const launch_figure *figure)
{
    double whole_ms[LAUNCH_FIGURE_ROWS_MAX];
    row_lengths(figure, whole_ms);
    base_buffer_printf(text, "set grid noytics xtics\nunset ylabel\nset yrange [%d.5:-0.5]\n",
                       figure->row_count - 1);
    for (int r = 0; r < figure->row_count; r++) {
        base_buffer_printf(text,
                           "set ytics %s('%s' %d)\nset label '%.*f ms' at %.9g, %d offset 1,0\n",
                           r > 0 ? "add " : "", figure->rows[r], r, row_decimals(figure),
                           whole_ms[r], whole_ms[r], r);
    }
}

static void put_mark_line(base_buffer *text, const launch_plot *plot, const launch_figure *figure)
{
    const bool left = mark_label_left(plot, figure);
    base_buffer_printf(text,
                       "set arrow from %.9g, graph 0 to %.9g, graph 1 nohead dashtype 3\n"
                       "set label '%s' at %.9g, graph 0.96 %s offset %d,0 noenhanced\n",
                       figure->mark_x, figure->mark_x, figure->mark_label, figure->mark_x,
                       left ? "right" : "left", left ? -1 : 1);
}

/* The index-th series that has points. */
static void put_plot(base_buffer *text, const launch_series *series, int index,
                     const char *data_name)
{
    char colour[LAUNCH_COLOUR_BYTES];
    const launch_stroke stroke = has_circles(series) ? LAUNCH_STROKE_POINTS : series->stroke;
    const char *name = series->name != NULL ? series->name : "";
    launch_report_colour(series->colour, colour);
    base_buffer_put(text, index == 0 ? "plot " : ", \\\n     ");
    if (stroke == LAUNCH_STROKE_POINTS) { /* the bars of points, below them */
        base_buffer_printf(text,
                           "'%s' index %d using 1:2:3:4 with yerrorbars pointsize 0 linewidth 2 "
                           "linecolor rgb '#99%s' notitle, \\\n     ",
                           data_name, index, colour + 1);
    }
    base_buffer_printf(text, "'%s' index %d using %s with %s linecolor rgb '#%s%s' title '%s'",
                       data_name, index,
                       stroke == LAUNCH_STROKE_BAR ? "3:1:3:4:($1-0.34):($1+0.34)" : "1:2",
                       strokes[stroke].gnuplot, strokes[stroke].transparency, colour + 1, name);
}

void launch_figure_script(base_buffer *text, const launch_figure *figure, const char *subtitle,
                          const char *data_name, const char *png_name)
{
    const launch_plot plot = plot_of(figure);
    double low = 0;
    double high = 0;
    int index = 0;
    if (!launch_figure_range(figure, &low, &high)) {
        return;
    }
    base_buffer_printf(text,
                       "\nunset label\nunset arrow\nunset logscale\n"
                       "set grid ytics noxtics linetype 1 linecolor rgb '#dfe4ea'\n"
                       "set output '%s'\nset title \"%s\\n",
                       png_name, figure->title);
    put_quoted(text, subtitle);
    base_buffer_put(text, "\" noenhanced\n");
    put_axis(text, &figure->x, 'x', figure->x_label);
    if (figure->row_count > 0) {
        put_row_names(text, figure);
    } else {
        put_axis(text, &figure->y, 'y', figure->y_label);
    }
    if (figure->mark_label[0] != '\0') {
        put_mark_line(text, &plot, figure);
    }
    for (int s = 0; s < figure->series_count; s++) {
        put_labels(text, &plot, &figure->series[s]);
    }
    for (int s = 0; s < figure->series_count; s++) {
        if (figure->series[s].point_count > 0) {
            put_plot(text, &figure->series[s], index++, data_name);
        }
    }
    base_buffer_put(text, "\n");
}
