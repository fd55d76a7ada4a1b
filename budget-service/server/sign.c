/* Signs tokens and receipts. Called by batch.c once the ledger has them on disk. */
#include <string.h>

#include "budget/token.h"
#include "budget/wire.h"
#include "service.h"

_Static_assert(BUDGET_REDEEM_RANKS_MAX *BUDGET_TOKEN_BYTES <= BUDGET_MESSAGE_BYTES_MAX,
               "the receipts of one answer fit the scratch memory");

static const unsigned char *find_key(const budget_service *service, const char *kid)
{
    if (strcmp(kid, service->kid) == 0) {
        return service->secret;
    }
    const budget_public_key *key = budget_keyring_find(&service->keyring, kid);
    const budget_signer *signer = &service->options->signer;
    if (key != NULL && key->revoked_at != 0) {
        return NULL;
    }
    return signer->find != NULL ? signer->find(signer->user, kid) : NULL;
}

static base_status sign_token(budget_service *service, service_item *item, base_error *reterr)
{
    char token[BUDGET_TOKEN_BYTES];
    const budget_claims *claims = &item->authorization.claims;
    const budget_answer *answer = &item->answer;
    const unsigned char *secret = find_key(service, item->authorization.kid);
    if (secret == NULL) {
        return service_item_refuse(item, RINGFENCE__BUDGET__VERDICT__VERDICT_REFUSED,
                                   "it was granted, but the key that signed it is gone: void it "
                                   "and authorize anew",
                                   reterr);
    }
    const base_status status =
        budget_token_sign_bytes(item->payload, strlen(item->payload),
                                BUDGET_ASSERTION_AUTHORIZATION, secret, token, reterr);
    if (status != BASE_OK) {
        return status;
    }
    Ringfence__Budget__Granted granted = RINGFENCE__BUDGET__GRANTED__INIT;
    granted.label = (char *)(uintptr_t)claims->label;
    granted.jti = (char *)(uintptr_t)claims->jti;
    granted.token = token;
    granted.kid = item->authorization.kid;
    granted.account = (char *)(uintptr_t)answer->account;
    granted.cap_usd_micro = answer->cap_usd_micro;
    granted.remaining_before_usd_micro = answer->remaining_before_usd_micro;
    granted.remaining_after_usd_micro = answer->remaining_after_usd_micro;
    granted.max_usd_micro = claims->max_usd_micro;
    return service_item_done(item, &granted.base, reterr);
}

static base_status sign_receipts(budget_service *service, service_item *item, base_error *reterr)
{
    Ringfence__Budget__Redeemed redeemed = RINGFENCE__BUDGET__REDEEMED__INIT;
    char(*texts)[BUDGET_TOKEN_BYTES] = (void *)service->scratch;
    char *receipts[BUDGET_REDEEM_RANKS_MAX];
    budget_receipt receipt = item->receipt;
    base_status status = BASE_OK;
    for (int i = 0; i < item->receipts && status == BASE_OK; i++) {
        receipts[i] = texts[i];
        receipt.rank = item->receipt.rank + i;
        status = budget_receipt_sign(&receipt, service->secret, texts[i], reterr);
    }
    redeemed.jti = item->receipt.jti;
    redeemed.not_after = item->receipt.not_after;
    redeemed.max_seconds_left = item->seconds_left;
    redeemed.receipts = receipts;
    redeemed.n_receipts = (size_t)item->receipts;
    return status == BASE_OK ? service_item_done(item, &redeemed.base, reterr) : status;
}

base_status service_sign(budget_service *service, service_item *item, base_error *reterr)
{
    switch (item->stage) {
    case SERVICE_SIGN_TOKEN:
        return sign_token(service, item, reterr);
    case SERVICE_SIGN_RECEIPTS:
        return sign_receipts(service, item, reterr);
    default:
        return BASE_OK;
    }
}
