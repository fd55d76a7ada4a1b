/* Speed and all-reduce times over the last steps or the whole job. Called by progress.c while it
 * runs and by job_run.c at its end. */
#include "job/figures.h"

#include <math.h>

#include "record/stats.h"
#include "record/summary.h"

enum { RECENT_STEPS = 32 };

static const double MS_PER_NS = 1e-6;
static const launch_figures nothing_known = {
    .loss_first = NAN,
    .loss_last = NAN,
    .tokens_per_second = NAN,
    .step_ms_p50 = NAN,
    .allreduce_ms_p50 = NAN,
    .allreduce_ms_p95 = NAN,
    .mean_step = {.step_ms = NAN},
};

base_status launch_figures_final(const launch_steps *steps, launch_figures *figures,
                                 base_error *reterr)
{
    const launch_record_end end = {0};
    launch_summary summary;
    *figures = nothing_known;
    const base_status status = launch_summary_init(&summary, steps, &end, reterr);
    if (status != BASE_OK) {
        return status;
    }
    *figures = (launch_figures){
        .steps = (int64_t)(steps->first + summary.steps_done),
        .loss_first = summary.loss_first,
        .loss_last = summary.loss_last,
        .tokens_per_second = summary.tokens_per_second,
        .step_ms_p50 = summary.step_ms.p50,
        .allreduce_ms_p50 = summary.allreduce_ms.p50,
        .allreduce_ms_p95 = summary.allreduce_ms.p95,
        .steps_measured = summary.steps_done - summary.measured_first,
        .mean_step = summary.mean_step,
    };
    launch_summary_fini(&summary);
    return BASE_OK;
}

void launch_figures_recent(const launch_steps *steps, launch_figures *figures)
{
    double step_ms[RECENT_STEPS];
    double allreduce_ms[RECENT_STEPS];
    const size_t done = launch_steps_count(steps);
    const size_t wanted = done - done / 2;
    const size_t count = wanted < RECENT_STEPS ? wanted : RECENT_STEPS;
    *figures = nothing_known;
    figures->steps = (int64_t)(steps->first + done);
    if (done == 0) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const size_t step = done - count + i;
        step_ms[i] = (double)launch_steps_slowest_ns(steps, step) * MS_PER_NS;
        allreduce_ms[i] = 0;
        for (int rank = 0; rank < steps->world_size; rank++) {
            allreduce_ms[i] += (double)steps->ranks[rank].steps[step].allreduce_ns * MS_PER_NS;
        }
        allreduce_ms[i] /= steps->world_size;
    }
    figures->loss_first = steps->ranks[0].steps[0].loss_global;
    figures->loss_last = steps->ranks[0].steps[done - 1].loss_global;
    figures->tokens_per_second = launch_steps_tokens_per_second(steps, done - count, count);
    figures->step_ms_p50 = launch_spread_of(step_ms, count).p50;
    figures->allreduce_ms_p50 = launch_spread_of(allreduce_ms, count).p50;
}
