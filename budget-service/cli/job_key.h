/* The job's CURVE key of `redeem`, kept in the directory of its receipts. */
#ifndef BUDGET_CLI_JOB_KEY_H
#define BUDGET_CLI_JOB_KEY_H

#include <stddef.h>

#include "base/status.h"
#include "budget/client.h"

/* DIRECTORY/job.key, made (with the directory, 0700) where it is missing: two lines of hex, public
 * and secret. directory NULL: a fresh key that is kept nowhere. */
BASE_MUST_CHECK base_status job_key_open(const char *directory, budget_job_key *key,
                                         base_error *reterr);

void job_key_wipe(budget_job_key *key);

/* Makes the file anew, 0600, in the place of what is there. */
BASE_MUST_CHECK base_status job_key_replace(const char *path, const void *data, size_t size_bytes,
                                            base_error *reterr);

#endif
