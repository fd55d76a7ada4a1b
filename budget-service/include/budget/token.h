/* Tokens: PASETO v4.public (Ed25519) with the footer {"kid":"k4.pid.…"}.
 *
 * An implicit assertion separates the domains: what was signed as a receipt never passes for an
 * authorization. Verification needs public keys only, takes no lock, allocates little, and reads
 * strictly: exact header, unpadded base64url without stray bits, bounded lengths, the footer's
 * limits before its JSON is parsed. Pure; thread safe after budget_crypto_init.
 * Source: PASETO version 4, github.com/paseto-standard/paseto-spec. */
#ifndef BUDGET_TOKEN_H
#define BUDGET_TOKEN_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "budget/claims.h"
#include "budget/keyring.h"

#define BUDGET_ASSERTION_AUTHORIZATION "ringfence/authorization/v1"
#define BUDGET_ASSERTION_RECEIPT       "ringfence/receipt/v1"

/* No clock: nbf and exp are not looked at. (A later attempt may come after exp.) */
#define BUDGET_ANY_TIME INT64_MIN

enum {
    BUDGET_TOKEN_BYTES = 6144, /* longest token, with the final NUL */
    BUDGET_FOOTER_BYTES_MAX = 256,
};

typedef enum budget_verdict_token {
    BUDGET_TOKEN_OK = 0,
    BUDGET_TOKEN_MALFORMED,     /* not a v4.public token in its strict form */
    BUDGET_TOKEN_UNKNOWN_KEY,   /* its kid is not in the keyring */
    BUDGET_TOKEN_REVOKED_KEY,   /* the key has been revoked */
    BUDGET_TOKEN_RETIRED_KEY,   /* issued after the key had been retired */
    BUDGET_TOKEN_BAD_SIGNATURE, /* not signed by that key, or for another purpose */
    BUDGET_TOKEN_BAD_CLAIMS,    /* signed, but the claims are not a token's of ours */
    BUDGET_TOKEN_NOT_YET,       /* now < nbf */
    BUDGET_TOKEN_EXPIRED,       /* now ≥ exp */
    BUDGET_TOKEN_WRONG_JOB,     /* good, but for another job: mode, world size or JOB.json */
} budget_verdict_token;

/* Must have been called once before anything here; thread safe, cheap when repeated. */
BASE_MUST_CHECK base_status budget_crypto_init(base_error *reterr);

/* One word, "bad-signature" say; never NULL. */
const char *budget_verdict_token_name(budget_verdict_token verdict);

/* A fresh jti. */
void budget_jti_make(char jti[BUDGET_JTI_BYTES]);

/* Signs the payload with the footer {"kid":…} of the key and the assertion. Ed25519 is
 * deterministic: the same payload and key give the same token again. token is NUL-terminated.
 * BASE_ERR_LIMIT when it would be longer than BUDGET_TOKEN_BYTES. */
BASE_MUST_CHECK base_status budget_token_sign_bytes(const void *payload, size_t payload_bytes,
                                                    const char *assertion,
                                                    const uint8_t secret[BUDGET_SECRET_KEY_BYTES],
                                                    char token[BUDGET_TOKEN_BYTES],
                                                    base_error *reterr);

/* The same from claims, as an authorization. */
BASE_MUST_CHECK base_status budget_token_sign(const budget_claims *claims,
                                              const uint8_t secret[BUDGET_SECRET_KEY_BYTES],
                                              char token[BUDGET_TOKEN_BYTES], base_error *reterr);

/* What a token says before anybody has checked its signature: the bytes, decoded. */
typedef struct budget_token_parts {
    uint8_t payload[BUDGET_CLAIMS_JSON_BYTES];
    size_t payload_bytes;
    uint8_t signature[64];
    char footer[BUDGET_FOOTER_BYTES_MAX + 1];
    size_t footer_bytes;
    char kid[BUDGET_KID_BYTES];
    const budget_public_key *key; /* that signed it, in the keyring; NULL until that is known */
} budget_token_parts;

/* The strict reading alone: BUDGET_TOKEN_OK or BUDGET_TOKEN_MALFORMED. */
BASE_MUST_CHECK budget_verdict_token budget_token_decode(const char *token, size_t token_bytes,
                                                         budget_token_parts *parts,
                                                         base_error *why);

/* Decodes, finds the key and checks the signature under the assertion. The payload may be read when
 * the verdict is BUDGET_TOKEN_OK. */
BASE_MUST_CHECK budget_verdict_token budget_token_open(const char *token, size_t token_bytes,
                                                       const budget_keyring *keyring,
                                                       const char *assertion,
                                                       budget_token_parts *parts, base_error *why);

/* All of it for an authorization, in this order: form, key, signature, claims, nbf and exp at now_s
 * (or BUDGET_ANY_TIME). A one-line message in *why when it is not OK. claims is written when the
 * verdict is OK, NOT_YET or EXPIRED, and untouched else. A trailing newline of a token's file is
 * the caller's to cut off. */
BASE_MUST_CHECK budget_verdict_token budget_token_verify(const char *token, size_t token_bytes,
                                                         const budget_keyring *keyring,
                                                         int64_t now_s, budget_claims *claims,
                                                         base_error *why);

/* Is a verified token for this job? BUDGET_TOKEN_OK or BUDGET_TOKEN_WRONG_JOB; *why says which of
 * mode, world size and digest differs, with both values. job is JOB.json's bytes. */
BASE_MUST_CHECK budget_verdict_token budget_token_check_job(const budget_claims *claims,
                                                            const void *job, size_t job_bytes,
                                                            const char *mode, int64_t world_size,
                                                            base_error *why);

/* Reads a token's file: at most one newline at the end is cut off. BASE_ERR_NOTFOUND,
 * BASE_ERR_LIMIT, BASE_ERR_IO. */
BASE_MUST_CHECK base_status budget_token_read_file(const char *path, char token[BUDGET_TOKEN_BYTES],
                                                   size_t *token_bytes, base_error *reterr);

#endif
