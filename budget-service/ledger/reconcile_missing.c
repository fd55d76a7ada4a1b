/* Looks for runs that should be on a bill and are not. Called by budget_reconcile_run, after the
 * bill's own lines. */
#include <stdlib.h>
#include <string.h>

#include "reconcile_core.h"

enum { PAGE = 256 };

static bool is_expected(const reconciler *self, const budget_reservation *run)
{
    const char *vendor = self->options->vendor;
    return strcmp(run->entry.vendor, "local") != 0 &&
           reconcile_is_vendors(vendor != NULL && vendor[0] != '\0' ? vendor : NULL,
                                run->entry.vendor);
}

/* Any line about it, on this bill or on one before. */
static bool is_billed(const reconciler *self, const budget_reservation *run)
{
    size_t low = 0;
    size_t high = self->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (self->lines[middle].reservation < run->id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return (low < self->count && self->lines[low].reservation == run->id) || run->rule.billed;
}

static void look_for(reconciler *self, const budget_reservation *run)
{
    budget_finding finding = {
        .kind = BUDGET_FINDING_MATCHED,
        .label = run->entry.label,
        .instance_id = run->entry.instance_id,
        .line_id = "",
        .ledger_usd_micro = run->rule.posted,
    };
    if (!is_expected(self, run) || is_billed(self, run) || run->authorized_ms > self->as_of_ms) {
        return;
    }
    switch (run->rule.state) {
    case BUDGET_STATE_CREATED:
    case BUDGET_STATE_EXPIRED_UNCONFIRMED:
        finding.kind =
            run->rule.posted != 0 ? BUDGET_FINDING_MISSING_IN_BILL : BUDGET_FINDING_UNKNOWN;
        break;
    case BUDGET_STATE_TERMINATED_UNBILLED:
        finding.kind = BUDGET_FINDING_MISSING_IN_BILL;
        break;
    case BUDGET_STATE_POSTED:
    case BUDGET_STATE_VOIDED:
    case BUDGET_STATE_RESERVED:
        if (run->rule.posted == 0) {
            return; /* nothing was spent, and nothing is billed */
        }
        finding.kind = BUDGET_FINDING_MISSING_IN_BILL;
        break;
    }
    reconcile_report(self, &finding);
}

base_status reconcile_look_for_missing(reconciler *self)
{
    int64_t after_id = 0;
    size_t count = PAGE;
    base_status status = BASE_OK;
    budget_reservation *page = malloc(PAGE * sizeof *page);
    if (page == NULL) {
        return base_fail(self->reterr, BASE_ERR_MEMORY, "no memory to reconcile");
    }
    while (status == BASE_OK && count == PAGE) {
        status = budget_ledger_list(self->ledger, after_id, PAGE, page, &count, self->reterr);
        for (size_t i = 0; status == BASE_OK && i < count; i++) {
            look_for(self, &page[i]);
            after_id = page[i].id;
        }
    }
    free(page);
    return status;
}
