/* Checks the flags of a job on several hosts. Called by options.c. */
#ifndef LAUNCH_OPTIONS_HOSTS_H
#define LAUNCH_OPTIONS_HOSTS_H

#include "base/status.h"
#include "launch/options.h"

/* Whether the flags go together. Sets the number of ranks, and the digest of the job's flags. On
 * one host, only refuses flags that go with several. */
BASE_MUST_CHECK base_status launch_options_check_hosts(launch_options *options, base_error *reterr);

#endif
