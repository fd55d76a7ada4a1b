/* Fills a ledger with granted and voided authorizations, without a service. Called by rows.c, which
 * times status and audit of a million rows. */
#include "fill.h"

#include <sodium.h>
#include <stdio.h>

#include "budget/ledger.h"
#include "budget/token.h"
#include "service_bench.h"

enum { BATCH_ROWS = 5000, KEPT_EVERY = 8 };

#define CAP_USD_MICRO INT64_C(900000000000)

static base_status sign(void *context, const void *message, size_t message_bytes,
                        uint8_t signature[64], char kid[BUDGET_KID_BYTES], base_error *reterr)
{
    const unsigned char *secret = context;
    (void)reterr;
    (void)crypto_sign_detached(signature, NULL, message, message_bytes, secret);
    budget_paserk_pid(secret + BUDGET_SECRET_KEY_BYTES - BUDGET_PUBLIC_KEY_BYTES, kid);
    return BASE_OK;
}

static base_status verify(void *context, const void *message, size_t message_bytes,
                          const uint8_t signature[64], const char *kid, base_error *reterr)
{
    const unsigned char *secret = context;
    (void)kid;
    return crypto_sign_verify_detached(signature, message, message_bytes,
                                       secret + BUDGET_SECRET_KEY_BYTES -
                                           BUDGET_PUBLIC_KEY_BYTES) == 0
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_AUTH, "not signed by the bench");
}

static base_status one_authorization(budget_ledger *ledger, long number, base_error *reterr)
{
    const budget_caller caller = {.client = 2};
    budget_answer answer;
    char payload[BUDGET_CLAIMS_JSON_BYTES];
    budget_authorization authorization = {.kid = "k4.pid.bench", .claims = bench_claims};
    budget_claims *claims = &authorization.claims;
    (void)snprintf(claims->issuer, sizeof claims->issuer, "%s", BUDGET_ISSUER);
    (void)snprintf(claims->audience, sizeof claims->audience, "%s", BUDGET_AUDIENCE);
    (void)snprintf(claims->subject, sizeof claims->subject, "request");
    claims->issued_at = claims->not_before = 1700000000;
    claims->expires_at = 1700000900;
    budget_jti_make(claims->jti);
    (void)snprintf(claims->label, sizeof claims->label, "fill-%ld", number);
    base_status status =
        budget_ledger_authorize(ledger, &caller, &authorization, payload, &answer, reterr);
    if (status == BASE_OK && number % KEPT_EVERY != 0) {
        status = budget_ledger_void(ledger, &caller, claims->label, &answer, reterr);
    }
    return status == BASE_OK && answer.reason != BUDGET_REASON_NONE
               ? base_fail(reterr, BASE_ERR_STATE, "%s", answer.message)
               : status;
}

static base_status fill_batches(budget_ledger *ledger, const budget_clock *clock, long rows,
                                base_error *reterr)
{
    const budget_caller caller = {.client = 1};
    budget_answer answer;
    uint64_t sequence = 0;
    uint8_t head[BUDGET_DIGEST_BYTES];
    base_status status = budget_ledger_begin(ledger, clock, reterr);
    if (status == BASE_OK) {
        status =
            budget_ledger_account_create(ledger, &caller, "bench", CAP_USD_MICRO, &answer, reterr);
    }
    if (status == BASE_OK) {
        status = budget_ledger_account_create(ledger, &caller, "bench/lab", CAP_USD_MICRO, &answer,
                                              reterr);
    }
    if (status == BASE_OK) {
        status = budget_ledger_commit(ledger, reterr);
    }
    for (long number = 0; status == BASE_OK && sequence < (uint64_t)rows;) {
        status = budget_ledger_begin(ledger, clock, reterr);
        for (int i = 0; i < BATCH_ROWS && status == BASE_OK; i++) {
            status = one_authorization(ledger, number++, reterr);
        }
        if (status == BASE_OK) {
            status = budget_ledger_commit(ledger, reterr);
        }
        budget_ledger_head(ledger, &sequence, head);
    }
    return status;
}

base_status bench_fill_ledger(const char *dir, const unsigned char *secret, long rows,
                              base_error *reterr)
{
    budget_ledger_options options = {
        .dir = dir,
        .signer = {.context = (void *)(uintptr_t)secret, .sign = sign, .verify = verify},
    };
    budget_ledger *ledger = NULL;
    base_status status = budget_clock_read(&options.clock, reterr);
    if (status == BASE_OK) {
        status = budget_ledger_open(&options, &ledger, reterr);
    }
    if (status == BASE_OK) {
        status = fill_batches(ledger, &options.clock, rows, reterr);
    }
    budget_ledger_close(ledger);
    return status;
}
