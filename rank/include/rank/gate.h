/* The gate: what a rank of a cloud-touching mode passes before it touches anything.
 *
 * It reads what the launcher handed over (proto/lease.h) and believes only what is signed: the
 * token must verify against the keyring, be for this mode, world size and the very bytes of
 * JOB.json, and for this machine if its vendor is `local`; and this rank's place in this attempt
 * must have been redeemed: by the launcher, whose receipt names the job's key, or here and now at
 * the service. That the launcher has the job's key is proved when the rank joins it: only who has
 * the secret half can complete the handshake.
 *
 * A rank_pass is made here alone, and every cloud-touching mode takes one: there is no flag,
 * environment variable or file to go round it (tests/rank/gate checks the symbols). The pass has
 * armed a kernel timer that kills the process at the token's deadline, on the clock that runs while
 * the machine sleeps, whether the process is stopped or its launcher gone.
 *
 * The keyring is /etc/ringfence/keyring.json where there is one, and else the file that the
 * launcher names: docs/THREATS.md says what follows. One thread. */
#ifndef RANK_GATE_H
#define RANK_GATE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "proto/job.h"
#include "proto/key.h"

typedef struct rank_pass rank_pass;

typedef struct rank_gate_info {
    int rank;
    const proto_job *job;  /* parsed from the bytes below */
    const void *job_bytes; /* JOB.json */
    size_t job_size;
    const uint8_t *launcher_public_key; /* PROTO_KEY_BYTES */
} rank_gate_info;

/* BASE_OK: *pass, the caller's. Else nothing was started, *exit_code is what the process leaves
 * with (6 for whatever is wrong with token or receipt, 4, 5 or 1), and the message says what to do.
 * May ask the service, for half a minute at most. */
BASE_MUST_CHECK base_status rank_gate_enter(const rank_gate_info *info, rank_pass **pass,
                                            int *exit_code, base_error *reterr);

/* The timer goes on: it ends with the process alone. NULL is fine. */
void rank_pass_destroy(rank_pass *pass);

/* What the token is called in the ledger, and when the timer kills, in seconds from the gate on. */
const char *rank_pass_label(const rank_pass *pass);
int64_t rank_pass_seconds(const rank_pass *pass);

#endif
