/* --dry-run: prints what the job would do. */
#ifndef LAUNCH_PLAN_H
#define LAUNCH_PLAN_H

#include <stdio.h>

#include "launch/options.h"

BASE_MUST_CHECK base_status launch_plan_print(const launch_options *options, const char *rank_path,
                                              FILE *stream, base_error *reterr);

#endif
