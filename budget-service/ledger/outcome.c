/* Ledger operations on what came of an authorization, but for its cost: instances, termination,
 * voids, deadlines. Called by server/handle_facts.c, server/reaper.c and audit/replay.c. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "evidence.h"
#include "ledger_core.h"
#include "rules/mutation.h"

/* ---- attach ---- */

static base_status count_instances(ledger_op *op, int64_t reservation, int64_t *count)
{
    return store_number(op->store, op->reterr, SQL_INSTANCE_COUNT, count, "reservation:i",
                        reservation);
}

/* The deadline starts, if there is none, and the row says when it ends; and in which account of the vendor it is, if
 * nobody has said that before. */
static base_status start(ledger_op *op, const budget_reservation *before,
                         const char *vendor_account)
{
    budget_reservation after = *before;
    bool placed = false;
    op->row.state = before->rule.state;
    base_status status = reservation_place(op, &after, vendor_account, &placed);
    const bool started = budget_rule_start(&after.rule, &op->ledger->now);
    if (status != BASE_OK || op->answer->reason != BUDGET_REASON_NONE || (!started && !placed)) {
        return status;
    }
    base_writer writer = base_writer_make(op->data, sizeof op->data);
    base_write_u64(&writer, started ? (uint64_t)after.rule.deadline_ms : 0);
    base_write_bytes(&writer, vendor_account, placed ? strlen(vendor_account) : 0);
    op->row.data = op->data;
    op->row.data_bytes = writer.offset_bytes;
    return reservation_apply(op, before, &after, false);
}

/* Whether the run has ended by a proof that does not describe this instance. An admin's word is about the
 * run, whatever its instances are called. */
static base_status find_unproven(ledger_op *op, const budget_reservation *found,
                                 const char *instance_id, bool *unproven)
{
    *unproven = found->rule.state == BUDGET_STATE_TERMINATED_UNBILLED && !found->rule.refuted &&
                !found->entry.attested;
    if (!*unproven) {
        return BASE_OK;
    }
    base_status status = store_query(op->store, op->reterr, SQL_EVIDENCE_GET, "digest:b",
                                     found->evidence, sizeof found->evidence);
    if (store_next(op->store, SQL_EVIDENCE_GET, &status, op->reterr)) {
        size_t size_bytes = 0;
        const void *bytes = store_blob(op->store, SQL_EVIDENCE_GET, 0, &size_bytes);
        *unproven = !evidence_describes(bytes, size_bytes, instance_id);
        store_done(op->store, SQL_EVIDENCE_GET);
    }
    if (*unproven) {
        op_say_refuted(op);
    }
    return status;
}

/* An instance that the run has already: the answer of then, or a row that says its account. */
static base_status attach_again(ledger_op *op, const budget_reservation *found,
                                const budget_attachment *what, uint64_t sequence)
{
    op->row.kind = BUDGET_KIND_ATTACH;
    const base_status status = start(op, found, what->vendor_account);
    if (status != BASE_OK || op->answer->reason != BUDGET_REASON_NONE) {
        return status;
    }
    return op->row.data != NULL ? op_grant(op) : op_replay(op, sequence);
}

/* Why it may not have one more, if it may not. */
static base_status look(ledger_op *op, const budget_reservation *found)
{
    int64_t count = 0;
    const char *label = found->entry.label;
    if (found->rule.state == BUDGET_STATE_VOIDED) {
        return op_refuse(
            op, BUDGET_REASON_STATE,
            "%s is voided, so nothing may be created for it: authorize a job anew, under "
            "another label",
            label);
    }
    const base_status status = count_instances(op, found->id, &count);
    if (status == BASE_OK && (count >= found->instances || count >= BUDGET_INSTANCES_MAX)) {
        return op_refuse(
            op, BUDGET_REASON_INSTANCE_USED,
            "%.80s is for %" PRId64
            " instance%s and has %s: end this one, or authorize it under a label of its "
            "own; an admin sets a mistyped id right with --replaces",
            label, count, count == 1 ? "" : "s", count == 1 ? "it" : "them");
    }
    return status;
}

/* *refutes: the instance is attached, and the proof of the run's end was not about it. */
static base_status attach(ledger_op *op, const budget_attachment *what, bool *refutes)
{
    budget_reservation found;
    base_status status = BASE_OK;
    const char *instance_id = what->instance_id;
    op->row.text = instance_id;
    if (!op_load(op, what->label, &found, &status)) {
        return status;
    }
    status = store_query(op->store, op->reterr, SQL_INSTANCE_GET, "id:t vendor:t", instance_id,
                         found.entry.vendor);
    if (store_next(op->store, SQL_INSTANCE_GET, &status, op->reterr)) {
        const int64_t owner = store_int(op->store, SQL_INSTANCE_GET, 0);
        const uint64_t sequence = (uint64_t)store_int(op->store, SQL_INSTANCE_GET, 1);
        store_done(op->store, SQL_INSTANCE_GET);
        return owner == found.id ? attach_again(op, &found, what, sequence)
                                 : op_refuse_owned(op, &found, owner, instance_id);
    }
    status = status == BASE_OK ? look(op, &found) : status;
    if (status == BASE_OK && op->answer->reason == BUDGET_REASON_NONE) {
        status = start(op, &found, what->vendor_account);
    }
    if (status != BASE_OK || op->answer->reason != BUDGET_REASON_NONE) {
        return status;
    }
    status = find_unproven(op, &found, instance_id, refutes);
    op->row.kind = BUDGET_KIND_ATTACH;
    status = status == BASE_OK ? op_grant(op) : status;
    return status == BASE_OK ? store_run(op->store, op->reterr, SQL_INSTANCE_INSERT,
                                         "id:t vendor:t reservation:i seq:i", instance_id,
                                         found.entry.vendor, found.id, (int64_t)op->row.sequence)
                             : status;
}

base_status budget_ledger_attach(budget_ledger *ledger, const budget_caller *caller,
                                 const budget_attachment *what, budget_answer *answer,
                                 base_error *reterr)
{
    ledger_op op;
    base_status status = text_check("a label", what->label, BUDGET_LABEL_BYTES, reterr);
    if (status == BASE_OK) {
        status = text_check("an instance id", what->instance_id, BUDGET_INSTANCE_BYTES, reterr);
    }
    if (status == BASE_OK && what->vendor_account[0] != '\0') {
        status = text_check("an account of the vendor", what->vendor_account,
                            BUDGET_VENDOR_ACCOUNT_BYTES, reterr);
    }
    bool refutes = false;
    if (op_begin(&op, ledger, caller, answer, reterr, &status)) {
        status = attach(&op, what, &refutes);
    }
    status = op_end(&op, status);
    if (status != BASE_OK || !refutes || ledger->again != NULL) { /* an audit has that row next */
        return status;
    }
    const budget_caller by = {.client = caller != NULL ? caller->client : 0};
    return reservation_refute(ledger, &by, op.row.reservation, reterr);
}

/* ---- termination ---- */

static base_status load_instances(ledger_op *op, int64_t reservation, evidence_expected *expected)
{
    base_status status =
        store_query(op->store, op->reterr, SQL_INSTANCE_WALK, "reservation:i", reservation);
    while (store_next(op->store, SQL_INSTANCE_WALK, &status, op->reterr)) {
        if (expected->instance_count < BUDGET_INSTANCES_MAX) {
            store_copy_text(op->store, SQL_INSTANCE_WALK, 0,
                            expected->instances[expected->instance_count++], BUDGET_INSTANCE_BYTES);
        }
    }
    return status;
}

/* Whether a person may vouch for what this file does not prove. */
static bool may_attest(const budget_termination *termination)
{
    return termination->attest == BUDGET_ATTEST_ANY_FILE ||
           (termination->attest == BUDGET_ATTEST_OTHER_FILES &&
            !evidence_is_drivers(termination->evidence, termination->evidence_bytes));
}

static base_status terminate(ledger_op *op, budget_termination *termination)
{
    budget_reservation before;
    base_error why = {0};
    base_status status = BASE_OK;
    if (!op_load(op, termination->label, &before, &status)) {
        return status;
    }
    const bool anew = before.rule.refuted || !before.rule.terminated;
    int64_t after_s = (before.started_ms != 0 ? before.started_ms : before.authorized_ms) / 1000;
    if (before.rule.refuted) { /* the evidence of that end is none of this one */
        after_s = wall_of(op->ledger, before.rule.ended_ms) / 1000 + EVIDENCE_CLOCK_SLACK_S + 1;
    }
    evidence_expected expected = {
        .vendor = before.entry.vendor,
        .jti = before.entry.jti,
        .vendor_account = before.entry.vendor_account,
        .after_s = after_s,
        .now_s = op->ledger->now.wall_ms / 1000,
        .instances_max = BUDGET_MUTANT(PROVEN_IN_PART) ? 0 : before.instances,
    };
    status = load_instances(op, before.id, &expected);
    if (status != BASE_OK) {
        return status;
    }
    termination->attested = evidence_check(termination->evidence, termination->evidence_bytes,
                                           &expected, &why) != BASE_OK;
    if (termination->attested && !may_attest(termination)) {
        const bool is_drivers =
            evidence_is_drivers(termination->evidence, termination->evidence_bytes);
        return op_refuse(op, BUDGET_REASON_EVIDENCE, "%.210s; an admin may vouch for the end%s",
                         why.message, is_drivers ? " with --attested" : "");
    }
    if (termination->attested) {
        (void)snprintf(op->answer->message, sizeof op->answer->message, "%.200s", why.message);
    }
    budget_reservation after = before;
    const budget_reason reason = budget_rule_terminated(&after.rule, &op->ledger->now);
    if (reason != BUDGET_REASON_NONE) {
        return op_refuse(op, reason, "%s is %s", before.entry.label,
                         budget_state_name(before.rule.state));
    }
    status =
        op_keep_evidence(op, termination->evidence, termination->evidence_bytes, after.evidence);
    after.has_evidence = true;
    after.entry.attested = termination->attested && (before.entry.attested || anew);
    op->data[0] = termination->attested ? JOURNAL_END_ATTESTED : JOURNAL_END_PROVEN;
    memcpy(op->data + 1, after.evidence, sizeof after.evidence);
    op->row.kind = BUDGET_KIND_TERMINATED;
    op->row.data = op->data;
    op->row.data_bytes = 1 + sizeof after.evidence;
    return status == BASE_OK ? reservation_change(op, &before, &after) : status;
}

base_status budget_ledger_terminated(budget_ledger *ledger, const budget_caller *caller,
                                     budget_termination *termination, budget_answer *answer,
                                     base_error *reterr)
{
    ledger_op op;
    base_status status = text_check("a label", termination->label, BUDGET_LABEL_BYTES, reterr);
    if (status == BASE_OK) {
        status =
            termination->evidence == NULL
                ? base_fail(reterr, BASE_ERR_INVALID, "termination needs evidence")
                : evidence_size_check(termination->evidence, termination->evidence_bytes, reterr);
    }
    if (op_begin(&op, ledger, caller, answer, reterr, &status)) {
        status = terminate(&op, termination);
    }
    return op_end(&op, status);
}

/* ---- void ---- */

static base_status void_it(ledger_op *op, const char *label)
{
    budget_reservation before;
    base_status status = BASE_OK;
    int64_t instances = 0;
    if (!op_load(op, label, &before, &status)) {
        return status;
    }
    budget_reservation after = before;
    const budget_reason reason = budget_rule_void(&after.rule);
    if (reason != BUDGET_REASON_NONE) {
        return op_refuse(op, reason,
                         "the state of %s is %s: only what was never redeemed, and has no instance "
                         "and no cost, can be voided%s",
                         label, budget_state_name(before.rule.state),
                         before.rule.state == BUDGET_STATE_VOIDED
                             ? ""
                             : "; else budget-service terminated, and record-actual or reconcile");
    }
    status = count_instances(op, before.id, &instances);
    if (status == BASE_OK && instances > 0) { /* made without leave, and billed all the same */
        return op_refuse(op, BUDGET_REASON_STATE,
                         "%s has an instance: its money returns by terminated and its cost", label);
    }
    op->row.kind = BUDGET_KIND_VOID;
    return status == BASE_OK ? reservation_change(op, &before, &after) : status;
}

base_status budget_ledger_void(budget_ledger *ledger, const budget_caller *caller,
                               const char *label, budget_answer *answer, base_error *reterr)
{
    ledger_op op;
    base_status status = text_check("a label", label, BUDGET_LABEL_BYTES, reterr);
    if (op_begin(&op, ledger, caller, answer, reterr, &status)) {
        status = void_it(&op, label);
    }
    return op_end(&op, status);
}

/* ---- the reaper ---- */

static base_status next_due(budget_ledger *ledger, budget_reservation *found, bool *row,
                            base_error *reterr)
{
    store_db *store = &ledger->store;
    base_status status =
        store_query(store, reterr, SQL_RESERVATION_DUE, "now:i", ledger->now.ledger_ms);
    *row = store_next(store, SQL_RESERVATION_DUE, &status, reterr);
    if (*row) {
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
        budget_reservation before;
        bool row = false;
        if (op_begin(&op, ledger, NULL, &answer, reterr, &status)) {
            status = next_due(ledger, &before, &row, reterr);
        }
        if (!row) {
            break;
        }
        budget_reservation after = before;
        if (!budget_rule_expire(&after.rule, &ledger->now)) {
            break;
        }
        op.row.kind = BUDGET_KIND_EXPIRE;
        status = reservation_change(&op, &before, &after);
        if (answer.reason != BUDGET_REASON_NONE) {
            break;
        }
        if (status == BASE_OK && !after.rule.terminated) {
            found[*count] = after;
            status = reservation_describe(ledger, &found[*count], reterr);
            *count += 1;
        }
    }
    return op_end(&op, status);
}

base_status budget_ledger_next_deadline(budget_ledger *ledger, const budget_clock *clock,
                                        int64_t *after_ms, base_error *reterr)
{
    int64_t deadline_ms = 0;
    const base_status status =
        store_number(&ledger->store, reterr, SQL_RESERVATION_NEXT_DEADLINE, &deadline_ms, "");
    if (status != BASE_OK) {
        return status;
    }
    const int64_t left = deadline_ms - budget_clock_ledger_ms(&ledger->anchor, clock);
    *after_ms = deadline_ms == 0 ? -1 : (left > 0 ? left : 0);
    return BASE_OK;
}
