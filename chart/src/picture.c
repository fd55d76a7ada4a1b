/* Draws figures into a file of their own. Called by the launcher for records, and by
 * coll-bench and coll-simulate for --plot. */
#include "chart/picture.h"

#include <math.h>
#include <string.h>

#include "base/file.h"
#include "chart/style.h"

/* In SVG units, which are the pixels of a picture in its own size. */
enum {
    WIDTH = 860,
    MARGIN = 20,
    INSIDE = WIDTH - 2 * MARGIN,
    HEAD = 38, /* down to the title's line */
    LINE = 20,
    PANEL_MIN = 380, /* the least height of a drawing area with curves */
    PANEL_GAP = 24,
    SWATCH = 22, /* in the key */
    SWATCH_GAP = 7,
    KEY_TOP = 26,
    KEY_GAP = 20,
};

static const double LETTER = 7.2; /* the width of a letter in the key */

static bool is_drawn(const chart_figure *figure)
{
    double low = 0;
    double high = 0;
    return chart_figure_range(figure, &low, &high);
}

/* What a series looks like, and its name. */
static void put_entry(base_buffer *text, const chart_series *series, double x, double y)
{
    const char *class = chart_stroke_class(series->stroke);
    base_buffer_printf(text, "<g style=\"color:var(--%s)\">", series->colour);
    if (series->stroke == CHART_STROKE_BAR) {
        base_buffer_printf(
            text, "<rect class=\"part\" x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"12\"/>", x,
            y - 11, SWATCH);
    } else if (series->stroke != CHART_STROKE_DOTS) {
        base_buffer_printf(text, "<path class=\"curve %s\" d=\"M%.1f %.1fh%d\"/>", class, x, y - 5,
                           SWATCH);
    }
    if (chart_series_has_circles(series)) {
        base_buffer_printf(text, "<circle class=\"point\" cx=\"%.1f\" cy=\"%.1f\" r=\"5\"/>",
                           x + SWATCH / 2.0, y - 5);
    }
    base_buffer_printf(text, "<text x=\"%.1f\" y=\"%.1f\">%s</text></g>\n", x + SWATCH + SWATCH_GAP,
                       y, series->name);
}

/* The key from the line `y` on, on as many lines as it needs. Returns the line after it. */
static double put_key(base_buffer *text, const chart_figure *figure, double y)
{
    double x = 0;
    for (int s = 0; s < figure->series_count; s++) {
        const chart_series *series = &figure->series[s];
        const double width = SWATCH + SWATCH_GAP + LETTER * (double)strlen(series->name);
        if (series->name[0] == '\0' || series->point_count == 0) {
            continue;
        }
        if (x > 0 && x + width > INSIDE) {
            x = 0;
            y += LINE;
        }
        put_entry(text, series, x, y);
        x += width + KEY_GAP;
    }
    return x > 0 ? y + LINE : y;
}

/* Returns the height of all figures with the key of the first. */
static double put_figures(base_buffer *text, const chart_picture *picture)
{
    double top = 0;
    for (int i = 0; i < picture->figure_count; i++) {
        const chart_figure *figure = picture->figures[i];
        if (is_drawn(figure)) {
            const chart_drawing drawing = {
                .width = INSIDE, .height = fmax(figure->height, PANEL_MIN), .row_axis = true};
            top = top > 0 ? top : put_key(text, figure, KEY_TOP);
            base_buffer_printf(text, "<g transform=\"translate(0 %.1f)\">\n", top);
            chart_figure_draw(text, figure, &drawing);
            base_buffer_put(text, "</g>\n");
            top += chart_figure_height(figure, &drawing) + PANEL_GAP;
        }
    }
    return top;
}

static void put_head(base_buffer *text, const chart_picture *picture, double height)
{
    base_buffer_printf(text,
                       "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" role=\"img\" "
                       "width=\"%d\" height=\"%.0f\" viewBox=\"0 0 %d %.0f\" "
                       "font-family=\"system-ui,'DejaVu Sans',sans-serif\">\n<title>",
                       WIDTH, height, WIDTH, height);
    base_buffer_html(text, picture->title);
    base_buffer_put(text, "</title>\n<style>");
    chart_style_put_light(text, CHART_RULES);
    base_buffer_printf(text,
                       "</style>\n<rect width=\"%d\" height=\"%.0f\" fill=\"#fff\"/>\n"
                       "<text class=\"title\" x=\"%d\" y=\"%d\">",
                       WIDTH, height, MARGIN, HEAD);
    base_buffer_html(text, picture->title);
    base_buffer_printf(text, "</text>\n<text class=\"label\" x=\"%d\" y=\"%d\">", MARGIN,
                       HEAD + LINE);
    base_buffer_html(text, picture->subtitle);
    base_buffer_put(text, "</text>\n");
}

void chart_picture_svg(base_buffer *text, const chart_picture *picture)
{
    base_buffer figures = {0};
    const int head = HEAD + (picture->subtitle[0] != '\0' ? LINE : 0);
    const double height = put_figures(&figures, picture);
    text->failed = text->failed || figures.failed;
    if (height > 0 && !text->failed) {
        put_head(text, picture, head + height);
        base_buffer_printf(text, "<g transform=\"translate(%d %d)\">\n", MARGIN, head);
        chart_style_put_light(text, figures.data);
        base_buffer_put(text, "</g>\n</svg>\n");
    }
    base_buffer_fini(&figures);
}

base_status chart_picture_write(const chart_picture *picture, const char *path, base_error *reterr)
{
    base_buffer text = {0};
    chart_picture_svg(&text, picture);
    base_status status = BASE_OK;
    if (text.failed) {
        status = base_fail(reterr, BASE_ERR_MEMORY, "no memory to draw %s", path);
    } else if (text.length_bytes == 0) {
        status = base_fail(reterr, BASE_ERR_INVALID, "%s: there is nothing to draw", path);
    } else {
        status = base_file_write(path, text.data, text.length_bytes, reterr);
    }
    base_buffer_fini(&text);
    return status;
}

base_status chart_picture_name_check(const char *path, base_error *reterr)
{
    const char *ending = strrchr(path, '.');
    return ending != NULL && strcmp(ending, ".svg") == 0
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID, "%s: a picture's name must end with .svg",
                           path);
}
