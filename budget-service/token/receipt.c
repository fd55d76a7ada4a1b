/* Signs, verifies and checks receipts of redemption. Signed by server/sign.c; verified by the
 * launcher's lease and by the ranks' gate. */
#include "budget/receipt.h"

#include <inttypes.h>
#include <string.h>

#include "base/fields_json.h"
#include "base/limits.h"
#include "budget/codings.h"
#include "budget/time.h"
#include "payload.h"

enum { ATTEMPTS_MAX = 1000 };

#define ROW(name, kind, member) .key = (name), BASE_##kind(budget_receipt, member)

static const base_field rows[] = {
    {ROW("attempt", INT, attempt), .least = 1, .most = ATTEMPTS_MAX},
    {ROW("iat", CODED, issued_at), .coding = &budget_time_coding},
    {ROW("job_public_key", CODED, job_public_key), .coding = &budget_hex_coding},
    {ROW("jti", DIGEST, jti), .filled = true},
    {ROW("not_after", CODED, not_after), .coding = &budget_time_coding},
    {ROW("rank", INT, rank), .least = 0, .most = BASE_RANKS_MAX - 1},
};
static const base_fields table = {rows, sizeof rows / sizeof rows[0], "receipt"};

base_status budget_receipt_sign(const budget_receipt *receipt,
                                const uint8_t secret[BUDGET_SECRET_KEY_BYTES],
                                char token[BUDGET_TOKEN_BYTES], base_error *reterr)
{
    char payload[BUDGET_CLAIMS_JSON_BYTES];
    size_t payload_bytes = 0;
    const base_status status =
        budget_payload_write(&table, receipt, payload, &payload_bytes, reterr);
    return status == BASE_OK
               ? budget_token_sign_bytes(payload, payload_bytes, BUDGET_ASSERTION_RECEIPT, secret,
                                         token, reterr)
               : status;
}

/* A retired key signed nothing after it had been retired, and verifies nothing after its last token
 * has expired: else whoever has an old key could sign receipts of that time for ever. */
static bool key_was_retired(const budget_token_parts *parts, const budget_receipt *receipt,
                            int64_t now_s, base_error *why)
{
    const budget_public_key *key = parts->key;
    if (key->retired_at != 0 && receipt->issued_at > key->retired_at) {
        (void)base_fail(why, BASE_ERR_AUTH, "the key %s had been retired when the receipt was made",
                        parts->kid);
        return true;
    }
    if (key->not_after != 0 && now_s != BUDGET_ANY_TIME && now_s >= key->not_after) {
        char limit[BUDGET_TIME_BYTES];
        budget_time_format(key->not_after, limit);
        (void)base_fail(why, BASE_ERR_AUTH,
                        "the key %s was retired, and verified until %s; for a receipt of the new "
                        "key, redeem again",
                        parts->kid, limit);
        return true;
    }
    return false;
}

budget_verdict_token budget_receipt_verify(const char *token, size_t token_bytes,
                                           const budget_keyring *keyring, int64_t now_s,
                                           budget_receipt *receipt, base_error *why)
{
    budget_token_parts parts;
    budget_receipt parsed = {0};
    const budget_verdict_token verdict =
        budget_token_open(token, token_bytes, keyring, BUDGET_ASSERTION_RECEIPT, &parts, why);
    if (verdict != BUDGET_TOKEN_OK) {
        return verdict;
    }
    if (base_fields_parse_json(&table, parts.payload, parts.payload_bytes, parts.payload_bytes,
                               &parsed, why) != BASE_OK) {
        return BUDGET_TOKEN_BAD_CLAIMS;
    }
    if (key_was_retired(&parts, &parsed, now_s, why)) {
        return BUDGET_TOKEN_RETIRED_KEY;
    }
    *receipt = parsed;
    if (now_s != BUDGET_ANY_TIME && now_s >= parsed.not_after) {
        char limit[BUDGET_TIME_BYTES];
        budget_time_format(parsed.not_after, limit);
        (void)base_fail(why, BASE_ERR_AUTH, "the job's deadline was %s", limit);
        return BUDGET_TOKEN_EXPIRED;
    }
    return BUDGET_TOKEN_OK;
}

int64_t budget_receipt_left_s(const budget_receipt *receipt, int64_t now_s)
{
    return receipt->not_after - (now_s > receipt->issued_at ? now_s : receipt->issued_at);
}

budget_verdict_token budget_receipt_check(const budget_receipt *receipt,
                                          const budget_receipt *expected, base_error *why)
{
    if (strcmp(receipt->jti, expected->jti) != 0) {
        (void)base_fail(why, BASE_ERR_AUTH, "the receipt is for token %s; this job's is %s",
                        receipt->jti, expected->jti);
    } else if (receipt->rank != expected->rank) {
        (void)base_fail(why, BASE_ERR_AUTH,
                        "the receipt is for rank %" PRId64 "; this is rank %" PRId64, receipt->rank,
                        expected->rank);
    } else if (receipt->attempt != expected->attempt) {
        (void)base_fail(why, BASE_ERR_AUTH,
                        "the receipt is for attempt %" PRId64 "; this is attempt %" PRId64,
                        receipt->attempt, expected->attempt);
    } else if (memcmp(receipt->job_public_key, expected->job_public_key,
                      sizeof receipt->job_public_key) != 0) {
        (void)base_fail(why, BASE_ERR_AUTH, "the receipt is for a job with another key");
    } else {
        return BUDGET_TOKEN_OK;
    }
    return BUDGET_TOKEN_WRONG_JOB;
}
