/* A lease: leave to run a job that may cost money, from its token to its end.
 *
 * launch_lease_take gets the token (from a file, or by asking the service for it), verifies it as
 * the ranks will, and prints what the job may cost; launch_lease_redeem makes the ranks' receipts
 * for one attempt, under the job's own key pair, which is that of the control socket.
 * One thread. */
#ifndef LAUNCH_LEASE_H
#define LAUNCH_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "budget/client.h"
#include "launch/options.h"
#include "proto/lease.h"

typedef struct launch_lease launch_lease;

/* JOB.json's bytes are those the ranks will get. On failure *exit_code is what to leave with. */
BASE_MUST_CHECK base_status launch_lease_take(const launch_options *options, const void *job_bytes,
                                              size_t job_size, launch_lease **lease, int *exit_code,
                                              base_error *reterr);

/* Redeems the token for all ranks of attempt 1, 2, …; asks the service again and again, for half a
 * minute at most, where it does not answer. From here on the deadline is known. */
BASE_MUST_CHECK base_status launch_lease_redeem(launch_lease *lease, int attempt, int *exit_code,
                                                base_error *reterr);

/* What one rank is handed: a descriptor that the caller closes. */
BASE_MUST_CHECK base_status launch_lease_rank_fd(const launch_lease *lease, int rank, int *fd,
                                                 base_error *reterr);

/* The job's key pair; borrowed. */
const proto_keypair *launch_lease_job_key(const launch_lease *lease);

/* Nanoseconds until the lease is over, on a clock that counts sleep and cannot be set; negative
 * after it. */
int64_t launch_lease_left_ns(const launch_lease *lease);

/* The token's label, and the attempts it allows. */
const char *launch_lease_label(const launch_lease *lease);
int launch_lease_attempts_max(const launch_lease *lease);

/* Wipes and frees. NULL is fine. */
void launch_lease_destroy(launch_lease *lease);

/* "estimate: …", before anything is asked or started: what the flags alone say. Unknown cost is
 * said to be unknown. BASE_ERR_INVALID when the amount asked for cannot pay for it. */
BASE_MUST_CHECK base_status launch_lease_print_estimate(const launch_options *options, FILE *stream,
                                                        base_error *reterr);

#endif
