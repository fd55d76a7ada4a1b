/* Loads and stores reservations, and applies a rule's effect to one and to its chain of accounts.
 * Called by the operations in this directory that change a reservation. */
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "ledger_core.h"

static int64_t get_flags(const budget_reservation *reservation)
{
    const budget_rule_reservation *rule = &reservation->rule;
    return (rule->local ? FLAG_LOCAL : 0) | (rule->created ? FLAG_CREATED : 0) |
           (rule->expired ? FLAG_EXPIRED : 0) | (rule->terminated ? FLAG_TERMINATED : 0) |
           (rule->billed ? FLAG_BILLED : 0) | (rule->final ? FLAG_FINAL : 0) |
           (rule->refuted ? FLAG_REFUTED : 0) | (reservation->entry.attested ? FLAG_ATTESTED : 0);
}

static void set_flags(budget_reservation *reservation, int64_t flags)
{
    budget_rule_reservation *rule = &reservation->rule;
    rule->local = (flags & FLAG_LOCAL) != 0;
    rule->created = (flags & FLAG_CREATED) != 0;
    rule->expired = (flags & FLAG_EXPIRED) != 0;
    rule->terminated = (flags & FLAG_TERMINATED) != 0;
    rule->billed = (flags & FLAG_BILLED) != 0;
    rule->final = (flags & FLAG_FINAL) != 0;
    rule->refuted = (flags & FLAG_REFUTED) != 0;
    reservation->entry.attested = (flags & FLAG_ATTESTED) != 0;
}

void reservation_read(const store_db *store, store_sql sql, budget_reservation *reservation)
{
    size_t bytes = 0;
    budget_rule_reservation *rule = &reservation->rule;
    budget_entry *entry = &reservation->entry;
    memset(reservation, 0, sizeof *reservation);
    reservation->id = store_int(store, sql, 0);
    store_copy_text(store, sql, 1, entry->label, sizeof entry->label);
    store_copy_text(store, sql, 2, entry->jti, sizeof entry->jti);
    reservation->account_id = store_int(store, sql, 3);
    reservation->sequence = (uint64_t)store_int(store, sql, 4);
    store_copy_text(store, sql, 5, entry->vendor, sizeof entry->vendor);
    store_copy_text(store, sql, 6, entry->mode, sizeof entry->mode);
    rule->amount = store_int(store, sql, 7);
    rule->total = store_int(store, sql, 8);
    rule->posted = budget_rule_posted(rule->total);
    reservation->billed_usd_micro = store_int(store, sql, 9);
    rule->held = store_int(store, sql, 10);
    rule->state = (budget_state)store_int(store, sql, 11);
    set_flags(reservation, store_int(store, sql, 12));
    rule->deadline_ms = store_int(store, sql, 13);
    rule->max_seconds = store_int(store, sql, 14);
    rule->expires_at_s = store_int(store, sql, 15);
    rule->world_size = store_int(store, sql, 16);
    rule->attempt = store_int(store, sql, 17);
    rule->max_attempts = store_int(store, sql, 18);
    reservation->instances = store_int(store, sql, 19);
    rule->has_key = store_blob(store, sql, 20, &bytes) != NULL;
    store_copy_blob(store, sql, 20, rule->job_public_key, sizeof rule->job_public_key);
    reservation->has_evidence = store_blob(store, sql, 21, &bytes) != NULL;
    store_copy_blob(store, sql, 21, reservation->evidence, sizeof reservation->evidence);
    reservation->authorized_ms = store_int(store, sql, 22);
    rule->ended_ms = store_int(store, sql, 23);
    reservation->actual_ms = store_int(store, sql, 24);
    store_copy_text(store, sql, 25, entry->client, sizeof entry->client);
    store_copy_text(store, sql, 26, entry->instance_type, sizeof entry->instance_type);
    reservation->started_ms = store_int(store, sql, 27);
    store_copy_text(store, sql, 28, entry->vendor_account, sizeof entry->vendor_account);
}

static base_status load_one(budget_ledger *ledger, store_sql sql, base_status status,
                            const char *what, budget_reservation *reservation, base_error *reterr)
{
    if (store_next(&ledger->store, sql, &status, reterr)) {
        reservation_read(&ledger->store, sql, reservation);
        store_done(&ledger->store, sql);
        return BASE_OK;
    }
    return status != BASE_OK ? status
                             : base_fail(reterr, BASE_ERR_NOTFOUND, "the ledger knows no %s", what);
}

base_status reservation_load(budget_ledger *ledger, store_sql sql, const char *key,
                             budget_reservation *reservation, base_error *reterr)
{
    const base_status status = store_query(&ledger->store, reterr, sql, "key:t", key);
    return load_one(ledger, sql, status, key, reservation, reterr);
}

base_status reservation_load_id(budget_ledger *ledger, int64_t id, budget_reservation *reservation,
                                base_error *reterr)
{
    const base_status status =
        store_query(&ledger->store, reterr, SQL_RESERVATION_BY_ID, "id:i", id);
    return load_one(ledger, SQL_RESERVATION_BY_ID, status, "such reservation", reservation, reterr);
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

base_status reservation_apply(ledger_op *op, const budget_reservation *before,
                              const budget_reservation *after, bool freeze)
{
    ledger_chain chain;
    BASE_ASSERT(before->id == after->id);
    BASE_ASSERT(before->account_id == after->account_id);
    base_status status = chain_load(op->ledger, NULL, before->account_id, &chain, op->reterr);
    if (status != BASE_OK) {
        return status == BASE_ERR_NOTFOUND ? BASE_ERR_STATE : status;
    }
    ledger_chain next = chain;
    if (!budget_rule_effect(&next.rule, &before->rule, &after->rule, freeze)) {
        return op_refuse_overflow(op);
    }
    chain_answer(&chain, &next, budget_rule_binding(&next.rule), op->answer);
    const budget_rule_reservation *rule = &after->rule;
    op_about(op, before->id, before->account_id, before->entry.label);
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
        "ended_ms:i actual_ms:i total_before:i held_before:i started_ms:i vendor_account:t",
        before->id, rule->total, after->billed_usd_micro, rule->held, (int64_t)rule->state,
        get_flags(after), rule->deadline_ms, rule->attempt,
        rule->has_key ? rule->job_public_key : NULL, sizeof rule->job_public_key,
        after->has_evidence ? after->evidence : NULL, sizeof after->evidence, rule->ended_ms,
        after->actual_ms, before->rule.total, before->rule.held, after->started_ms,
        after->entry.vendor_account);
}

base_status reservation_change(ledger_op *op, const budget_reservation *before,
                               const budget_reservation *after)
{
    const base_status status = reservation_apply(op, before, after, false);
    return status == BASE_OK && op->answer->reason == BUDGET_REASON_NONE ? op_grant(op) : status;
}

base_status reservation_place(ledger_op *op, budget_reservation *reservation,
                              const char *vendor_account, bool *placed)
{
    budget_entry *entry = &reservation->entry;
    *placed = false;
    if (vendor_account[0] == '\0' || strcmp(entry->vendor_account, vendor_account) == 0) {
        return BASE_OK;
    }
    if (entry->vendor_account[0] != '\0') {
        return op_refuse(op, BUDGET_REASON_STATE,
                         "%.60s is in the account %s of the vendor, and not in %s", entry->label,
                         entry->vendor_account, vendor_account);
    }
    (void)snprintf(entry->vendor_account, sizeof entry->vendor_account, "%s", vendor_account);
    *placed = true;
    return BASE_OK;
}

base_status reservation_describe(budget_ledger *ledger, budget_reservation *reservation,
                                 base_error *reterr)
{
    ledger_chain chain;
    store_db *store = &ledger->store;
    budget_entry *entry = &reservation->entry;
    const budget_rule_reservation *rule = &reservation->rule;
    base_status status = chain_load(ledger, NULL, reservation->account_id, &chain, reterr);
    if (status == BASE_OK) {
        status = store_query(store, reterr, SQL_INSTANCE_FIRST, "reservation:i", reservation->id);
    }
    if (store_next(store, SQL_INSTANCE_FIRST, &status, reterr)) {
        store_copy_text(store, SQL_INSTANCE_FIRST, 0, entry->instance_id,
                        sizeof entry->instance_id);
        store_done(store, SQL_INSTANCE_FIRST);
    }
    if (status != BASE_OK) {
        return status;
    }
    memcpy(entry->account, chain.names[0], sizeof entry->account);
    (void)snprintf(entry->state, sizeof entry->state, "%s", budget_state_name(rule->state));
    entry->authorized_usd_micro = rule->amount;
    entry->reserved_usd_micro = rule->held;
    entry->instances = reservation->instances;
    entry->actual_usd_micro = rule->posted;
    entry->credit_usd_micro = rule->posted - rule->total;
    entry->actual_known = budget_rule_cost_known(rule);
    entry->authorized_at = reservation->authorized_ms / 1000;
    entry->deadline = wall_of(ledger, rule->deadline_ms) / 1000;
    entry->began_at = entry->deadline != 0 ? entry->deadline - rule->max_seconds : 0;
    if (entry->began_at != 0 && entry->began_at < entry->authorized_at) {
        entry->began_at = entry->authorized_at; /* a deadline that came with a refuted end */
    }
    entry->redeemed_at = reservation->started_ms / 1000;
    entry->terminated_at = wall_of(ledger, rule->ended_ms) / 1000;
    entry->read_at = ledger->now.wall_ms / 1000;
    if (reservation->has_evidence) {
        (void)sodium_bin2hex(entry->evidence, sizeof entry->evidence, reservation->evidence,
                             sizeof reservation->evidence);
    }
    return BASE_OK;
}
