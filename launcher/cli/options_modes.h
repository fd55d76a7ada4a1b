/* Refuses flags that the job's mode does not use. */
#ifndef LAUNCH_OPTIONS_MODES_H
#define LAUNCH_OPTIONS_MODES_H

#include "launch/options.h"

/* Whether the option was given. */
bool launch_options_given(const launch_options *options, const char *option);

/* Checks each given option by its marks (proto/job.h). The job's mode is known, and whether it
 * evaluates. BASE_ERR_INVALID: the mode does not use an option; the message names those that do. */
BASE_MUST_CHECK base_status launch_options_check_modes(const launch_options *options,
                                                       base_error *reterr);

#endif
