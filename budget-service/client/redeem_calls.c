/* Redeems: asks one question over a connection of the job's key. Called by the launcher's lease and
 * the command `redeem`. */

#include "base/clock.h"
#include "budget/wire.h"
#include "client_impl.h"
#include "proto/body.h"

static base_status open_link(const budget_redeem_options *options, budget_link *link,
                             base_error *reterr)
{
    char dir[BASE_PATH_BYTES];
    budget_service_address address = {0};
    base_status status = budget_crypto_init(reterr);
    if (status == BASE_OK && options->dir == NULL) {
        status = budget_default_dir(dir, reterr);
    }
    if (status == BASE_OK) {
        status = budget_service_address_read(options->dir != NULL ? options->dir : dir, &address,
                                             reterr);
    }
    return status == BASE_OK ? budget_link_open(link, address.redeem_endpoint, options->job_key,
                                                address.public_key, reterr)
                             : status;
}

static budget_verdict ask_redeem(const budget_redeem_options *options,
                                 Ringfence__Budget__Redeem *body, budget_link *link,
                                 budget_wire_response **response, base_error *why)
{
    const int64_t timeout_ms =
        options->timeout_ms > 0 ? options->timeout_ms : BUDGET_CLIENT_TIMEOUT_MS;
    budget_wire_request request = RINGFENCE__BUDGET__REQUEST__INIT;
    uint8_t packed[BUDGET_REDEEM_BYTES_MAX];
    char request_id[BUDGET_REQUEST_ID_BYTES];
    budget_fresh_request_id(request_id);
    request.version = BUDGET_WIRE_VERSION;
    request.request_id = request_id;
    proto_set_body(&request.base, &body->base);
    const size_t packed_bytes = ringfence__budget__request__get_packed_size(&request);
    if (packed_bytes > sizeof packed) {
        (void)base_fail(why, BASE_ERR_AUTH, "this is no token: it is too long");
        return BUDGET_BAD_TOKEN;
    }
    (void)ringfence__budget__request__pack(&request, packed);
    const budget_question question = {.request = packed,
                                      .request_bytes = packed_bytes,
                                      .request_id = request_id,
                                      .deadline_ns =
                                          base_deadline_after_ns(timeout_ms * BASE_NS_PER_MS)};
    switch (budget_link_ask(link, &question, response, why)) {
    case BUDGET_LINK_NOT_DONE:
        return BUDGET_FAILED;
    case BUDGET_LINK_NO_ANSWER:
        return BUDGET_UNKNOWN;
    default:
        break;
    }
    const budget_verdict verdict = budget_response_verdict(*response, why);
    if (verdict == BUDGET_GRANTED && (*response)->body_case != BUDGET_RESPONSE(REDEEMED)) {
        return budget_broken_answer(why);
    }
    return verdict;
}

budget_verdict budget_redeem(const budget_redeem_options *options, const char *token,
                             const budget_redeem_ranks *ranks, budget_redemption *redemption,
                             base_error *why)
{
    budget_link link = {0};
    budget_wire_response *response = NULL;
    Ringfence__Budget__Redeem body = RINGFENCE__BUDGET__REDEEM__INIT;
    if (ranks->first < 0 || ranks->count <= 0 || ranks->count > BUDGET_REDEEM_RANKS_MAX ||
        ranks->attempt <= 0) {
        (void)base_fail(why, BASE_ERR_INVALID, "ranks %d … %d, attempt %d: out of range",
                        ranks->first, ranks->first + ranks->count - 1, ranks->attempt);
        return BUDGET_FAILED;
    }
    if (open_link(options, &link, why) != BASE_OK) {
        return BUDGET_FAILED;
    }
    body.token = budget_wire_text(token);
    body.first_rank = (uint32_t)ranks->first;
    body.ranks = (uint32_t)ranks->count;
    body.attempt = (uint32_t)ranks->attempt;
    budget_verdict verdict = ask_redeem(options, &body, &link, &response, why);
    if (verdict == BUDGET_GRANTED) {
        const Ringfence__Budget__Redeemed *got = response->redeemed;
        redemption->not_after = got->not_after;
        redemption->seconds_left = got->max_seconds_left;
        redemption->count = ranks->count;
        bool good = got->n_receipts == (size_t)ranks->count &&
                    budget_copy_text(redemption->jti, sizeof redemption->jti, got->jti);
        for (int i = 0; i < ranks->count && good; i++) {
            good = budget_copy_text(redemption->receipts[i], sizeof redemption->receipts[i],
                                    got->receipts[i]);
        }
        verdict = good ? BUDGET_GRANTED : budget_broken_answer(why);
    }
    budget_link_close(&link);
    return verdict;
}

budget_verdict budget_redeem_create(const budget_redeem_options *options, const char *token,
                                    budget_permit *permit, base_error *why)
{
    budget_link link = {0};
    budget_wire_response *response = NULL;
    Ringfence__Budget__Redeem body = RINGFENCE__BUDGET__REDEEM__INIT;
    if (open_link(options, &link, why) != BASE_OK) {
        return BUDGET_FAILED;
    }
    body.token = budget_wire_text(token);
    body.create = true;
    body.vendor_account = budget_wire_text(options->vendor_account);
    const budget_verdict verdict = ask_redeem(options, &body, &link, &response, why);
    if (verdict == BUDGET_GRANTED) {
        *permit = (budget_permit){.not_after = response->redeemed->not_after,
                                  .seconds_left = response->redeemed->max_seconds_left};
    }
    budget_link_close(&link);
    return verdict;
}
