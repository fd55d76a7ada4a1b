/* Draws a figure as SVG, and writes its data in columns. Called by the launcher's reports for pages,
 * by picture.c for files. */
#include <math.h>
#include <string.h>

#include "chart/figure.h"

const char *chart_stroke_class(chart_stroke stroke)
{
    static const char *const classes[CHART_STROKE_COUNT] = {
        [CHART_STROKE_POINTS] = "solid", [CHART_STROKE_DOTS] = "dot",
        [CHART_STROKE_LINE] = "solid",   [CHART_STROKE_FAINT] = "faint",
        [CHART_STROKE_DASHED] = "dash",  [CHART_STROKE_BAR] = "part",
    };
    return classes[stroke];
}

enum { BAR_HEIGHT = 26, ROW_HEIGHT = 38, LABEL_WIDTH = 140 };
enum { ROWS_TOP = 4, ROWS_BELOW = 6, CURVES_LEFT = 58, CURVES_TOP = 30 };

static const double ROW_VALUE_WIDTH = 84; /* of the time behind a row */
static const double ROWS_LEFT_MIN = 66;
static const double ROW_LETTER = 7.2;      /* the width of a letter of a row's name */
static const double INSIDE_WIDTH_MIN = 70; /* a part narrower than this has no label inside */

bool chart_series_has_circles(const chart_series *series)
{
    return series->stroke == CHART_STROKE_POINTS || series->stroke == CHART_STROKE_DOTS ||
           (series->stroke != CHART_STROKE_BAR && series->point_count == 1);
}

void chart_figure_key(base_buffer *text, const chart_figure *figure)
{
    if (figure == NULL) {
        text->failed = true;
        return;
    }
    base_buffer_put(text, "<ul class=\"key\">");
    for (int s = 0; s < figure->series_count; s++) {
        const chart_series *series = &figure->series[s];
        if (series->name[0] != '\0' && series->point_count > 0) {
            base_buffer_printf(text, "<li><i class=\"%s\" style=\"color:var(--%s)\"></i>%s</li>",
                               chart_stroke_class(series->stroke), series->colour, series->name);
        }
    }
    base_buffer_put(text, "</ul>\n");
}

static void put_line(base_buffer *text, const chart_plot *plot, const chart_series *series)
{
    base_buffer_printf(text, "<polyline class=\"curve %s\" style=\"color:var(--%s)\" points=\"",
                       chart_stroke_class(series->stroke), series->colour);
    for (int i = 0; i < series->point_count; i++) {
        base_buffer_printf(text, "%.1f,%.1f ", chart_plot_x(plot, series->points[i].x),
                           chart_plot_y(plot, series->points[i].y));
    }
    base_buffer_put(text, "\"/>");
}

static void put_title(base_buffer *text, const chart_point *point)
{
    if (point->hint[0] != '\0') {
        base_buffer_printf(text, "<title>%s</title>", point->hint);
    }
}

/* Invisible columns that show the hints of a line without circles. */
static void put_columns(base_buffer *text, const chart_plot *plot, const chart_series *series)
{
    const double half = plot->width / (double)series->point_count / 2;
    for (int i = 0; i < series->point_count && series->points[i].hint[0] != '\0'; i++) {
        base_buffer_printf(
            text, "<rect class=\"hint\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\">",
            chart_plot_x(plot, series->points[i].x) - half, plot->top, 2 * half, plot->height);
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

static label_side label_side_of(const chart_plot *plot, const chart_series *series, int i)
{
    const chart_point *point = &series->points[i];
    const double x = chart_plot_x(plot, point->x);
    const double left_from = plot->left + plot->width - LABEL_WIDTH;
    if (x > left_from) {
        return (label_side){.left = true, .above = i == 0 || point[-1].y <= point->y};
    }
    const double next_x = i + 1 < series->point_count ? chart_plot_x(plot, point[1].x) : plot->left;
    return (label_side){.above = next_x > left_from && next_x < x + 2 * LABEL_WIDTH &&
                                 point[1].y < point->y};
}

static void put_circles(base_buffer *text, const chart_plot *plot, const chart_series *series)
{
    base_buffer_printf(text, "<g style=\"color:var(--%s)\">", series->colour);
    for (int i = 0; i < series->point_count; i++) {
        const chart_point *point = &series->points[i];
        const double x = chart_plot_x(plot, point->x);
        const double y = chart_plot_y(plot, point->y);
        base_buffer_put(text, "<g>");
        put_title(text, point);
        if (point->low < point->high) {
            base_buffer_printf(
                text, "<line class=\"spread\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>", x,
                x, chart_plot_y(plot, point->low), chart_plot_y(plot, point->high));
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
static bool mark_label_left(const chart_plot *plot, const chart_figure *figure)
{
    return chart_plot_x(plot, figure->mark_x) > plot->left + plot->width / 2;
}

static void put_mark(base_buffer *text, const chart_plot *plot, const chart_figure *figure)
{
    const double x = chart_plot_x(plot, figure->mark_x);
    const bool left = mark_label_left(plot, figure);
    base_buffer_printf(text,
                       "<line class=\"divide\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>"
                       "<text class=\"value\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">",
                       x, x, plot->top, plot->top + plot->height, left ? x - 8 : x + 8,
                       plot->top + 16, left ? "end" : "start");
    base_buffer_html(text, figure->mark_label);
    base_buffer_put(text, "</text>");
}

/* How long each row's bar is. */
static void row_lengths(const chart_figure *figure, double whole_ms[CHART_ROWS_MAX])
{
    memset(whole_ms, 0, CHART_ROWS_MAX * sizeof *whole_ms);
    for (int s = 0; s < figure->series_count; s++) {
        for (int i = 0; i < figure->series[s].point_count; i++) {
            const chart_point *point = &figure->series[s].points[i];
            whole_ms[(int)point->x] += point->y;
        }
    }
}

static int row_decimals(const chart_figure *figure)
{
    return figure->x.high < 1 ? 4 : 2;
}

/* One part of all rows. */
static void put_parts(base_buffer *text, const chart_plot *plot, const chart_series *series,
                      const double *whole_ms, int decimals)
{
    base_buffer_printf(text, "<g style=\"color:var(--%s)\">", series->colour);
    for (int i = 0; i < series->point_count; i++) {
        const chart_point *point = &series->points[i];
        const double x = chart_plot_x(plot, point->low);
        const double y = plot->top + point->x * ROW_HEIGHT + (ROW_HEIGHT - BAR_HEIGHT) / 2.0;
        const double width = chart_plot_x(plot, point->high) - x;
        base_buffer_printf(text,
                           "<rect class=\"part\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" "
                           "height=\"%d\"><title>%s: %.*f ms, %.1f %%</title></rect>",
                           x, y, width, BAR_HEIGHT, series->name, decimals + 1, point->y,
                           100 * point->y / whole_ms[(int)point->x]);
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
static double rows_left(const chart_figure *figure)
{
    size_t longest = 0;
    for (int r = 0; r < figure->row_count; r++) {
        const size_t length = strlen(figure->rows[r]);
        longest = length > longest ? length : longest;
    }
    return fmax(ROWS_LEFT_MIN, ROW_LETTER * (double)longest + 12);
}

static void draw_rows(base_buffer *text, const chart_figure *figure, const chart_drawing *drawing)
{
    double whole_ms[CHART_ROWS_MAX];
    const int decimals = row_decimals(figure);
    const double left = rows_left(figure);
    const double room = (drawing->width - left) *
                        (1 - 1 / CHART_ROW_ROOM); /* of the axis, behind the longest row */
    const chart_plot plot = {.left = left,
                             .top = ROWS_TOP,
                             .width = drawing->width - left - fmax(0, ROW_VALUE_WIDTH - room),
                             .height = figure->row_count * (double)ROW_HEIGHT,
                             .x = figure->x,
                             .x_label = figure->x_label};
    row_lengths(figure, whole_ms);
    if (drawing->row_axis) {
        chart_plot_x_grid(text, &plot);
        chart_plot_x_axis(text, &plot);
    }
    for (int s = 0; s < figure->series_count; s++) {
        put_parts(text, &plot, &figure->series[s], whole_ms, decimals);
    }
    for (int r = 0; r < figure->row_count; r++) {
        const double y = plot.top + r * ROW_HEIGHT + ROW_HEIGHT / 2.0 + 5;
        base_buffer_printf(text,
                           "<text class=\"row\" x=\"4\" y=\"%.1f\">%s</text>"
                           "<text class=\"value\" x=\"%.1f\" y=\"%.1f\">%.*f ms</text>",
                           y, figure->rows[r], chart_plot_x(&plot, whole_ms[r]) + 8, y, decimals,
                           whole_ms[r]);
    }
}

static void draw_curves(base_buffer *text, const chart_figure *figure, const chart_drawing *drawing)
{
    const chart_plot plot = {
        .left = CURVES_LEFT,
        .top = CURVES_TOP,
        .width = drawing->width - CURVES_LEFT - CHART_PLOT_RIGHT,
        .height = drawing->height,
        .x = figure->x,
        .y = figure->y,
        .x_label = figure->x_label,
        .y_label = figure->y_label,
    };
    chart_plot_frame(text, &plot);
    for (int s = 0; s < figure->series_count; s++) {
        if (figure->series[s].stroke != CHART_STROKE_DOTS) {
            put_line(text, &plot, &figure->series[s]);
        }
    }
    for (int s = 0; s < figure->series_count; s++) {
        if (!chart_series_has_circles(&figure->series[s])) {
            put_columns(text, &plot, &figure->series[s]);
        }
    }
    for (int s = 0; s < figure->series_count; s++) {
        if (chart_series_has_circles(&figure->series[s])) {
            put_circles(text, &plot, &figure->series[s]);
        }
    }
    if (figure->mark_label[0] != '\0') {
        put_mark(text, &plot, figure);
    }
}

void chart_figure_draw(base_buffer *text, const chart_figure *figure, const chart_drawing *drawing)
{
    if (figure->row_count > 0) {
        draw_rows(text, figure, drawing);
    } else {
        draw_curves(text, figure, drawing);
    }
}

double chart_figure_height(const chart_figure *figure, const chart_drawing *drawing)
{
    return figure->row_count > 0 ? ROWS_TOP + figure->row_count * (double)ROW_HEIGHT +
                                       (drawing->row_axis ? CHART_PLOT_BELOW : ROWS_BELOW)
                                 : CURVES_TOP + drawing->height + CHART_PLOT_BELOW;
}

/* An svg element of that width. class: the screens that show it. */
static void put_svg(base_buffer *text, const chart_figure *figure, double width, const char *class)
{
    const chart_drawing drawing = {.width = width, .height = figure->height};
    chart_svg_begin(text, class, width, chart_figure_height(figure, &drawing), figure->title);
    chart_figure_draw(text, figure, &drawing);
    chart_svg_end(text);
}

void chart_figure_svg(base_buffer *text, const chart_figure *figure)
{
    double low = 0;
    double high = 0;
    if (figure == NULL) {
        text->failed = true;
    } else if (chart_figure_range(figure, &low, &high)) {
        chart_figure_key(text, figure);
        if (figure->row_count > 0) {
            put_svg(text, figure, figure->width, "broad");
            put_svg(text, figure, CHART_WIDTH_HALF, "narrow");
        } else if (figure->width == CHART_WIDTH) {
            base_buffer_put(text, "<div class=\"scroll wide\">");
            put_svg(text, figure, figure->width, "");
            base_buffer_put(text, "</div>");
        } else {
            put_svg(text, figure, figure->width, "");
        }
    } else if (figure->nothing != NULL) {
        base_buffer_printf(text, "<p class=\"none\">%s</p>\n", figure->nothing);
    }
}

void chart_figure_data(base_buffer *text, const chart_figure *figure)
{
    for (int s = 0; s < figure->series_count; s++) {
        const chart_series *series = &figure->series[s];
        for (int i = 0; i < series->point_count; i++) {
            const chart_point *point = &series->points[i];
            if (i == 0) {
                base_buffer_printf(text, "# %s: %s, %s, low, high\n",
                                   series->name[0] != '\0' ? series->name : figure->title,
                                   figure->row_count > 0 ? "row" : figure->x_label,
                                   figure->y_label);
            }
            base_buffer_printf(text, "%.9g %.9g %.9g %.9g%s", point->x, point->y, point->low,
                               point->high, i + 1 < series->point_count ? "\n" : "\n\n\n");
        }
    }
}
