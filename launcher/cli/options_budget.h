/* The flags of modes that may cost money. Private to cli/. */
#ifndef LAUNCH_OPTIONS_BUDGET_H
#define LAUNCH_OPTIONS_BUDGET_H

#include "base/fields.h"
#include "launch/options.h"

/* Dollars as micro-dollars, and hours as seconds. */
extern const base_coding launch_price;
extern const base_coding launch_hours;

/* Checks that the flags of a mode that may cost money go together. */
BASE_MUST_CHECK base_status launch_options_check_budget(const launch_options *options,
                                                        base_error *reterr);

#endif
