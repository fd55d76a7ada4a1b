/* The scaling curve: short jobs after the job itself, on one rank, on the job's own number of
 * ranks, and on others. They take turns in rounds, so that the machine's other load meets all of
 * them. */
#ifndef LAUNCH_SCALING_H
#define LAUNCH_SCALING_H

#include "launch/job_run.h"
#include "launch/options.h"
#include "record/scaling_point.h"

/* What the measurements gave. */
typedef struct launch_scaling {
    launch_scaling_point points[LAUNCH_SCALING_POINTS_MAX];
    int point_count;
    /* of each point, as many as it has */
    launch_scaling_round rounds[LAUNCH_SCALING_POINTS_MAX][LAUNCH_SCALING_ROUNDS];
    launch_scaling_failure failures[LAUNCH_SCALING_POINTS_MAX];
    int failure_count;
    int stop_signal; /* the signal that ended the measurements; 0: none */
    int stopped_at;  /* the number of ranks that was being measured then */
} launch_scaling;

/* The numbers of ranks to measure. With --scaling: those numbers, and the job's own. Without: 1 and
 * the job's own, after a plain job of enough steps, whose rounds of local steps are not too long to be
 * measured. Returns how many; 0 if there is nothing to
 * compare. Pure. */
int launch_scaling_plan(const launch_options *options, int ranks[LAUNCH_SCALING_POINTS_MAX]);

/* The job on another number of ranks: fewer share a stage where that number is not divided, and then one
 * pipeline has all of them where its stages do not divide it. Pure. */
proto_job launch_scaling_job(const proto_job *job, int ranks);

/* The steps of one measurement: LAUNCH_SCALING_STEPS, or whole rounds of local steps. Pure. */
int64_t launch_scaling_steps(const proto_job *job);

/* Runs the same job LAUNCH_SCALING_ROUNDS times on each of the planned numbers of ranks, for
 * launch_scaling_steps steps, without writing anything. A measurement that fails is logged, and
 * gives no point. Blocks. */
void launch_scaling_measure(const launch_options *options, const char *rank_path,
                            launch_scaling *scaling);

#endif
