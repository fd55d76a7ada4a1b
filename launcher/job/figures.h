/* The figures of a running or finished job, for the progress line, the summary and the scaling
 * curve. They follow the same rules as the record's. Pure. */
#ifndef LAUNCH_FIGURES_H
#define LAUNCH_FIGURES_H

#include "record/steps.h"

/* NaN where nothing is known yet. */
typedef struct launch_figures {
    int64_t steps; /* that all ranks have reported, with those before the checkpoint */
    double loss_first;
    double loss_last;
    double tokens_per_second;
    double step_ms_p50;
    double allreduce_ms_p50;
    double allreduce_ms_p95;
    size_t steps_measured;      /* of the last half */
    launch_breakdown mean_step; /* of that half */
} launch_figures;

/* Over the last half of the steps. The first half is warm-up. */
BASE_MUST_CHECK base_status launch_figures_final(const launch_steps *steps, launch_figures *figures,
                                                 base_error *reterr);

/* Over the last few steps, so that it is cheap however long the job is. Without p95, steps_measured
 * and mean_step. */
void launch_figures_recent(const launch_steps *steps, launch_figures *figures);

#endif
