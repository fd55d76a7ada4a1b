/* --dry-run: prints what the job would do. */
#ifndef LAUNCH_DRY_RUN_H
#define LAUNCH_DRY_RUN_H

#include <stdio.h>

#include "launch/options.h"

BASE_MUST_CHECK base_status launch_dry_run_print(const launch_options *options,
                                                 const char *rank_path, FILE *stream,
                                                 base_error *reterr);

#endif
