/* The scaling curve: short jobs after the job itself, of one rank, of the job's own number of ranks
 * and of others. They take turns in rounds, so that all meet the same conditions. */
#ifndef LAUNCH_SCALING_H
#define LAUNCH_SCALING_H

#include "launch/job_run.h"
#include "launch/options.h"

/* What the measurements gave. */
typedef struct launch_scaling {
    launch_scaling_point points[LAUNCH_SCALING_POINTS_MAX];
    int point_count;
    launch_scaling_failure failures[LAUNCH_SCALING_POINTS_MAX];
    int failure_count;
    int stop_signal; /* ended them early; 0: none did */
    int stopped_at;  /* while so many ranks were measured */
} launch_scaling;

/* The numbers of ranks to measure: those of --scaling and the job's own, or 1 and the job's own
 * after a plain job of enough steps; the count, 0 where there is nothing to compare. Pure. */
int launch_scaling_plan(const launch_options *options, int ranks[LAUNCH_SCALING_POINTS_MAX]);

/* Measures what the plan has: LAUNCH_SCALING_ROUNDS times the same job in so many ranks, for
 * LAUNCH_SCALING_STEPS steps, writing nothing. What fails is told and is no point. Blocks. */
void launch_scaling_measure(const launch_options *options, const char *rank_path,
                            launch_scaling *scaling);

#endif
