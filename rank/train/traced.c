/* What a step adds to the trace. Called by step.c. */
#include "train/trainer.h"

void trainer_trace_part(const trainer *self, rank_trace_kind kind, int64_t begun_ns, int index)
{
    if (self->traced.trace != NULL && kind == RANK_TRACE_BATCH) {
        self->traced.trace->micro_batch = index;
    }
    rank_trace_add(self->traced.trace,
                   (rank_trace_span){.kind = kind, .begin_ns = begun_ns, .index = index});
}

void trainer_trace_exchange(const trainer *self, rank_trace_kind kind, int64_t begun_ns)
{
    const bool all = kind == RANK_TRACE_SUMS;
    rank_trace_add(self->traced.trace,
                   (rank_trace_span){.kind = kind,
                                     .of = (uint8_t)(RANK_TRACE_THREAD | RANK_TRACE_EXCHANGE |
                                                     (all ? RANK_TRACE_ALL_RANKS : 0)),
                                     .begin_ns = begun_ns,
                                     .index = -1});
}
