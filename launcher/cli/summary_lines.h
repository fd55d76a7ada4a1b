/* The last lines a user sees of a run. */
#ifndef LAUNCH_SUMMARY_LINES_H
#define LAUNCH_SUMMARY_LINES_H

#include "cli/scaling.h"
#include "launch/job_run.h"
#include "launch/options.h"

/* On stdout; nothing with --quiet but the accuracy that --eval has asked for. recorded: there is a
 * whole record to point to. */
void launch_summary_print(const launch_options *options, const launch_job_result *result,
                          const launch_scaling *scaling, bool recorded);

#endif
