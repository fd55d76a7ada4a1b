/* Says what is to be seen in one step of a trace. Called by trace_timeline.c. */
#include "record/trace_sentences.h"

#include <inttypes.h>
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
        if (forward || span->category == LAUNCH_TRACE_BACKWARD ||
            span->category == LAUNCH_TRACE_WEIGHTS) {
            sums.backward_end_ms = fmax(sums.backward_end_ms, span->end_ms);
            sums.passes_ms += took_ms;
        }
        sums.waited_ms += span->category == LAUNCH_TRACE_WAITING ? took_ms : 0;
    }
    for (size_t i = 0; i < trace->count; i++) {
        const launch_trace_span *span = &trace->spans[i];
        if (span->rank == rank && span->lane > 0 && span->category == LAUNCH_TRACE_EXCHANGE &&
            span->bucket >= 0) {
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
    } else if (least.buckets_early == 0) {
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

/* What a rank's thread did in a step of decoding. */
typedef struct rank_shares {
    double step_ms; /* 0: the rank is not in the trace */
    double exchanging_ms;
    double waiting_ms;
    int exchanges;
} rank_shares;

static rank_shares shares_of(const launch_trace *trace, int rank)
{
    rank_shares shares = {.step_ms = 0};
    for (size_t i = 0; i < trace->count; i++) {
        const launch_trace_span *span = &trace->spans[i];
        const double took_ms = span->end_ms - span->begin_ms;
        if (span->rank != rank) {
            continue;
        }
        if (span->lane > 0) {
            shares.exchanges += span->category == LAUNCH_TRACE_EXCHANGE ? 1 : 0;
            continue;
        }
        shares.step_ms += span->category == LAUNCH_TRACE_STEP ? took_ms : 0;
        shares.exchanging_ms += span->category == LAUNCH_TRACE_EXCHANGE ? took_ms : 0;
        shares.waiting_ms += span->category == LAUNCH_TRACE_WAITING ? took_ms : 0;
    }
    return shares;
}

static double computing_ms(const rank_shares *shares)
{
    return shares->step_ms - shares->exchanging_ms - shares->waiting_ms;
}

/* How many tokens the step computes and draws: all ranks the same. */
static void say_tokens(const launch_trace *trace, base_buffer *text)
{
    const launch_trace_span *forward = NULL;
    const launch_trace_span *drawn = NULL;
    for (size_t i = 0; i < trace->count; i++) {
        const launch_trace_span *span = &trace->spans[i];
        const bool counts = span->lane == 0 && span->tokens > 0;
        forward = counts && span->category == LAUNCH_TRACE_FORWARD ? span : forward;
        drawn = counts && span->category == LAUNCH_TRACE_DRAW ? span : drawn;
    }
    if (forward == NULL) {
        return;
    }
    base_buffer_printf(text, "It computes %" PRId64 " token%s", forward->tokens,
                       forward->tokens == 1 ? "" : "s");
    if (forward->drafted > 0) {
        base_buffer_printf(text, ", %" PRId64 " of them drafted", forward->drafted);
    }
    base_buffer_printf(text, ", and draws %" PRId64, drawn != NULL ? drawn->tokens : 0);
    if (forward->drafted > 0) {
        base_buffer_printf(text, ": %" PRId64 " drafted ones were right",
                           drawn != NULL ? drawn->drafted : 0);
    }
    base_buffer_put(text, ". ");
}

/* For what part of a step of decoding ranks compute, wait and exchange. */
static void say_shares(const launch_trace *trace, int ranks, base_buffer *text)
{
    rank_shares sum = {.step_ms = 0};
    int exchanges = 0;
    int seen = 0;
    for (int rank = 0; rank < ranks; rank++) {
        const rank_shares own = shares_of(trace, rank);
        sum.step_ms += own.step_ms;
        sum.exchanging_ms += own.exchanging_ms;
        sum.waiting_ms += own.waiting_ms;
        exchanges = own.exchanges > exchanges ? own.exchanges : exchanges;
        seen += own.step_ms > 0 ? 1 : 0;
    }
    say_tokens(trace, text);
    if (seen > 1) {
        base_buffer_printf(
            text,
            "In the mean a rank computes for %.0f&nbsp;%% of the step, waits for another for "
            "%.0f&nbsp;%%, and is in one of its %d exchanges for %.0f&nbsp;%%.",
            100 * computing_ms(&sum) / sum.step_ms, 100 * sum.waiting_ms / sum.step_ms, exchanges,
            100 * sum.exchanging_ms / sum.step_ms);
    }
}

static void put_share(base_buffer *text, double ms, double step_ms)
{
    base_buffer_put(text, "<td class=\"n\">");
    launch_report_ms(text, ms, 3);
    base_buffer_printf(text, ", %.0f&nbsp;%%</td>", 100 * ms / step_ms);
}

void launch_trace_shares(const proto_job *job, const launch_trace *trace, base_buffer *text)
{
    const int ranks = (int)job->job.world_size;
    if (proto_mode_get(job->job.mode)->trains || ranks < 2) {
        return;
    }
    base_buffer_put(text, "<div class=\"scroll parts\"><table><thead><tr><th class=\"n\">rank</th>"
                          "<th class=\"n\">this step</th><th class=\"n\">computing</th>"
                          "<th class=\"n\">exchanging</th><th class=\"n\">waiting</th></tr></thead>"
                          "<tbody>\n");
    for (int rank = 0; rank < ranks; rank++) {
        const rank_shares own = shares_of(trace, rank);
        if (own.step_ms > 0) {
            base_buffer_printf(text, "<tr><td class=\"n\">%d</td><td class=\"n\">", rank);
            launch_report_ms(text, own.step_ms, 3);
            base_buffer_put(text, "</td>");
            put_share(text, computing_ms(&own), own.step_ms);
            put_share(text, own.exchanging_ms, own.step_ms);
            put_share(text, own.waiting_ms, own.step_ms);
            base_buffer_put(text, "</tr>\n");
        }
    }
    base_buffer_put(text, "</tbody></table></div>\n");
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
        launch_report_ms(text, most_ms, most_ms < 0.1 ? 3 : 2);
        base_buffer_put(text, ".");
    }
}

void launch_trace_say(const proto_job *job, const launch_trace *trace, base_buffer *text)
{
    const proto_mode_row *mode = proto_mode_get(job->job.mode);
    const int ranks = (int)job->job.world_size;
    if (mode->pipelined) {
        say_idle(trace, ranks, text);
    } else if (mode->trains && ranks > 1) {
        say_buckets(trace, ranks, text);
    } else if (!mode->trains) {
        say_shares(trace, ranks, text);
    }
    say_waiting(trace, ranks, text);
}
