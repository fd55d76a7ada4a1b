/* Checks, writes and parses the claims of a token, by one table of fields. Called by the server,
 * the ledger, verify.c and the command line. */
#include "budget/claims.h"

#include <inttypes.h>
#include <string.h>

#include "base/limits.h"
#include "budget/money.h"
#include "fields.h"

enum {
    INSTANCES_MAX = 4096,
    GPUS_MAX = 1024,
    SECONDS_MAX = 400 * 24 * 3600,
    ATTEMPTS_MAX = 1000,
};

#define TEXT(name, member, field_kind)                                                             \
    {                                                                                              \
        .key = (name), .kind = (field_kind), .offset = offsetof(budget_claims, member),            \
        .size_bytes = sizeof(((budget_claims *)0)->member)                                         \
    }
#define EMPTY_OK(name, member)                                                                     \
    {                                                                                              \
        .key = (name), .kind = BUDGET_FIELD_TEXT, .offset = offsetof(budget_claims, member),       \
        .size_bytes = sizeof(((budget_claims *)0)->member), .empty_ok = true                       \
    }
#define TIME(name, member)                                                                         \
    {                                                                                              \
        .key = (name), .kind = BUDGET_FIELD_TIME, .offset = offsetof(budget_claims, member)        \
    }
#define INT(name, member, low, high)                                                               \
    {                                                                                              \
        .key = (name), .kind = BUDGET_FIELD_INT, .offset = offsetof(budget_claims, member),        \
        .min = (low), .max = (high)                                                                \
    }

static const budget_field rows[] = {
    TEXT("account", account, BUDGET_FIELD_PATH),
    TEXT("aud", audience, BUDGET_FIELD_TEXT),
    TIME("exp", expires_at),
    INT("gpus", gpus, 0, GPUS_MAX),
    TIME("iat", issued_at),
    EMPTY_OK("instance_type", instance_type),
    INT("instances", instances, 1, INSTANCES_MAX),
    TEXT("iss", issuer, BUDGET_FIELD_TEXT),
    TEXT("job_blake2b256", job_blake2b256, BUDGET_FIELD_BYTES),
    TEXT("jti", jti, BUDGET_FIELD_HEXNAME),
    TEXT("label", label, BUDGET_FIELD_PATH),
    {.key = "ledger_head",
     .kind = BUDGET_FIELD_BYTES,
     .offset = offsetof(budget_claims, ledger_head),
     .size_bytes = BUDGET_DIGEST_BYTES,
     .optional = true},
    INT("ledger_seq", ledger_sequence, 0, INT64_MAX),
    {.key = "machine_id",
     .kind = BUDGET_FIELD_TEXT,
     .offset = offsetof(budget_claims, machine_id),
     .size_bytes = BUDGET_NAME_BYTES,
     .optional = true},
    INT("max_attempts", max_attempts, 1, ATTEMPTS_MAX),
    INT("max_price_usd_micro_per_hour", max_price_usd_micro_per_hour, 0, BUDGET_MONEY_MICRO_MAX),
    INT("max_seconds", max_seconds, 1, SECONDS_MAX),
    INT("max_usd_micro", max_usd_micro, 0, BUDGET_MONEY_MICRO_MAX),
    TEXT("mode", mode, BUDGET_FIELD_NAME),
    TIME("nbf", not_before),
    TEXT("sub", subject, BUDGET_FIELD_TEXT),
    EMPTY_OK("tier", tier),
    TEXT("vendor", vendor, BUDGET_FIELD_NAME),
    INT("world_size", world_size, 1, BASE_RANKS_MAX),
};

static const budget_fields table = {rows, sizeof rows / sizeof rows[0], "claims"};

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
    const base_status status = budget_fields_check(&table, claims, reterr);
    return status == BASE_OK ? check_whole(claims, reterr) : status;
}

base_status budget_claims_write(const budget_claims *claims, char text[BUDGET_CLAIMS_JSON_BYTES],
                                size_t *text_bytes, base_error *reterr)
{
    base_status status = check_whole(claims, reterr);
    if (status == BASE_OK) {
        status = budget_fields_write(&table, claims, text, BUDGET_CLAIMS_JSON_BYTES, reterr);
    }
    if (status == BASE_OK) {
        *text_bytes = strlen(text);
    }
    return status;
}

base_status budget_claims_parse(const void *text, size_t text_bytes, budget_claims *claims,
                                base_error *reterr)
{
    budget_claims parsed = {0};
    if (text_bytes >= BUDGET_CLAIMS_JSON_BYTES) {
        return base_fail(reterr, BASE_ERR_LIMIT, "claims of more than %d bytes",
                         BUDGET_CLAIMS_JSON_BYTES - 1);
    }
    base_status status = budget_fields_parse(&table, text, text_bytes, &parsed, reterr);
    if (status == BASE_OK) {
        status = check_whole(&parsed, reterr);
    }
    if (status == BASE_OK) {
        *claims = parsed;
    }
    return status;
}
