/* The prompts of a command line. Private to cli/. */
#ifndef LAUNCH_PROMPTS_H
#define LAUNCH_PROMPTS_H

#include "launch/options.h"

/* Puts what --prompt says into a file that the job names, and checks the file of --prompts: beside
 * the JOB.json of --write-job, FILE.prompts; else one that has no name in any directory, and ends
 * with this process. */
BASE_MUST_CHECK base_status launch_prompts_complete(launch_options *options, base_error *reterr);

#endif
