/* Compares a bill with the ledger, and records what matches. It sorts the bill's lines by
 * reservation, so that one walk sees all lines of a label together. Called by
 * server/reconcile.c. */
#include "budget/reconcile.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "budget/money.h"
#include "reconcile_core.h"

enum {
    ROUNDING_MICRO = 5000,       /* half a cent for each line: what rounding to the cent can do */
    ROUNDING_MICRO_MAX = 500000, /* of thousands of lines: more is a difference, and not rounding */
};

const char *budget_finding_name(budget_finding_kind kind)
{
    static const char *const names[BUDGET_FINDING_COUNT_] = {
        [BUDGET_FINDING_MATCHED] = "matched",
        [BUDGET_FINDING_MISSING_IN_BILL] = "missing_in_bill",
        [BUDGET_FINDING_MISSING_IN_LEDGER] = "missing_in_ledger",
        [BUDGET_FINDING_DIFFERING] = "differing",
        [BUDGET_FINDING_UNKNOWN] = "unknown",
        [BUDGET_FINDING_AMBIGUOUS] = "ambiguous",
        [BUDGET_FINDING_AFTER_THE_END] = "after_the_end",
        [BUDGET_FINDING_FROZEN] = "frozen",
    };
    return (unsigned)kind < BUDGET_FINDING_COUNT_ ? names[kind] : "unknown";
}

void reconcile_report(reconciler *self, const budget_finding *finding)
{
    self->result->counts[finding->kind]++;
    if (self->options->visit != NULL && finding->kind != BUDGET_FINDING_MATCHED) {
        self->options->visit(self->options->context, finding);
    }
}

/* ---- which reservation each line is about ---- */

/* The vendor that the line is of; NULL: not known. */
static const char *vendor_of(const reconciler *self, const budget_charge *charge)
{
    const char *vendor = self->options->vendor;
    if (charge->vendor[0] != '\0') {
        return charge->vendor;
    }
    return vendor != NULL && vendor[0] != '\0' ? vendor : NULL;
}

bool reconcile_is_vendors(const char *vendor, const char *of_run)
{
    return vendor == NULL || strcmp(vendor, of_run) == 0 || strcmp(of_run, BUDGET_VENDOR_ANY) == 0;
}

/* By label, else by instance; 0 when the ledger knows neither, or as another vendor's.
 * BASE_ERR_MISMATCH: it may be several vendors'. */
static base_status match_line(reconciler *self, matched_line *line)
{
    budget_reservation found;
    const budget_charge *charge = line->charge;
    const char *vendor = vendor_of(self, charge);
    base_status status = BASE_ERR_NOTFOUND;
    if (charge->label[0] != '\0') {
        status = budget_ledger_find(self->ledger, charge->label, &found, self->reterr);
    }
    if (status == BASE_ERR_NOTFOUND && charge->instance_id[0] != '\0') {
        status = budget_ledger_find_instance(self->ledger, vendor, charge->instance_id, &found,
                                             self->reterr);
    }
    if (status == BASE_ERR_NOTFOUND ||
        (status == BASE_OK && !reconcile_is_vendors(vendor, found.entry.vendor))) {
        return BASE_OK;
    }
    if (status != BASE_OK) {
        return status;
    }
    ledger_line recorded = {
        .vendor = found.entry.vendor,
        .instance = charge->instance_id,
        .id = charge->line_id,
        .reservation = found.id,
    };
    status = line_find(self->ledger, &recorded, self->reterr);
    line->reservation = found.id;
    memcpy(line->vendor, found.entry.vendor, sizeof line->vendor);
    line->known = recorded.known;
    line->elsewhere = recorded.elsewhere;
    line->recorded = recorded.amount;
    line->sequence = recorded.sequence;
    return status;
}

static void report_stray(reconciler *self, const budget_charge *charge, bool ambiguous)
{
    const bool named = charge->label[0] != '\0' || charge->instance_id[0] != '\0';
    const budget_finding finding = {
        .kind = ambiguous ? BUDGET_FINDING_AMBIGUOUS
                : named   ? BUDGET_FINDING_MISSING_IN_LEDGER
                          : BUDGET_FINDING_UNKNOWN,
        .label = charge->label,
        .instance_id = charge->instance_id,
        .line_id = charge->line_id,
        .bill_usd_micro = charge->usd_micro,
    };
    reconcile_report(self, &finding);
}

/* All lines, before any is recorded: a bill is taken as a whole, or not at all. */
static base_status check_texts(reconciler *self)
{
    for (size_t i = 0; i < self->options->count; i++) {
        const budget_charge *charge = &self->options->charges[i];
        base_status status =
            text_check("a line's id", charge->line_id, BUDGET_LINE_BYTES, self->reterr);
        if (status == BASE_OK && charge->instance_id[0] != '\0') {
            status = text_check("an instance id", charge->instance_id, BUDGET_INSTANCE_BYTES,
                                self->reterr);
        }
        if (status != BASE_OK) {
            return base_error_prepend(self->reterr, status, "line %zu of the bill", i + 1);
        }
    }
    return BASE_OK;
}

static base_status match_lines(reconciler *self)
{
    for (size_t i = 0; i < self->options->count; i++) {
        const budget_charge *charge = &self->options->charges[i];
        matched_line *line = &self->lines[self->count];
        *line = (matched_line){.charge = charge};
        if (charge->at_s > self->options->as_of_s) {
            self->result->passed_over++;
            continue;
        }
        const base_status status = match_line(self, line);
        if (status != BASE_OK && status != BASE_ERR_MISMATCH) {
            return status;
        }
        if (line->reservation == 0) {
            report_stray(self, charge, status == BASE_ERR_MISMATCH);
        } else {
            self->count++;
        }
    }
    const budget_reconciled *result = self->result;
    const int64_t strays = result->counts[BUDGET_FINDING_MISSING_IN_LEDGER] +
                           result->counts[BUDGET_FINDING_AMBIGUOUS] +
                           result->counts[BUDGET_FINDING_UNKNOWN];
    BASE_ASSERT((int64_t)self->count + strays + result->passed_over ==
                (int64_t)self->options->count); /* each line once */
    return BASE_OK;
}

static int by_id(const void *a, const void *b)
{
    const matched_line *left = a;
    const matched_line *right = b;
    int order = strcmp(left->charge->line_id, right->charge->line_id);
    order = order != 0 ? order : strcmp(left->vendor, right->vendor);
    return order != 0 ? order : strcmp(left->charge->instance_id, right->charge->instance_id);
}

static int by_sequence(const void *a, const void *b)
{
    const uint64_t left = ((const matched_line *)a)->sequence;
    const uint64_t right = ((const matched_line *)b)->sequence;
    return (left > right) - (left < right);
}

/* What the line adds to those recorded before. */
static int64_t added(const matched_line *line)
{
    return line->charge->usd_micro - line->recorded;
}

bool reconcile_is_news(const matched_line *line)
{
    return !line->known || added(line) != 0;
}

static int by_reservation(const void *a, const void *b)
{
    const matched_line *left = a;
    const matched_line *right = b;
    int order = (left->reservation > right->reservation) - (left->reservation < right->reservation);
    if (order == 0) { /* charges before credits, so that no sum is below 0 on the way */
        order = (added(left) < 0) - (added(right) < 0);
    }
    return order != 0 ? order : by_id(a, b);
}

/* ---- the lines of one label ---- */

typedef struct label_sums {
    int64_t bill;     /* of these lines, as they are now */
    int64_t recorded; /* of those known, as they were recorded */
    int64_t changed_count;
    int64_t shrunk_count; /* of the changed ones */
    int64_t total;        /* billed, once these are recorded */
    size_t fresh_count;
    bool failed; /* a line is another run's, or a sum leaves what money may be */
} label_sums;

static label_sums add_up(int64_t billed_before, const matched_line *lines, size_t count)
{
    label_sums sums = {.total = billed_before};
    for (size_t i = 0; i < count; i++) {
        const int64_t amount = lines[i].charge->usd_micro;
        const bool good = !lines[i].elsewhere && budget_money_add(sums.bill, amount, &sums.bill) &&
                          budget_money_add(sums.recorded, lines[i].recorded, &sums.recorded) &&
                          budget_money_add(sums.total, added(&lines[i]), &sums.total) &&
                          sums.total <= BUDGET_MONEY_MICRO_MAX &&
                          sums.total >= -BUDGET_MONEY_MICRO_MAX;
        sums.fresh_count += !lines[i].known;
        sums.changed_count += lines[i].known && added(&lines[i]) != 0;
        sums.shrunk_count += lines[i].known && added(&lines[i]) < 0;
        sums.failed = sums.failed || !good;
    }
    return sums;
}

static size_t last_news(const matched_line *lines, size_t count)
{
    while (count > 0 && !reconcile_is_news(&lines[count - 1])) {
        count--;
    }
    return count > 0 ? count - 1 : 0;
}

/* What is recorded of one run. */
typedef struct recording {
    const char *label;
    const matched_line *lines;
    size_t count;
    int64_t by_hand; /* what a person recorded before them: it is taken off them, so that in the end
                      * just the bill is posted */
    bool at_once; /* the last one alone posts anything: what is posted must not rise and fall on the
                      * way, which could pass a cap */
} recording;

/* Records the new lines, and those that have changed. frozen: why one of them froze the account; else
 * it stays as it is. */
static base_status record_lines(reconciler *self, const recording *what,
                                char frozen[BUDGET_ANSWER_MESSAGE_BYTES])
{
    base_status status = BASE_OK;
    const size_t last = last_news(what->lines, what->count);
    int64_t left = what->by_hand;
    for (size_t i = 0; i < what->count && status == BASE_OK; i++) {
        budget_answer answer;
        const matched_line *line = &what->lines[i];
        if (!reconcile_is_news(line)) {
            continue;
        }
        const int64_t taken = i == last || !what->at_once ? left : added(line);
        const budget_ledger_actual actual = {
            .label = what->label,
            .usd_micro = added(line) - taken,
            .line_id = line->charge->line_id,
            .instance_id = line->charge->instance_id,
            .billed_usd_micro = line->charge->usd_micro,
            .corrects = true,
        };
        left -= taken;
        status = budget_ledger_record_actual(self->ledger, &self->caller, &actual, &answer,
                                             self->reterr);
        if (status == BASE_OK && answer.reason != BUDGET_REASON_NONE) {
            status = base_fail(self->reterr, BASE_ERR_STATE, "%s: %s", what->label, answer.message);
        }
        self->result->recorded += status == BASE_OK;
        if (status == BASE_OK && answer.message[0] != '\0') {
            memcpy(frozen, answer.message, sizeof answer.message);
        }
    }
    return status;
}

/* Are the label's lines what is posted? by_hand: what a person recorded, and no bill has shown. */
static bool lines_match(const budget_reservation *found, const label_sums *sums, int64_t by_hand)
{
    if (sums->failed) {
        return false;
    }
    /* What this bill says beyond the lines recorded before. */
    const int64_t news = sums->bill - sums->recorded;
    const int64_t difference = news - by_hand;
    const int64_t each = ((int64_t)sums->fresh_count + sums->changed_count) * ROUNDING_MICRO;
    const int64_t rounding = each < ROUNDING_MICRO_MAX ? each : ROUNDING_MICRO_MAX;
    /* "It cost nothing" is a word by hand as well. */
    const bool said_nothing = found->rule.final && found->rule.total == 0 && !found->rule.billed;
    if (by_hand == 0 && !said_nothing) {
        return sums->shrunk_count == 0; /* lines that are new or have grown, or none */
    }
    return difference <= rounding && difference >= -rounding;
}

/* Reports a run of a frozen account: this bill froze it (why), or the run is one that does, and
 * nobody has acknowledged yet. */
static base_status report_frozen(reconciler *self, int64_t id, const char *why)
{
    budget_reservation run;
    ledger_chain chain;
    char message[BUDGET_ANSWER_MESSAGE_BYTES];
    base_status status = reservation_load_id(self->ledger, id, &run, self->reterr);
    if (status == BASE_OK) {
        status = chain_load(self->ledger, NULL, run.account_id, &chain, self->reterr);
    }
    if (status != BASE_OK || !chain.rule.accounts[0].frozen ||
        (why[0] == '\0' && !budget_rule_is_odd(&run.rule))) {
        return status;
    }
    actual_frozen_message(&run, NULL, message);
    const budget_finding finding = {
        .kind = BUDGET_FINDING_FROZEN,
        .label = run.entry.label,
        .instance_id = "",
        .line_id = "",
        .ledger_usd_micro = run.rule.amount,
        .bill_usd_micro = run.rule.total,
        .account = chain.names[0],
        .message = why[0] != '\0' ? why : message,
    };
    reconcile_report(self, &finding);
    return BASE_OK;
}

/* Does this bill say something new, by which it comes to more than is posted? */
static bool is_more(const budget_reservation *found, const label_sums *sums)
{
    return !sums->failed && sums->bill > sums->recorded && sums->total > found->rule.total;
}

static base_status reconcile_label(reconciler *self, const matched_line *lines, size_t count)
{
    budget_reservation found;
    char frozen[BUDGET_ANSWER_MESSAGE_BYTES] = "";
    base_status status =
        reservation_load_id(self->ledger, lines[0].reservation, &found, self->reterr);
    if (status != BASE_OK) {
        return status;
    }
    const label_sums sums = add_up(found.billed_usd_micro, lines, count);
    const int64_t by_hand = found.rule.total - found.billed_usd_micro;
    const bool matched = lines_match(&found, &sums, by_hand);
    const bool credited = matched && sums.total < 0;
    const bool recorded = matched || is_more(&found, &sums);
    const budget_finding finding = {
        .kind = matched && !credited ? BUDGET_FINDING_MATCHED : BUDGET_FINDING_DIFFERING,
        .label = found.entry.label,
        .instance_id = lines[0].charge->instance_id,
        .line_id = count == 1 ? lines[0].charge->line_id : "",
        .ledger_usd_micro = credited ? 0 : sums.recorded + by_hand,
        .bill_usd_micro = sums.bill,
        .posted = recorded,
    };
    reconcile_report(self, &finding);
    const bool goes_on = reconcile_look_after_the_end(self, &found, lines, count);
    if (recorded) {
        const recording what = {.label = found.entry.label,
                                .lines = lines,
                                .count = count,
                                .by_hand = by_hand,
                                .at_once = by_hand != 0 || sums.shrunk_count > 0};
        status = record_lines(self, &what, frozen);
    }
    if (status == BASE_OK) {
        status = report_frozen(self, found.id, frozen);
    }
    if (status == BASE_OK && goes_on) {
        status = reservation_refute(self->ledger, &self->caller, found.id, self->reterr);
    }
    if (status == BASE_OK && finding.kind == BUDGET_FINDING_MATCHED && !goes_on) {
        status = reconcile_finalize(self, &found, lines, count);
    }
    return status;
}

/* ---- all of it ---- */

/* An id counts within its vendor and instance; but a line of the run that names none may be any
 * of them. */
static base_status refuse_twins(reconciler *self)
{
    qsort(self->lines, self->count, sizeof *self->lines, by_id);
    const matched_line *unnamed = NULL; /* sorted before the others of its id and vendor */
    for (size_t i = 0; i < self->count; i++) {
        const matched_line *line = &self->lines[i];
        const char *id = line->charge->line_id;
        if ((i > 0 && by_id(line - 1, line) == 0) ||
            (unnamed != NULL && unnamed->reservation == line->reservation &&
             strcmp(unnamed->charge->line_id, id) == 0)) {
            return base_fail(self->reterr, BASE_ERR_INVALID, "the bill has two lines of the id %s",
                             id);
        }
        unnamed = line->charge->instance_id[0] == '\0' ? line : unnamed;
    }
    return BASE_OK;
}

/* Two lines that are both known as the one recorded row: it is uncertain which it is. */
static void mark_known_twice(reconciler *self)
{
    qsort(self->lines, self->count, sizeof *self->lines, by_sequence);
    for (size_t i = 1; i < self->count; i++) {
        matched_line *line = &self->lines[i];
        if (line->known && line->sequence == line[-1].sequence) {
            line->elsewhere = line[-1].elsewhere = true;
        }
    }
}

static base_status run(reconciler *self)
{
    base_status status = check_texts(self);
    status = status == BASE_OK ? match_lines(self) : status;
    status = status == BASE_OK ? refuse_twins(self) : status;
    if (status != BASE_OK || self->count == 0) {
        return status;
    }
    mark_known_twice(self);
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
                                 base_error *reterr)
{
    reconciler self = {
        .ledger = ledger,
        .caller = {.client = caller != NULL ? caller->client : 0},
        .options = options,
        .result = result,
        .reterr = reterr,
    };
    memset(result, 0, sizeof *result);
    self.as_of_ms = ledger->now.wall_ms;
    if (options->as_of_s < self.as_of_ms / 1000) {
        self.as_of_ms = options->as_of_s > 0 ? options->as_of_s * 1000 : 0;
    }
    self.lines = calloc(options->count + 1, sizeof *self.lines);
    if (self.lines == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory to reconcile");
    }
    const uint64_t before = ledger->batch_sequence;
    base_status status = run(&self);
    status = status == BASE_OK ? reconcile_look_for_missing(&self) : status;
    if (status == BASE_ERR_INVALID && ledger->batch_sequence != before) {
        ledger->lost = true; /* some of it is in the batch, and it was to be all or nothing */
        status = BASE_ERR_STATE;
    }
    free(self.lines);
    return status;
}
