/* The last lines a user sees of a run. */
#ifndef LAUNCH_SUMMARY_LINES_H
#define LAUNCH_SUMMARY_LINES_H

#include "cli/scaling.h"
#include "launch/job_run.h"
#include "launch/options.h"

/* Prints on stdout. With --quiet it prints only the accuracy, if --eval was given. recorded: the
 * record is complete, so the lines may name it. */
void launch_summary_print(const launch_options *options, const launch_job_result *result,
                          const launch_scaling *scaling, bool recorded);

#endif
