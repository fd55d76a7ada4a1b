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
#include "proto/key.h"
#include "record/record.h"

typedef struct launch_lease launch_lease;

/* The bytes must be those of the ranks' JOB.json. On failure *exit_code is the launcher's. The
 * keyring is read before the service is asked, which reserves money. */
BASE_MUST_CHECK base_status launch_lease_take(const launch_options *options, const void *job_bytes,
                                              size_t job_size, launch_lease **lease, int *exit_code,
                                              base_error *reterr);

/* Redeems the token for all ranks of attempt 1, 2, …. If the service does not answer, asks again,
 * for half a minute at most; with several hosts for half of --host-timeout, so that none of them
 * takes this one for lost. From here on the deadline is known. */
BASE_MUST_CHECK base_status launch_lease_redeem(launch_lease *lease, int attempt, int *exit_code,
                                                base_error *reterr);

/* What one rank is given, as a descriptor that the caller closes. */
BASE_MUST_CHECK base_status launch_lease_rank_fd(const launch_lease *lease, int rank, int *fd,
                                                 base_error *reterr);

/* The part of the lease that a rank on another host gets over the network. */
typedef struct launch_rank_lease {
    int attempt;
    const char *token; /* borrowed, like the receipt */
    const char *receipt;
} launch_rank_lease;

launch_rank_lease launch_lease_of_rank(const launch_lease *lease, int rank);

/* On the other host: the same as launch_lease_rank_fd, with the keyring of that host. */
BASE_MUST_CHECK base_status launch_lease_receive(const launch_rank_lease *part,
                                                 const char *keyring_path, int *fd,
                                                 base_error *reterr);

/* Finds this host's keyring by the same rule as its ranks (rank/gate.h), and reads it. Warns if it
 * is not the machine's. */
BASE_MUST_CHECK base_status launch_lease_find_keyring(const launch_budget_options *budget,
                                                      char path[BASE_PATH_BYTES],
                                                      budget_keyring *keyring, base_error *reterr);

/* The job's key pair; borrowed. */
const proto_keypair *launch_lease_job_key(const launch_lease *lease);

/* Nanoseconds until the lease is over, on a clock that counts sleep and cannot be set; negative
 * after it. */
int64_t launch_lease_left_ns(const launch_lease *lease);

/* The token's label, and how many attempts it allows. */
const char *launch_lease_label(const launch_lease *lease);
/* What the record has of it. */
void launch_lease_cost(const launch_lease *lease, launch_cost *cost);
int launch_lease_attempts_max(const launch_lease *lease);

/* Logs, at the end of a launch, what is still open and what to do: the instances may be billed on.
 * Nothing of a token that was not redeemed, or of vendor local. NULL is fine. */
void launch_lease_print_open(const launch_lease *lease);

/* Wipes and frees. Logs how to void what --authorize has reserved, if the token was never redeemed.
 * NULL is fine. */
void launch_lease_destroy(launch_lease *lease);

/* Prints "estimate: …" from the flags alone, before anything is asked or started. An unknown cost
 * is called unknown. BASE_ERR_INVALID if the amount cannot pay for the estimate. */
BASE_MUST_CHECK base_status launch_lease_print_estimate(const launch_options *options, FILE *stream,
                                                        base_error *reterr);

#endif
