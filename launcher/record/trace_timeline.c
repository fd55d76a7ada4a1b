/* Draws one step of a trace. Called by report.c and inference_report.c. */
#include "record/trace_timeline.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "chart/axis.h"
#include "record/run.h"
#include "record/trace_sentences.h"

enum {
    THREAD_HEIGHT = 24,
    ROW_HEIGHT = 9, /* of exchanges */
    ROWS_MAX = 6,   /* of them for each rank */
    LANE_GAP = 12,
    BARS_MAX = 8000, /* in the picture, about */
    LEFT = 66,
};

static const double GAP_UNITS = 0.4;      /* between two bars, so that both are seen */
static const double NAME_WIDTH_MIN = 74;  /* a bar narrower than this has no name inside, */
static const double NUMBER_WIDTH_MIN = 7; /* and narrower than this, */
static const double DIGIT_WIDTH = 8;      /* and so much a digit, no number of its micro-batch */
static const double DIVIDE_WIDTH_MIN = 5; /* a layer narrower than this has no line at its begin */

/* Bars of one category that are too narrow to be seen alone, and touch. */
typedef struct pending {
    int count; /* 0: none */
    const launch_trace_span *first;
    double begin_ms;
    double end_ms;
} pending;

typedef struct timeline {
    const launch_trace *trace;
    chart_plot plot;
    double least; /* a bar narrower than this waits for more, in SVG units */
    bool parts; /* forward is drawn as its parts, with the numbers of layers in their bars; else */
    bool named; /* passes have their names in their bars, */
    bool numbers; /* or the numbers of their micro-batches */
    bool muon;    /* iterations are drawn in the optimizer's bar */
    pending pendings[LAUNCH_TRACE_CATEGORIES];
    base_buffer *text;
} timeline;

/* Those of the bars above. Forward's is fainter than backward's, an MLP's than attention's, and the optimizer's than
 * that of what is drawn in it. */
static const char *const colours[LAUNCH_TRACE_CATEGORIES] = {
    [LAUNCH_TRACE_FORWARD] = "compute",
    [LAUNCH_TRACE_BACKWARD] = "compute",
    [LAUNCH_TRACE_WEIGHTS] = "inner",
    [LAUNCH_TRACE_LAYER] = "hint",
    [LAUNCH_TRACE_OVERLAPPED] = "overlapped",
    [LAUNCH_TRACE_EMBEDDING] = "overlapped",
    [LAUNCH_TRACE_OUTPUT] = "overlapped",
    [LAUNCH_TRACE_ATTENTION] = "compute",
    [LAUNCH_TRACE_MLP] = "compute",
    [LAUNCH_TRACE_DRAFT] = "optimizer",
    [LAUNCH_TRACE_DRAW] = "other",
    [LAUNCH_TRACE_WAITING] = "waiting",
    [LAUNCH_TRACE_EXCHANGE] = "exchange",
    [LAUNCH_TRACE_OPTIMIZER] = "optimizer",
    [LAUNCH_TRACE_NEWTON_SCHULZ] = "optimizer",
    [LAUNCH_TRACE_OTHER] = "other",
};

/* What is drawn, of which job. */
typedef struct view {
    const proto_job *job;
    const launch_trace *trace;
} view;

static double x_of(const timeline *made, double ms)
{
    return chart_plot_x(&made->plot, ms);
}

static bool is_faint(launch_trace_category category, bool muon)
{
    return category == LAUNCH_TRACE_FORWARD || category == LAUNCH_TRACE_MLP ||
           (category == LAUNCH_TRACE_OPTIMIZER && muon);
}

/* A bar, up to its title's text. */
static void begin_bar(const timeline *made, const pending *bar, double y, double height)
{
    const double x = x_of(made, bar->begin_ms);
    const double width = fmax(x_of(made, bar->end_ms) - x - GAP_UNITS, 0.6);
    base_buffer_printf(
        made->text,
        "<rect class=\"%s\"%s x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.0f\"><title>",
        colours[bar->first->category],
        is_faint(bar->first->category, made->muon) ? " fill-opacity=\".62\"" : "", x, y, width,
        height);
}

static void put_title(const timeline *made, const pending *bar)
{
    const launch_trace_span *span = bar->first;
    base_buffer *text = made->text;
    if (bar->count > 1) {
        base_buffer_printf(text, "%d short ones, the first: ", bar->count);
    }
    base_buffer_html(text, span->name);
    if (span->layer >= 0 && span->category != LAUNCH_TRACE_LAYER) {
        base_buffer_printf(text, ", layer %" PRId64, span->layer);
    }
    base_buffer_printf(text, ", rank %d: %.3f ms, from %.3f to %.3f ms", span->rank,
                       bar->end_ms - bar->begin_ms, bar->begin_ms, bar->end_ms);
    if (span->bytes > 0 && bar->count == 1) {
        base_buffer_printf(text, "; %" PRId64 " bytes", span->bytes);
    }
    base_buffer_put(text, "</title></rect>");
}

/* Where another bar covers the span, or its end. Spans follow it in the order of their begins. */
static double covered_ms(const launch_trace *trace, const launch_trace_span *span)
{
    const launch_trace_span *end = trace->spans + trace->count;
    for (const launch_trace_span *at = span + 1; at < end && at->begin_ms < span->end_ms; at++) {
        if (at->rank != span->rank || at->lane != span->lane) {
            break;
        }
        if (at->category == LAUNCH_TRACE_WAITING || at->category == LAUNCH_TRACE_EXCHANGE) {
            return at->begin_ms;
        }
    }
    return span->end_ms;
}

/* What fits into the bar of a pass, or of a layer's attention: its name, or the number of its micro-batch or layer. */
static void put_label(const timeline *made, const launch_trace_span *span, double y)
{
    char label[32] = "";
    const double x = x_of(made, span->begin_ms);
    const bool attention = span->category == LAUNCH_TRACE_ATTENTION;
    const double width = x_of(made, attention ? covered_ms(made->trace, span) : span->end_ms) - x;
    const bool forward = span->category == LAUNCH_TRACE_FORWARD;
    const bool weights = span->category == LAUNCH_TRACE_WEIGHTS;
    const bool pass = forward || weights || span->category == LAUNCH_TRACE_BACKWARD;
    const int64_t number = attention ? span->layer : made->numbers ? span->micro_batch : -1;
    if ((attention || pass) && number >= 0) {
        const int digits = snprintf(label, sizeof label, "%" PRId64, number);
        label[width < NUMBER_WIDTH_MIN + DIGIT_WIDTH * digits ? 0 : digits] = '\0';
    } else if (pass && number < 0 && made->named && width >= NAME_WIDTH_MIN) {
        (void)snprintf(label, sizeof label, "%s",
                       forward   ? "forward"
                       : weights ? "weights"
                                 : "backward");
    }
    if (label[0] != '\0') {
        base_buffer_printf(made->text,
                           "<text class=\"inside\" text-anchor=\"middle\" x=\"%.1f\" "
                           "y=\"%.1f\">%s</text>",
                           x + width / 2, y + 16, label);
    }
}

static void flush(timeline *made, launch_trace_category category, double y, double height)
{
    pending *bar = &made->pendings[category];
    if (bar->count > 0) {
        begin_bar(made, bar, y, height);
        put_title(made, bar);
        bar->count = 0;
    }
}

/* Adds a span to a lane. Narrow ones that touch become one bar. */
static void put_span(timeline *made, const launch_trace_span *span, double y, double height)
{
    pending *bar = &made->pendings[span->category];
    const double width = x_of(made, span->end_ms) - x_of(made, span->begin_ms);
    const bool touches =
        bar->count > 0 && x_of(made, span->begin_ms) - x_of(made, bar->end_ms) < made->least;
    if (width < made->least && touches) {
        bar->count++;
        bar->end_ms = fmax(bar->end_ms, span->end_ms);
        return;
    }
    flush(made, span->category, y, height);
    *bar = (pending){1, span, span->begin_ms, span->end_ms};
    if (width >= made->least) {
        flush(made, span->category, y, height);
    }
}

/* A layer is a place that says its name, and a line. */
static void put_layer(timeline *made, const launch_trace_span *span, double y, double height)
{
    const double x = x_of(made, span->begin_ms);
    if (x_of(made, span->end_ms) - x >= fmax(DIVIDE_WIDTH_MIN, made->least)) {
        put_span(made, span, y, height);
        base_buffer_printf(made->text,
                           "<line stroke=\"var(--card)\" stroke-opacity=\".55\" x1=\"%.2f\" "
                           "x2=\"%.2f\" y1=\"%.1f\" y2=\"%.1f\"/>",
                           x, x, y, y + height);
    }
}

/* How many rows the rank's exchanges take. */
static int rows_of(const launch_trace *trace, int rank)
{
    int rows = 0;
    for (size_t i = 0; i < trace->count; i++) {
        const launch_trace_span *span = &trace->spans[i];
        if (span->rank == rank && span->lane > rows && span->lane <= ROWS_MAX) {
            rows = span->lane;
        }
    }
    return rows;
}

static void put_lane(timeline *made, int rank, int lane, double y)
{
    const double height = lane == 0 ? THREAD_HEIGHT : ROW_HEIGHT - 1;
    for (size_t i = 0; i < made->trace->count; i++) {
        const launch_trace_span *span = &made->trace->spans[i];
        if (span->rank != rank || span->lane != lane) {
            continue;
        }
        if (span->category == LAUNCH_TRACE_LAYER) {
            put_layer(made, span, y, height);
        } else if (span->category != LAUNCH_TRACE_STEP &&
                   !(made->parts && span->category == LAUNCH_TRACE_FORWARD)) {
            put_span(made, span, y, height);
        }
    }
    for (int category = 0; category < LAUNCH_TRACE_CATEGORIES; category++) {
        flush(made, (launch_trace_category)category, y, height);
    }
    for (size_t i = 0; i < made->trace->count && lane == 0; i++) {
        const launch_trace_span *span = &made->trace->spans[i];
        if (span->rank == rank && span->lane == 0) {
            put_label(made, span, y);
        }
    }
}

static void put_rank(timeline *made, int rank, double top)
{
    const int rows = rows_of(made->trace, rank);
    base_buffer_printf(made->text,
                       "<line class=\"grid\" x1=\"0\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>"
                       "<text class=\"row\" x=\"4\" y=\"%.1f\">rank %d</text>",
                       made->plot.left + made->plot.width, top - LANE_GAP / 2.0,
                       top - LANE_GAP / 2.0, top + 16, rank);
    for (int lane = 0; lane <= rows; lane++) {
        put_lane(made, rank, lane,
                 lane == 0 ? top : top + THREAD_HEIGHT + 2 + (lane - 1) * ROW_HEIGHT);
    }
}

static bool has(const launch_trace *trace, launch_trace_category category)
{
    bool found = false;
    for (size_t i = 0; i < trace->count; i++) {
        found = found || trace->spans[i].category == category;
    }
    return found;
}

static int ranks_of(const view *of)
{
    const int ranks = (int)of->job->job.world_size;
    return ranks < LAUNCH_CHART_RANKS_MAX ? ranks : LAUNCH_CHART_RANKS_MAX;
}

static double rank_height(const launch_trace *trace, int rank)
{
    const int rows = rows_of(trace, rank);
    return THREAD_HEIGHT + LANE_GAP + (rows > 0 ? 2 + rows * ROW_HEIGHT : 0);
}

static void draw(const view *of, base_buffer *text)
{
    const launch_trace *trace = of->trace;
    const int ranks = ranks_of(of);
    double height = 0;
    double end_ms = 0;
    int lanes = 0;
    for (int rank = 0; rank < ranks; rank++) {
        height += rank_height(trace, rank);
        lanes += 1 + rows_of(trace, rank);
    }
    for (size_t i = 0; i < trace->count; i++) {
        end_ms = fmax(end_ms, trace->spans[i].end_ms);
    }
    timeline made = {.trace = trace,
                     .plot = {.left = LEFT,
                              .top = 8,
                              .width = CHART_WIDTH - LEFT - CHART_PLOT_RIGHT,
                              .height = height,
                              .x = chart_axis_make(0, fmax(end_ms, 1e-3), 8, false),
                              .x_label = "ms since the step began"},
                     .parts = has(trace, LAUNCH_TRACE_ATTENTION),
                     .named = proto_mode_get(of->job->job.mode)->trains,
                     .numbers = of->job->train.micro_batches > 1,
                     .muon = has(trace, LAUNCH_TRACE_NEWTON_SCHULZ),
                     .text = text};
    made.least = fmax(1.0, made.plot.width * lanes / BARS_MAX);
    chart_svg_begin(text, "", CHART_WIDTH, made.plot.top + height + CHART_PLOT_BELOW,
                    "What each rank did in one step, against time");
    chart_plot_x_axis(text, &made.plot);
    double top = made.plot.top;
    for (int rank = 0; rank < ranks; rank++) {
        put_rank(&made, rank, top);
        top += rank_height(trace, rank);
    }
    chart_svg_end(text);
}

/* What the picture does not show, or not exactly. */
static void say_limits(const view *of, base_buffer *text)
{
    const launch_trace *trace = of->trace;
    if (!trace->whole) {
        base_buffer_put(text, "<p class=\"none\">One step has more spans than are kept: this is "
                              "the end of it.</p>\n");
    } else if (!trace->operations) {
        base_buffer_put(text, "<p class=\"none\">Of the first of these steps the file has no "
                              "single operations: they are more than are kept.</p>\n");
    }
    int hidden = 0;
    for (size_t i = 0; i < trace->count; i++) {
        hidden += trace->spans[i].lane > ROWS_MAX ? 1 : 0;
    }
    if (hidden > 0) {
        base_buffer_printf(text,
                           "<p class=\"none\">Of more than %d exchanges of a rank at one time so "
                           "many are drawn; %d are not.</p>\n",
                           ROWS_MAX, hidden);
    }
    if (ranks_of(of) < (int)of->job->job.world_size) {
        base_buffer_printf(text, "<p class=\"none\">The first %d of %d ranks.</p>\n", ranks_of(of),
                           (int)of->job->job.world_size);
    }
    double uncertainty_ms = 0;
    for (int i = 0; i < trace->clock_count; i++) {
        const launch_trace_clock *clock = &trace->clocks[i];
        uncertainty_ms = fmax(uncertainty_ms, clock->known ? clock->uncertainty_ms : 0);
        if (!clock->known) {
            base_buffer_put(text, "<p class=\"none\">How the clock of ");
            base_buffer_html(text, clock->host);
            base_buffer_put(text, " differs could not be found: its ranks are left out.</p>\n");
        }
    }
    if (uncertainty_ms > 0) {
        base_buffer_printf(text,
                           "<p class=\"none\">Each host has a clock of its own. They were aligned "
                           "by the exchanges of all ranks, to ±%.3g ms.</p>\n",
                           uncertainty_ms);
    }
}

/* What the colours mean, of those that are in the picture. */
static void put_key(const launch_trace *trace, base_buffer *text)
{
    static const char *const meanings[LAUNCH_TRACE_CATEGORIES] = {
        [LAUNCH_TRACE_FORWARD] = "forward",
        [LAUNCH_TRACE_BACKWARD] = "backward",
        [LAUNCH_TRACE_WEIGHTS] = "weight gradients",
        [LAUNCH_TRACE_EMBEDDING] = "embedding, logits",
        [LAUNCH_TRACE_ATTENTION] = "attention, with its layer&rsquo;s number",
        [LAUNCH_TRACE_MLP] = "MLP",
        [LAUNCH_TRACE_DRAFT] = "drafting",
        [LAUNCH_TRACE_DRAW] = "tokens drawn",
        [LAUNCH_TRACE_OVERLAPPED] = "exchanges moved on in backward",
        [LAUNCH_TRACE_WAITING] = "waiting",
        [LAUNCH_TRACE_EXCHANGE] = "exchange under way",
        [LAUNCH_TRACE_OPTIMIZER] = "optimizer",
        [LAUNCH_TRACE_NEWTON_SCHULZ] = "Newton-Schulz, of Muon&rsquo;s matrices",
        [LAUNCH_TRACE_OTHER] = "other",
    };
    const bool parts = has(trace, LAUNCH_TRACE_ATTENTION);
    const bool muon = has(trace, LAUNCH_TRACE_NEWTON_SCHULZ);
    base_buffer_put(text, "<ul class=\"key\">");
    for (int i = 0; i < LAUNCH_TRACE_CATEGORIES; i++) {
        const launch_trace_category category = (launch_trace_category)i;
        const bool drawn = has(trace, category) && !(parts && category == LAUNCH_TRACE_FORWARD);
        if (drawn && meanings[i] != NULL) {
            base_buffer_printf(text, "<li><i class=\"%s\"%s></i>%s</li>", colours[i],
                               is_faint(category, muon) ? " style=\"opacity:.62\"" : "",
                               meanings[i]);
        }
    }
    base_buffer_put(text, "</ul>\n");
}

/* What the picture's marks are. */
static void say_drawing(const view *of, base_buffer *text)
{
    if (has(of->trace, LAUNCH_TRACE_FORWARD) && of->job->train.micro_batches > 1 &&
        !has(of->trace, LAUNCH_TRACE_ATTENTION)) {
        base_buffer_put(text, " A number is the micro-batch of a forward or backward, in whose bar "
                              "the waits are drawn, too; a narrow bar has none.");
    }
    if (of->job->job.world_size > 1) {
        base_buffer_put(text, " Where the lane of a rank is white, other ranks are in this step "
                              "and this one is not.");
    }
}

void launch_trace_timeline(const proto_job *job, const launch_trace *trace, base_buffer *text)
{
    const view own = {.job = job, .trace = trace};
    const view *of = &own;
    if (trace == NULL) {
        return;
    }
    base_buffer_printf(text,
                       "<section><h2>One step</h2><p class=\"hintline\">Step %" PRId64
                       ", of median length among the last %d. %s",
                       of->trace->step, of->trace->steps,
                       job->job.world_size == 1
                           ? "The lane has what the rank did. "
                           : "Each rank has a lane of what it did, and below it what was "
                             "exchanged meanwhile. ");
    launch_trace_say(job, trace, text);
    say_drawing(of, text);
    base_buffer_put(text, "</p>\n");
    put_key(trace, text);
    base_buffer_put(text, "<div class=\"scroll wide\">");
    draw(of, text);
    base_buffer_put(text, "</div>");
    launch_trace_shares(job, trace, text);
    say_limits(of, text);
    base_buffer_printf(
        text,
        "<p class=\"none\">trace.json has these steps with every layer and %s: open it "
        "at ui.perfetto.dev, or in chrome://tracing.</p>\n</section>\n",
        has(trace, LAUNCH_TRACE_ATTENTION) ? "its parts" : "operation");
}
