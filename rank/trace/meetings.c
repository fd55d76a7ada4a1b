/* Finds out in which exchanges ranks waited for which. Called by chrome.c. */
#include "trace/meetings.h"

#include "base/assert.h"
#include "base/limits.h"

static const unsigned MEETS = RANK_TRACE_THREAD | RANK_TRACE_EXCHANGE | RANK_TRACE_ALL_RANKS;

bool rank_trace_meets(const rank_trace_span *span)
{
    return (span->of & MEETS) == MEETS;
}

size_t rank_trace_meeting_count(const rank_trace_of_rank *rank)
{
    size_t count = 0;
    for (size_t i = 0; i < rank->count; i++) {
        count += rank_trace_meets(&rank->spans[i]) ? 1 : 0;
    }
    return count;
}

size_t rank_trace_meet(const rank_trace_all *all, rank_trace_meeting *meetings)
{
    size_t left[BASE_COLL_RANKS_MAX] = {0};
    size_t found = 0;
    BASE_ASSERT(all->rank_count <= BASE_COLL_RANKS_MAX);
    for (int rank = 0; rank < all->rank_count; rank++) {
        left[rank] = all->ranks[rank].count;
        if (all->rank_count < 2 || !all->clocks[all->ranks[rank].clock].known) {
            return 0;
        }
    }
    for (;; found++) {
        rank_trace_meeting meeting = {.all_there_ns = INT64_MIN};
        const rank_trace_span *first = NULL;
        for (int rank = 0; rank < all->rank_count; rank++) {
            const rank_trace_of_rank *of = &all->ranks[rank];
            const rank_trace_span *span = rank_trace_last(of->spans, &left[rank], MEETS);
            first = rank == 0 ? span : first;
            if (span == NULL || span->kind != first->kind || span->index != first->index) {
                return found;
            }
            const int64_t begin_ns = span->begin_ns - all->clocks[of->clock].offset_ns;
            if (begin_ns > meeting.all_there_ns) {
                meeting = (rank_trace_meeting){begin_ns, rank};
            }
        }
        meetings[found] = meeting;
    }
}
