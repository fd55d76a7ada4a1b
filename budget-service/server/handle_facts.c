/* What came of an authorization, and redeeming. */
#include <string.h>

#include "budget/token.h"
#include "budget/wire.h"
#include "service.h"

typedef Ringfence__Budget__Request request_type;

base_status service_attach(budget_service *service, const service_question *question,
                           service_item *item, base_error *reterr)
{
    const Ringfence__Budget__Attach *body = question->request->attach;
    budget_answer answer;
    const base_status status = budget_ledger_attach(service->ledger, &question->caller, body->label,
                                                    body->instance_id, &answer, reterr);
    return status == BASE_OK ? service_item_answer(item, &answer, reterr) : status;
}

base_status service_void(budget_service *service, const service_question *question,
                         service_item *item, base_error *reterr)
{
    budget_answer answer;
    const base_status status = budget_ledger_void(service->ledger, &question->caller,
                                                  question->request->void_->label, &answer, reterr);
    return status == BASE_OK ? service_item_answer(item, &answer, reterr) : status;
}

base_status service_terminated(budget_service *service, const service_question *question,
                               service_item *item, base_error *reterr)
{
    const Ringfence__Budget__Terminated *body = question->request->terminated;
    budget_answer answer;
    budget_termination termination = {
        .label = body->label,
        .evidence = body->evidence.data,
        .evidence_bytes = body->evidence.len,
        .attested_allowed = question->client->role == BUDGET_ROLE_ADMIN,
    };
    if (body->evidence.len == 0) {
        return base_fail(reterr, BASE_ERR_INVALID, "termination without any evidence");
    }
    const base_status status =
        budget_ledger_terminated(service->ledger, &question->caller, &termination, &answer, reterr);
    return status == BASE_OK ? service_item_answer(item, &answer, reterr) : status;
}

base_status service_record_actual(budget_service *service, const service_question *question,
                                  service_item *item, base_error *reterr)
{
    const Ringfence__Budget__RecordActual *body = question->request->record_actual;
    budget_answer answer;
    const budget_actual actual = {
        .label = body->label,
        .usd_micro = body->usd_micro,
        .line_id = body->line_id[0] != '\0' ? body->line_id : NULL,
        .evidence = body->evidence.len > 0 ? body->evidence.data : NULL,
        .evidence_bytes = body->evidence.len,
    };
    const base_status status =
        budget_ledger_record_actual(service->ledger, &question->caller, &actual, &answer, reterr);
    return status == BASE_OK ? service_item_answer(item, &answer, reterr) : status;
}

static base_status redeem_create(budget_service *service, const service_question *question,
                                 const budget_claims *claims, service_item *item,
                                 base_error *reterr)
{
    budget_redemption redemption = {0};
    budget_answer answer;
    budget_caller caller = question->caller;
    caller.request_id = NULL;
    memcpy(redemption.jti, claims->jti, sizeof redemption.jti);
    memcpy(redemption.job_public_key, question->key, sizeof redemption.job_public_key);
    const base_status status =
        budget_ledger_redeem_create(service->ledger, &caller, &redemption, &answer, reterr);
    if (status != BASE_OK || answer.reason != BUDGET_REASON_NONE) {
        return status == BASE_OK ? service_item_answer(item, &answer, reterr) : status;
    }
    memcpy(item->receipt.jti, claims->jti, sizeof item->receipt.jti);
    item->receipt.not_after = redemption.deadline_ms / 1000;
    item->seconds_left = redemption.remaining_ms / 1000;
    item->receipts = 0;
    item->stage = SERVICE_SIGN_RECEIPTS;
    return BASE_OK;
}

/* Ranks first … first + count - 1, each for itself; the first refusal is the answer to all. */
static base_status redeem_ranks(budget_service *service, const service_question *question,
                                const budget_claims *claims, service_item *item, base_error *reterr)
{
    const Ringfence__Budget__Redeem *body = question->request->redeem;
    budget_redemption redemption = {0};
    budget_answer answer = {0};
    base_status status = BASE_OK;
    if (body->ranks == 0 || body->ranks > BUDGET_REDEEM_RANKS_MAX ||
        body->first_rank > BASE_RANKS_MAX || body->attempt == 0 || body->attempt > INT32_MAX) {
        return base_fail(reterr, BASE_ERR_INVALID, "%u ranks from %u on, attempt %u: out of range",
                         body->ranks, body->first_rank, body->attempt);
    }
    memcpy(redemption.jti, claims->jti, sizeof redemption.jti);
    memcpy(redemption.job_public_key, question->key, sizeof redemption.job_public_key);
    redemption.attempt = body->attempt;
    for (uint32_t i = 0; i < body->ranks && status == BASE_OK && answer.reason == 0; i++) {
        redemption.rank = (int64_t)body->first_rank + i;
        status = budget_ledger_redeem(service->ledger, &redemption, &answer, reterr);
        if (i == 0) {
            item->receipt.issued_at = answer.at_ms / 1000;
        }
    }
    if (status != BASE_OK || answer.reason != BUDGET_REASON_NONE) {
        return status == BASE_OK ? service_item_answer(item, &answer, reterr) : status;
    }
    memcpy(item->receipt.jti, claims->jti, sizeof item->receipt.jti);
    memcpy(item->receipt.job_public_key, question->key, sizeof item->receipt.job_public_key);
    item->receipt.rank = body->first_rank;
    item->receipt.attempt = body->attempt;
    item->receipt.not_after = redemption.deadline_ms / 1000;
    item->seconds_left = redemption.remaining_ms / 1000;
    item->receipts = (int)body->ranks;
    item->stage = SERVICE_SIGN_RECEIPTS;
    return BASE_OK;
}

base_status service_redeem(budget_service *service, const service_question *question,
                           service_item *item, base_error *reterr)
{
    const Ringfence__Budget__Redeem *body = question->request->redeem;
    budget_claims claims;
    base_error why = {0};
    /* exp is the ledger's to judge: it ends first redemptions, not later attempts */
    const budget_verdict_token verdict = budget_token_verify(
        body->token, strlen(body->token), &service->keyring, BUDGET_ANY_TIME, &claims, &why);
    if (verdict != BUDGET_TOKEN_OK) {
        return service_item_refuse(item, RINGFENCE__BUDGET__VERDICT__VERDICT_BAD_TOKEN, why.message,
                                   reterr);
    }
    return body->create ? redeem_create(service, question, &claims, item, reterr)
                        : redeem_ranks(service, question, &claims, item, reterr);
}
