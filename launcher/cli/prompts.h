/* The prompts of a command line. Private to cli/. */
#ifndef LAUNCH_PROMPTS_H
#define LAUNCH_PROMPTS_H

#include "launch/options.h"

/* Puts the texts of --prompt into a file, names it in the job, and checks the file of --prompts.
 * With --write-job the file is FILE.prompts beside JOB.json. Otherwise it has no name in any
 * directory, and ends with this process. */
BASE_MUST_CHECK base_status launch_prompts_complete(launch_options *options, base_error *reterr);

#endif
