/* Draws a trace as an SVG that moves. Called by trace_page.c. */
#include "trace_draw.h"

#include <math.h>
#include <string.h>

#include "common/kinds.h"

enum {
    WIDTH = 880,
    HEAD = 34,   /* above the boxes: which round it is */
    TITLE = 28,  /* above that, in a picture of its own */
    MARGIN = 16, /* below them */
    BOX = 140,
    NAME = 24, /* the height of a rank's name in its box */
    ROW = 15,  /* of a block */
    BAR = 12,  /* what is drawn in it */
    BAR_LEFT = 26,
    BAR_WIDTH = BOX - BAR_LEFT - 10,
    RADIUS_X = (WIDTH - BOX) / 2 - 6,
    TOKEN = 18,   /* the height of a message's label */
    LETTER = 9,   /* the width of one of its letters */
    ASIDE = 10,   /* how far a wire lies to the side, so that labels that go both ways pass */
    HEAD_END = 8, /* room for the head of an arrow */
};

/* When what happens in a frame happens, as a share of it. */
static const double LEAVES = 0.15;
static const double ARRIVES = 0.7;
static const double TAKEN = 0.8;

/* Where a label that does not move is on its way: before the middle, where wires cross. */
static const double WAITS = 0.36;

const char TRACE_RULES[] =
    ".trace text{font-size:12px;fill:var(--ink)}.trace .title{font-size:17px;font-weight:600}"
    ".trace .soft{fill:var(--soft)}.trace .name{font-weight:600}"
    ".trace .box{fill:var(--card);stroke:var(--soft)}.trace .track{fill:var(--grid)}"
    ".trace .inside{font-size:10px;font-weight:600;fill:#fff;stroke:#0007;stroke-width:2px;"
    "paint-order:stroke}.trace .whole{fill:none;stroke:var(--good);stroke-width:2}"
    ".trace .wire{stroke:var(--soft);fill:none}.trace .waits{stroke-dasharray:4 4}"
    ".trace .token{fill:var(--ink)}.trace .letters{fill:var(--card);font-weight:600}"
    ".trace .aside{fill-opacity:.25;stroke-width:1.5}"
    ".r0{fill:var(--accent);stroke:var(--accent)}.r1{fill:var(--exchange);stroke:var(--exchange)}"
    ".r2{fill:var(--good);stroke:var(--good)}.r3{fill:var(--optimizer);stroke:var(--optimizer)}"
    ".r4{fill:var(--overlapped);stroke:var(--overlapped)}.r5{fill:var(--other);stroke:var(--other)}"
    ".r6{fill:var(--waiting);stroke:var(--waiting)}.r7{fill:var(--ink);stroke:var(--ink)}";

typedef struct place {
    double x;
    double y;
} place;

typedef struct drawing {
    const trace_result *played;
    base_buffer *text;
    int frames; /* the start, and each round */
    double head;
    double box_height;
    double height;
    place centres[TRACE_RANKS_MAX];
} drawing;

/* Around an ellipse, clockwise, rank 0 at the top; between two hosts there is a gap. */
static void place_ranks(drawing *d)
{
    const coll_plan *plan = &d->played->plan;
    const bool hosts = plan->hosts != NULL && plan->hosts->count > 1;
    const bool near = hosts || plan->ranks > 6; /* some lie one above the other */
    const double gap = hosts ? 0.35 : 0;
    const double slots = plan->ranks + gap * (hosts ? plan->hosts->count : 0);
    d->box_height = NAME + (double)ROW * d->played->block_count + 6;
    const double radius_y =
        plan->ranks == 2 ? 0 : fmax(130, (near ? 2 : 1.5) * (d->box_height + 14));
    d->height = d->head + 2 * radius_y + d->box_height + MARGIN;
    for (int rank = 0; rank < plan->ranks; rank++) {
        const double slot = rank + (hosts ? gap * plan->hosts->host[rank] : 0);
        const double turn = 2 * acos(-1) * slot / slots - (plan->ranks == 2 ? 2 : 1) * acos(0);
        d->centres[rank] = (place){WIDTH / 2.0 + RADIUS_X * cos(turn),
                                   d->head + d->box_height / 2 + radius_y + radius_y * sin(turn)};
    }
}

/* The time of a part of a frame, as a share of the whole film. */
static double share(const drawing *d, int frame, double part)
{
    return (frame + part) / (d->frames + 1);
}

static void put_animate(const drawing *d, const char *more)
{
    base_buffer_printf(d->text, " dur=\"%ds\" repeatCount=\"indefinite\"%s/>",
                       (d->frames + 1) * TRACE_FRAME_S, more);
}

/* Begins a group that is there during the frame alone. */
static void begin_frame(const drawing *d, int frame)
{
    const double from = share(d, frame, 0);
    const double to = share(d, frame + 1, 0);
    base_buffer_printf(d->text,
                       "<g visibility=\"%s\"><animate attributeName=\"visibility\" "
                       "calcMode=\"discrete\"",
                       frame == 1 ? "visible" : "hidden");
    if (frame == 0) {
        base_buffer_printf(d->text, " values=\"visible;hidden\" keyTimes=\"0;%.5f\"", to);
    } else if (frame + 1 == d->frames) {
        base_buffer_printf(d->text, " values=\"hidden;visible\" keyTimes=\"0;%.5f\"", from);
    } else {
        base_buffer_printf(d->text, " values=\"hidden;visible;hidden\" keyTimes=\"0;%.5f;%.5f\"",
                           from, to);
    }
    put_animate(d, "");
    base_buffer_put(d->text, "\n");
}

/* Begins a group that fades in, or out, when messages have come. */
static void begin_change(const drawing *d, int frame, bool comes)
{
    base_buffer_printf(d->text,
                       "<g opacity=\"%d\"><animate attributeName=\"opacity\" values=\"%s\" "
                       "keyTimes=\"0;%.5f;%.5f;1\"",
                       comes, comes ? "0;0;1;1" : "1;1;0;0", share(d, frame, ARRIVES),
                       share(d, frame, TAKEN));
    put_animate(d, "");
}

static double row_top(const drawing *d, int rank, int block)
{
    return d->centres[rank].y - d->box_height / 2 + NAME + (double)ROW * block;
}

static double box_left(const drawing *d, int rank)
{
    return d->centres[rank].x - BOX / 2.0;
}

/* What is always there: boxes, names, and the empty rows. */
static void put_boxes(const drawing *d)
{
    const coll_plan *plan = &d->played->plan;
    for (int rank = 0; rank < plan->ranks; rank++) {
        const double left = box_left(d, rank);
        const double top = d->centres[rank].y - d->box_height / 2;
        base_buffer_printf(d->text,
                           "<rect class=\"box\" x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%.1f\" "
                           "rx=\"7\"/><text class=\"name\" x=\"%.1f\" y=\"%.1f\">rank %d</text>",
                           left, top, BOX, d->box_height, left + 10, top + 16, rank);
        if (plan->hosts != NULL && plan->hosts->count > 1) {
            base_buffer_printf(d->text,
                               "<text class=\"soft\" x=\"%.1f\" y=\"%.1f\" "
                               "text-anchor=\"end\">host %d</text>",
                               left + BOX - 10, top + 16, plan->hosts->host[rank]);
        }
        for (int block = 0; block < d->played->block_count; block++) {
            const double y = row_top(d, rank, block);
            base_buffer_printf(d->text,
                               "<text class=\"soft\" x=\"%.1f\" y=\"%.1f\">%c</text>"
                               "<rect class=\"track\" x=\"%.1f\" y=\"%.1f\" width=\"%d\" "
                               "height=\"%d\"/>",
                               left + 10, y + 10.5, 'A' + block, left + BAR_LEFT, y, BAR_WIDTH,
                               BAR);
        }
        base_buffer_put(d->text, "\n");
    }
}

/* A piece of a block's row for each rank whose part is in the value. */
static void put_parts(const drawing *d, const trace_value *value, place at, bool aside)
{
    const double width = (double)BAR_WIDTH / d->played->plan.ranks;
    for (int rank = 0; rank < d->played->plan.ranks; rank++) {
        const double x = at.x + width * rank;
        if ((value->ranks >> rank & 1) == 0) {
            continue;
        }
        base_buffer_printf(d->text,
                           "<rect class=\"r%d%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
                           "height=\"%d\"/>",
                           rank, aside ? " aside" : "", x + 1, at.y + 1, width - 2, BAR - 2);
        if (!aside) {
            base_buffer_printf(d->text,
                               "<text class=\"inside\" x=\"%.1f\" y=\"%.1f\" "
                               "text-anchor=\"middle\">%d</text>",
                               x + width / 2, at.y + 9.5, rank);
        }
    }
}

/* Where nothing is added up, a block is one rank's, and its name says of which. */
static void put_block(const drawing *d, const trace_value *value, place at)
{
    int rank = 0;
    while (rank < d->played->plan.ranks && (value->ranks >> rank & 1) == 0) {
        rank++;
    }
    base_buffer_printf(d->text,
                       "<rect class=\"r%d\" x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%d\"/>"
                       "<text class=\"inside\" x=\"%.1f\" y=\"%.1f\" "
                       "text-anchor=\"middle\">%s</text>",
                       rank, at.x + 1, at.y + 1, BAR_WIDTH - 2, BAR - 2, at.x + BAR_WIDTH / 2.0,
                       at.y + 9.5, value->text);
}

static void put_cell(const drawing *d, int rank, int block, const trace_cell *cell)
{
    const place at = {box_left(d, rank) + BAR_LEFT, row_top(d, rank, block)};
    if (cell->held.text[0] != '\0' && !coll_kind_reduces(d->played->plan.kind)) {
        put_block(d, &cell->held, at);
        return;
    }
    put_parts(d, &cell->held, at, false);
    if (cell->aside.text[0] != '\0') {
        put_parts(d, &cell->aside, at, true);
    }
    if (trace_is_complete(d->played, &cell->held)) {
        base_buffer_printf(d->text,
                           "<rect class=\"whole\" x=\"%.1f\" y=\"%.1f\" width=\"%d\" "
                           "height=\"%d\" rx=\"2\"/>",
                           at.x, at.y, BAR_WIDTH, BAR);
    }
}

static bool same(const trace_cell *a, const trace_cell *b)
{
    return strcmp(a->held.text, b->held.text) == 0 && strcmp(a->aside.text, b->aside.text) == 0;
}

/* The cells that stay, or those that change, as they are at the end of frame `row`. */
static void put_cells(const drawing *d, int row, int before, bool stay)
{
    const trace_result *played = d->played;
    for (int rank = 0; rank < played->plan.ranks; rank++) {
        for (int block = 0; block < played->block_count; block++) {
            const trace_cell *cell = &played->cells[row][rank][block];
            if (same(cell, &played->cells[before][rank][block]) == stay) {
                put_cell(d, rank, block, cell);
            }
        }
    }
    base_buffer_put(d->text, "\n");
}

/* The way of a message, from edge to edge, a little to one side of the line between the boxes. */
typedef struct wire {
    place from;
    place to;
} wire;

/* How far a line goes through a box, in lengths of `along`; `at` is from its centre, `half` half its side. */
static double reach(double half, double at, double along)
{
    return along != 0 ? (copysign(half, along) - at) / along : INFINITY;
}

static wire wire_of(const drawing *d, const trace_message *message)
{
    const place a = d->centres[message->from];
    const place b = d->centres[message->to];
    const place along = {b.x - a.x, b.y - a.y};
    const double length = hypot(along.x, along.y);
    const place side = {-along.y / length * ASIDE, along.x / length * ASIDE};
    const double across = BOX / 2.0;
    const double down = d->box_height / 2;
    const double first = fmin(reach(across, side.x, along.x), reach(down, side.y, along.y));
    const double last =
        fmin(reach(across, side.x, -along.x), reach(down, side.y, -along.y)) + HEAD_END / length;
    return (wire){{a.x + side.x + along.x * first, a.y + side.y + along.y * first},
                  {b.x + side.x - along.x * last, b.y + side.y - along.y * last}};
}

static void put_wire(const drawing *d, const trace_message *message, bool moves)
{
    const wire w = wire_of(d, message);
    base_buffer_printf(
        d->text, "<path class=\"wire%s\" marker-end=\"url(#to)\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n",
        moves ? "" : " waits", w.from.x, w.from.y, w.to.x, w.to.y);
}

/* What goes along the wire in a frame. A label stays in the picture. */
static void put_token(const drawing *d, int frame, const trace_message *message,
                      const char *letters)
{
    const double width = 10 + (double)LETTER * (double)strlen(letters);
    wire w = wire_of(d, message);
    w.from.x = fmin(fmax(w.from.x, width / 2), WIDTH - width / 2);
    w.to.x = fmin(fmax(w.to.x, width / 2), WIDTH - width / 2);
    base_buffer_printf(d->text, "<g transform=\"translate(%.1f %.1f)\">",
                       w.from.x + (w.to.x - w.from.x) * WAITS,
                       w.from.y + (w.to.y - w.from.y) * WAITS);
    if (message->sent_round + 1 == frame) {
        base_buffer_printf(d->text,
                           "<animateTransform attributeName=\"transform\" type=\"translate\" "
                           "values=\"%.1f %.1f;%.1f %.1f;%.1f %.1f;%.1f %.1f\" "
                           "keyTimes=\"0;%.5f;%.5f;1\" calcMode=\"spline\"",
                           w.from.x, w.from.y, w.from.x, w.from.y, w.to.x, w.to.y, w.to.x, w.to.y,
                           share(d, frame, LEAVES), share(d, frame, ARRIVES));
        put_animate(d, " keySplines=\"0 0 1 1;.4 0 .3 1;0 0 1 1\"");
    }
    base_buffer_printf(d->text,
                       "<rect class=\"token\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" "
                       "rx=\"5\"/><text class=\"letters\" y=\"4\" "
                       "text-anchor=\"middle\">%s</text></g>\n",
                       -width / 2, -TOKEN / 2, width, TOKEN, letters);
}

static bool is_under_way(const trace_message *message, int round)
{
    return message->sent_round <= round &&
           (message->sent_round == round || message->taken_round < 0 ||
            message->taken_round >= round);
}

/* The messages of a frame, those of the same pair of ranks together: their wires, or their labels. */
static void put_messages(const drawing *d, int frame, bool wires)
{
    const trace_result *played = d->played;
    for (int i = 0; i < played->message_count; i++) {
        const trace_message *first = &played->messages[i];
        char letters[TRACE_LINE_BYTES] = "";
        bool known = !is_under_way(first, frame - 1);
        for (int j = 0; j < played->message_count && !known; j++) {
            const trace_message *other = &played->messages[j];
            if (is_under_way(other, frame - 1) && other->from == first->from &&
                other->to == first->to && other->sent_round == first->sent_round) {
                known = j < i;
                trace_append_blocks(letters, other);
            }
        }
        if (!known && wires) {
            put_wire(d, first, first->sent_round + 1 == frame);
        } else if (!known) {
            put_token(d, frame, first, letters);
        }
    }
}

static void put_frame(const drawing *d, int frame)
{
    begin_frame(d, frame);
    base_buffer_printf(d->text, "<text class=\"soft\" x=\"12\" y=\"%.0f\">", d->head - 16);
    if (frame == 0) {
        base_buffer_put(d->text, "start</text>\n");
        put_cells(d, 0, 0, true);
    } else {
        base_buffer_printf(d->text, "round %d</text>\n", frame - 1);
        put_cells(d, frame, frame - 1, true);
        begin_change(d, frame, false);
        put_cells(d, frame - 1, frame, false);
        base_buffer_put(d->text, "</g>");
        begin_change(d, frame, true);
        put_cells(d, frame, frame - 1, false);
        base_buffer_put(d->text, "</g>");
        put_messages(d, frame, false);
    }
    base_buffer_put(d->text, "</g>\n");
}

void trace_draw(const trace_result *played, const char *rules, base_buffer *text)
{
    drawing d = {.played = played,
                 .text = text,
                 .frames = played->round_count + 1,
                 .head = HEAD + (rules != NULL ? TITLE : 0)};
    char title[TRACE_LINE_BYTES];
    trace_title(played, title);
    place_ranks(&d);
    base_buffer_printf(text,
                       "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"trace\" role=\"img\" "
                       "width=\"%d\" height=\"%.0f\" viewBox=\"0 0 %d %.0f\" "
                       "font-family=\"system-ui,'DejaVu Sans',sans-serif\">\n<title>%s</title>\n",
                       WIDTH, d.height, WIDTH, d.height, title);
    if (rules != NULL) {
        base_buffer_put(text, "<style>");
        base_buffer_put(text, rules);
        base_buffer_printf(text,
                           "</style><rect class=\"page\" width=\"%d\" height=\"%.0f\"/>"
                           "<text class=\"title\" x=\"12\" y=\"26\">%s</text>\n",
                           WIDTH, d.height, title);
    }
    base_buffer_put(text, "<defs><marker id=\"to\" viewBox=\"0 0 8 8\" refX=\"2\" refY=\"4\" "
                          "markerWidth=\"8\" markerHeight=\"8\" orient=\"auto\"><path "
                          "class=\"soft\" d=\"M0 0L8 4L0 8Z\"/></marker></defs>\n");
    for (int frame = 1; frame < d.frames; frame++) {
        begin_frame(&d, frame);
        put_messages(&d, frame, true);
        base_buffer_put(text, "</g>\n");
    }
    put_boxes(&d);
    for (int frame = 0; frame < d.frames; frame++) {
        put_frame(&d, frame);
    }
    base_buffer_put(text, "</svg>\n");
}
