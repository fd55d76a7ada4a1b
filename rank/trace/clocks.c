/* Finds how clocks of hosts differ, by causality. Called by gather.c. */
#include "trace/clocks.h"

void rank_trace_narrow(rank_trace_bounds *bounds, const rank_trace_span *a,
                       const rank_trace_span *b)
{
    const int64_t low_ns = b->begin_ns - a->end_ns;
    const int64_t high_ns = b->end_ns - a->begin_ns;
    bounds->low_ns = low_ns > bounds->low_ns ? low_ns : bounds->low_ns;
    bounds->high_ns = high_ns < bounds->high_ns ? high_ns : bounds->high_ns;
}

/* The span before number *at that is of all ranks. NULL: there is none. */
static const rank_trace_span *before(const rank_trace_span *spans, size_t *at)
{
    while (*at > 0) {
        const rank_trace_span *span = &spans[--*at];
        if ((span->of & RANK_TRACE_ALL_RANKS) != 0) {
            return span;
        }
    }
    return NULL;
}

void rank_trace_narrow_all(rank_trace_bounds *bounds, const rank_trace_span *a, size_t a_count,
                           const rank_trace_span *b, size_t b_count)
{
    const rank_trace_span *left = before(a, &a_count);
    const rank_trace_span *right = before(b, &b_count);
    while (left != NULL && right != NULL && left->kind == right->kind &&
           left->index == right->index) {
        rank_trace_narrow(bounds, left, right);
        left = before(a, &a_count);
        right = before(b, &b_count);
    }
}

rank_trace_clock rank_trace_clock_of(const rank_trace_bounds *bounds)
{
    if (bounds->low_ns == INT64_MIN || bounds->high_ns == INT64_MAX ||
        bounds->low_ns > bounds->high_ns) {
        return (rank_trace_clock){.known = false};
    }
    const int64_t width_ns = bounds->high_ns - bounds->low_ns;
    return (rank_trace_clock){.known = true,
                              .offset_ns = bounds->low_ns + width_ns / 2,
                              .uncertainty_ns = width_ns - width_ns / 2};
}
