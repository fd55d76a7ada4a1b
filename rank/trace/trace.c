/* Takes down the spans of one rank. Called by train/, pipeline/, parallel/, the passes of models, and by the
 * CPU's queue through its profile. */
#include "trace/trace.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/clock.h"

size_t rank_trace_capacity(int ranks)
{
    return base_min_size(RANK_TRACE_SPANS_MAX, RANK_TRACE_SPANS_ALL_MAX / (size_t)ranks);
}

base_status rank_trace_create(int steps, int ranks, rank_trace **trace, base_error *reterr)
{
    rank_trace *made = calloc(1, sizeof *made);
    *trace = NULL;
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a trace");
    }
    made->steps_wanted = steps;
    made->capacity = rank_trace_capacity(ranks);
    made->spans.spans = calloc(made->capacity, sizeof *made->spans.spans);
    made->operations.spans = calloc(made->capacity, sizeof *made->operations.spans);
    if (made->spans.spans == NULL || made->operations.spans == NULL) {
        rank_trace_destroy(made);
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the spans of a trace");
    }
    *trace = made;
    return BASE_OK;
}

void rank_trace_destroy(rank_trace *trace)
{
    if (trace != NULL) {
        free(trace->spans.spans);
        free(trace->operations.spans);
        free(trace);
    }
}

void rank_trace_reset(rank_trace *trace)
{
    if (trace != NULL) {
        trace->spans.count = trace->operations.count = 0;
        trace->spans.lost_ns = trace->operations.lost_ns = 0;
        trace->next_step = 0;
    }
}

static void put(const rank_trace *trace, rank_trace_ring *ring, rank_trace_span span)
{
    rank_trace_span *place = &ring->spans[ring->count % trace->capacity];
    if (ring->count++ >= trace->capacity) {
        ring->lost_ns = place->end_ns;
    }
    *place = span;
}

void rank_trace_step_begin(rank_trace *trace, int64_t now_ns)
{
    if (trace != NULL) {
        trace->on = true;
        trace->step_ns = now_ns;
        trace->last_ns = now_ns;
    }
}

void rank_trace_step_end(rank_trace *trace, int32_t step, int64_t now_ns)
{
    if (trace != NULL) {
        trace->on = false;
        put(trace, &trace->spans,
            (rank_trace_span){.kind = RANK_TRACE_STEP,
                              .of = RANK_TRACE_THREAD,
                              .index = step,
                              .begin_ns = trace->step_ns,
                              .end_ns = now_ns});
    }
}

void rank_trace_step_end_next(rank_trace *trace, int64_t now_ns)
{
    if (trace != NULL) {
        rank_trace_step_end(trace, trace->next_step, now_ns);
        trace->next_step = trace->next_step < INT32_MAX ? trace->next_step + 1 : 0;
    }
}

int64_t rank_trace_begin(rank_trace *trace)
{
    if (trace == NULL || !trace->on) {
        return 0;
    }
    trace->last_ns = base_now_ns();
    return trace->last_ns;
}

int64_t rank_trace_add(rank_trace *trace, rank_trace_span span)
{
    if (trace == NULL || !trace->on) {
        return 0;
    }
    span.end_ns = span.end_ns != 0 ? span.end_ns : base_now_ns();
    span.of = span.of != 0 ? span.of : RANK_TRACE_THREAD;
    trace->last_ns = span.end_ns;
    put(trace, &trace->spans, span);
    return span.end_ns;
}

void rank_trace_operation(rank_trace *trace, int32_t part, int64_t now_ns)
{
    if (trace != NULL && trace->on) {
        put(trace, &trace->operations,
            (rank_trace_span){.kind = RANK_TRACE_OPERATION,
                              .of = RANK_TRACE_THREAD,
                              .index = part,
                              .begin_ns = trace->last_ns,
                              .end_ns = now_ns});
        trace->last_ns = now_ns;
    }
}

static uint64_t first_kept(const rank_trace *trace, const rank_trace_ring *ring)
{
    return ring->count > trace->capacity ? ring->count - trace->capacity : 0;
}

/* Counts the last steps, `steps` at most, that began at since_ns or later. *begin_ns: when the oldest of these
 * began; INT64_MAX: there is none. */
static int last_steps(const rank_trace *trace, int steps, int64_t since_ns, int64_t *begin_ns)
{
    const rank_trace_ring *ring = &trace->spans;
    const uint64_t first = first_kept(trace, ring);
    int found = 0;
    *begin_ns = INT64_MAX;
    for (uint64_t i = ring->count; i > first && found < steps; i--) {
        const rank_trace_span *span = &ring->spans[(i - 1) % trace->capacity];
        if (span->kind == RANK_TRACE_STEP && span->begin_ns < since_ns) {
            break;
        }
        if (span->kind == RANK_TRACE_STEP) {
            *begin_ns = span->begin_ns;
            found++;
        }
    }
    return found;
}

int rank_trace_whole_steps(const rank_trace *trace, const rank_trace_ring *ring, int most)
{
    int64_t begin_ns;
    return last_steps(trace, most, ring->lost_ns, &begin_ns);
}

size_t rank_trace_take(const rank_trace *trace, const rank_trace_ring *ring, int steps,
                       rank_trace_span *to)
{
    size_t taken = 0;
    int64_t from_ns;
    (void)last_steps(trace, steps > 0 ? steps : 1, INT64_MIN, &from_ns);
    for (uint64_t i = first_kept(trace, ring); i < ring->count; i++) {
        const rank_trace_span *span = &ring->spans[i % trace->capacity];
        if (span->begin_ns >= from_ns) {
            to[taken++] = *span;
        }
    }
    return taken;
}
