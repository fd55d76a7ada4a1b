/* Loads and stores reservations, and applies a rule's effect to one and to its chain of accounts.
 * Called by the operations in this directory that change a reservation. */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "ledger_core.h"
#include "rules/mutation.h"

int64_t reservation_flags(const ledger_reservation *reservation)
{
    const budget_rule_reservation *rule = &reservation->rule;
    return (rule->local ? FLAG_LOCAL : 0) | (rule->created ? FLAG_CREATED : 0) |
           (rule->expired ? FLAG_EXPIRED : 0) | (rule->terminated ? FLAG_TERMINATED : 0) |
           (rule->billed ? FLAG_BILLED : 0) | (rule->final ? FLAG_FINAL : 0) |
           (reservation->attested ? FLAG_ATTESTED : 0);
}

void reservation_set_flags(budget_rule_reservation *rule, int64_t flags)
{
    rule->local = (flags & FLAG_LOCAL) != 0;
    rule->created = (flags & FLAG_CREATED) != 0;
    rule->expired = (flags & FLAG_EXPIRED) != 0;
    rule->terminated = (flags & FLAG_TERMINATED) != 0;
    rule->billed = (flags & FLAG_BILLED) != 0;
    rule->final = (flags & FLAG_FINAL) != 0;
}

void reservation_read(const store_db *store, store_sql sql, ledger_reservation *reservation)
{
    size_t bytes = 0;
    budget_rule_reservation *rule = &reservation->rule;
    memset(reservation, 0, sizeof *reservation);
    reservation->id = store_int(store, sql, 0);
    store_copy_text(store, sql, 1, reservation->label, sizeof reservation->label);
    store_copy_text(store, sql, 2, reservation->jti, sizeof reservation->jti);
    reservation->account = store_int(store, sql, 3);
    reservation->sequence = (uint64_t)store_int(store, sql, 4);
    store_copy_text(store, sql, 5, reservation->vendor, sizeof reservation->vendor);
    store_copy_text(store, sql, 6, reservation->mode, sizeof reservation->mode);
    rule->amount = store_int(store, sql, 7);
    rule->total = store_int(store, sql, 8);
    reservation->billed = store_int(store, sql, 9);
    rule->held = store_int(store, sql, 10);
    rule->state = (budget_state)store_int(store, sql, 11);
    const int64_t flags = store_int(store, sql, 12);
    reservation_set_flags(rule, flags);
    reservation->attested = (flags & FLAG_ATTESTED) != 0;
    rule->deadline_ms = store_int(store, sql, 13);
    rule->max_seconds = store_int(store, sql, 14);
    rule->expires_at_s = store_int(store, sql, 15);
    rule->world_size = store_int(store, sql, 16);
    rule->attempt = store_int(store, sql, 17);
    rule->max_attempts = store_int(store, sql, 18);
    reservation->instances = store_int(store, sql, 19);
    rule->ended_ms = store_int(store, sql, 23);
    rule->has_key = store_blob(store, sql, 20, &bytes) != NULL;
    store_copy_blob(store, sql, 20, rule->job_public_key, sizeof rule->job_public_key);
    reservation->has_evidence = store_blob(store, sql, 21, &bytes) != NULL;
    store_copy_blob(store, sql, 21, reservation->evidence, sizeof reservation->evidence);
    reservation->authorized_ms = store_int(store, sql, 22);
    reservation->actual_ms = store_int(store, sql, 24);
    store_copy_text(store, sql, 25, reservation->subject, sizeof reservation->subject);
    store_copy_text(store, sql, 26, reservation->instance_type, sizeof reservation->instance_type);
    reservation->started_ms = store_int(store, sql, 27);
    rule->posted = budget_rule_posted(rule->total);
}

static base_status load_one(budget_ledger *ledger, store_sql sql, const char *what,
                            ledger_reservation *reservation, base_error *reterr)
{
    bool row = false;
    const base_status status = store_next(&ledger->store, sql, &row, reterr);
    if (status != BASE_OK) {
        return status;
    }
    if (!row) {
        return base_fail(reterr, BASE_ERR_NOTFOUND, "the ledger knows no %s", what);
    }
    reservation_read(&ledger->store, sql, reservation);
    store_done(&ledger->store, sql);
    return BASE_OK;
}

base_status reservation_load(budget_ledger *ledger, store_sql sql, const char *key,
                             ledger_reservation *reservation, base_error *reterr)
{
    const base_status status = store_query(&ledger->store, reterr, sql, "key:t", key);
    return status == BASE_OK ? load_one(ledger, sql, key, reservation, reterr) : status;
}

base_status reservation_load_id(budget_ledger *ledger, int64_t id, ledger_reservation *reservation,
                                base_error *reterr)
{
    const base_status status =
        store_query(&ledger->store, reterr, SQL_RESERVATION_BY_ID, "id:i", id);
    return status == BASE_OK
               ? load_one(ledger, SQL_RESERVATION_BY_ID, "such reservation", reservation, reterr)
               : status;
}

static base_status update_chain(ledger_op *op, const ledger_chain *before,
                                const ledger_chain *after)
{
    base_status status = BASE_OK;
    for (size_t i = 0; i < before->rule.count && status == BASE_OK; i++) {
        const budget_rule_account *old = &before->rule.accounts[i];
        const budget_rule_account *new = &after->rule.accounts[i];
        if (old->posted != new->posted || old->reserved != new->reserved ||
            old->frozen != new->frozen) {
            status = store_run_one(
                op->store, op->reterr, SQL_ACCOUNT_UPDATE,
                "posted:i reserved:i frozen:i id:i posted_before:i reserved_before:i", new->posted,
                new->reserved, (int64_t) new->frozen, before->ids[i], old->posted, old->reserved);
        }
    }
    return status;
}

base_status reservation_apply(ledger_op *op, const ledger_reservation *before,
                              const ledger_reservation *after, bool freeze, bool *overflow)
{
    ledger_chain chain;
    BASE_ASSERT(before->id == after->id);
    BASE_ASSERT(before->account == after->account);
    base_status status = chain_load(op->ledger, NULL, before->account, &chain, op->reterr);
    if (status != BASE_OK) {
        return status == BASE_ERR_NOTFOUND ? BASE_ERR_STATE : status;
    }
    ledger_chain next = chain;
    *overflow = !budget_rule_effect(&next.rule, &before->rule, &after->rule, freeze);
    if (*overflow) {
        return BASE_OK;
    }
    chain_answer(&chain, &next, budget_rule_binding(&next.rule), op->answer);
    const budget_rule_reservation *rule = &after->rule;
    op_about(op, before->id, before->account, before->label);
    op->row.state = rule->state;
    op->row.reserved_delta = rule->held - before->rule.held;
    op->row.posted_delta = rule->posted - before->rule.posted;
    status = update_chain(op, &chain, &next);
    if (status != BASE_OK) {
        return status;
    }
    return store_run_one(
        op->store, op->reterr, SQL_RESERVATION_UPDATE,
        "id:i total:i billed:i held:i state:i flags:i deadline_ms:i attempt:i job_key:b evidence:b "
        "ended_ms:i actual_ms:i total_before:i held_before:i started_ms:i",
        before->id, rule->total, after->billed, rule->held, (int64_t)rule->state,
        reservation_flags(after), rule->deadline_ms, rule->attempt,
        rule->has_key ? rule->job_public_key : NULL, sizeof rule->job_public_key,
        after->has_evidence ? after->evidence : NULL, sizeof after->evidence, rule->ended_ms,
        after->actual_ms, before->rule.total, before->rule.held, after->started_ms);
}

base_status reservation_public(budget_ledger *ledger, const ledger_reservation *reservation,
                               budget_reservation *found, base_error *reterr)
{
    ledger_chain chain;
    bool row = false;
    store_db *store = &ledger->store;
    base_status status = chain_load(ledger, NULL, reservation->account, &chain, reterr);
    if (status == BASE_OK) {
        status = store_query(store, reterr, SQL_INSTANCE_FIRST, "reservation:i", reservation->id);
    }
    status = status == BASE_OK ? store_next(store, SQL_INSTANCE_FIRST, &row, reterr) : status;
    if (status != BASE_OK) {
        return status;
    }
    const budget_rule_reservation *rule = &reservation->rule;
    *found = (budget_reservation){
        .id = reservation->id,
        .state = rule->state,
        .amount_usd_micro = rule->amount,
        .posted_usd_micro = rule->posted,
        .total_usd_micro = rule->total,
        .billed_usd_micro = reservation->billed,
        .held_usd_micro = rule->held,
        .authorized_ms = reservation->authorized_ms,
        .actual_known = budget_rule_cost_known(rule),
        .on_bill = rule->billed,
        .redeemed_ms = rule->deadline_ms == 0
                           ? 0
                           : wall_of(ledger, rule->deadline_ms) - rule->max_seconds * 1000,
        .deadline_ms = wall_of(ledger, rule->deadline_ms),
        .terminated_ms = wall_of(ledger, rule->ended_ms),
        .actual_ms = reservation->actual_ms,
        .attempt = rule->attempt,
        .created = rule->created,
        .attested = reservation->attested,
        .evidence = reservation->has_evidence,
    };
    memcpy(found->label, reservation->label, sizeof found->label);
    memcpy(found->jti, reservation->jti, sizeof found->jti);
    memcpy(found->account, chain.names[0], sizeof found->account);
    memcpy(found->vendor, reservation->vendor, sizeof found->vendor);
    memcpy(found->mode, reservation->mode, sizeof found->mode);
    memcpy(found->subject, reservation->subject, sizeof found->subject);
    memcpy(found->instance_type, reservation->instance_type, sizeof found->instance_type);
    if (row) {
        store_copy_text(store, SQL_INSTANCE_FIRST, 0, found->instance_id,
                        sizeof found->instance_id);
        store_done(store, SQL_INSTANCE_FIRST);
    }
    memcpy(found->evidence_blake2b256, reservation->evidence, sizeof found->evidence_blake2b256);
    return BASE_OK;
}
