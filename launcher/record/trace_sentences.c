/* Says what is to be seen in one step of a trace. Called by trace_timeline.c. */
#include "record/trace_sentences.h"

#include <math.h>

#include "record/report.h"

/* What a rank did in the step. */
typedef struct rank_sums {
    double forward_begin_ms;
    double backward_end_ms;
    double passes_ms;
    double waited_ms;
    int buckets;
    int buckets_early; /* whose exchange ended before the last backward did */
} rank_sums;

static rank_sums sums_of(const launch_trace *trace, int rank)
{
    rank_sums sums = {.forward_begin_ms = INFINITY};
    for (size_t i = 0; i < trace->count; i++) {
        const launch_trace_span *span = &trace->spans[i];
        const double took_ms = span->end_ms - span->begin_ms;
        const bool forward = span->category == LAUNCH_TRACE_FORWARD;
        if (span->rank != rank) {
            continue;
        }
        if (forward) {
            sums.forward_begin_ms = fmin(sums.forward_begin_ms, span->begin_ms);
        }
        if (forward || span->category == LAUNCH_TRACE_BACKWARD) {
            sums.backward_end_ms = fmax(sums.backward_end_ms, span->end_ms);
            sums.passes_ms += took_ms;
        }
        sums.waited_ms += span->category == LAUNCH_TRACE_WAITING ? took_ms : 0;
    }
    for (size_t i = 0; i < trace->count; i++) {
        const launch_trace_span *span = &trace->spans[i];
        if (span->rank == rank && span->category == LAUNCH_TRACE_EXCHANGE && span->bucket >= 0) {
            sums.buckets++;
            sums.buckets_early += span->end_ms <= sums.backward_end_ms;
        }
    }
    return sums;
}

/* The rank of which the least number of buckets had been exchanged when its backward ended. */
static void say_buckets(const launch_trace *trace, int ranks, base_buffer *text)
{
    rank_sums least = {.buckets = 0};
    int least_rank = 0;
    for (int rank = 0; rank < ranks; rank++) {
        const rank_sums sums = sums_of(trace, rank);
        if (sums.buckets > 0 && (least.buckets == 0 || sums.buckets_early < least.buckets_early)) {
            least = sums;
            least_rank = rank;
        }
    }
    if (least.buckets == 0) {
        return;
    }
    if (least.buckets == 1 && least.buckets_early == 0) {
        base_buffer_put(text, "The one exchange of gradients ended after backward.");
    } else if (ranks == 1 || least.buckets_early == 0) {
        base_buffer_printf(text,
                           "On rank %d, %d of %d buckets&rsquo; exchanges had ended before "
                           "backward did.",
                           least_rank, least.buckets_early, least.buckets);
    } else {
        base_buffer_printf(text,
                           "On every rank at least %d of %d buckets&rsquo; exchanges had ended "
                           "before backward did (so many on rank %d).",
                           least.buckets_early, least.buckets, least_rank);
    }
}

/* How much of the time between the first forward and the last backward stages were in no pass. */
static void say_idle(const launch_trace *trace, int ranks, base_buffer *text)
{
    double begin_ms = INFINITY;
    double end_ms = 0;
    double passes_ms = 0;
    int seen = 0;
    for (int rank = 0; rank < ranks; rank++) {
        const rank_sums sums = sums_of(trace, rank);
        begin_ms = fmin(begin_ms, sums.forward_begin_ms);
        end_ms = fmax(end_ms, sums.backward_end_ms);
        passes_ms += sums.passes_ms;
        seen += isfinite(sums.forward_begin_ms) ? 1 : 0;
    }
    if (seen > 0 && end_ms > begin_ms) {
        base_buffer_printf(text,
                           "From the first forward to the last backward a rank was in a pass for "
                           "%.0f&nbsp;%% of the time in the mean. The rest is the bubble, in which "
                           "it waits for its neighbours.",
                           100 * passes_ms / (seen * (end_ms - begin_ms)));
    }
}

/* How many exchanges a step of decoding has, and what part of it they take. */
static void say_exchanges(const launch_trace *trace, base_buffer *text)
{
    double exchanges_ms = 0;
    double steps_ms = 0;
    int count = 0;
    int ranks = 0;
    for (size_t i = 0; i < trace->count; i++) {
        const launch_trace_span *span = &trace->spans[i];
        const double took_ms = span->end_ms - span->begin_ms;
        const bool exchange = span->category == LAUNCH_TRACE_EXCHANGE;
        ranks += span->category == LAUNCH_TRACE_STEP ? 1 : 0;
        steps_ms += span->category == LAUNCH_TRACE_STEP ? took_ms : 0;
        exchanges_ms += exchange ? took_ms : 0;
        count += exchange && span->rank == trace->spans[0].rank ? 1 : 0;
    }
    if (steps_ms > 0 && ranks > 1) {
        base_buffer_printf(text,
                           "A rank was in one of the step&rsquo;s %d exchanges for "
                           "%.0f&nbsp;%% of the time in the mean.",
                           count, 100 * exchanges_ms / steps_ms);
    }
}

/* Who waited longest. */
static void say_waiting(const launch_trace *trace, int ranks, base_buffer *text)
{
    double most_ms = -1;
    int most_rank = 0;
    for (int rank = 0; rank < ranks; rank++) {
        const double waited_ms = sums_of(trace, rank).waited_ms;
        if (waited_ms > most_ms) {
            most_ms = waited_ms;
            most_rank = rank;
        }
    }
    if (ranks > 1) {
        base_buffer_printf(text, " Rank %d waited longest, ", most_rank);
        launch_report_ms(text, most_ms, 2);
        base_buffer_put(text, ".");
    }
}

void launch_trace_say(const proto_job *job, const launch_trace *trace, base_buffer *text)
{
    const proto_mode_row *mode = proto_mode_get(job->job.mode);
    const int ranks = (int)job->job.world_size;
    if (mode->pipelined) {
        say_idle(trace, ranks, text);
    } else if (mode->trains) {
        say_buckets(trace, ranks, text);
    } else {
        say_exchanges(trace, text);
    }
    say_waiting(trace, ranks, text);
}
