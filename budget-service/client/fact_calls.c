/* Calls of role reconcile: record a cost, reconcile a bill, audit. Called by the commands of
 * cli/. */
#include <stdlib.h>

#include "client_impl.h"

budget_verdict budget_record_actual(budget_client *client, const budget_actual *actual,
                                    base_error *why)
{
    Ringfence__Budget__RecordActual body = RINGFENCE__BUDGET__RECORD_ACTUAL__INIT;
    body.label = budget_wire_text(actual->label);
    body.usd_micro = actual->usd_micro;
    body.line_id = budget_wire_text(actual->line_id);
    body.partial = actual->partial;
    body.evidence.data = (uint8_t *)(uintptr_t)actual->evidence;
    body.evidence.len = actual->evidence != NULL ? actual->evidence_bytes : 0;
    return budget_tell_service(client, &body.base, why);
}

static budget_verdict hand_over(const Ringfence__Budget__Reconciled *got,
                                budget_difference_fn difference_fn, void *user,
                                budget_reconciliation *result, base_error *why)
{
    *result = (budget_reconciliation){
        .matched = got->matched,
        .missing_in_bill = got->missing_in_bill,
        .missing_in_ledger = got->missing_in_ledger,
        .differing = got->differing,
        .unknown = got->unknown,
        .ambiguous = got->ambiguous,
        .after_the_end = got->after_the_end,
        .frozen = got->frozen,
        .passed_over = got->passed_over,
        .unsettled = got->unsettled,
        .unsettled_usd_micro = got->unsettled_usd_micro,
    };
    for (size_t i = 0; i < got->n_differences && difference_fn != NULL; i++) {
        budget_difference difference;
        if (!budget_shape_read(&budget_difference_shape, &got->differences[i]->base, &difference)) {
            return budget_broken_answer(why);
        }
        difference_fn(user, &difference);
    }
    return BUDGET_GRANTED;
}

budget_verdict budget_reconcile(budget_client *client, const budget_bill *bill,
                                budget_difference_fn difference, void *user,
                                budget_reconciliation *result, base_error *why)
{
    Ringfence__Budget__Reconcile body = RINGFENCE__BUDGET__RECONCILE__INIT;
    budget_wire_response *response = NULL;
    if (bill->count > BUDGET_BILL_LINES_MAX) {
        (void)base_fail(
            why, BASE_ERR_LIMIT,
            "a bill of %zu lines: at most %d at once. Cut it into files, with all lines "
            "of a run in one of them, and reconcile each",
            bill->count, BUDGET_BILL_LINES_MAX);
        return BUDGET_FAILED;
    }
    Ringfence__Budget__BillLine *lines = calloc(bill->count + 1, sizeof lines[0]);
    body.lines = calloc(bill->count + 1, sizeof body.lines[0]);
    budget_verdict verdict = BUDGET_FAILED;
    if (lines == NULL || body.lines == NULL) {
        (void)base_fail(why, BASE_ERR_MEMORY, "no memory for a bill of %zu lines", bill->count);
        goto out;
    }
    for (size_t i = 0; i < bill->count; i++) {
        budget_shape_write(&budget_charge_shape, &bill->charges[i], &lines[i].base);
        body.lines[i] = &lines[i];
    }
    body.n_lines = bill->count;
    body.as_of = bill->as_of;
    body.vendor = budget_wire_text(bill->vendor);
    verdict = budget_ask_service(client, &body.base, BUDGET_RESPONSE(RECONCILED), &response, why);
    if (verdict == BUDGET_GRANTED) {
        verdict = hand_over(response->reconciled, difference, user, result, why);
    }
out:
    free(body.lines);
    free(lines);
    return verdict;
}

budget_verdict budget_audit(budget_client *client, budget_audit_report *result, base_error *why)
{
    Ringfence__Budget__Audit body = RINGFENCE__BUDGET__AUDIT__INIT;
    budget_wire_response *response = NULL;
    const budget_verdict verdict =
        budget_ask_service(client, &body.base, BUDGET_RESPONSE(AUDITED), &response, why);
    if (verdict == BUDGET_GRANTED && !budget_audit_report_read(response->audited, result)) {
        return budget_broken_answer(why);
    }
    return verdict;
}
