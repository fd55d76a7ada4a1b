/* Finds how clocks of hosts differ, by causality. Called by gather.c. */
#include "trace/clocks.h"

const rank_trace_span *rank_trace_last(const rank_trace_span *spans, size_t *count, unsigned of)
{
    while (*count > 0) {
        const rank_trace_span *span = &spans[--*count];
        if ((span->of & of) == of) {
            return span;
        }
    }
    return NULL;
}

void rank_trace_narrow_all(rank_trace_bounds *bounds, const rank_trace_span *a, size_t a_count,
                           const rank_trace_span *b, size_t b_count)
{
    const rank_trace_span *left = rank_trace_last(a, &a_count, RANK_TRACE_ALL_RANKS);
    const rank_trace_span *right = rank_trace_last(b, &b_count, RANK_TRACE_ALL_RANKS);
    while (left != NULL && right != NULL && left->kind == right->kind &&
           left->index == right->index) {
        const int64_t low_ns = right->begin_ns - left->end_ns;
        const int64_t high_ns = right->end_ns - left->begin_ns;
        bounds->low_ns = low_ns > bounds->low_ns ? low_ns : bounds->low_ns;
        bounds->high_ns = high_ns < bounds->high_ns ? high_ns : bounds->high_ns;
        left = rank_trace_last(a, &a_count, RANK_TRACE_ALL_RANKS);
        right = rank_trace_last(b, &b_count, RANK_TRACE_ALL_RANKS);
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
