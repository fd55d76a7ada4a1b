/* Verifies a token against keyring, time and job, and names what is wrong. Called by the launcher,
 * the ranks' gate, the server and `budget-service verify`. */
#include <inttypes.h>
#include <string.h>

#include "budget/time.h"
#include "budget/token.h"
#include "proto/digest.h"

static budget_verdict_token check_times(const budget_claims *claims, int64_t now_s, base_error *why)
{
    char limit[BUDGET_TIME_BYTES];
    char now[BUDGET_TIME_BYTES];
    if (now_s == BUDGET_ANY_TIME) {
        return BUDGET_TOKEN_OK;
    }
    budget_time_format(now_s, now);
    if (now_s < claims->not_before) {
        budget_time_format(claims->not_before, limit);
        (void)base_fail(why, BASE_ERR_AUTH, "the token is not valid before %s; it is %s", limit,
                        now);
        return BUDGET_TOKEN_NOT_YET;
    }
    if (now_s >= claims->expires_at) {
        budget_time_format(claims->expires_at, limit);
        (void)base_fail(why, BASE_ERR_AUTH, "the token expired at %s; it is %s", limit, now);
        return BUDGET_TOKEN_EXPIRED;
    }
    return BUDGET_TOKEN_OK;
}

/* A retired key signed nothing after it had been retired, and nothing that outlives it. */
static bool key_was_retired(const budget_public_key *key, const budget_claims *claims)
{
    return (key->retired_at != 0 && claims->issued_at > key->retired_at) ||
           (key->not_after != 0 && claims->expires_at > key->not_after);
}

budget_verdict_token budget_token_verify(const char *token, size_t token_bytes,
                                         const budget_keyring *keyring, int64_t now_s,
                                         budget_claims *claims, base_error *why)
{
    budget_token_parts parts;
    budget_claims parsed;
    budget_verdict_token verdict =
        budget_token_open(token, token_bytes, keyring, BUDGET_ASSERTION_AUTHORIZATION, &parts, why);
    if (verdict != BUDGET_TOKEN_OK) {
        return verdict;
    }
    if (budget_claims_parse(parts.payload, parts.payload_bytes, &parsed, why) != BASE_OK) {
        return BUDGET_TOKEN_BAD_CLAIMS;
    }
    if (key_was_retired(parts.key, &parsed)) {
        (void)base_fail(why, BASE_ERR_AUTH, "the key %s had been retired when the token was made",
                        parts.kid);
        return BUDGET_TOKEN_RETIRED_KEY;
    }
    verdict = check_times(&parsed, now_s, why);
    *claims = parsed;
    return verdict;
}

budget_verdict_token budget_token_check_job(const budget_claims *claims, const void *job,
                                            size_t job_bytes, const char *mode, int64_t world_size,
                                            base_error *why)
{
    uint8_t digest[PROTO_DIGEST_BYTES];
    char got[PROTO_DIGEST_HEX_BYTES];
    char wanted[PROTO_DIGEST_HEX_BYTES];
    _Static_assert((int)PROTO_DIGEST_BYTES == (int)BUDGET_DIGEST_BYTES, "BLAKE2b-256 in both");
    if (strcmp(claims->mode, mode) != 0) {
        (void)base_fail(why, BASE_ERR_AUTH, "the token is for mode %s; this job's is %s",
                        claims->mode, mode);
        return BUDGET_TOKEN_WRONG_JOB;
    }
    if (claims->world_size != world_size) {
        (void)base_fail(why, BASE_ERR_AUTH,
                        "the token is for %" PRId64 " ranks; this job has %" PRId64,
                        claims->world_size, world_size);
        return BUDGET_TOKEN_WRONG_JOB;
    }
    proto_blake2b256(job, job_bytes, digest);
    if (memcmp(digest, claims->job_blake2b256, sizeof digest) != 0) {
        proto_digest_hex(digest, got);
        proto_digest_hex(claims->job_blake2b256, wanted);
        (void)base_fail(why, BASE_ERR_AUTH,
                        "the token is for another job: JOB.json's digest is %s, the token's %s",
                        got, wanted);
        return BUDGET_TOKEN_WRONG_JOB;
    }
    return BUDGET_TOKEN_OK;
}
