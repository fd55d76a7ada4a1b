/* The ledger operation that grants or refuses an authorization, and reserves its amount on the
 * whole chain. Called by server/handle_authorize.c and audit/replay.c. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "budget/money.h"
#include "ledger_core.h"
#include "rules/mutation.h"

/* The claims as stored: what authorizing and replaying end with. */
static base_status load_payload(budget_ledger *ledger, uint64_t sequence,
                                budget_authorization *authorization,
                                char payload[BUDGET_CLAIMS_JSON_BYTES], base_error *reterr)
{
    journal_row row;
    store_db *store = &ledger->store;
    base_status status = store_query(store, reterr, SQL_JOURNAL_GET, "seq:i", (int64_t)sequence);
    const bool there = store_next(store, SQL_JOURNAL_GET, &status, reterr);
    if (status != BASE_OK) {
        return status;
    }
    if (!there || !journal_read(store, SQL_JOURNAL_GET, &row) ||
        row.kind != BUDGET_KIND_AUTHORIZE || row.data == NULL || row.text == NULL ||
        row.data_bytes >= BUDGET_CLAIMS_JSON_BYTES) {
        store_done(store, SQL_JOURNAL_GET);
        return base_fail(reterr, BASE_ERR_STATE,
                         "row %" PRIu64 " holds no token; run budget-service audit", sequence);
    }
    memcpy(payload, row.data, row.data_bytes);
    payload[row.data_bytes] = '\0';
    (void)snprintf(authorization->kid, sizeof authorization->kid, "%s", row.text);
    authorization->client = row.client;
    status = budget_claims_parse(payload, row.data_bytes, &authorization->claims, reterr);
    store_done(store, SQL_JOURNAL_GET);
    return status == BASE_OK ? BASE_OK : BASE_ERR_STATE;
}

base_status budget_ledger_claims(budget_ledger *ledger, const char *jti,
                                 budget_authorization *authorization,
                                 char payload[BUDGET_CLAIMS_JSON_BYTES], base_error *reterr)
{
    budget_reservation found;
    memset(authorization, 0, sizeof *authorization);
    const base_status status =
        reservation_load(ledger, SQL_RESERVATION_BY_JTI, jti, &found, reterr);
    return status == BASE_OK ? load_payload(ledger, found.sequence, authorization, payload, reterr)
                             : status;
}

static base_status refuse_label(ledger_op *op, const budget_reservation *first)
{
    char amount[BUDGET_MONEY_BYTES];
    budget_money_show(first->rule.amount, amount);
    return op_refuse(op, BUDGET_REASON_LABEL_USED,
                     "the label %s was used before: %s in row %" PRIu64 ", now in state %s; take "
                     "another label",
                     first->entry.label, amount, first->sequence,
                     budget_state_name(first->rule.state));
}

static base_status refuse_money(ledger_op *op, budget_reason reason, const ledger_chain *chain,
                                size_t which)
{
    char left[BUDGET_MONEY_BYTES];
    char asked[BUDGET_MONEY_BYTES];
    char cap[BUDGET_MONEY_BYTES];
    chain_answer(chain, chain, which, op->answer);
    if (reason == BUDGET_REASON_ACCOUNT_FROZEN) {
        return op_refuse(
            op, reason,
            "account %s is frozen: an actual was above its reservation or took it above its cap, "
            "or credits were above the cost; an admin must look, then: budget-service account "
            "acknowledge "
            "%s",
            chain->names[which], chain->names[which]);
    }
    budget_money_show(op->answer->remaining_before_usd_micro, left);
    budget_money_show(op->answer->asked_usd_micro, asked);
    budget_money_show(op->answer->cap_usd_micro, cap);
    return op_refuse(op, reason, "over the cap of %s (%s): %s left, %s asked", chain->names[which],
                     cap, left, asked);
}

static base_status reserve(ledger_op *op, budget_authorization *authorization, ledger_chain *chain,
                           const char *payload, size_t payload_bytes)
{
    const budget_claims *claims = &authorization->claims;
    const int64_t flags = strcmp(claims->vendor, "local") == 0 ? FLAG_LOCAL : 0;
    base_status status = BASE_OK;
    for (size_t i = 0; i < chain->rule.count && status == BASE_OK; i++) {
        if (i > 0 && BUDGET_MUTANT(PARENT_SKIPPED)) {
            break;
        }
        status = store_run_one(op->store, op->reterr, SQL_ACCOUNT_RESERVE, "amount:i id:i",
                               claims->max_usd_micro, chain->ids[i]);
    }
    if (status == BASE_OK) {
        status = store_run(op->store, op->reterr, SQL_RESERVATION_INSERT,
                           "id:i label:t jti:t account:i seq:i vendor:t mode:t amount:i flags:i "
                           "max_seconds:i expires_at_s:i world_size:i max_attempts:i instances:i "
                           "authorized_ms:i subject:t instance_type:t",
                           op->row.reservation, claims->label, claims->jti, chain->ids[0],
                           (int64_t)claims->ledger_sequence, claims->vendor, claims->mode,
                           claims->max_usd_micro, flags, claims->max_seconds, claims->expires_at,
                           claims->world_size, claims->max_attempts, claims->instances,
                           op->ledger->now.wall_ms, claims->subject, claims->instance_type);
    }
    if (status != BASE_OK) {
        return status;
    }
    op->row.kind = BUDGET_KIND_AUTHORIZE;
    op->row.text = authorization->kid;
    op->row.state = BUDGET_STATE_RESERVED;
    op->row.reserved_delta = claims->max_usd_micro;
    op->row.data = payload;
    op->row.data_bytes = payload_bytes;
    return op_grant(op);
}

static base_status decide(ledger_op *op, budget_authorization *authorization, char *payload)
{
    budget_claims *claims = &authorization->claims;
    budget_reservation first;
    ledger_chain chain;
    size_t which = 0;
    size_t payload_bytes = 0;
    int64_t newest = 0;
    op->row.label = claims->label;
    op->row.amount = claims->max_usd_micro;
    op->answer->asked_usd_micro = claims->max_usd_micro;
    base_status status =
        reservation_load(op->ledger, SQL_RESERVATION_BY_LABEL, claims->label, &first, op->reterr);
    if (status != BASE_ERR_NOTFOUND) {
        return status == BASE_OK ? refuse_label(op, &first) : status;
    }
    status = chain_load(op->ledger, claims->account, 0, &chain, op->reterr);
    if (status == BASE_ERR_NOTFOUND) {
        return op_refuse(op, BUDGET_REASON_ACCOUNT_UNKNOWN, BUDGET_NO_ACCOUNT, claims->account);
    }
    if (status != BASE_OK) {
        return status;
    }
    op->row.account = chain.ids[0];
    ledger_chain next = chain;
    const budget_reason reason = budget_rule_authorize(&next.rule, claims->max_usd_micro, &which);
    if (reason != BUDGET_REASON_NONE) {
        return refuse_money(op, reason, &chain, which);
    }
    if (authorization->refusal != BUDGET_REASON_NONE) {
        chain_answer(&chain, &chain, which, op->answer);
        return op_refuse(op, authorization->refusal, "%s", authorization->message);
    }
    chain_answer(&chain, &next, which, op->answer);
    claims->ledger_sequence = op->ledger->batch_sequence + 1;
    memcpy(claims->ledger_head, op->ledger->batch_head, sizeof claims->ledger_head);
    status = budget_claims_write(claims, payload, &payload_bytes, op->reterr);
    if (status == BASE_OK) { /* reservations are numbered without gaps */
        status = store_number(op->store, op->reterr, SQL_RESERVATION_LAST, &newest, "");
    }
    op->row.reservation = newest + 1;
    return status == BASE_OK ? reserve(op, authorization, &chain, payload, payload_bytes) : status;
}

base_status budget_ledger_authorize(budget_ledger *ledger, const budget_caller *caller,
                                    budget_authorization *authorization,
                                    char payload[BUDGET_CLAIMS_JSON_BYTES], budget_answer *answer,
                                    base_error *reterr)
{
    ledger_op op;
    payload[0] = '\0';
    base_status status = budget_claims_check(&authorization->claims, reterr);
    if (op_begin(&op, ledger, caller, answer, reterr, &status)) {
        status = decide(&op, authorization, payload);
    } else if (status == BASE_OK && answer->reason == BUDGET_REASON_NONE) {
        status = load_payload(ledger, answer->sequence, authorization, payload, reterr);
    }
    return op_end(&op, status);
}
