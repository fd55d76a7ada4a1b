/* A ledger with one account, and short ways to reconcile a bill with it. Used by the tests of
 * reconcile. */
#include "reconcile_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int reconcile_make(void **state)
{
    static ledger_fixture fixture;
    fixture_make(&fixture);
    assert_granted(fixture_account(&fixture, "phase", 50 * USD));
    *state = &fixture;
    return 0;
}

int reconcile_take_down(void **state)
{
    fixture_remove(*state);
    return 0;
}

static void note(void *context, const budget_finding *finding)
{
    findings_seen *seen = context;
    if (seen->count < FINDINGS) {
        seen->findings[seen->count].kind = finding->kind;
        seen->findings[seen->count].posted = finding->posted;
        seen->findings[seen->count].known = finding->known;
        (void)snprintf(seen->findings[seen->count].label, BUDGET_LABEL_BYTES, "%s", finding->label);
    }
    seen->count++;
}

budget_reconciled reconcile_vendor(ledger_fixture *fixture, const char *bill, const char *vendor,
                                   findings_seen *found, int64_t as_of_s)
{
    const budget_bill_format *csv = NULL;
    budget_charge *charges = NULL;
    budget_reconciled result;
    size_t count = 0;
    memset(found, 0, sizeof *found);
    assert_ok(budget_bill_format_parse("csv", &csv, &fixture->error), &fixture->error);
    assert_ok(budget_bill_parse(bill, strlen(bill), csv, &charges, &count, &fixture->error),
              &fixture->error);
    const budget_reconcile_options options = {
        .as_of_s = as_of_s,
        .vendor = vendor,
        .charges = charges,
        .count = count,
        .visit = note,
        .context = found,
    };
    fixture_begin(fixture);
    assert_ok(budget_reconcile_run(fixture->ledger, NULL, &options, &result, &fixture->error),
              &fixture->error);
    fixture_commit(fixture);
    free(charges);
    return result;
}

budget_reconciled reconcile_until(ledger_fixture *fixture, const char *bill, findings_seen *found,
                                  int64_t as_of_s)
{
    return reconcile_vendor(fixture, bill, NULL, found, as_of_s);
}

budget_reconciled reconcile(ledger_fixture *fixture, const char *bill, findings_seen *found)
{
    return reconcile_until(fixture, bill, found, fixture->clock.wall_ms / 1000);
}

void expect_counts(const budget_reconciled *result, int matched, int missing_in_bill,
                   int missing_in_ledger, int differing, int unknown)
{
    assert_int_equal(result->counts[BUDGET_FINDING_MATCHED], matched);
    assert_int_equal(result->counts[BUDGET_FINDING_MISSING_IN_BILL], missing_in_bill);
    assert_int_equal(result->counts[BUDGET_FINDING_MISSING_IN_LEDGER], missing_in_ledger);
    assert_int_equal(result->counts[BUDGET_FINDING_DIFFERING], differing);
    assert_int_equal(result->counts[BUDGET_FINDING_UNKNOWN], unknown);
}

int64_t spent(ledger_fixture *fixture)
{
    int64_t usd_micro = -1;
    assert_ok(budget_ledger_total_spent(fixture->ledger, NULL, &usd_micro, &fixture->error),
              &fixture->error);
    return usd_micro;
}

void make_run(ledger_fixture *fixture, const char *label, int64_t by_hand)
{
    char instance[BUDGET_INSTANCE_BYTES];
    (void)snprintf(instance, sizeof instance, "pod-%s", label);
    assert_granted(fixture_authorize(fixture, "phase", label, 2 * USD));
    assert_granted(fixture_create(fixture, label));
    assert_granted(fixture_attach(fixture, label, instance));
    assert_granted(fixture_prove(fixture, label, instance));
    if (by_hand >= 0) {
        assert_granted(fixture_actual(fixture, label, by_hand));
    }
}

void check_phase(ledger_fixture *fixture, int64_t posted, int64_t reserved)
{
    const budget_account found = fixture_balance(fixture, "phase");
    assert_int_equal(found.posted_usd_micro, posted);
    assert_int_equal(found.reserved_usd_micro, reserved);
}
