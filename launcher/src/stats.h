/* The running figures of a job: what the progress line, the summary and the scaling curve say.
 *
 * A step counts once all ranks have told theirs. Its time is the slowest rank's, its tokens are
 * everybody's, the other times are means over the ranks. One thread. */
#ifndef LAUNCH_STATS_H
#define LAUNCH_STATS_H

#include <stdint.h>

#include "base/status.h"
#include "record/record.h"

typedef struct launch_stats launch_stats;

BASE_MUST_CHECK base_status launch_stats_create(int ranks, launch_stats **stats,
                                                base_error *reterr);
void launch_stats_destroy(launch_stats *stats);

/* Ranks tell their steps in order; one that is out of order is BASE_ERR_INVALID. */
BASE_MUST_CHECK base_status launch_stats_add(launch_stats *stats, const launch_step *step,
                                             base_error *reterr);

typedef struct launch_figures {
    int64_t steps;     /* complete so far */
    double loss_first; /* over all ranks; NaN when not known, as below */
    double loss_last;
    double tokens_per_second;
    double step_ms_p50;
    double allreduce_ms_p50;
    double allreduce_ms_p95;
    double compute_ms_p50;
} launch_figures;

/* Over the last half of the steps: the first is warm-up. */
void launch_stats_figures(const launch_stats *stats, launch_figures *figures);

/* Over the last steps only, for a progress line: cheap. */
void launch_stats_recent(const launch_stats *stats, launch_figures *figures);

#endif
