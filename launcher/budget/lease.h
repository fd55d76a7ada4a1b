/* A lease: the permission to run a job that may cost money, from its token to its end.
 *
 * launch_lease_take gets the token from a file, or asks the service for it. It verifies the token
 * as the ranks will, and prints what the job may cost. launch_lease_redeem makes the ranks'
 * receipts for one attempt. They are bound to the job's own key pair, which the control socket uses
 * as well. One thread. */
#ifndef LAUNCH_LEASE_H
#define LAUNCH_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "budget/client.h"
#include "launch/options.h"
#include "proto/lease.h"

typedef struct launch_lease launch_lease;

/* The bytes must be those of the ranks' JOB.json. On failure *exit_code is the launcher's. */
BASE_MUST_CHECK base_status launch_lease_take(const launch_options *options, const void *job_bytes,
                                              size_t job_size, launch_lease **lease, int *exit_code,
                                              base_error *reterr);

/* Redeems the token for all ranks of attempt 1, 2, …. If the service does not answer, asks again,
 * for half a minute at most. From here on the deadline is known. */
BASE_MUST_CHECK base_status launch_lease_redeem(launch_lease *lease, int attempt, int *exit_code,
                                                base_error *reterr);

/* What one rank is given, as a descriptor that the caller closes. */
BASE_MUST_CHECK base_status launch_lease_rank_fd(const launch_lease *lease, int rank, int *fd,
                                                 base_error *reterr);

/* The job's key pair; borrowed. */
const proto_keypair *launch_lease_job_key(const launch_lease *lease);

/* Nanoseconds until the lease is over, on a clock that counts sleep and cannot be set; negative
 * after it. */
int64_t launch_lease_left_ns(const launch_lease *lease);

/* The token's label, and how many attempts it allows. */
const char *launch_lease_label(const launch_lease *lease);
int launch_lease_attempts_max(const launch_lease *lease);

/* Wipes and frees. NULL is fine. */
void launch_lease_destroy(launch_lease *lease);

/* Prints "estimate: …" from the flags alone, before anything is asked or started. An unknown cost
 * is called unknown. BASE_ERR_INVALID if the amount cannot pay for the estimate. */
BASE_MUST_CHECK base_status launch_lease_print_estimate(const launch_options *options, FILE *stream,
                                                        base_error *reterr);

#endif
