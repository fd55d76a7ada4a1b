/* What a bill says of the end of a run: that it was none, or that the cost is final. Called by
 * reconcile.c for each run that is on the bill. */
#include <string.h>

#include "evidence.h"
#include "reconcile_core.h"
#include "rules/mutation.h"

/* What a bill must show of each instance. */
typedef struct billed_span {
    int64_t from_s; /* its first period begins then at the latest */
    int64_t
        as_of_s; /* a period that ends later is billed in part, like a vendor's hour that goes on */
    bool alone;  /* lines that name no instance are about it */
} billed_span;

/* The latest end of a period billed for the instance (NULL: for any); 0: none is said, or the first one
 * begins too late. A line without a time may begin at any. Credits bill no time. */
static int64_t latest_until(const matched_line *lines, size_t count, const char *instance,
                            const billed_span *span)
{
    int64_t latest_s = 0;
    int64_t first_s = INT64_MAX;
    for (size_t i = 0; i < count; i++) {
        const budget_charge *charge = lines[i].charge;
        const bool named = charge->instance_id[0] != '\0';
        const bool ours =
            instance == NULL || (named ? strcmp(charge->instance_id, instance) == 0 : span->alone);
        if (!ours || charge->usd_micro <= 0) {
            continue;
        }
        first_s = charge->at_s < first_s ? charge->at_s : first_s;
        if (charge->until_s > latest_s && charge->until_s <= span->as_of_s) {
            latest_s = charge->until_s;
        }
    }
    return first_s <= span->from_s ? latest_s : 0;
}

/* By how much a period that is billed may lie off the run's time. */
static int64_t slack_s(const reconciler *self, const budget_reservation *found)
{
    return EVIDENCE_CLOCK_SLACK_S +
           budget_policy_granularity_seconds(self->options->policy, found->entry.vendor);
}

/* Since when the run may have been billed. A token that was never redeemed says nothing of that: then an
 * instance was made by hand, at any time since the grant. */
static int64_t begin_s(const reconciler *self, const budget_reservation *found)
{
    return found->started_ms != 0
               ? wall_of(self->ledger, found->rule.deadline_ms) / 1000 - found->rule.max_seconds
               : found->authorized_ms / 1000;
}

/* Until when every instance that the token allows is billed by these lines, wall time; 0: one is not,
 * or not since the run began: an earlier part of it may be on no bill, whatever bills before had. A line
 * that names no instance counts where there is one at most. *all: each is known, so that none is left
 * out of the proof of the end. */
static base_status billed_until(reconciler *self, const budget_reservation *found,
                                const matched_line *lines, size_t count, int64_t *until_ms,
                                bool *all)
{
    int64_t instances = 0;
    int64_t least_s = INT64_MAX;
    const billed_span span = {
        .from_s =
            BUDGET_MUTANT(START_IGNORED) ? INT64_MAX : begin_s(self, found) + slack_s(self, found),
        .as_of_s = self->as_of_ms / 1000,
        .alone = found->instances == 1,
    };
    store_db *store = &self->ledger->store;
    base_status status =
        store_query(store, self->reterr, SQL_INSTANCE_WALK, "reservation:i", found->id);
    while (store_next(store, SQL_INSTANCE_WALK, &status, self->reterr)) {
        const char *instance = store_text(store, SQL_INSTANCE_WALK, 0);
        const int64_t until_s = latest_until(lines, count, instance, &span);
        least_s = until_s < least_s ? until_s : least_s;
        instances++;
    }
    if (instances == 0 && span.alone) {
        least_s = latest_until(lines, count, NULL, &span);
        instances = 1;
    }
    *all = instances == found->instances;
    *until_ms = *all ? least_s * 1000 : 0;
    return status;
}

base_status reconcile_finalize(reconciler *self, const budget_reservation *found,
                               const matched_line *lines, size_t count)
{
    const budget_ledger *ledger = self->ledger;
    bool all = false;
    budget_rule_bill bill = {
        .until_ms = self->as_of_ms - ledger->anchor.offset_ms,
        .settling_ms =
            1000 * budget_policy_settling_seconds(self->options->policy, found->entry.vendor),
    };
    base_status status = billed_until(self, found, lines, count, &bill.billed_until_ms, &all);
    if (!all && !found->entry.attested) { /* lines of one that is not attached find no run */
        bill.settling_ms = INT64_MAX;
    }
    if (bill.billed_until_ms != 0) {
        bill.billed_until_ms -= ledger->anchor.offset_ms;
    }
    /* A line that nobody reads may be about this run, and for a time after its end. */
    const bool whole =
        self->result->counts[BUDGET_FINDING_AMBIGUOUS] == 0 && self->result->passed_over == 0;
    if (status == BASE_OK && whole) {
        status = reservation_finalize(self->ledger, &self->caller, found->id, &bill, self->reterr);
    }
    budget_reservation after;
    if (status == BASE_OK) {
        status = reservation_load_id(self->ledger, found->id, &after, self->reterr);
    }
    if (status == BASE_OK && after.rule.state == BUDGET_STATE_TERMINATED_UNBILLED) {
        self->result->unsettled++;
        self->result->unsettled_usd_micro += after.rule.held;
    }
    return status;
}

bool reconcile_look_after_the_end(reconciler *self, const budget_reservation *found,
                                  const matched_line *lines, size_t count)
{
    budget_finding finding = {
        .kind = BUDGET_FINDING_AFTER_THE_END,
        .label = found->entry.label,
        .line_id = "",
        .known = found->rule.final,
    };
    const int64_t end_s = wall_of(self->ledger, found->rule.ended_ms) / 1000 + slack_s(self, found);
    for (size_t i = 0; i < count && found->rule.terminated; i++) {
        const budget_charge *charge = lines[i].charge;
        if (charge->usd_micro > 0 && charge->at_s > end_s) {
            finding.instance_id =
                finding.instance_id == NULL ? charge->instance_id : finding.instance_id;
            finding.ledger_usd_micro += lines[i].recorded;
            finding.bill_usd_micro += charge->usd_micro;
            finding.known = finding.known && !reconcile_is_news(&lines[i]);
        }
    }
    if (finding.instance_id == NULL && found->rule.refuted) {
        finding.instance_id = lines[0].charge->instance_id;
    }
    if (finding.instance_id != NULL) {
        reconcile_report(self, &finding);
    }
    return finding.instance_id != NULL;
}
