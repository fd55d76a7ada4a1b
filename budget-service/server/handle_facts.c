/* Handles what came of an authorization (instances, ends, voids, costs), and redeeming. Called by
 * access.c once the caller may ask it. */
#include <stdio.h>
#include <string.h>

#include "budget/token.h"
#include "budget/wire.h"
#include "service.h"

typedef Ringfence__Budget__Request request_type;

/* A client of role request acts on what it asked for itself, and on nothing of others. *refused:
 * the item holds the refusal. A label that is not there is the ledger's to refuse. */
static base_status refuse_others(budget_service *service, const service_question *question,
                                 const char *label, service_item *item, bool *refused,
                                 base_error *reterr)
{
    budget_reservation found;
    char message[BUDGET_ANSWER_MESSAGE_BYTES];
    *refused = false;
    if (question->client->role != BUDGET_ROLE_REQUEST) {
        return BASE_OK;
    }
    const base_status status = budget_ledger_find(service->ledger, label, &found, NULL);
    if (status != BASE_OK) {
        return status == BASE_ERR_NOTFOUND ? BASE_OK : status;
    }
    *refused = strcmp(found.entry.client, question->client->name) != 0;
    if (!*refused) {
        return BASE_OK;
    }
    (void)snprintf(message, sizeof message, "%.100s is another client's: ask it, or an admin",
                   label);
    return service_item_refuse(item, RINGFENCE__BUDGET__VERDICT__VERDICT_FORBIDDEN, message,
                               reterr);
}

base_status service_attach(budget_service *service, const service_question *question,
                           service_item *item, base_error *reterr)
{
    const Ringfence__Budget__Attach *body = question->request->attach;
    bool refused = false;
    base_status status = refuse_others(service, question, body->label, item, &refused, reterr);
    if (status != BASE_OK || refused) {
        return status;
    }
    if (body->replaces[0] != '\0' && question->client->role != BUDGET_ROLE_ADMIN) {
        return service_item_refuse(item, RINGFENCE__BUDGET__VERDICT__VERDICT_FORBIDDEN,
                                   "only an admin may replace an instance that is attached",
                                   reterr);
    }
    if (body->replaces[0] != '\0' && body->vendor_account[0] != '\0') {
        return base_fail(reterr, BASE_ERR_INVALID, "an account of the vendor, with replaces");
    }
    const budget_replacement what = {
        .label = body->label, .instance_id = body->instance_id, .replaces = body->replaces};
    const budget_attachment attachment = {.label = body->label,
                                          .instance_id = body->instance_id,
                                          .vendor_account = body->vendor_account};
    status = body->replaces[0] != '\0' ? budget_ledger_replace(service->ledger, &question->caller,
                                                               &what, &item->answer, reterr)
                                       : budget_ledger_attach(service->ledger, &question->caller,
                                                              &attachment, &item->answer, reterr);
    return service_item_answer(item, status, reterr);
}

/* The ledger's answer, and the run as that has left it. may_freeze: a message says why its account
 * is frozen. */
static base_status answer_with_run(budget_service *service, const char *label, bool may_freeze,
                                   service_item *item, base_status status, base_error *reterr)
{
    budget_reservation found;
    Ringfence__Budget__Entry run;
    Ringfence__Budget__Response part = RINGFENCE__BUDGET__RESPONSE__INIT;
    status = service_item_answer(item, status, reterr);
    if (status != BASE_OK || item->answer.reason != BUDGET_REASON_NONE) {
        return status;
    }
    status = budget_ledger_find(service->ledger, label, &found, reterr);
    if (status != BASE_OK) {
        return status;
    }
    budget_shape_write(&budget_entry_shape, &found.entry, &run.base);
    part.run = &run;
    if (may_freeze && item->answer.message[0] != '\0') {
        part.account = found.entry.account;
    }
    return service_item_put(item, &part, reterr);
}

base_status service_void(budget_service *service, const service_question *question,
                         service_item *item, base_error *reterr)
{
    const char *label = question->request->void_->label;
    bool refused = false;
    base_status status = refuse_others(service, question, label, item, &refused, reterr);
    if (status != BASE_OK || refused) {
        return status;
    }
    status = budget_ledger_void(service->ledger, &question->caller, label, &item->answer, reterr);
    return answer_with_run(service, label, false, item, status, reterr);
}

base_status service_terminated(budget_service *service, const service_question *question,
                               service_item *item, base_error *reterr)
{
    const Ringfence__Budget__Terminated *body = question->request->terminated;
    budget_termination termination = {
        .label = body->label,
        .evidence = body->evidence.data,
        .evidence_bytes = body->evidence.len,
        .attest = question->client->role != BUDGET_ROLE_ADMIN ? BUDGET_ATTEST_NOTHING
                  : body->attested                            ? BUDGET_ATTEST_ANY_FILE
                                                              : BUDGET_ATTEST_OTHER_FILES,
    };
    if (body->evidence.len == 0) {
        return base_fail(reterr, BASE_ERR_INVALID, "termination without any evidence");
    }
    bool refused = false;
    base_status status = refuse_others(service, question, body->label, item, &refused, reterr);
    if (status != BASE_OK || refused) {
        return status;
    }
    status = budget_ledger_terminated(service->ledger, &question->caller, &termination,
                                      &item->answer, reterr);
    return answer_with_run(service, body->label, false, item, status, reterr);
}

base_status service_record_actual(budget_service *service, const service_question *question,
                                  service_item *item, base_error *reterr)
{
    const Ringfence__Budget__RecordActual *body = question->request->record_actual;
    const budget_ledger_actual actual = {
        .label = body->label,
        .usd_micro = body->usd_micro,
        .line_id = body->line_id[0] != '\0' ? body->line_id : NULL,
        .billed_usd_micro = body->usd_micro,
        .final = !body->partial,
        .evidence = body->evidence.len > 0 ? body->evidence.data : NULL,
        .evidence_bytes = body->evidence.len,
    };
    const base_status status = budget_ledger_record_actual(service->ledger, &question->caller,
                                                           &actual, &item->answer, reterr);
    return answer_with_run(service, body->label, true, item, status, reterr);
}

static base_status redeem_create(budget_service *service, const service_question *question,
                                 const budget_claims *claims, service_item *item,
                                 base_error *reterr)
{
    budget_ledger_redemption redemption = {0};
    budget_caller caller = question->caller;
    caller.request_id = NULL;
    const char *account = question->request->redeem->vendor_account;
    if (strlen(account) >= sizeof redemption.vendor_account) {
        return base_fail(reterr, BASE_ERR_INVALID, "an account of the vendor that is too long");
    }
    memcpy(redemption.vendor_account, account, strlen(account));
    memcpy(redemption.jti, claims->jti, sizeof redemption.jti);
    memcpy(redemption.job_public_key, question->key, sizeof redemption.job_public_key);
    const base_status status =
        budget_ledger_redeem_create(service->ledger, &caller, &redemption, &item->answer, reterr);
    if (status != BASE_OK || item->answer.reason != BUDGET_REASON_NONE) {
        return service_item_answer(item, status, reterr);
    }
    memcpy(item->receipt.jti, claims->jti, sizeof item->receipt.jti);
    item->receipt.not_after = redemption.deadline_ms / 1000;
    item->seconds_left = redemption.remaining_ms / 1000;
    item->receipts = 0;
    item->stage = SERVICE_SIGN_RECEIPTS;
    return BASE_OK;
}

/* Ranks first … first + count - 1, each for itself; the first refusal is the answer to all. The
 * highest rank comes first. A rank out of range is the only refusal that some ranks of a question
 * can get and others not, so a refused question changes nothing. */
static base_status redeem_ranks(budget_service *service, const service_question *question,
                                const budget_claims *claims, service_item *item, base_error *reterr)
{
    const Ringfence__Budget__Redeem *body = question->request->redeem;
    budget_ledger_redemption redemption = {0};
    base_status status = BASE_OK;
    if (body->ranks == 0 || body->ranks > BUDGET_REDEEM_RANKS_MAX ||
        body->first_rank > BASE_RANKS_MAX || body->attempt == 0 || body->attempt > INT32_MAX) {
        return base_fail(reterr, BASE_ERR_INVALID, "%u ranks from %u on, attempt %u: out of range",
                         body->ranks, body->first_rank, body->attempt);
    }
    memcpy(redemption.jti, claims->jti, sizeof redemption.jti);
    memcpy(redemption.job_public_key, question->key, sizeof redemption.job_public_key);
    redemption.attempt = body->attempt;
    for (uint32_t i = body->ranks;
         i > 0 && status == BASE_OK && item->answer.reason == BUDGET_REASON_NONE; i--) {
        redemption.rank = (int64_t)body->first_rank + i - 1;
        status = budget_ledger_redeem(service->ledger, &redemption, &item->answer, reterr);
    }
    if (status != BASE_OK || item->answer.reason != BUDGET_REASON_NONE) {
        return service_item_answer(item, status, reterr);
    }
    memcpy(item->receipt.jti, claims->jti, sizeof item->receipt.jti);
    memcpy(item->receipt.job_public_key, question->key, sizeof item->receipt.job_public_key);
    item->receipt.rank = body->first_rank;
    item->receipt.attempt = body->attempt;
    item->receipt.issued_at = item->answer.at_ms / 1000; /* of the first rank */
    item->receipt.not_after = redemption.deadline_ms / 1000;
    item->seconds_left = redemption.remaining_ms / 1000;
    item->receipts = (int)body->ranks;
    item->stage = SERVICE_SIGN_RECEIPTS;
    return BASE_OK;
}

/* The signature says that a key of ours signed these claims; the ledger says which were granted. A
 * jti that it does not know is refused where it is redeemed. */
static base_status compare_claims(budget_service *service, const budget_claims *claims,
                                  budget_authorization *granted, bool *same, base_error *reterr)
{
    char stored[BUDGET_CLAIMS_JSON_BYTES];
    char shown[BUDGET_CLAIMS_JSON_BYTES];
    size_t shown_bytes = 0;
    base_status status =
        budget_ledger_claims(service->ledger, claims->jti, granted, stored, reterr);
    *same = status == BASE_ERR_NOTFOUND;
    if (status != BASE_OK) {
        return status == BASE_ERR_NOTFOUND ? BASE_OK : status;
    }
    status = budget_claims_write(claims, shown, &shown_bytes, reterr);
    *same = status == BASE_OK && strcmp(stored, shown) == 0;
    return status;
}

/* Whoever took a client's key may have its tokens too. A run that goes on may go on, and start again. */
static base_status refuse_revoked(budget_service *service, const budget_authorization *granted,
                                  service_item *item, bool *refused, base_error *reterr)
{
    budget_reservation found;
    char message[BUDGET_ANSWER_MESSAGE_BYTES];
    const budget_claims *claims = &granted->claims;
    *refused = false;
    base_status status = budget_ledger_find(service->ledger, claims->label, &found, reterr);
    if (status == BASE_OK && found.started_ms == 0) {
        status = budget_ledger_client_revoked(service->ledger, granted->client, refused, reterr);
    }
    if (status != BASE_OK || !*refused) {
        return status;
    }
    (void)snprintf(
        message, sizeof message,
        "the client %.60s, which asked for this token, has been revoked: an admin returns "
        "the money with budget-service void %.100s",
        claims->subject, claims->label);
    return service_item_refuse(item, RINGFENCE__BUDGET__VERDICT__VERDICT_BAD_TOKEN, message,
                               reterr);
}

base_status service_redeem(budget_service *service, const service_question *question,
                           service_item *item, base_error *reterr)
{
    const Ringfence__Budget__Redeem *body = question->request->redeem;
    budget_claims claims;
    base_error why = {0};
    /* The ledger checks exp: it ends first redemptions, not later attempts */
    const budget_verdict_token verdict = budget_token_verify(
        body->token, strlen(body->token), &service->keyring, BUDGET_ANY_TIME, &claims, &why);
    if (verdict != BUDGET_TOKEN_OK) {
        return service_item_refuse(item, RINGFENCE__BUDGET__VERDICT__VERDICT_BAD_TOKEN, why.message,
                                   reterr);
    }
    budget_authorization granted;
    bool same = false;
    bool refused = false;
    base_status status = compare_claims(service, &claims, &granted, &same, reterr);
    if (status == BASE_OK && same && granted.client != 0) {
        status = refuse_revoked(service, &granted, item, &refused, reterr);
    }
    if (status != BASE_OK || refused) {
        return status;
    }
    if (!same) {
        return service_item_refuse(item, RINGFENCE__BUDGET__VERDICT__VERDICT_BAD_TOKEN,
                                   "the token does not say what the ledger granted under its jti",
                                   reterr);
    }
    return body->create ? redeem_create(service, question, &claims, item, reterr)
                        : redeem_ranks(service, question, &claims, item, reterr);
}
