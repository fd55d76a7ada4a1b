/* The ledger operation that records a cost: a bill's line, or what a person says. Called by
 * reconcile.c, server/handle_facts.c and audit/replay.c. */
#include <stdio.h>
#include <string.h>

#include "budget/money.h"
#include "ledger_core.h"

static base_status read_line(store_db *store, store_sql sql, base_status status, ledger_line *line,
                             base_error *reterr)
{
    while (store_next(store, sql, &status, reterr)) {
        line->elsewhere = line->known || store_int(store, sql, 0) != line->reservation;
        line->known = true;
        line->amount = store_int(store, sql, 1);
        line->sequence = (uint64_t)store_int(store, sql, 2);
    }
    return status;
}

base_status line_find(budget_ledger *ledger, ledger_line *line, base_error *reterr)
{
    store_db *store = &ledger->store;
    line->known = line->elsewhere = false;
    base_status status = store_query(store, reterr, SQL_LINE_GET, "vendor:t instance:t id:t",
                                     line->vendor, line->instance, line->id);
    status = read_line(store, SQL_LINE_GET, status, line, reterr);
    if (status != BASE_OK || line->known) {
        return status;
    }
    status = store_query(store, reterr, SQL_LINE_OF_RUN, "reservation:i id:t instance:t",
                         line->reservation, line->id, line->instance);
    return read_line(store, SQL_LINE_OF_RUN, status, line, reterr);
}

/* A line that was recorded before: the same is the same answer, another corrects it or is refused.
 * *answered: it is not to be recorded. */
static base_status find_line(ledger_op *op, const budget_ledger_actual *actual,
                             const budget_reservation *run, ledger_line *line, bool *answered)
{
    *line = (ledger_line){
        .vendor = run->entry.vendor,
        .instance = actual->instance_id,
        .id = actual->line_id,
        .reservation = run->id,
    };
    const base_status status = line_find(op->ledger, line, op->reterr);
    const bool same = !line->elsewhere && line->amount == actual->billed_usd_micro;
    *answered = line->known && (same || line->elsewhere || !actual->corrects);
    if (status != BASE_OK || !*answered) {
        return status;
    }
    return same ? op_replay(op, line->sequence)
                : op_refuse(op, BUDGET_REASON_LINE_USED,
                            "the bill's line %s was recorded before, otherwise", actual->line_id);
}

/* What follows from recording it, but for the sums. */
typedef struct actual_effect {
    ledger_line line; /* of the bill, as it was recorded before */
    bool starts;
    bool freeze;
    bool passes_cap; /* why the account is frozen */
} actual_effect;

static base_status look_at_caps(ledger_op *op, const budget_reservation *before,
                                const budget_reservation *after, actual_effect *effect)
{
    ledger_chain chain;
    if (effect->freeze) {
        return BASE_OK;
    }
    const base_status status = chain_load(op->ledger, NULL, before->account_id, &chain, op->reterr);
    if (status != BASE_OK) {
        return status == BASE_ERR_NOTFOUND ? BASE_ERR_STATE : status;
    }
    effect->passes_cap = budget_rule_effect(&chain.rule, &before->rule, &after->rule, false) &&
                         budget_rule_passes_cap(&chain.rule, &before->rule, &after->rule);
    effect->freeze = effect->passes_cap;
    return BASE_OK;
}

void actual_frozen_message(const budget_reservation *run, const char *above_cap,
                           char message[BUDGET_ANSWER_MESSAGE_BYTES])
{
    char total[BUDGET_MONEY_BYTES];
    char amount[BUDGET_MONEY_BYTES];
    const budget_rule_reservation *rule = &run->rule;
    if (above_cap != NULL) {
        (void)snprintf(message, BUDGET_ANSWER_MESSAGE_BYTES,
                       "%.100s cost more after its cost was final, so %.64s is above its cap: its "
                       "account is frozen until an admin acknowledges",
                       run->entry.label, above_cap);
        return;
    }
    budget_money_show(rule->total < 0 ? -rule->total : rule->total, total);
    budget_money_show(rule->amount, amount);
    (void)snprintf(message, BUDGET_ANSWER_MESSAGE_BYTES,
                   rule->total < 0
                       ? "%s was credited %s more than it cost, which counts as nothing: its "
                         "account is frozen until an admin acknowledges"
                       : "%s cost %s, above its %s: its account is frozen until an admin "
                         "acknowledges",
                   run->entry.label, total, amount);
}

/* What goes into the row's data; the evidence is kept. */
static base_status put_data(ledger_op *op, const budget_ledger_actual *actual,
                            const actual_effect *effect, budget_reservation *after)
{
    uint8_t digest[BUDGET_DIGEST_BYTES];
    base_status status = BASE_OK;
    journal_actual data = {
        .billed = actual->line_id != NULL ? actual->billed_usd_micro : 0,
        .final = actual->final,
        .corrects = effect->line.known,
        .starts = effect->starts,
        .passes_cap = effect->passes_cap,
        .instance = actual->instance_id,
        .instance_bytes = actual->line_id != NULL ? strlen(actual->instance_id) : 0,
    };
    if (actual->evidence != NULL) {
        status = op_keep_evidence(op, actual->evidence, actual->evidence_bytes, digest);
        data.evidence = digest;
        if (!after->rule.terminated) {
            after->has_evidence = true;
            memcpy(after->evidence, digest, sizeof digest);
        }
    }
    op->row.kind = BUDGET_KIND_ACTUAL;
    op->row.data_bytes = journal_actual_write(&data, op->data);
    op->row.data = op->data;
    return status;
}

static base_status write_line(ledger_op *op, const ledger_line *line, int64_t amount)
{
    const int64_t sequence = (int64_t)op->row.sequence;
    if (line->known) {
        return store_run_one(op->store, op->reterr, SQL_LINE_UPDATE,
                             "amount:i seq:i reservation:i id:t seq_before:i", amount, sequence,
                             line->reservation, line->id, (int64_t)line->sequence);
    }
    return store_run(op->store, op->reterr, SQL_LINE_INSERT,
                     "vendor:t instance:t id:t reservation:i amount:i seq:i", line->vendor,
                     line->instance, line->id, line->reservation, amount, sequence);
}

static base_status write_actual(ledger_op *op, const budget_ledger_actual *actual,
                                const actual_effect *effect, const budget_reservation *before,
                                budget_reservation *after)
{
    base_status status = put_data(op, actual, effect, after);
    after->actual_ms = op->ledger->now.wall_ms;
    if (status == BASE_OK) {
        status = reservation_apply(op, before, after, effect->freeze);
    }
    if (status != BASE_OK || op->answer->reason != BUDGET_REASON_NONE) {
        return status;
    }
    if (effect->freeze) {
        actual_frozen_message(after, effect->passes_cap ? op->answer->account : NULL,
                              op->answer->message);
    }
    status = op_grant(op);
    return status == BASE_OK && actual->line_id != NULL
               ? write_line(op, &effect->line, actual->billed_usd_micro)
               : status;
}

static base_status record(ledger_op *op, const budget_ledger_actual *actual)
{
    budget_reservation before;
    base_status status = BASE_OK;
    actual_effect effect = {0};
    bool answered = false;
    op->row.text = actual->line_id;
    op->row.amount = actual->usd_micro;
    op->answer->asked_usd_micro = actual->usd_micro;
    if (!op_load(op, actual->label, &before, &status)) {
        return status;
    }
    if (actual->line_id != NULL) {
        status = find_line(op, actual, &before, &effect.line, &answered);
        if (status != BASE_OK || answered) {
            return status;
        }
    }
    budget_reservation after = before;
    const budget_rule_cost cost = {
        .amount = actual->usd_micro,
        .billed = actual->line_id != NULL,
        .final = actual->final,
    };
    const budget_reason reason = budget_rule_actual(&after.rule, &cost, &effect.freeze);
    if (reason != BUDGET_REASON_NONE ||
        !budget_money_add(before.billed_usd_micro,
                          cost.billed ? actual->billed_usd_micro - effect.line.amount : 0,
                          &after.billed_usd_micro)) {
        return op_refuse_overflow(op);
    }
    effect.starts = after.rule.state == BUDGET_STATE_CREATED &&
                    budget_rule_start(&after.rule, &op->ledger->now);
    status = look_at_caps(op, &before, &after, &effect);
    return status == BASE_OK ? write_actual(op, actual, &effect, &before, &after) : status;
}

static base_status check_actual(const budget_ledger_actual *actual, base_error *reterr)
{
    const int64_t limit = BUDGET_MONEY_MICRO_MAX;
    base_status status = text_check("a label", actual->label, BUDGET_LABEL_BYTES, reterr);
    if (status == BASE_OK && actual->line_id != NULL) {
        status = text_check("a line's id", actual->line_id, BUDGET_LINE_BYTES, reterr);
    }
    if (status == BASE_OK && actual->instance_id[0] != '\0') {
        status = text_check("an instance id", actual->instance_id, BUDGET_INSTANCE_BYTES, reterr);
    }
    if (status == BASE_OK) {
        status = evidence_size_check(actual->evidence, actual->evidence_bytes, reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    if (actual->usd_micro > limit || actual->usd_micro < -limit ||
        actual->billed_usd_micro > limit || actual->billed_usd_micro < -limit) {
        return base_fail(reterr, BASE_ERR_INVALID, "an actual is at most a billion dollars");
    }
    return BASE_OK;
}

base_status budget_ledger_record_actual(budget_ledger *ledger, const budget_caller *caller,
                                        const budget_ledger_actual *actual, budget_answer *answer,
                                        base_error *reterr)
{
    ledger_op op;
    budget_ledger_actual checked = *actual;
    if (checked.instance_id == NULL) {
        checked.instance_id = "";
    }
    base_status status = check_actual(&checked, reterr);
    if (op_begin(&op, ledger, caller, answer, reterr, &status)) {
        status = record(&op, &checked);
    }
    return op_end(&op, status);
}
