/* Draws the ranks' operations as bars on a common clock. Called by flight_page.c for
 * flight.html. */
#include "record/flight_timeline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chart/axis.h"

enum {
    OPERATIONS_MAX = 96, /* of each rank, the newest */
    ROWS_MAX = 6,        /* of a lane: operations that run at the same time */
    ROW_HEIGHT = 18,
    LANE_GAP = 10,
    LANES_MAX = 32,
};

static const double MS_PER_US = 1e-3;
static const double BAR_WIDTH_MIN = 1.5;
static const double LABEL_WIDTH_MIN = 90; /* a bar narrower than this has no label inside */

typedef struct operation {
    const json_t *entry;
    double began_ms; /* of the wall clock */
    double ended_ms; /* INFINITY: pending */
    double for_ms;   /* a pending one: from its begin until the record was written; NAN: unknown */
    int row;
} operation;

typedef struct lane {
    int count;
    int rows;
    operation operations[OPERATIONS_MAX];
} lane;

typedef struct timeline {
    int lane_count;
    bool any;
    double first_ms; /* the first and the last event of all ranks */
    double last_ms;
    lane *lanes; /* (lane_count) */
} timeline;

static const char *text_of(const json_t *entry, const char *key)
{
    const char *value = json_string_value(json_object_get(entry, key));
    return value != NULL ? value : "";
}

static int by_begin(const void *left, const void *right)
{
    const double a = ((const operation *)left)->began_ms;
    const double b = ((const operation *)right)->began_ms;
    return (a > b) - (a < b);
}

/* Takes the newest entries of a rank's list, as many as there is room for. */
static void gather(lane *into, const json_t *record, bool pending)
{
    const json_t *entries = json_object_get(record, pending ? "pending" : "completed");
    const double written_ms =
        (double)json_integer_value(json_object_get(record, "written_unix_us")) * MS_PER_US;
    const size_t all = json_array_size(entries);
    const size_t room = (size_t)(OPERATIONS_MAX - into->count);
    for (size_t i = all > room ? all - room : 0; i < all; i++) {
        const json_t *entry = json_array_get(entries, i);
        const double began_ms =
            (double)json_integer_value(json_object_get(entry, "began_unix_us")) * MS_PER_US;
        const double took_ms = json_number_value(json_object_get(entry, "took_us")) * MS_PER_US;
        if (began_ms > 0 && took_ms >= 0 && isfinite(took_ms)) {
            into->operations[into->count++] = (operation){
                .entry = entry,
                .began_ms = began_ms,
                .ended_ms = pending ? INFINITY : began_ms + took_ms,
                .for_ms = pending && written_ms >= began_ms ? written_ms - began_ms : NAN,
            };
        }
    }
}

/* Puts operations that run at the same time below each other. */
static void stack(lane *stacked)
{
    double busy_until_ms[ROWS_MAX] = {0};
    stacked->rows = 1;
    for (int i = 0; i < stacked->count; i++) {
        operation *own = &stacked->operations[i];
        int row = 0;
        while (row < ROWS_MAX - 1 && busy_until_ms[row] > own->began_ms) {
            row++;
        }
        own->row = row;
        busy_until_ms[row] = fmax(busy_until_ms[row], own->ended_ms);
        stacked->rows = row + 1 > stacked->rows ? row + 1 : stacked->rows;
    }
}

static void fill(timeline *made, json_t *const *ranks)
{
    for (int rank = 0; rank < made->lane_count; rank++) {
        lane *own = &made->lanes[rank];
        if (ranks[rank] != NULL) {
            gather(own, ranks[rank], true);
            gather(own, ranks[rank], false);
        }
        qsort(own->operations, (size_t)own->count, sizeof own->operations[0], by_begin);
        stack(own);
        for (int i = 0; i < own->count; i++) {
            const operation *each = &own->operations[i];
            const double end_ms = isfinite(each->ended_ms) ? each->ended_ms : each->began_ms;
            made->first_ms = made->any ? fmin(made->first_ms, each->began_ms) : each->began_ms;
            made->last_ms = made->any ? fmax(made->last_ms, end_ms) : end_ms;
            made->any = true;
        }
    }
}

static const char *class_of(const operation *own)
{
    const char *kind = text_of(own->entry, "operation");
    return !isfinite(own->ended_ms)                                    ? "exchange"
           : strcmp(kind, "all_reduce") == 0                           ? "compute"
           : strcmp(kind, "barrier") == 0                              ? "other"
           : strcmp(kind, "send") == 0 || strcmp(kind, "receive") == 0 ? "optimizer"
                                                                       : "overlapped";
}

static void put_hint(const timeline *made, const operation *own, base_buffer *text)
{
    base_buffer_printf(text, "#%lld ",
                       (long long)json_integer_value(json_object_get(own->entry, "sequence")));
    base_buffer_html(text, text_of(own->entry, "operation"));
    if (text_of(own->entry, "type")[0] != '\0') {
        base_buffer_put(text, " ");
        base_buffer_html(text, text_of(own->entry, "type"));
        base_buffer_printf(text, " × %lld",
                           (long long)json_integer_value(json_object_get(own->entry, "count")));
    }
    base_buffer_put(text, ", communicator ");
    base_buffer_html(text, text_of(own->entry, "comm"));
    base_buffer_printf(text, ": began at %.3f ms, ", own->began_ms - made->first_ms);
    if (isfinite(own->ended_ms)) {
        base_buffer_printf(text, "took %.3f ms", own->ended_ms - own->began_ms);
    } else {
        base_buffer_put(text, "pending");
        if (isfinite(own->for_ms)) {
            base_buffer_printf(text, " for %.0f ms", own->for_ms);
        }
    }
}

static void put_bar(const timeline *made, const chart_plot *plot, const operation *own, double top,
                    base_buffer *text)
{
    const double right = plot->left + plot->width;
    const double x = chart_plot_x(plot, own->began_ms - made->first_ms);
    const double end =
        isfinite(own->ended_ms) ? chart_plot_x(plot, own->ended_ms - made->first_ms) : right;
    const double width = fmax(end - x, BAR_WIDTH_MIN);
    const double y = top + own->row * ROW_HEIGHT;
    base_buffer_printf(
        text, "<rect class=\"%s\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%d\"><title>",
        class_of(own), x, y, width, ROW_HEIGHT - 3);
    put_hint(made, own, text);
    base_buffer_put(text, "</title></rect>");
    if (width >= LABEL_WIDTH_MIN) {
        base_buffer_printf(text, "<text class=\"inside\" x=\"%.1f\" y=\"%.1f\">", x + 5, y + 12);
        base_buffer_html(text, text_of(own->entry, "operation"));
        base_buffer_put(text, isfinite(own->ended_ms) ? "</text>" : ", pending</text>");
    }
}

static void put_lanes(const timeline *made, json_t *const *ranks, const chart_plot *plot,
                      base_buffer *text)
{
    double top = plot->top;
    for (int rank = 0; rank < made->lane_count; rank++) {
        const lane *own = &made->lanes[rank];
        const double height = own->rows * (double)ROW_HEIGHT;
        base_buffer_printf(text,
                           "<line class=\"grid\" x1=\"0\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>"
                           "<text class=\"row\" x=\"4\" y=\"%.1f\">rank %d</text>",
                           plot->left + plot->width, top - LANE_GAP / 2.0, top - LANE_GAP / 2.0,
                           top + 12, rank);
        if (own->count == 0) {
            base_buffer_printf(text, "<text class=\"tick\" x=\"%.1f\" y=\"%.1f\">%s</text>",
                               plot->left + 5, top + 12,
                               ranks[rank] == NULL ? "no record" : "no operation");
        }
        for (int i = 0; i < own->count; i++) {
            put_bar(made, plot, &own->operations[i], top, text);
        }
        top += height + LANE_GAP;
    }
}

static void draw(const timeline *made, json_t *const *ranks, base_buffer *text)
{
    double height = 0;
    for (int rank = 0; rank < made->lane_count; rank++) {
        height += made->lanes[rank].rows * ROW_HEIGHT + LANE_GAP;
    }
    /* a pending operation is drawn beyond the last event */
    const double span_ms = fmax(1.1 * (made->last_ms - made->first_ms), 0.01);
    const chart_plot plot = {
        .left = 66,
        .top = 8,
        .width = CHART_WIDTH - 66 - CHART_PLOT_RIGHT,
        .height = height,
        .x = chart_axis_make(0, span_ms, 8, false),
        .x_label = "ms since the first operation shown",
    };
    chart_svg_begin(text, "", CHART_WIDTH, plot.top + plot.height + CHART_PLOT_BELOW,
                    "Operations of each rank against time");
    chart_plot_x_axis(text, &plot);
    put_lanes(made, ranks, &plot, text);
    chart_svg_end(text);
}

void launch_flight_timeline(json_t *const *ranks, int rank_count, base_buffer *text)
{
    static const char KEY[] =
        "<ul class=\"key\"><li><i class=\"compute\"></i>all-reduce</li><li><i class=\"overlapped\">"
        "</i>other collectives</li><li><i class=\"optimizer\"></i>send, receive</li><li><i "
        "class=\"other\"></i>barrier</li><li><i class=\"exchange\"></i>pending</li></ul>\n";
    timeline made = {.lane_count = rank_count < LANES_MAX ? rank_count : LANES_MAX};
    made.lanes = calloc((size_t)made.lane_count + 1, sizeof *made.lanes);
    if (made.lanes == NULL) {
        text->failed = true;
        return;
    }
    fill(&made, ranks);
    base_buffer_put(text, "<section><h2>The last operations</h2><p class=\"hintline\">One lane for "
                          "each rank, on one clock. A red bar is an operation that had not ended. "
                          "Clocks of different hosts may differ.</p>\n");
    if (made.any) {
        base_buffer_put(text, KEY);
        base_buffer_put(text, "<div class=\"scroll wide\">");
        draw(&made, ranks, text);
        base_buffer_put(text, "</div>");
    } else {
        base_buffer_put(text, "<p class=\"none\">No operation was recorded.</p>\n");
    }
    if (made.lane_count < rank_count) {
        base_buffer_printf(text, "<p class=\"none\">The first %d of %d ranks.</p>\n",
                           made.lane_count, rank_count);
    }
    base_buffer_put(text, "</section>\n");
    free(made.lanes);
}
