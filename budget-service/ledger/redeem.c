/* Ledger operations that redeem a token: a rank's place in an attempt, and the permit to create an
 * instance. Called by server/handle_facts.c and audit/replay.c. */
#include <inttypes.h>
#include <string.h>

#include "base/bytes.h"
#include "budget/money.h"
#include "ledger_core.h"

/* The reservation of a token that nobody used stays until somebody gives it back. */
static base_status refuse_expired(ledger_op *op, const budget_reservation *reservation)
{
    char held[BUDGET_MONEY_BYTES];
    const char *label = reservation->entry.label;
    budget_money_show(reservation->rule.held, held);
    if (reservation->rule.state != BUDGET_STATE_RESERVED) {
        return op_refuse(op, BUDGET_REASON_TOKEN_EXPIRED,
                         "the token of %.100s has expired; authorize anew, under another label",
                         label);
    }
    return op_refuse(op, BUDGET_REASON_TOKEN_EXPIRED,
                     "the token has expired unused, and %s stays reserved until: "
                     "budget-service void %s; then authorize anew, under another label",
                     held, label);
}

static base_status refuse(ledger_op *op, budget_reason reason,
                          const budget_reservation *reservation,
                          const budget_ledger_redemption *redemption)
{
    const budget_rule_reservation *rule = &reservation->rule;
    const char *label = reservation->entry.label;
    switch (reason) {
    case BUDGET_REASON_RANK_RANGE:
        return op_refuse(op, reason, "%s is for ranks 0 to %" PRId64 ", not %" PRId64, label,
                         rule->world_size - 1, redemption->rank);
    case BUDGET_REASON_ATTEMPT_RANGE:
        return op_refuse(op, reason,
                         "%s allows attempts 1 to %" PRId64 ", not %" PRId64
                         ": authorize the job anew, under another label",
                         label, rule->max_attempts, redemption->attempt);
    case BUDGET_REASON_ATTEMPT_ORDER:
        return op_refuse(op, reason,
                         "%s is at attempt %" PRId64 ": %" PRId64
                         " is too early, --attempt %" PRId64 " is next",
                         label, rule->attempt, redemption->attempt, rule->attempt + 1);
    case BUDGET_REASON_FENCED:
        return op_refuse(op, reason,
                         "%s is at attempt %" PRId64 ": %" PRId64
                         " is over, and a later start has taken its place",
                         label, rule->attempt, redemption->attempt);
    case BUDGET_REASON_JOB_KEY:
        return op_refuse(
            op, reason,
            "%s was redeemed under another job key: each launch makes one of its own. "
            "Restart inside a launch (--max-restarts), keep the key (redeem --out DIR, "
            "then --receipts DIR), or authorize a new label",
            label);
    case BUDGET_REASON_TOKEN_EXPIRED:
        return refuse_expired(op, reservation);
    case BUDGET_REASON_DEADLINE_PASSED:
        return op_refuse(op, reason,
                         "the time of %s is over (%" PRId64
                         " s): end its instance, and authorize the job anew, under another label",
                         label, rule->max_seconds);
    case BUDGET_REASON_CREATED:
        return op_refuse(
            op, reason,
            "the creation permit of %s was given before: look at the vendor's list for "
            "what was made with it",
            label);
    case BUDGET_REASON_ACCOUNT_FROZEN:
        return op_refuse(
            op, reason,
            "account %s is frozen: an admin looks why, then runs budget-service account "
            "acknowledge",
            op->answer->account);
    default:
        return op_refuse(op, reason, "%s is %s: authorize the job anew, under another label", label,
                         budget_state_name(rule->state));
    }
}

/* Loads what both kinds of redeeming need; *status says whether to go on. */
static bool load(ledger_op *op, const budget_ledger_redemption *redemption,
                 budget_reservation *reservation, bool *frozen, base_status *status)
{
    ledger_chain chain;
    *status = reservation_load(op->ledger, SQL_RESERVATION_BY_JTI, redemption->jti, reservation,
                               op->reterr);
    if (*status == BASE_ERR_NOTFOUND) {
        *status = op_refuse(op, BUDGET_REASON_TOKEN_UNKNOWN,
                            "the ledger never gave the token %.32s", redemption->jti);
        return false;
    }
    if (*status != BASE_OK) {
        return false;
    }
    *status = chain_load(op->ledger, NULL, reservation->account_id, &chain, op->reterr);
    if (*status != BASE_OK) {
        return false;
    }
    const int which = chain_frozen(&chain);
    *frozen = which >= 0;
    chain_answer(&chain, &chain, which >= 0 ? (size_t)which : budget_rule_binding(&chain.rule),
                 op->answer);
    op_about(op, reservation->id, reservation->account_id, reservation->entry.label);
    return true;
}

static void fill(const ledger_op *op, const budget_reservation *reservation,
                 budget_ledger_redemption *redemption)
{
    redemption->deadline_ms = wall_of(op->ledger, reservation->rule.deadline_ms);
    redemption->remaining_ms = reservation->rule.deadline_ms - op->ledger->now.ledger_ms;
}

static base_status write_redemption(ledger_op *op, const budget_reservation *before,
                                    budget_reservation *after,
                                    const budget_ledger_redemption *redemption)
{
    base_writer writer = base_writer_make(op->data, sizeof op->data);
    base_write_u64(&writer, (uint64_t)after->rule.deadline_ms);
    base_write_u64(&writer, (uint64_t)redemption->rank);
    base_write_u64(&writer, (uint64_t)redemption->attempt);
    base_write_bytes(&writer, after->rule.job_public_key, sizeof after->rule.job_public_key);
    base_write_bytes(&writer, redemption->vendor_account, strlen(redemption->vendor_account));
    op->row.data = op->data;
    op->row.data_bytes = writer.offset_bytes;
    after->started_ms = op->ledger->now.wall_ms;
    return reservation_change(op, before, after);
}

static base_status redeem(ledger_op *op, budget_ledger_redemption *redemption)
{
    budget_reservation before;
    base_status status = BASE_OK;
    bool frozen = false;
    int64_t sequence = 0;
    if (!load(op, redemption, &before, &frozen, &status)) {
        return status;
    }
    status = store_number(op->store, op->reterr, SQL_REDEMPTION_GET, &sequence,
                          "reservation:i attempt:i rank:i", before.id, redemption->attempt,
                          redemption->rank);
    if (status != BASE_OK) {
        return status;
    }
    budget_reservation after = before;
    const budget_rule_tuple tuple = {
        .rank = redemption->rank,
        .attempt = redemption->attempt,
        .job_public_key = redemption->job_public_key,
        .seen = sequence != 0,
    };
    const budget_reason reason = budget_rule_redeem(&after.rule, &tuple, frozen, &op->ledger->now);
    if (reason != BUDGET_REASON_NONE) {
        return refuse(op, reason, &before, redemption);
    }
    fill(op, &after, redemption);
    if (tuple.seen) {
        return op_replay(op, (uint64_t)sequence);
    }
    op->row.kind = BUDGET_KIND_REDEEM;
    status = write_redemption(op, &before, &after, redemption);
    if (status != BASE_OK || op->answer->reason != BUDGET_REASON_NONE) {
        return status;
    }
    return store_run(op->store, op->reterr, SQL_REDEMPTION_INSERT,
                     "reservation:i attempt:i rank:i seq:i", before.id, redemption->attempt,
                     redemption->rank, (int64_t)op->row.sequence);
}

base_status budget_ledger_redeem(budget_ledger *ledger, budget_ledger_redemption *redemption,
                                 budget_answer *answer, base_error *reterr)
{
    ledger_op op;
    base_status status = text_check("a jti", redemption->jti, sizeof redemption->jti, reterr);
    if (op_begin(&op, ledger, NULL, answer, reterr, &status)) {
        status = redeem(&op, redemption);
    }
    return op_end(&op, status);
}

static base_status create(ledger_op *op, budget_ledger_redemption *redemption)
{
    budget_reservation before;
    base_status status = BASE_OK;
    bool frozen = false;
    bool placed = false;
    if (!load(op, redemption, &before, &frozen, &status)) {
        return status;
    }
    budget_reservation after = before;
    const budget_reason reason = budget_rule_create(&after.rule, frozen, &op->ledger->now);
    if (reason != BUDGET_REASON_NONE) {
        return refuse(op, reason, &before, redemption);
    }
    status = reservation_place(op, &after, redemption->vendor_account, &placed);
    if (status != BASE_OK || op->answer->reason != BUDGET_REASON_NONE) {
        return status;
    }
    fill(op, &after, redemption);
    op->row.kind = BUDGET_KIND_CREATE;
    redemption->rank = 0;
    redemption->attempt = 0;
    return write_redemption(op, &before, &after, redemption);
}

base_status budget_ledger_redeem_create(budget_ledger *ledger, const budget_caller *caller,
                                        budget_ledger_redemption *redemption, budget_answer *answer,
                                        base_error *reterr)
{
    ledger_op op;
    /* Never replayed: the creation permit is given once, even when the first answer was lost. */
    budget_caller unremembered = {.client = caller != NULL ? caller->client : 0};
    base_status status = text_check("a jti", redemption->jti, sizeof redemption->jti, reterr);
    if (status == BASE_OK && redemption->vendor_account[0] != '\0') {
        status = text_check("an account of the vendor", redemption->vendor_account,
                            sizeof redemption->vendor_account, reterr);
    }
    if (op_begin(&op, ledger, &unremembered, answer, reterr, &status)) {
        status = create(&op, redemption);
    }
    return op_end(&op, status);
}
