/* The gate: a rank of a mode that may cost money passes it before it touches anything.
 *
 * The gate reads what the launcher passed on (proto/lease.h), and trusts only what is signed. The
 * token must verify against the keyring. It must be for this mode, this world size and exactly the
 * bytes of JOB.json, and for this machine if its vendor is `local`. The launcher
 * must have redeemed it for this rank and attempt: the receipt says so, and names the job's key.
 * When the rank joins, the launcher proves that it has the job's key: without the secret half it
 * cannot complete the handshake. The gate asks nobody: all that it checks is in the lease.
 *
 * Only the gate makes a rank_pass, and every mode that may cost money takes one. No flag,
 * environment variable or file avoids it (tests/rank/gate checks the symbols). The pass has armed a
 * kernel timer that kills the process at the token's deadline, even if the process is stopped or
 * its launcher has died. Its clock runs while the machine sleeps.
 *
 * The keyring is /etc/ringfence/keyring.json if that exists, else the file that the launcher names.
 * docs/THREATS.md says what follows. One thread. */
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

/* BASE_OK: *pass, which the caller owns. Otherwise nothing was started, *exit_code is the process's
 * (6 if token or receipt is wrong, else 1), and the message says what to do. */
BASE_MUST_CHECK base_status rank_gate_enter(const rank_gate_info *info, rank_pass **pass,
                                            int *exit_code, base_error *reterr);

/* Frees the pass. The timer continues: it ends only with the process. NULL is fine. */
void rank_pass_destroy(rank_pass *pass);

/* The token's label in the ledger, and when the timer kills, in seconds after the gate. */
const char *rank_pass_label(const rank_pass *pass);
int64_t rank_pass_seconds(const rank_pass *pass);

#endif
