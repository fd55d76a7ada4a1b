/* Asks the budget-service for a token. Private to lease.c. */
#ifndef LAUNCH_LEASE_ASK_H
#define LAUNCH_LEASE_ASK_H

#include "budget/client.h"
#include "launch/options.h"

/* --authorize USD or --authorize local: asks once for a token, and logs one line about what is
 * left. On failure *exit_code is the verdict's. */
BASE_MUST_CHECK base_status launch_lease_ask(const launch_options *options, const void *job_bytes,
                                             size_t job_size, budget_grant *grant, int *exit_code,
                                             base_error *reterr);

#endif
