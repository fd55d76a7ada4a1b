#include "record/summary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double MS_PER_NS = 1e-6;

typedef int64_t (*step_field)(const launch_step *step);

static int64_t compute_of(const launch_step *step)
{
    return step->compute_ns;
}

static int64_t allreduce_of(const launch_step *step)
{
    return step->allreduce_ns;
}

static int64_t exposed_of(const launch_step *step)
{
    return step->allreduce_exposed_ns;
}

static int64_t optimizer_of(const launch_step *step)
{
    return step->optimizer_ns;
}

static int64_t step_of(const launch_step *step)
{
    return step->step_ns;
}

/* All ranks' values of the measured steps; scratch holds (steps × ranks). */
static launch_spread spread_of(const launch_steps *steps, const launch_summary *summary,
                               step_field field, double *scratch)
{
    size_t count = 0;
    for (int r = 0; r < steps->world_size; r++) {
        for (size_t i = summary->measured_first; i < summary->steps_done; i++) {
            scratch[count++] = (double)field(&steps->ranks[r].steps[i]) * MS_PER_NS;
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

static double mean_ms(const launch_rank_steps *rank, const launch_summary *summary,
                      step_field field)
{
    double sum = 0;
    for (size_t i = summary->measured_first; i < summary->steps_done; i++) {
        sum += (double)field(&rank->steps[i]) * MS_PER_NS;
    }
    return sum / (double)(summary->steps_done - summary->measured_first); /* 0/0: NaN */
}

static launch_breakdown breakdown_of(const launch_rank_steps *rank, const launch_summary *summary)
{
    launch_breakdown parts = {
        .compute_ms = mean_ms(rank, summary, compute_of),
        .exposed_ms = mean_ms(rank, summary, exposed_of),
        .optimizer_ms = mean_ms(rank, summary, optimizer_of),
        .step_ms = mean_ms(rank, summary, step_of),
    };
    const double known_ms = parts.compute_ms + parts.exposed_ms + parts.optimizer_ms;
    parts.other_ms = parts.step_ms - known_ms;
    if (parts.other_ms < 0) { /* the clocks were read apart */
        parts.other_ms = 0;
        parts.step_ms = known_ms;
    }
    return parts;
}

static int by_ranks(const void *left, const void *right)
{
    return ((const launch_scaling_point *)left)->ranks -
           ((const launch_scaling_point *)right)->ranks;
}

/* The points handed over, less any of this run's own world size, and this run's own. */
static void gather_scaling(launch_summary *summary, int world_size, const launch_record_end *end)
{
    for (int i = 0; i < end->scaling_count; i++) {
        if (end->scaling[i].ranks != world_size && isfinite(end->scaling[i].tokens_per_second)) {
            summary->scaling[summary->scaling_count++] = end->scaling[i];
        }
    }
    if (isfinite(summary->tokens_per_second)) {
        summary->scaling[summary->scaling_count++] = (launch_scaling_point){
            .ranks = world_size,
            .tokens_per_second = summary->tokens_per_second,
            .step_ms_p50 = summary->step_ms.p50,
            .allreduce_ms_p50 = summary->allreduce_ms.p50,
            .compute_ms_p50 = summary->compute_ms.p50,
        };
    }
    qsort(summary->scaling, (size_t)summary->scaling_count, sizeof *summary->scaling, by_ranks);
}

/* Known only when every rank has finished and said so; the digests must agree with the flags. */
static void judge_equivalence(launch_summary *summary, int world_size,
                              const launch_rank_facts *ranks)
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

static void total_up(launch_summary *summary, const launch_steps *steps)
{
    for (int r = 0; r < steps->world_size; r++) {
        for (size_t i = 0; i < summary->steps_done; i++) {
            summary->tokens += steps->ranks[r].steps[i].tokens;
        }
        summary->ranks[r] = breakdown_of(&steps->ranks[r], summary);
    }
    summary->loss_first = NAN;
    summary->loss_last = NAN;
    if (summary->steps_done > 0) {
        summary->loss_first = steps->ranks[0].steps[0].loss_global;
        summary->loss_last = steps->ranks[0].steps[summary->steps_done - 1].loss_global;
    }
}

base_status launch_summary_init(launch_summary *summary, const launch_steps *steps,
                                const launch_record_end *end, base_error *reterr)
{
    memset(summary, 0, sizeof *summary);
    summary->steps_done = launch_steps_count(steps);
    summary->measured_first = summary->steps_done / 2;
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
    summary->compute_ms = spread_of(steps, summary, compute_of, scratch);
    summary->allreduce_ms = spread_of(steps, summary, allreduce_of, scratch);
    summary->exposed_ms = spread_of(steps, summary, exposed_of, scratch);
    summary->optimizer_ms = spread_of(steps, summary, optimizer_of, scratch);
    free(scratch);
    summary->tokens_per_second =
        launch_steps_tokens_per_second(steps, summary->measured_first, measured);
    total_up(summary, steps);
    gather_scaling(summary, steps->world_size, end);
    judge_equivalence(summary, steps->world_size, end->ranks);
    return BASE_OK;
}

void launch_summary_fini(launch_summary *summary)
{
    free(summary->ranks);
    free(summary->scaling);
    memset(summary, 0, sizeof *summary);
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
