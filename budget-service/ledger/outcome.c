#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "budget/money.h"
#include "evidence.h"
#include "ledger_core.h"

/* The reservation of a label, or a refusal: *status tells, and false that there is none. */
static bool load(ledger_op *op, const char *label, ledger_reservation *found, base_status *status)
{
    *status = reservation_load(op->ledger, SQL_RESERVATION_BY_LABEL, label, found, op->reterr);
    if (*status == BASE_ERR_NOTFOUND) {
        *status = op_refuse(op, BUDGET_REASON_LABEL_UNKNOWN, "there is no label %s", label);
        return false;
    }
    if (*status == BASE_OK) {
        op_about(op, found->id, found->account, found->label);
    }
    return *status == BASE_OK;
}

static base_status overflow_refused(ledger_op *op)
{
    return op_refuse(op, BUDGET_REASON_OVERFLOW, "the sum would leave what money may be");
}

static base_status keep_evidence(ledger_op *op, const void *bytes, size_t size_bytes,
                                 uint8_t digest[BUDGET_DIGEST_BYTES])
{
    (void)crypto_generichash(digest, BUDGET_DIGEST_BYTES, bytes, size_bytes, NULL, 0);
    return store_run(op->store, op->reterr, SQL_EVIDENCE_INSERT, "bb", digest,
                     (size_t)BUDGET_DIGEST_BYTES, bytes, size_bytes);
}

static base_status check_evidence(const void *evidence, size_t size_bytes, base_error *reterr)
{
    if (evidence != NULL && (size_bytes == 0 || size_bytes > BUDGET_EVIDENCE_BYTES_MAX)) {
        return base_fail(reterr, BASE_ERR_INVALID, "evidence has 1 to %d bytes",
                         BUDGET_EVIDENCE_BYTES_MAX);
    }
    return BASE_OK;
}

/* ---- attach ---- */

static base_status count_instances(ledger_op *op, int64_t reservation, int64_t *count)
{
    bool row = false;
    base_status status = store_query(op->store, op->reterr, SQL_INSTANCE_COUNT, "i", reservation);
    status =
        status == BASE_OK ? store_next(op->store, SQL_INSTANCE_COUNT, &row, op->reterr) : status;
    if (status == BASE_OK) {
        *count = store_int(op->store, SQL_INSTANCE_COUNT, 0);
        store_done(op->store, SQL_INSTANCE_COUNT);
    }
    return status;
}

static base_status attach(ledger_op *op, const char *label, const char *instance_id)
{
    ledger_reservation found;
    base_status status = BASE_OK;
    bool row = false;
    int64_t count = 0;
    op->row.text = instance_id;
    if (!load(op, label, &found, &status)) {
        return status;
    }
    status = store_query(op->store, op->reterr, SQL_INSTANCE_GET, "t", instance_id);
    status = status == BASE_OK ? store_next(op->store, SQL_INSTANCE_GET, &row, op->reterr) : status;
    if (status == BASE_OK && row) {
        const int64_t owner = store_int(op->store, SQL_INSTANCE_GET, 0);
        const uint64_t sequence = (uint64_t)store_int(op->store, SQL_INSTANCE_GET, 1);
        store_done(op->store, SQL_INSTANCE_GET);
        return owner == found.id
                   ? op_replay(op, sequence)
                   : op_refuse(op, BUDGET_REASON_INSTANCE_USED,
                               "the instance %s belongs to another label", instance_id);
    }
    if (status == BASE_OK && found.rule.state == BUDGET_STATE_VOIDED) {
        return op_refuse(op, BUDGET_REASON_STATE, "%s is voided", label);
    }
    status = status == BASE_OK ? count_instances(op, found.id, &count) : status;
    if (status == BASE_OK && (count >= found.instances || count >= BUDGET_INSTANCES_MAX)) {
        return op_refuse(op, BUDGET_REASON_INSTANCE_USED,
                         "%s has its %" PRId64 " instance%s already", label, count,
                         count == 1 ? "" : "s");
    }
    op->row.kind = BUDGET_KIND_ATTACH;
    op->row.state = found.rule.state;
    status = status == BASE_OK ? op_grant(op) : status;
    return status == BASE_OK ? store_run(op->store, op->reterr, SQL_INSTANCE_INSERT, "tii",
                                         instance_id, found.id, (int64_t)op->row.sequence)
                             : status;
}

base_status budget_ledger_attach(budget_ledger *ledger, const budget_caller *caller,
                                 const char *label, const char *instance_id, budget_answer *answer,
                                 base_error *reterr)
{
    ledger_op op;
    base_status status = text_check("a label", label, BUDGET_LABEL_BYTES, reterr);
    if (status == BASE_OK) {
        status = text_check("an instance id", instance_id, BUDGET_INSTANCE_BYTES, reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    status = op_begin(&op, ledger, caller, answer, reterr);
    if (status == BASE_OK && !op.replayed) {
        status = attach(&op, label, instance_id);
    }
    return op_end(&op, status);
}

/* ---- actuals ---- */

/* A line that was recorded before: the same is the same answer, another is refused. */
static base_status find_line(ledger_op *op, const budget_actual *actual, int64_t reservation,
                             bool *known)
{
    bool row = false;
    base_status status = store_query(op->store, op->reterr, SQL_LINE_GET, "t", actual->line_id);
    status = status == BASE_OK ? store_next(op->store, SQL_LINE_GET, &row, op->reterr) : status;
    *known = row;
    if (status != BASE_OK || !row) {
        return status;
    }
    const bool same = store_int(op->store, SQL_LINE_GET, 0) == reservation &&
                      store_int(op->store, SQL_LINE_GET, 1) == actual->billed_usd_micro;
    const uint64_t sequence = (uint64_t)store_int(op->store, SQL_LINE_GET, 2);
    store_done(op->store, SQL_LINE_GET);
    return same ? op_replay(op, sequence)
                : op_refuse(op, BUDGET_REASON_LINE_USED,
                            "the bill's line %s was recorded before, otherwise", actual->line_id);
}

static void warn_frozen(ledger_op *op, const ledger_reservation *reservation)
{
    char posted[BUDGET_MONEY_BYTES];
    char amount[BUDGET_MONEY_BYTES];
    budget_money_format(reservation->rule.posted, posted);
    budget_money_format(reservation->rule.amount, amount);
    (void)snprintf(op->answer->words, sizeof op->answer->words,
                   "%s cost %s USD, above its %s USD: the account is frozen until an admin "
                   "acknowledges",
                   reservation->label, posted, amount);
}

static base_status write_actual(ledger_op *op, const budget_actual *actual,
                                const ledger_reservation *before, ledger_reservation *after,
                                bool freeze)
{
    uint8_t digest[BUDGET_DIGEST_BYTES];
    bool overflow = false;
    base_status status = BASE_OK;
    base_writer writer = base_writer_make(op->data, sizeof op->data);
    base_write_u64(&writer, actual->line_id != NULL ? (uint64_t)actual->billed_usd_micro : 0);
    if (actual->evidence != NULL) {
        status = keep_evidence(op, actual->evidence, actual->evidence_bytes, digest);
        base_write_bytes(&writer, digest, sizeof digest);
        if (!after->rule.terminated) {
            after->has_evidence = true;
            memcpy(after->evidence, digest, sizeof digest);
        }
    }
    after->actual_ms = op->ledger->now.wall_ms;
    after->billed += actual->line_id != NULL ? actual->billed_usd_micro : 0;
    status = status == BASE_OK ? reservation_apply(op, before, after, freeze, &overflow) : status;
    if (status != BASE_OK) {
        return status;
    }
    if (overflow) {
        return overflow_refused(op);
    }
    if (freeze) {
        warn_frozen(op, after);
    }
    op->row.kind = BUDGET_KIND_ACTUAL;
    op->row.data = op->data;
    op->row.data_bytes = writer.offset_bytes;
    status = op_grant(op);
    if (status == BASE_OK && actual->line_id != NULL) {
        status = store_run(op->store, op->reterr, SQL_LINE_INSERT, "tiii", actual->line_id,
                           before->id, actual->billed_usd_micro, (int64_t)op->row.sequence);
    }
    return status;
}

static base_status record(ledger_op *op, const budget_actual *actual)
{
    ledger_reservation before;
    base_status status = BASE_OK;
    bool known = false;
    bool freeze = false;
    op->row.text = actual->line_id;
    op->row.amount = actual->usd_micro;
    op->answer->asked_usd_micro = actual->usd_micro;
    if (!load(op, actual->label, &before, &status)) {
        return status;
    }
    if (actual->line_id != NULL) {
        status = find_line(op, actual, before.id, &known);
        if (status != BASE_OK || known) {
            return status;
        }
    }
    ledger_reservation after = before;
    int64_t billed = 0;
    const budget_reason reason = budget_rule_actual(&after.rule, actual->usd_micro, &freeze);
    if (reason != BUDGET_REASON_NONE ||
        !budget_money_add(before.billed, actual->billed_usd_micro, &billed)) {
        return overflow_refused(op);
    }
    return write_actual(op, actual, &before, &after, freeze);
}

base_status budget_ledger_record_actual(budget_ledger *ledger, const budget_caller *caller,
                                        const budget_actual *actual, budget_answer *answer,
                                        base_error *reterr)
{
    ledger_op op;
    const int64_t limit = BUDGET_MONEY_MICRO_MAX;
    base_status status = text_check("a label", actual->label, BUDGET_LABEL_BYTES, reterr);
    if (status == BASE_OK && actual->line_id != NULL) {
        status = text_check("a line's id", actual->line_id, BUDGET_LINE_BYTES, reterr);
    }
    if (status == BASE_OK) {
        status = check_evidence(actual->evidence, actual->evidence_bytes, reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    if (actual->usd_micro > limit || actual->usd_micro < (actual->line_id != NULL ? -limit : 0) ||
        actual->billed_usd_micro > limit || actual->billed_usd_micro < -limit) {
        return base_fail(reterr, BASE_ERR_INVALID, "an actual is between 0 and a billion dollars");
    }
    status = op_begin(&op, ledger, caller, answer, reterr);
    if (status == BASE_OK && !op.replayed) {
        status = record(&op, actual);
    }
    return op_end(&op, status);
}

/* ---- termination ---- */

static base_status load_instances(ledger_op *op, int64_t reservation, evidence_expected *expected)
{
    bool row = true;
    base_status status = store_query(op->store, op->reterr, SQL_INSTANCE_WALK, "i", reservation);
    while (status == BASE_OK && row) {
        status = store_next(op->store, SQL_INSTANCE_WALK, &row, op->reterr);
        if (status == BASE_OK && row && expected->instance_count < BUDGET_INSTANCES_MAX) {
            store_copy_text(op->store, SQL_INSTANCE_WALK, 0,
                            expected->instances[expected->instance_count++], BUDGET_INSTANCE_BYTES);
        }
    }
    store_done(op->store, SQL_INSTANCE_WALK);
    return status;
}

static base_status terminate(ledger_op *op, budget_termination *termination)
{
    ledger_reservation before;
    base_error why = {0};
    base_status status = BASE_OK;
    bool overflow = false;
    if (!load(op, termination->label, &before, &status)) {
        return status;
    }
    evidence_expected expected = {
        .vendor = before.vendor,
        .jti = before.jti,
        .after_s = (before.started_ms != 0 ? before.started_ms : before.authorized_ms) / 1000,
        .now_s = op->ledger->now.wall_ms / 1000,
    };
    status = load_instances(op, before.id, &expected);
    if (status != BASE_OK) {
        return status;
    }
    termination->attested = evidence_check(termination->evidence, termination->evidence_bytes,
                                           &expected, &why) != BASE_OK;
    if (termination->attested && !termination->attested_allowed) {
        return op_refuse(op, BUDGET_REASON_EVIDENCE, "%.200s", why.message);
    }
    ledger_reservation after = before;
    const budget_reason reason = budget_rule_terminated(&after.rule);
    if (reason != BUDGET_REASON_NONE) {
        return op_refuse(op, reason, "%s is %s", before.label,
                         budget_state_name(before.rule.state));
    }
    status = keep_evidence(op, termination->evidence, termination->evidence_bytes, after.evidence);
    after.has_evidence = true;
    after.attested = termination->attested && (before.attested || !before.rule.terminated);
    if (before.terminated_ms == 0) {
        after.terminated_ms = op->ledger->now.wall_ms;
    }
    status = status == BASE_OK ? reservation_apply(op, &before, &after, false, &overflow) : status;
    if (status != BASE_OK || overflow) {
        return status != BASE_OK ? status : overflow_refused(op);
    }
    op->data[0] = (uint8_t)termination->attested;
    memcpy(op->data + 1, after.evidence, sizeof after.evidence);
    op->row.kind = BUDGET_KIND_TERMINATED;
    op->row.data = op->data;
    op->row.data_bytes = 1 + sizeof after.evidence;
    return op_grant(op);
}

base_status budget_ledger_terminated(budget_ledger *ledger, const budget_caller *caller,
                                     budget_termination *termination, budget_answer *answer,
                                     base_error *reterr)
{
    ledger_op op;
    base_status status = text_check("a label", termination->label, BUDGET_LABEL_BYTES, reterr);
    if (status == BASE_OK) {
        status = termination->evidence == NULL
                     ? base_fail(reterr, BASE_ERR_INVALID, "termination needs evidence")
                     : check_evidence(termination->evidence, termination->evidence_bytes, reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    status = op_begin(&op, ledger, caller, answer, reterr);
    if (status == BASE_OK && !op.replayed) {
        status = terminate(&op, termination);
    }
    return op_end(&op, status);
}

/* ---- void ---- */

static base_status void_it(ledger_op *op, const char *label)
{
    ledger_reservation before;
    base_status status = BASE_OK;
    bool overflow = false;
    if (!load(op, label, &before, &status)) {
        return status;
    }
    ledger_reservation after = before;
    const budget_reason reason = budget_rule_void(&after.rule);
    if (reason != BUDGET_REASON_NONE) {
        return op_refuse(op, reason, "%s is %s: only what was never redeemed can be voided", label,
                         budget_state_name(before.rule.state));
    }
    status = reservation_apply(op, &before, &after, false, &overflow);
    if (status != BASE_OK || overflow) {
        return status != BASE_OK ? status : overflow_refused(op);
    }
    op->row.kind = BUDGET_KIND_VOID;
    return op_grant(op);
}

base_status budget_ledger_void(budget_ledger *ledger, const budget_caller *caller,
                               const char *label, budget_answer *answer, base_error *reterr)
{
    ledger_op op;
    base_status status = text_check("a label", label, BUDGET_LABEL_BYTES, reterr);
    if (status != BASE_OK) {
        return status;
    }
    status = op_begin(&op, ledger, caller, answer, reterr);
    if (status == BASE_OK && !op.replayed) {
        status = void_it(&op, label);
    }
    return op_end(&op, status);
}

/* ---- the reaper ---- */

static base_status next_due(budget_ledger *ledger, ledger_reservation *found, bool *row,
                            base_error *reterr)
{
    store_db *store = &ledger->store;
    base_status status =
        store_query(store, reterr, SQL_RESERVATION_DUE, "i", ledger->now.ledger_ms);
    status = status == BASE_OK ? store_next(store, SQL_RESERVATION_DUE, row, reterr) : status;
    if (status == BASE_OK && *row) {
        reservation_read(store, SQL_RESERVATION_DUE, found);
        store_done(store, SQL_RESERVATION_DUE);
    }
    return status;
}

base_status budget_ledger_expire(budget_ledger *ledger, size_t max, budget_reservation *found,
                                 size_t *count, base_error *reterr)
{
    ledger_op op;
    budget_answer answer;
    base_status status = BASE_OK;
    *count = 0;
    for (size_t done = 0; done < max && status == BASE_OK; done++) {
        ledger_reservation before;
        bool row = false;
        bool overflow = false;
        status = op_begin(&op, ledger, NULL, &answer, reterr);
        status = status == BASE_OK ? next_due(ledger, &before, &row, reterr) : status;
        if (status != BASE_OK || !row) {
            break;
        }
        ledger_reservation after = before;
        if (!budget_rule_expire(&after.rule, &ledger->now)) {
            break;
        }
        if (after.rule.terminated) {
            after.terminated_ms = ledger->now.wall_ms;
        }
        op.row.kind = BUDGET_KIND_EXPIRE;
        status = reservation_apply(&op, &before, &after, false, &overflow);
        status = status == BASE_OK ? op_grant(&op) : status;
        if (status == BASE_OK && !after.rule.terminated) {
            status = reservation_public(ledger, &after, &found[*count], reterr);
            *count += 1;
        }
    }
    return op_end(&op, status);
}

base_status budget_ledger_next_deadline(budget_ledger *ledger, const budget_clock *clock,
                                        int64_t *after_ms, base_error *reterr)
{
    bool row = false;
    store_db *store = &ledger->store;
    base_status status = store_query(store, reterr, SQL_RESERVATION_NEXT_DEADLINE, "");
    status =
        status == BASE_OK ? store_next(store, SQL_RESERVATION_NEXT_DEADLINE, &row, reterr) : status;
    if (status != BASE_OK) {
        return status;
    }
    const int64_t deadline_ms = store_int(store, SQL_RESERVATION_NEXT_DEADLINE, 0);
    store_done(store, SQL_RESERVATION_NEXT_DEADLINE);
    const int64_t left = deadline_ms - budget_clock_ledger_ms(&ledger->anchor, clock);
    *after_ms = deadline_ms == 0 ? -1 : (left > 0 ? left : 0);
    return BASE_OK;
}
