/* Computes the figures of a run from its steps: speed, times, spread, scaling, growth of the loss.
 * Called by record.c and job/job_run.c. */
#include "record/summary.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double MS_PER_NS = 1e-6;
/* last loss over first loss: from here on the training is lost */
static const double LOSS_GROWTH = 10;
/* mean step over median step: above this, the mean says little of most steps */
static const double UNEVEN_RATIO = 1.5;

/* The spread over all ranks' values of the measured steps: of the time at `offset` in
 * launch_step_times. scratch has room for (steps × ranks). */
static launch_spread spread_of(const launch_steps *steps, const launch_summary *summary,
                               size_t offset, double *scratch)
{
    size_t count = 0;
    for (int r = 0; r < steps->world_size; r++) {
        for (size_t i = summary->measured_first; i < summary->steps_done; i++) {
            int64_t ns = 0;
            memcpy(&ns, (const char *)&steps->ranks[r].times[i] + offset, sizeof ns);
            scratch[count++] = (double)ns * MS_PER_NS;
        }
    }
    return launch_spread_of(scratch, count);
}

static launch_spread slowest_spread(const launch_steps *steps, const launch_summary *summary,
                                    double *scratch)
{
    size_t count = 0;
    for (size_t i = summary->measured_first; i < summary->steps_done; i++) {
        scratch[count++] = (double)launch_steps_slowest_ns(steps, i) * MS_PER_NS;
    }
    return launch_spread_of(scratch, count);
}

static int by_ranks(const void *left, const void *right)
{
    return ((const launch_scaling_point *)left)->ranks -
           ((const launch_scaling_point *)right)->ranks;
}

/* The given points, and this run's own if no point has its number of ranks. */
static void gather_scaling(launch_summary *summary, int world_size, const launch_record_end *end)
{
    for (int i = 0; i < end->scaling_count; i++) {
        if (isfinite(end->scaling[i].tokens_per_second)) {
            summary->scaling[summary->scaling_count++] = end->scaling[i];
        }
    }
    if (launch_summary_point(summary, world_size) == NULL && isfinite(summary->tokens_per_second)) {
        summary->scaling[summary->scaling_count++] = (launch_scaling_point){
            .ranks = world_size,
            .steps = summary->steps_done - summary->measured_first,
            .tokens_per_second = summary->tokens_per_second,
            .tokens_per_second_low = NAN,
            .tokens_per_second_high = NAN,
            .mean_step = summary->mean_step,
        };
    }
    qsort(summary->scaling, (size_t)summary->scaling_count, sizeof *summary->scaling, by_ranks);
    launch_scaling_suspect(summary->scaling, summary->scaling_count, summary->suspect);
}

/* The result is known only when every rank has finished and reported it. Equal flags need equal
 * digests. */
static void find_equivalence(launch_summary *summary, int world_size, const launch_rank_info *ranks)
{
    bool equal = true;
    double difference = 0;
    summary->byte_equivalent = LAUNCH_UNKNOWN;
    summary->max_abs_difference = NAN;
    for (int r = 0; r < world_size; r++) {
        if (ranks == NULL || !ranks[r].finished) {
            return;
        }
        equal = equal && ranks[r].byte_equal &&
                memcmp(ranks[r].params_sha256, ranks[0].params_sha256, PROTO_DIGEST_BYTES) == 0;
        if (!isnan(difference) && !(ranks[r].max_abs_difference <= difference)) {
            difference = ranks[r].max_abs_difference; /* once NaN, always NaN */
        }
    }
    summary->byte_equivalent = equal ? LAUNCH_YES : LAUNCH_NO;
    summary->max_abs_difference = difference;
}

/* Each rank has corrected sentences of its own, and all know the loss. */
static void take_evaluation(launch_summary *summary, int world_size, const launch_rank_info *ranks)
{
    summary->eval_loss = NAN;
    for (int r = 0; ranks != NULL && r < world_size; r++) {
        summary->eval_total += ranks[r].eval_total;
        summary->eval_correct += ranks[r].eval_correct;
        if (ranks[r].eval_measured > 0) {
            summary->eval_loss = ranks[r].eval_loss;
            summary->eval_measured = ranks[r].eval_measured;
        }
    }
}

static void total_up(launch_summary *summary, const launch_steps *steps, size_t first)
{
    const size_t measured = summary->measured_first;
    const size_t count = summary->steps_done - measured;
    summary->mean_step = launch_breakdown_of(steps, LAUNCH_LAST_TO_ARRIVE, measured, count);
    for (int r = 0; r < steps->world_size; r++) {
        for (size_t i = first; i < summary->steps_done; i++) {
            summary->tokens += steps->ranks[r].times[i].tokens;
        }
        summary->ranks[r] = launch_breakdown_of(steps, r, measured, count);
    }
    summary->loss_first = NAN;
    summary->loss_last = NAN;
    if (summary->steps_done > first) {
        summary->loss_first = steps->losses[first];
        summary->loss_last = steps->losses[summary->steps_done - 1];
    }
}

bool launch_loss_grew(double first, double last)
{
    return first > 0 && last > LOSS_GROWTH * first;
}

void launch_loss_message(double first, double last, char message[LAUNCH_LOSS_MESSAGE_BYTES])
{
    (void)snprintf(message, LAUNCH_LOSS_MESSAGE_BYTES,
                   "the loss grew from %.3g to %.6g: a smaller --lr may help", first, last);
}

/* Where the last half of the steps begins. A part of a round would have too many exchanges, or too few. */
static size_t begin_of_half(const launch_steps *steps, size_t first, size_t done)
{
    const size_t round = steps->round > 1 ? (size_t)steps->round : 1;
    const size_t half = (done - first) / 2;
    return first + half / round * round;
}

base_status launch_summary_init(launch_summary *summary, const launch_steps *steps, size_t first,
                                const launch_record_end *end, base_error *reterr)
{
    memset(summary, 0, sizeof *summary);
    summary->steps_done = launch_steps_count(steps);
    summary->measured_first = begin_of_half(steps, first, summary->steps_done);
    const size_t measured = summary->steps_done - summary->measured_first;
    double *scratch = calloc(measured * (size_t)steps->world_size + 1, sizeof *scratch);
    summary->ranks = calloc((size_t)steps->world_size, sizeof *summary->ranks);
    summary->scaling = calloc((size_t)end->scaling_count + 1, sizeof *summary->scaling);
    if (scratch == NULL || summary->ranks == NULL || summary->scaling == NULL) {
        free(scratch);
        launch_summary_fini(summary);
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory to sum up %zu steps",
                         summary->steps_done);
    }
    summary->step_ms = slowest_spread(steps, summary, scratch);
    summary->compute_ms =
        spread_of(steps, summary, offsetof(launch_step_times, compute_ns), scratch);
    summary->allreduce_ms =
        spread_of(steps, summary, offsetof(launch_step_times, allreduce_ns), scratch);
    summary->exposed_ms =
        spread_of(steps, summary, offsetof(launch_step_times, allreduce_exposed_ns), scratch);
    summary->optimizer_ms =
        spread_of(steps, summary, offsetof(launch_step_times, optimizer_ns), scratch);
    free(scratch);
    summary->tokens_per_second =
        launch_steps_tokens_per_second(steps, summary->measured_first, measured);
    total_up(summary, steps, first);
    gather_scaling(summary, steps->world_size, end);
    find_equivalence(summary, steps->world_size, end->ranks);
    take_evaluation(summary, steps->world_size, end->ranks);
    return BASE_OK;
}

void launch_summary_fini(launch_summary *summary)
{
    free(summary->ranks);
    free(summary->scaling);
    memset(summary, 0, sizeof *summary);
}

bool launch_steps_are_uneven(const launch_summary *summary)
{
    return summary->step_ms.mean > UNEVEN_RATIO * summary->step_ms.p50;
}

void launch_uneven_steps_put(const launch_summary *summary, base_buffer *text)
{
    const double ratio = summary->step_ms.mean / summary->step_ms.p50;
    /* of the mean, 95 % of the steps are less than half */
    const bool few = 2 * summary->step_ms.p95 < summary->step_ms.mean;
    base_buffer_printf(text, "%s: the mean is %.*f times the median, ",
                       few ? "A few steps took most of the time"
                           : "Some steps took far longer than others",
                       ratio < 10 ? 1 : 0, ratio);
    base_buffer_number(text, summary->step_ms.p50, 2);
    base_buffer_put(text, " ms.");
}

const launch_scaling_point *launch_summary_point(const launch_summary *summary, int ranks)
{
    for (int i = 0; i < summary->scaling_count; i++) {
        if (summary->scaling[i].ranks == ranks) {
            return &summary->scaling[i];
        }
    }
    return NULL;
}
