/* The scaling curve: short jobs of other numbers of ranks, after the job itself. */
#ifndef LAUNCH_SCALING_H
#define LAUNCH_SCALING_H

#include "launch/job_run.h"
#include "launch/options.h"

/* The numbers of ranks to measure besides the job's own: of --scaling, or 1 after a plain job of
 * enough steps; the count. Pure. */
int launch_scaling_plan(const launch_options *options, int ranks[LAUNCH_SCALING_POINTS_MAX]);

/* Measures one point: the same job, in so many ranks, for LAUNCH_SCALING_STEPS steps, writing
 * nothing. *result tells how it went, and is freed by the caller. */
BASE_MUST_CHECK base_status launch_scaling_measure(const launch_options *options,
                                                   const char *rank_path, int ranks,
                                                   launch_job_result *result, base_error *reterr);

#endif
