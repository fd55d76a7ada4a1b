/* Receipts: proof, for a rank that cannot reach the service, that its tuple has been redeemed.
 *
 * A PASETO v4.public like a token, under the assertion ringfence/receipt/v1. It names the job's
 * CURVE public key, which its holder must prove at rendezvous: a copied receipt starts nothing.
 * Pure. */
#ifndef BUDGET_RECEIPT_H
#define BUDGET_RECEIPT_H

#include <stdint.h>

#include "base/status.h"
#include "budget/claims.h"
#include "budget/keyring.h"
#include "budget/token.h"

enum { BUDGET_JOB_KEY_BYTES = 32 }; /* CURVE */

typedef struct budget_receipt {
    char jti[BUDGET_JTI_BYTES]; /* of the token */
    int64_t rank;               /* 0 … world size - 1 */
    int64_t attempt;            /* from 1 */
    uint8_t job_public_key[BUDGET_JOB_KEY_BYTES];
    int64_t issued_at;
    int64_t not_after; /* absolute, seconds since 1970: the job's deadline */
} budget_receipt;

/* Signs; deterministic, as budget_token_sign is. */
BASE_MUST_CHECK base_status budget_receipt_sign(const budget_receipt *receipt,
                                                const uint8_t secret[BUDGET_SECRET_KEY_BYTES],
                                                char token[BUDGET_TOKEN_BYTES], base_error *reterr);

/* Form, key, signature, fields, and now_s < not_after (EXPIRED; BUDGET_ANY_TIME: not looked at). Of
 * a retired key also now_s < the key's not_after (RETIRED_KEY). receipt is written when the verdict is OK or EXPIRED. */
BASE_MUST_CHECK budget_verdict_token budget_receipt_verify(const char *token, size_t token_bytes,
                                                           const budget_keyring *keyring,
                                                           int64_t now_s, budget_receipt *receipt,
                                                           base_error *why);

/* Seconds until its deadline, by a clock that stands at now_s, or at the time of its issue if the
 * clock is behind that. */
int64_t budget_receipt_left_s(const budget_receipt *receipt, int64_t now_s);

/* When it is, in seconds since 1970, for the receipts in dir: by the wall clock, or by DIR/clock
 * where that is later, which goes on with CLOCK_BOOTTIME and is written anew by each call. So a
 * receipt that has expired stays so when the wall clock is set back. BASE_ERR_IO and others: fail
 * closed. */
BASE_MUST_CHECK base_status budget_receipt_now(const char *dir, int64_t *now_s, base_error *reterr);

/* Is a verified receipt the one for this jti, rank, attempt and job key? OK or WRONG_JOB; *why says
 * what differs. */
BASE_MUST_CHECK budget_verdict_token budget_receipt_check(const budget_receipt *receipt,
                                                          const budget_receipt *expected,
                                                          base_error *why);

#endif
