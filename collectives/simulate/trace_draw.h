/* A trace as a picture that moves: ranks as boxes around a circle, a row for each block, and
 * messages that go from box to box, round after round.
 *
 * It is one SVG with a frame for the start and for each round, which are shown in turns, for
 * TRACE_FRAME_S seconds each and the last one for twice as long. It uses SVG's own animation, so it
 * plays wherever a picture can stand; what shows no animation shows the first round. Pure. */
#ifndef COLL_SIMULATE_TRACE_DRAW_H
#define COLL_SIMULATE_TRACE_DRAW_H

#include "base/buffer.h"
#include "trace.h"

enum { TRACE_FRAME_S = 2 };

/* The rules of its elements; colours are those of chart/style.h. */
extern const char TRACE_RULES[];

/* The <svg> without a style sheet of its own, which goes where `rules` is not NULL. */
void trace_draw(const trace_result *played, const char *rules, base_buffer *text);

/* Writes the file, completely or not at all: .svg the picture alone, which plays for ever; .html a
 * page with buttons, each round's table, and how each block was added up. */
COLL_MUST_CHECK coll_status trace_draw_write(const trace_result *played, const char *path,
                                             coll_error *reterr);

#endif
