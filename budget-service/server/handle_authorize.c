/* Handles authorize: makes the claims of what is asked and of the policy, and has the ledger
 * reserve. sign.c signs the token after the commit. Called by access.c once the caller's role
 * allows it. */
#include <stdio.h>
#include <string.h>

#include "budget/policy.h"
#include "budget/token.h"
#include "service.h"

static base_status fill_claims(const service_question *question, budget_claims *claims,
                               base_error *reterr)
{
    const Ringfence__Budget__Authorize *body = question->request->authorize;
    (void)snprintf(claims->issuer, sizeof claims->issuer, "%s", BUDGET_ISSUER);
    (void)snprintf(claims->audience, sizeof claims->audience, "%s", BUDGET_AUDIENCE);
    (void)snprintf(claims->subject, sizeof claims->subject, "%s", question->client->name);
    if (body->job_blake2b256.len != BUDGET_DIGEST_BYTES) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "authorize needs the digest of JOB.json (--job)");
    }
    if (!budget_shape_read(&budget_ask_shape, &body->base, claims)) {
        return base_fail(reterr, BASE_ERR_INVALID, "a name that is too long");
    }
    return BASE_OK;
}

/* iat is the ledger's time; nbf a little before it, for hosts whose clock is behind. */
static base_status set_times(budget_service *service, budget_claims *claims, int64_t life_s,
                             base_error *reterr)
{
    int64_t wall_ms = 0;
    int64_t skew_ms = 0;
    const base_status status =
        budget_ledger_now(service->ledger, &service->clock, &wall_ms, &skew_ms, reterr);
    claims->issued_at = wall_ms / 1000;
    claims->not_before = claims->issued_at - SERVICE_NBF_LEEWAY_S;
    claims->expires_at = claims->issued_at + life_s;
    return status;
}

typedef struct only_account {
    int count;
    char *name; /* BUDGET_ACCOUNT_BYTES */
} only_account;

static bool count_account(void *user, const budget_account *account)
{
    only_account *only = user;
    (void)snprintf(only->name, BUDGET_ACCOUNT_BYTES, "%s", account->name);
    return ++only->count < 2;
}

/* If no account was named, takes the policy's, or else the ledger's only one. */
static base_status choose_account(budget_service *service, budget_claims *claims,
                                  base_error *reterr)
{
    const char *account = budget_policy_account(service->policy);
    only_account only = {.name = claims->account};
    if (claims->account[0] != '\0') {
        return BASE_OK;
    }
    if (account != NULL) {
        (void)snprintf(claims->account, sizeof claims->account, "%s", account);
        return BASE_OK;
    }
    const base_status status =
        budget_ledger_accounts(service->ledger, count_account, &only, reterr);
    if (status != BASE_OK || only.count == 1) {
        return status;
    }
    return base_fail(reterr, BASE_ERR_INVALID,
                     only.count == 0
                         ? "there is no account yet: budget-service account create NAME --cap USD"
                         : "which account pays? (--account, or \"account\" in the "
                           "service's policy.json)");
}

/* What the policy fills in and what it says of it; a claim that makes no sense is malformed. */
static base_status apply_policy(budget_service *service, budget_authorization *authorization,
                                base_error *reterr)
{
    budget_claims *claims = &authorization->claims;
    base_status status = choose_account(service, claims, reterr);
    if (status != BASE_OK) {
        return status;
    }
    budget_policy_fill(service->policy, claims);
    status = budget_claims_check(claims, reterr);
    if (status == BASE_OK) {
        authorization->refusal =
            budget_policy_check(service->policy, claims, authorization->message);
    }
    return status;
}

base_status service_authorize(budget_service *service, const service_question *question,
                              service_item *item, base_error *reterr)
{
    budget_authorization *authorization = &item->authorization;
    *authorization = (budget_authorization){0};
    memcpy(authorization->kid, service->kid, sizeof authorization->kid);
    budget_jti_make(authorization->claims.jti);
    base_status status = fill_claims(question, &authorization->claims, reterr);
    if (status == BASE_OK) {
        status = set_times(service, &authorization->claims,
                           budget_policy_token_seconds(service->policy), reterr);
    }
    if (status == BASE_OK) {
        status = apply_policy(service, authorization, reterr);
    }
    if (status == BASE_OK) {
        status = budget_ledger_authorize(service->ledger, &question->caller, authorization,
                                         item->payload, &item->answer, reterr);
    }
    if (status != BASE_OK || item->answer.reason != BUDGET_REASON_NONE) {
        return service_item_answer(item, status, reterr);
    }
    item->stage = SERVICE_SIGN_TOKEN;
    return BASE_OK;
}
