/* What the files of reconcile share. Private to ledger/. */
#ifndef BUDGET_RECONCILE_CORE_H
#define BUDGET_RECONCILE_CORE_H

#include "budget/reconcile.h"
#include "ledger_core.h"

typedef struct matched_line {
    const budget_charge *charge;
    int64_t reservation;            /* 0: none */
    char vendor[BUDGET_NAME_BYTES]; /* of the reservation */
    bool known;                     /* recorded before */
    bool elsewhere;                 /* then: for another run, or as another line of this bill too */
    int64_t recorded;               /* then: as this; else 0 */
    uint64_t sequence;              /* then: in this row */
} matched_line;

typedef struct reconciler {
    budget_ledger *ledger;
    budget_caller caller; /* without a request: no line is remembered as one */
    const budget_reconcile_options *options;
    budget_reconciled *result;
    base_error *reterr;
    int64_t as_of_ms; /* wall time, not after now */
    matched_line *lines;
    size_t count;
} reconciler;

/* Counts a finding, and shows it to the caller unless the line matched. */
void reconcile_report(reconciler *self, const budget_finding *finding);

/* Whether no bill before has shown the line with this amount. */
bool reconcile_is_news(const matched_line *line);

/* Whether a line of this vendor (NULL: not known) may be about a run of that one. */
bool reconcile_is_vendors(const char *vendor, const char *of_run);

/* The cost of the run is final, if its lines say so. */
base_status reconcile_finalize(reconciler *self, const budget_reservation *found,
                               const matched_line *lines, size_t count);

/* Reports charges for a time after the proven end, on this bill or one before: then it was no end. */
bool reconcile_look_after_the_end(reconciler *self, const budget_reservation *found,
                                  const matched_line *lines, size_t count);

/* Reports the runs that the bill lacks. self->lines are sorted by reservation. */
base_status reconcile_look_for_missing(reconciler *self);

#endif
