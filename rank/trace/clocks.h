/* How the clocks of two hosts differ, found from what their ranks did.
 *
 * Every host counts time from a begin of its own. But nobody ends an exchange of all ranks before everybody has
 * begun it. So for a rank a of one host, a rank b of another, and every such exchange k, the difference d = b's
 * clock - a's clock lies between
 *
 *     b.begin(k) - a.end(k)  <=  d  <=  b.end(k) - a.begin(k)
 *
 * All exchanges together leave a shorter interval. Its middle is the offset, and half its width is how far that may
 * be off. This holds without any assumption on how long a message takes. Pure. */
#ifndef RANK_TRACE_CLOCKS_H
#define RANK_TRACE_CLOCKS_H

#include "trace/trace.h"

typedef struct rank_trace_bounds {
    int64_t low_ns;
    int64_t high_ns;
} rank_trace_bounds;

/* What is known without any exchange: nothing. */
#define RANK_TRACE_UNBOUNDED ((rank_trace_bounds){INT64_MIN, INT64_MAX})

typedef struct rank_trace_clock {
    bool known; /* false: no exchange, or they contradict each other */
    int64_t offset_ns;
    int64_t uncertainty_ns;
} rank_trace_clock;

/* The last one of the first *count spans that is of all these (RANK_TRACE_...); *count becomes how many are before
 * it. NULL: there is none. */
const rank_trace_span *rank_trace_last(const rank_trace_span *spans, size_t *count, unsigned of);

/* All exchanges of all ranks in two ranks' spans, which are in the order in which they ended. The last one of the one is the
 * last one of the other, and so on backwards, as long as they are alike. */
void rank_trace_narrow_all(rank_trace_bounds *bounds, const rank_trace_span *a, size_t a_count,
                           const rank_trace_span *b, size_t b_count);

rank_trace_clock rank_trace_clock_of(const rank_trace_bounds *bounds);

#endif
