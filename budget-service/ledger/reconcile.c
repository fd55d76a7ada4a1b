/* Matching goes through a sorted list of the bill's lines, each with the reservation it belongs to,
 * so that one walk over them sees all lines of a label together. */
#include "budget/reconcile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "budget/money.h"
#include "ledger_core.h"

enum {
    ROUNDING_MICRO = 5000, /* half a cent for each line: what rounding to the cent can do */
    PAGE = 256,
};

typedef struct matched_line {
    const budget_charge *charge;
    int64_t reservation; /* 0: none */
    bool known;          /* recorded before */
    int64_t recorded;    /* then: as this */
} matched_line;

typedef struct reconciler {
    budget_ledger *ledger;
    const budget_caller *caller;
    const budget_reconcile_options *options;
    budget_reconciled *result;
    void (*visit)(void *context, const budget_finding *finding);
    void *context;
    base_error *reterr;
    matched_line *lines;
    size_t count;
} reconciler;

const char *budget_finding_name(budget_finding_kind kind)
{
    static const char *const names[BUDGET_FINDING_COUNT_] = {
        [BUDGET_FINDING_MATCHED] = "matched",
        [BUDGET_FINDING_MISSING_IN_BILL] = "missing_in_bill",
        [BUDGET_FINDING_MISSING_IN_LEDGER] = "missing_in_ledger",
        [BUDGET_FINDING_DIFFERING] = "differing",
        [BUDGET_FINDING_UNKNOWN] = "unknown",
    };
    return (unsigned)kind < BUDGET_FINDING_COUNT_ ? names[kind] : "unknown";
}

static void report(reconciler *self, const budget_finding *finding)
{
    self->result->counts[finding->kind]++;
    if (self->visit != NULL && finding->kind != BUDGET_FINDING_MATCHED) {
        self->visit(self->context, finding);
    }
}

/* ---- which reservation each line is about ---- */

/* By label, else by instance; 0 when the ledger knows neither. */
static base_status find_reservation(reconciler *self, const budget_charge *charge, int64_t *id)
{
    budget_reservation found;
    base_status status = BASE_ERR_NOTFOUND;
    *id = 0;
    if (charge->label[0] != '\0') {
        status = budget_ledger_find(self->ledger, charge->label, &found, self->reterr);
    }
    if (status == BASE_ERR_NOTFOUND && charge->instance_id[0] != '\0') {
        status =
            budget_ledger_find_instance(self->ledger, charge->instance_id, &found, self->reterr);
    }
    if (status == BASE_OK) {
        *id = found.id;
    }
    return status == BASE_ERR_NOTFOUND ? BASE_OK : status;
}

static base_status find_recorded(reconciler *self, matched_line *line)
{
    bool row = false;
    store_db *store = &self->ledger->store;
    base_status status = store_query(store, self->reterr, SQL_LINE_GET, "t", line->charge->line_id);
    status = status == BASE_OK ? store_next(store, SQL_LINE_GET, &row, self->reterr) : status;
    if (status == BASE_OK && row) {
        line->known = true;
        line->reservation = store_int(store, SQL_LINE_GET, 0);
        line->recorded = store_int(store, SQL_LINE_GET, 1);
        store_done(store, SQL_LINE_GET);
    }
    return status;
}

static void report_stray(reconciler *self, const budget_charge *charge)
{
    const bool named = charge->label[0] != '\0' || charge->instance_id[0] != '\0';
    const budget_finding finding = {
        .kind = named ? BUDGET_FINDING_MISSING_IN_LEDGER : BUDGET_FINDING_UNKNOWN,
        .label = charge->label,
        .instance_id = charge->instance_id,
        .line_id = charge->line_id,
        .bill_usd_micro = charge->usd_micro,
    };
    report(self, &finding);
}

static base_status match_lines(reconciler *self)
{
    for (size_t i = 0; i < self->options->count; i++) {
        const budget_charge *charge = &self->options->charges[i];
        matched_line *line = &self->lines[self->count];
        *line = (matched_line){.charge = charge};
        if (charge->at_s > self->options->as_of_s) {
            continue;
        }
        base_status status = find_recorded(self, line);
        if (status == BASE_OK && !line->known) {
            status = find_reservation(self, charge, &line->reservation);
        }
        if (status != BASE_OK) {
            return status;
        }
        if (line->reservation == 0) {
            report_stray(self, charge);
        } else {
            self->count++;
        }
    }
    return BASE_OK;
}

static int by_id(const void *a, const void *b)
{
    const matched_line *left = a;
    const matched_line *right = b;
    return strcmp(left->charge->line_id, right->charge->line_id);
}

static int by_reservation(const void *a, const void *b)
{
    const matched_line *left = a;
    const matched_line *right = b;
    const int order =
        (left->reservation > right->reservation) - (left->reservation < right->reservation);
    return order != 0 ? order : by_id(a, b);
}

/* ---- the lines of one label ---- */

typedef struct label_sums {
    int64_t bill;     /* of these lines, as they are now */
    int64_t recorded; /* of those known, as they were recorded */
    int64_t fresh;    /* of those not known */
    size_t fresh_count;
    bool failed; /* a sum left the int64 */
} label_sums;

static label_sums add_up(const matched_line *lines, size_t count)
{
    label_sums sums = {0};
    for (size_t i = 0; i < count; i++) {
        const int64_t amount = lines[i].charge->usd_micro;
        bool good = budget_money_add(sums.bill, amount, &sums.bill);
        if (lines[i].known) {
            good = good && budget_money_add(sums.recorded, lines[i].recorded, &sums.recorded);
        } else {
            good = good && budget_money_add(sums.fresh, amount, &sums.fresh);
            sums.fresh_count++;
        }
        sums.failed = sums.failed || !good;
    }
    return sums;
}

/* Records the new lines. by_hand is what a person recorded before them: it is taken off the first
 * ones, so that in the end just the bill is posted. */
static base_status record_lines(reconciler *self, const char *label, const matched_line *lines,
                                size_t count, int64_t by_hand)
{
    base_status status = BASE_OK;
    for (size_t i = 0; i < count && status == BASE_OK; i++) {
        budget_answer answer;
        if (lines[i].known) {
            continue;
        }
        const budget_caller caller = {.client = self->caller != NULL ? self->caller->client : 0};
        const budget_actual actual = {
            .label = label,
            .usd_micro = lines[i].charge->usd_micro - by_hand,
            .line_id = lines[i].charge->line_id,
            .billed_usd_micro = lines[i].charge->usd_micro,
        };
        by_hand = 0;
        status = budget_ledger_record_actual(self->ledger, &caller, &actual, &answer, self->reterr);
        if (status == BASE_OK && answer.reason != BUDGET_REASON_NONE) {
            status = base_fail(self->reterr, BASE_ERR_STATE, "%s: %s", label, answer.words);
        }
        self->result->recorded += status == BASE_OK;
        self->result->frozen = self->result->frozen || answer.words[0] != '\0';
    }
    return status;
}

static base_status reconcile_label(reconciler *self, const matched_line *lines, size_t count)
{
    ledger_reservation found;
    base_status status =
        reservation_load_id(self->ledger, lines[0].reservation, &found, self->reterr);
    if (status != BASE_OK) {
        return status;
    }
    const label_sums sums = add_up(lines, count);
    /* What a person recorded, and no bill has shown yet. */
    const int64_t by_hand = found.rule.posted - found.billed;
    /* What this bill says beyond the lines recorded before. */
    const int64_t news = sums.bill - sums.recorded;
    const int64_t difference = news - by_hand;
    const int64_t rounding = (int64_t)count * ROUNDING_MICRO;
    /* "It cost nothing" is a word by hand as well. */
    const bool said_nothing = found.rule.cost_known && found.rule.posted == 0 && found.billed == 0;
    const bool none_by_hand =
        by_hand == 0 && !said_nothing && sums.fresh_count > 0 && news == sums.fresh;
    const bool same = !sums.failed && difference <= rounding && difference >= -rounding;
    const bool matched = !sums.failed && (none_by_hand || same);
    const budget_finding finding = {
        .kind = matched ? BUDGET_FINDING_MATCHED : BUDGET_FINDING_DIFFERING,
        .label = found.label,
        .instance_id = lines[0].charge->instance_id,
        .line_id = count == 1 ? lines[0].charge->line_id : "",
        .ledger_usd_micro = sums.recorded + by_hand,
        .bill_usd_micro = sums.bill,
    };
    report(self, &finding);
    return matched ? record_lines(self, found.label, lines, count, by_hand) : BASE_OK;
}

/* ---- what the bill does not have ---- */

static bool is_expected(const reconciler *self, const budget_reservation *run)
{
    const char *vendor = self->options->vendor;
    return strcmp(run->vendor, "local") != 0 &&
           (vendor == NULL || vendor[0] == '\0' || strcmp(run->vendor, vendor) == 0);
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
    return (low < self->count && self->lines[low].reservation == run->id) ||
           run->billed_usd_micro != 0;
}

static void look_for(reconciler *self, const budget_reservation *run)
{
    const int64_t as_of_ms = self->options->as_of_s * 1000;
    budget_finding finding = {
        .kind = BUDGET_FINDING_MATCHED,
        .label = run->label,
        .instance_id = run->instance_id,
        .line_id = "",
        .ledger_usd_micro = run->posted_usd_micro,
    };
    if (!is_expected(self, run) || is_billed(self, run) || run->authorized_ms > as_of_ms) {
        return;
    }
    switch (run->state) {
    case BUDGET_STATE_CREATED:
    case BUDGET_STATE_EXPIRED_UNCONFIRMED:
        finding.kind =
            run->posted_usd_micro != 0 ? BUDGET_FINDING_MISSING_IN_BILL : BUDGET_FINDING_UNKNOWN;
        break;
    case BUDGET_STATE_TERMINATED_UNBILLED:
        finding.kind = BUDGET_FINDING_MISSING_IN_BILL;
        break;
    case BUDGET_STATE_POSTED:
    case BUDGET_STATE_VOIDED:
    case BUDGET_STATE_RESERVED:
        if (run->posted_usd_micro == 0) {
            return; /* nothing was spent, and nothing is billed */
        }
        finding.kind = BUDGET_FINDING_MISSING_IN_BILL;
        break;
    }
    report(self, &finding);
}

static base_status look_for_missing(reconciler *self)
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

static base_status run(reconciler *self)
{
    base_status status = match_lines(self);
    if (status != BASE_OK || self->count == 0) {
        return status;
    }
    qsort(self->lines, self->count, sizeof *self->lines, by_id);
    for (size_t i = 1; i < self->count; i++) {
        if (by_id(&self->lines[i - 1], &self->lines[i]) == 0) {
            return base_fail(self->reterr, BASE_ERR_INVALID, "the bill has two lines of the id %s",
                             self->lines[i].charge->line_id);
        }
    }
    qsort(self->lines, self->count, sizeof *self->lines, by_reservation);
    for (size_t first = 0; first < self->count && status == BASE_OK;) {
        size_t end = first + 1;
        while (end < self->count &&
               self->lines[end].reservation == self->lines[first].reservation) {
            end++;
        }
        status = reconcile_label(self, &self->lines[first], end - first);
        first = end;
    }
    return status;
}

base_status budget_reconcile_run(budget_ledger *ledger, const budget_caller *caller,
                                 const budget_reconcile_options *options, budget_reconciled *result,
                                 void (*visit)(void *context, const budget_finding *finding),
                                 void *context, base_error *reterr)
{
    reconciler self = {
        .ledger = ledger,
        .caller = caller,
        .options = options,
        .result = result,
        .visit = visit,
        .context = context,
        .reterr = reterr,
    };
    memset(result, 0, sizeof *result);
    self.lines = calloc(options->count + 1, sizeof *self.lines);
    if (self.lines == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory to reconcile");
    }
    base_status status = run(&self);
    status = status == BASE_OK ? look_for_missing(&self) : status;
    free(self.lines);
    return status;
}
