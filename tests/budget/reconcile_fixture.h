/* A ledger with one account, "phase" of 50 USD, and short ways to reconcile a bill with it. */
#ifndef RECONCILE_FIXTURE_H
#define RECONCILE_FIXTURE_H

#include "budget/reconcile.h"
#include "ledger_fixture.h"

enum { FINDINGS = 8 };

typedef struct findings_seen {
    int count;
    struct {
        budget_finding_kind kind;
        char label[BUDGET_LABEL_BYTES];
        bool posted;
        bool known;
    } findings[FINDINGS];
} findings_seen;

int reconcile_make(void **state);
int reconcile_take_down(void **state);

/* Reconciles a bill, a CSV text. vendor NULL: not said. as_of_s: until when it goes; else until
 * now. */
budget_reconciled reconcile_vendor(ledger_fixture *fixture, const char *bill, const char *vendor,
                                   findings_seen *found, int64_t as_of_s);
budget_reconciled reconcile_until(ledger_fixture *fixture, const char *bill, findings_seen *found,
                                  int64_t as_of_s);
budget_reconciled reconcile(ledger_fixture *fixture, const char *bill, findings_seen *found);

/* Checks how many there are of each finding but the ambiguous ones. */
void expect_counts(const budget_reconciled *result, int matched, int missing_in_bill,
                   int missing_in_ledger, int differing, int unknown);

/* Checks the balance of "phase". */
void check_phase(ledger_fixture *fixture, int64_t posted, int64_t reserved);

/* Posted in the whole ledger. */
int64_t spent(ledger_fixture *fixture);

/* A run of 2 USD that was created and ended, with the instance pod-LABEL; cost by hand unless
 * negative. */
void make_run(ledger_fixture *fixture, const char *label, int64_t by_hand);

#endif
