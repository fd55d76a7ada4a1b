/* When the last rank entered each exchange that all ranks' threads are in from its begin to its end. Until then the
 * others wait for that rank; the rest of the time is the exchange itself. Pure. */
#ifndef RANK_TRACE_MEETINGS_H
#define RANK_TRACE_MEETINGS_H

#include "trace/chrome.h"

typedef struct rank_trace_meeting {
    int64_t all_there_ns; /* the last rank's begin, by the clock of rank 0's host */
    int32_t last;         /* that rank */
} rank_trace_meeting;

/* Whether it is of such an exchange. */
bool rank_trace_meets(const rank_trace_span *span);

/* How many of the spans are. */
size_t rank_trace_meeting_count(const rank_trace_of_rank *rank);

/* Finds the meetings in all ranks' spans, which are in the order in which they began or ended: the last one first, and
 * so on as long as the ranks' exchanges are alike. meetings: room for rank_trace_meeting_count of rank 0. Returns how
 * many; 0 if a clock is not known, or there is one rank. */
size_t rank_trace_meet(const rank_trace_all *all, rank_trace_meeting *meetings);

#endif
