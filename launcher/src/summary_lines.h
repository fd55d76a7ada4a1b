/* The last lines a user sees of a run. */
#ifndef LAUNCH_SUMMARY_LINES_H
#define LAUNCH_SUMMARY_LINES_H

#include "launch/job_run.h"
#include "launch/options.h"

/* On stdout; nothing with --quiet but the accuracy that --eval has asked for. */
void launch_summary_print(const launch_options *options, const launch_job_result *result,
                          const launch_scaling_point *points, int point_count);

#endif
