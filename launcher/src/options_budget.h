/* The flags of modes that may cost money. Private to options.c. */
#ifndef LAUNCH_OPTIONS_BUDGET_H
#define LAUNCH_OPTIONS_BUDGET_H

#include "launch/options.h"
#include "option_table.h"

/* Sets the member that the flag names. BASE_ERR_INVALID with a message without the flag's name. */
BASE_MUST_CHECK base_status launch_options_set_budget(launch_budget_options *budget,
                                                      const launch_flag *flag, const char *value,
                                                      base_error *reterr);

/* Of a mode that may cost money: do the flags go together? */
BASE_MUST_CHECK base_status launch_options_check_budget(const launch_options *options,
                                                        base_error *reterr);

#endif
