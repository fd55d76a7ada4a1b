/* Checks, writes and parses the claims of a token, by one table of fields. Called by the server,
 * the ledger, verify.c and the command line. */
#include "budget/claims.h"

#include <string.h>

#include "base/fields_json.h"
#include "base/limits.h"
#include "budget/codings.h"
#include "budget/money.h"
#include "payload.h"

enum {
    INSTANCES_MAX = 4096,
    GPUS_MAX = 1024,
    SECONDS_MAX = 400 * 24 * 3600,
    ATTEMPTS_MAX = 1000,
};

#define ROW(name, kind, member) .key = (name), BASE_##kind(budget_claims, member)
#define TEXT(name, member)                                                                         \
    {                                                                                              \
        ROW(name, TEXT, member), .text_ok = budget_text_ok, .filled = true                         \
    }
#define WORD(name, member)                                                                         \
    {                                                                                              \
        ROW(name, TEXT, member), .text_ok = budget_word_ok, .filled = true                         \
    }
#define PATH(name, member)                                                                         \
    {                                                                                              \
        ROW(name, TEXT, member), .text_ok = budget_path_ok, .filled = true                         \
    }
#define EMPTY_OK(name, member)                                                                     \
    {                                                                                              \
        ROW(name, TEXT, member), .text_ok = budget_text_ok                                         \
    }
#define TIME(name, member)                                                                         \
    {                                                                                              \
        ROW(name, CODED, member), .coding = &budget_time_coding                                    \
    }
#define INT(name, member, low, high)                                                               \
    {                                                                                              \
        ROW(name, INT, member), .least = (low), .most = (high)                                     \
    }

static const base_field rows[] = {
    PATH("account", account),
    TEXT("aud", audience),
    TIME("exp", expires_at),
    INT("gpus", gpus, 0, GPUS_MAX),
    TIME("iat", issued_at),
    EMPTY_OK("instance_type", instance_type),
    INT("instances", instances, 1, INSTANCES_MAX),
    TEXT("iss", issuer),
    {ROW("job_blake2b256", CODED, job_blake2b256), .coding = &budget_hex_coding},
    {ROW("jti", DIGEST, jti), .filled = true},
    PATH("label", label),
    {ROW("ledger_head", CODED, ledger_head), .coding = &budget_hex_coding, .optional = true},
    INT("ledger_seq", ledger_sequence, 0, INT64_MAX),
    {ROW("machine_id", TEXT, machine_id), .text_ok = budget_text_ok, .optional = true},
    INT("max_attempts", max_attempts, 1, ATTEMPTS_MAX),
    INT("max_price_usd_micro_per_hour", max_price_usd_micro_per_hour, 0, BUDGET_MONEY_MICRO_MAX),
    INT("max_seconds", max_seconds, 1, SECONDS_MAX),
    INT("max_usd_micro", max_usd_micro, 0, BUDGET_MONEY_MICRO_MAX),
    WORD("mode", mode),
    TIME("nbf", not_before),
    {ROW("price_derived", BOOL, price_derived), .optional = true},
    TEXT("sub", subject),
    EMPTY_OK("tier", tier),
    WORD("vendor", vendor),
    INT("world_size", world_size, 1, BASE_RANKS_MAX),
};

static const base_fields table = {rows, sizeof rows / sizeof rows[0], "claims"};

static base_status check_whole(const budget_claims *claims, base_error *reterr)
{
    if (strcmp(claims->issuer, BUDGET_ISSUER) != 0) {
        return base_fail(reterr, BASE_ERR_INVALID, "claims: iss is '%s', not '%s'", claims->issuer,
                         BUDGET_ISSUER);
    }
    if (strcmp(claims->audience, BUDGET_AUDIENCE) != 0) {
        return base_fail(reterr, BASE_ERR_INVALID, "claims: aud is '%s', not '%s'",
                         claims->audience, BUDGET_AUDIENCE);
    }
    if (claims->not_before > claims->expires_at) {
        return base_fail(reterr, BASE_ERR_INVALID, "claims: nbf is after exp");
    }
    return BASE_OK;
}

base_status budget_claims_check(const budget_claims *claims, base_error *reterr)
{
    return base_fields_check(&table, claims, reterr) == BASE_OK
               ? check_whole(claims, reterr)
               : base_error_prepend(reterr, BASE_ERR_INVALID, "claims");
}

base_status budget_claims_write(const budget_claims *claims, char text[BUDGET_CLAIMS_JSON_BYTES],
                                size_t *text_bytes, base_error *reterr)
{
    base_status status = check_whole(claims, reterr);
    if (status == BASE_OK) {
        status = budget_payload_write(&table, claims, text, text_bytes, reterr);
    }
    return status == BASE_OK || status == BASE_ERR_MEMORY ? status : BASE_ERR_INVALID;
}

base_status budget_claims_parse(const void *text, size_t text_bytes, budget_claims *claims,
                                base_error *reterr)
{
    budget_claims parsed = {0};
    base_status status = base_fields_parse_json(&table, text, text_bytes,
                                                BUDGET_CLAIMS_JSON_BYTES - 1, &parsed, reterr);
    if (status == BASE_OK) {
        status = check_whole(&parsed, reterr);
    }
    if (status == BASE_OK) {
        *claims = parsed;
    }
    return status;
}
