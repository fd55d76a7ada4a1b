/* The request to reconcile a bill with the ledger. Called by access.c once the caller's role
 * allows it. */
#include <stdio.h>
#include <stdlib.h>

#include "bill_alarm.h"
#include "budget/reconcile.h"
#include "service.h"

/* The first findings, copied: they live only while they are visited. */
typedef struct findings {
    size_t count;
    budget_difference differences[SERVICE_DIFFERENCES_MAX];
    Ringfence__Budget__Difference rows[SERVICE_DIFFERENCES_MAX];
    Ringfence__Budget__Difference *pointers[SERVICE_DIFFERENCES_MAX];
    service_bill_sums sums; /* of all */
} findings;

static void collect(void *context, const budget_finding *finding)
{
    findings *all = context;
    service_bill_note(&all->sums, finding);
    if (all->count == SERVICE_DIFFERENCES_MAX) {
        return;
    }
    budget_difference *copy = &all->differences[all->count];
    Ringfence__Budget__Difference *row = &all->rows[all->count];
    (void)snprintf(copy->kind, sizeof copy->kind, "%s", budget_finding_name(finding->kind));
    (void)snprintf(copy->label, sizeof copy->label, "%s", finding->label);
    (void)snprintf(copy->instance_id, sizeof copy->instance_id, "%s", finding->instance_id);
    (void)snprintf(copy->line_id, sizeof copy->line_id, "%s", finding->line_id);
    if (finding->account != NULL) {
        (void)snprintf(copy->account, sizeof copy->account, "%s", finding->account);
        (void)snprintf(copy->message, sizeof copy->message, "%s", finding->message);
    }
    copy->ledger_usd_micro = finding->ledger_usd_micro;
    copy->bill_usd_micro = finding->bill_usd_micro;
    budget_shape_write(&budget_difference_shape, copy, &row->base);
    all->pointers[all->count++] = row;
}

/* The lines of a request as charges; the caller frees them. */
static base_status read_lines(const Ringfence__Budget__Reconcile *body, budget_charge **charges,
                              base_error *reterr)
{
    budget_charge *made = calloc(body->n_lines + 1, sizeof made[0]);
    base_status status = BASE_OK;
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a bill");
    }
    for (size_t i = 0; i < body->n_lines && status == BASE_OK; i++) {
        status = budget_charge_read(body->lines[i], &made[i], reterr);
        if (status != BASE_OK) {
            free(made);
            return base_error_prepend(reterr, status, "line %zu of the bill", i + 1);
        }
    }
    *charges = made;
    return BASE_OK;
}

static base_status put_result(const budget_reconciled *result, findings *all, service_item *item,
                              base_error *reterr)
{
    Ringfence__Budget__Reconciled reconciled = RINGFENCE__BUDGET__RECONCILED__INIT;
    reconciled.matched = (uint64_t)result->counts[BUDGET_FINDING_MATCHED];
    reconciled.missing_in_bill = (uint64_t)result->counts[BUDGET_FINDING_MISSING_IN_BILL];
    reconciled.missing_in_ledger = (uint64_t)result->counts[BUDGET_FINDING_MISSING_IN_LEDGER];
    reconciled.differing = (uint64_t)result->counts[BUDGET_FINDING_DIFFERING];
    reconciled.unknown = (uint64_t)result->counts[BUDGET_FINDING_UNKNOWN];
    reconciled.ambiguous = (uint64_t)result->counts[BUDGET_FINDING_AMBIGUOUS];
    reconciled.after_the_end = (uint64_t)result->counts[BUDGET_FINDING_AFTER_THE_END];
    reconciled.frozen = (uint64_t)result->counts[BUDGET_FINDING_FROZEN];
    reconciled.passed_over = (uint64_t)result->passed_over;
    reconciled.unsettled = (uint64_t)result->unsettled;
    reconciled.unsettled_usd_micro = result->unsettled_usd_micro;
    reconciled.differences = all->pointers;
    reconciled.n_differences = all->count;
    return service_item_done(item, &reconciled.base, reterr);
}

base_status service_reconcile(budget_service *service, const service_question *question,
                              service_item *item, base_error *reterr)
{
    const Ringfence__Budget__Reconcile *body = question->request->reconcile;
    budget_charge *charges = NULL;
    budget_reconciled result;
    findings *all = calloc(1, sizeof *all);
    if (all == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for a bill");
    }
    base_status status = read_lines(body, &charges, reterr);
    if (status == BASE_OK) {
        const budget_reconcile_options options = {
            .as_of_s = body->as_of,
            .vendor = body->vendor,
            .policy = service->policy,
            .charges = charges,
            .count = body->n_lines,
            .visit = collect,
            .context = all,
        };
        status =
            budget_reconcile_run(service->ledger, &question->caller, &options, &result, reterr);
    }
    if (status == BASE_OK) {
        service_bill_alarm(service, &all->sums, body->vendor);
        status = put_result(&result, all, item, reterr);
    }
    free(charges);
    free(all);
    return status;
}
