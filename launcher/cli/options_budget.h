/* The flags of modes that may cost money. Private to cli/. */
#ifndef LAUNCH_OPTIONS_BUDGET_H
#define LAUNCH_OPTIONS_BUDGET_H

#include "launch/options.h"

/* Checks that the flags of a mode that may cost money go together. */
BASE_MUST_CHECK base_status launch_options_check_budget(const launch_options *options,
                                                        base_error *reterr);

#endif
