/* budget/reconcile.h: bills against the ledger, and when what is left of a reservation returns. */
#include "budget/reconcile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ledger_fixture.h"

enum { FINDINGS = 8 };

typedef struct findings_seen {
    int count;
    struct {
        budget_finding_kind kind;
        char label[BUDGET_LABEL_BYTES];
    } findings[FINDINGS];
} findings_seen;

static int make(void **state)
{
    static ledger_fixture fixture;
    fixture_make(&fixture);
    assert_granted(fixture_account(&fixture, "phase", 50 * USD));
    *state = &fixture;
    return 0;
}

static int take_down(void **state)
{
    fixture_remove(*state);
    return 0;
}

static void note(void *context, const budget_finding *finding)
{
    findings_seen *seen = context;
    if (seen->count < FINDINGS) {
        seen->findings[seen->count].kind = finding->kind;
        (void)snprintf(seen->findings[seen->count].label, BUDGET_LABEL_BYTES, "%s", finding->label);
    }
    seen->count++;
}

static budget_reconciled reconcile_vendor(ledger_fixture *fixture, const char *bill,
                                          const char *vendor, findings_seen *found, int64_t as_of_s)
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

static budget_reconciled reconcile_until(ledger_fixture *fixture, const char *bill,
                                         findings_seen *found, int64_t as_of_s)
{
    return reconcile_vendor(fixture, bill, NULL, found, as_of_s);
}

static budget_reconciled reconcile(ledger_fixture *fixture, const char *bill, findings_seen *found)
{
    return reconcile_until(fixture, bill, found, fixture->clock.wall_ms / 1000);
}

static void expect(const budget_reconciled *result, int matched, int missing_in_bill,
                   int missing_in_ledger, int differing, int unknown)
{
    assert_int_equal(result->counts[BUDGET_FINDING_MATCHED], matched);
    assert_int_equal(result->counts[BUDGET_FINDING_MISSING_IN_BILL], missing_in_bill);
    assert_int_equal(result->counts[BUDGET_FINDING_MISSING_IN_LEDGER], missing_in_ledger);
    assert_int_equal(result->counts[BUDGET_FINDING_DIFFERING], differing);
    assert_int_equal(result->counts[BUDGET_FINDING_UNKNOWN], unknown);
}

static int64_t spent(ledger_fixture *fixture)
{
    int64_t usd_micro = -1;
    assert_ok(budget_ledger_total_spent(fixture->ledger, NULL, &usd_micro, &fixture->error),
              &fixture->error);
    return usd_micro;
}

/* A run that was created and ended; cost by hand unless negative. */
static void run(ledger_fixture *fixture, const char *label, int64_t by_hand)
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

static void a_bill_that_fits_is_matched_and_posted(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    run(fixture, "a", -1);
    run(fixture, "b", USD);
    run(fixture, "c", 1230000);
    assert_granted(fixture_authorize(fixture, "phase", "unused", USD));
    const char *bill = "label,instance_id,usd,line_id\n"
                       "a,,0.25,1\n,pod-a,0.25,2\nb,,0.4,3\nb,,0.6,4\n,pod-c,1.234567,5\n";
    for (int again = 0; again < 2; again++) {
        const budget_reconciled result = reconcile(fixture, bill, &found);
        expect(&result, 3, 0, 0, 0, 0);
        assert_int_equal(result.recorded, again == 0 ? 5 : 0);
        assert_int_equal(spent(fixture), 500000 + 1000000 + 1234567);
    }
    /* said by a person to be all, or only billed so far */
    assert_int_equal(fixture_find(fixture, "b").rule.state, BUDGET_STATE_POSTED);
    assert_int_equal(fixture_find(fixture, "a").rule.state, BUDGET_STATE_TERMINATED_UNBILLED);
    /* the next bill brings another line, and a credit */
    const budget_reconciled result =
        reconcile(fixture, "label,usd,line_id\nb,0.05,7\na,-0.1,8\n", &found);
    expect(&result, 2, 0, 0, 0, 0);
    assert_int_equal(spent(fixture), 400000 + 1050000 + 1234567);
}

static void what_differs_is_not_posted(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    run(fixture, "a", USD);
    for (int again = 0; again < 2; again++) {
        const budget_reconciled result =
            reconcile(fixture, "label,usd,line_id\na,1.01,1\n", &found);
        expect(&result, 0, 0, 0, 1, 0);
        assert_int_equal(found.count, 1);
        assert_string_equal(found.findings[0].label, "a");
        assert_int_equal(spent(fixture), USD);
    }
    assert_granted(fixture_actual(fixture, "a", 10000)); /* a person has looked */
    budget_reconciled result = reconcile(fixture, "label,usd,line_id\na,1.01,1\n", &found);
    expect(&result, 1, 0, 0, 0, 0);
    result = reconcile(fixture, "label,usd,line_id\na,1.50,1\n", &found); /* a line has changed */
    expect(&result, 0, 0, 0, 1, 0);
    assert_int_equal(spent(fixture), 1010000);
    assert_granted(fixture_actual(fixture, "a", 490000));
    result = reconcile(fixture, "label,usd,line_id\na,1.50,1\n", &found);
    expect(&result, 1, 0, 0, 0, 0);
    assert_int_equal(spent(fixture), 1500000);
}

static void rounding_is_half_a_cent_a_line(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    run(fixture, "a", USD);
    budget_reconciled result = reconcile(fixture, "label,usd,line_id\na,1.005001,1\n", &found);
    expect(&result, 0, 0, 0, 1, 0);
    result = reconcile(fixture, "label,usd,line_id\na,1.005,1\n", &found);
    expect(&result, 1, 0, 0, 0, 0);
    assert_int_equal(spent(fixture), 1005000);
}

static void what_is_missing_is_named(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    run(fixture, "posted", USD);
    run(fixture, "ended", -1);
    run(fixture, "nothing", 0);
    assert_granted(fixture_authorize(fixture, "phase", "running", USD));
    assert_granted(fixture_create(fixture, "running"));
    const budget_reconciled result = reconcile(
        fixture, "label,instance_id,usd\nwho,,1\n,pod-who,1\n,,0.5\nnothing,,0.30\n", &found);
    expect(&result, 0, 2, 2, 1, 2);
    assert_int_equal(spent(fixture), USD);
    fixture_pass(fixture, 60);
    run(fixture, "later", USD);
    fixture->clock.wall_ms -= 30000; /* as of a moment before "later" */
    fixture->clock.boot_ms -= 30000;
    const budget_reconciled earlier = reconcile(fixture, "label,usd\n", &found);
    expect(&earlier, 0, 2, 0, 0, 1);
}

static void a_bill_above_its_reservation_freezes(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    run(fixture, "a", -1);
    const budget_reconciled result = reconcile(fixture, "label,usd\na,2.000001\n", &found);
    expect(&result, 1, 0, 0, 0, 0);
    assert_true(result.frozen);
    assert_true(fixture_balance(fixture, "phase").frozen);
    assert_int_equal(spent(fixture), 2000001);
}

static void a_sum_out_of_range_is_differing(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    run(fixture, "a", -1);
    run(fixture, "b", -1);
    const budget_reconciled result =
        reconcile(fixture, "label,usd,line_id\na,600000000,1\na,600000000,2\nb,1,3\n", &found);
    expect(&result, 1, 0, 0, 1, 0);
    assert_int_equal(spent(fixture), USD); /* the other run's */
}

static void two_lines_of_one_id_are_refused(void **state)
{
    ledger_fixture *fixture = *state;
    budget_reconciled result;
    budget_charge charges[2] = {{.line_id = "1", .label = "a", .usd_micro = 1},
                                {.line_id = "1", .label = "a", .usd_micro = 2}};
    const budget_reconcile_options options = {
        .as_of_s = INT64_MAX / 1000, .charges = charges, .count = 2};
    run(fixture, "a", -1);
    fixture_begin(fixture);
    assert_status(budget_reconcile_run(fixture->ledger, NULL, &options, &result, NULL),
                  BASE_ERR_INVALID);
    fixture_commit(fixture);
    assert_int_equal(spent(fixture), 0);
}

/* A line that names no instance may be the one of its id that does: never silence. */
static void a_line_without_its_instance_is_no_second_one(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    budget_reconciled result;
    budget_charge charges[2] = {
        {.line_id = "1", .label = "a", .instance_id = "pod-a", .usd_micro = USD},
        {.line_id = "1", .label = "a", .usd_micro = USD}};
    const budget_reconcile_options options = {
        .as_of_s = fixture->clock.wall_ms / 1000, .charges = charges, .count = 2};
    run(fixture, "a", -1);
    fixture_begin(fixture);
    assert_status(budget_reconcile_run(fixture->ledger, NULL, &options, &result, NULL),
                  BASE_ERR_INVALID);
    fixture_commit(fixture);
    assert_int_equal(spent(fixture), 0);
    result = reconcile(fixture, "label,usd,line_id\na,0.5,1\n", &found);
    expect(&result, 1, 0, 0, 0, 0);
    result =
        reconcile(fixture, "label,instance_id,usd,line_id\na,pod-a,0.5,1\na,pod-b,0.5,1\n", &found);
    expect(&result, 0, 0, 0, 1, 0);
    assert_int_equal(spent(fixture), 500000);
}

/* ---- whose instance it is ---- */

/* As `run`, of a vendor whose instances are numbered like any other's. */
static void run_of(ledger_fixture *fixture, const char *vendor, const char *label,
                   const char *instance)
{
    budget_answer answer;
    char payload[BUDGET_CLAIMS_JSON_BYTES];
    budget_authorization claim = fixture_claim(fixture, "phase", label, 2 * USD);
    (void)snprintf(claim.claims.vendor, sizeof claim.claims.vendor, "%s", vendor);
    fixture_begin(fixture);
    assert_ok(
        budget_ledger_authorize(fixture->ledger, NULL, &claim, payload, &answer, &fixture->error),
        &fixture->error);
    fixture_commit(fixture);
    assert_granted(answer);
    assert_granted(fixture_create(fixture, label));
    if (instance != NULL) {
        assert_granted(fixture_attach(fixture, label, instance));
    }
    assert_granted(fixture_attest(fixture, label));
}

static int64_t posted(ledger_fixture *fixture, const char *label)
{
    return fixture_find(fixture, label).rule.posted;
}

/* Two vendors may number their instances alike. */
static void an_instance_counts_within_its_vendor(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    const int64_t now_s = fixture->clock.wall_ms / 1000;
    run_of(fixture, "runpod", "a", "123");
    run_of(fixture, "vast", "b", "123");
    assert_granted(fixture_authorize(fixture, "phase", "c", USD));
    assert_granted(fixture_create(fixture, "c"));
    assert_reason(fixture_attach(fixture, "c", "123"), BUDGET_REASON_INSTANCE_USED);
    budget_reconciled result = reconcile(fixture, "instance_id,usd,line_id\n123,0.5,1\n", &found);
    assert_int_equal(result.counts[BUDGET_FINDING_AMBIGUOUS], 1);
    assert_int_equal(found.findings[0].kind, BUDGET_FINDING_AMBIGUOUS);
    assert_int_equal(result.recorded, 0);
    assert_int_equal(spent(fixture), 0);
    result =
        reconcile_vendor(fixture, "instance_id,usd,line_id\n123,0.5,1\n", "vast", &found, now_s);
    expect(&result, 1, 0, 0, 0, 0);
    assert_int_equal(posted(fixture, "b"), 500000);
    assert_int_equal(posted(fixture, "a"), 0);
    /* a line's own word comes first; line 1 of the one is not line 1 of the other */
    result = reconcile(fixture,
                       "instance_id,vendor,usd,line_id\n123,runpod,0.25,1\n123,vast,0.5,1\n"
                       "123,lambda,0.75,1\n",
                       &found);
    expect(&result, 2, 0, 1, 0, 1); /* c goes on, and is on no bill */
    assert_int_equal(posted(fixture, "a"), 250000);
    assert_int_equal(posted(fixture, "b"), 500000);
    /* a label is one run's, whatever the vendor; and not another vendor's */
    result = reconcile(fixture, "label,vendor,usd,line_id\na,,0.25,2\na,vast,0.25,3\n", &found);
    expect(&result, 1, 0, 1, 0, 1);
    assert_int_equal(posted(fixture, "a"), 500000);
}

/* The one run that has the instance may not be the run that the bill is about. */
static void an_instance_alone_tells_nothing_among_vendors(void **state)
{
    static const char bill[] = "instance_id,usd,line_id\n123,0.5,1\n";
    ledger_fixture *fixture = *state;
    findings_seen found;
    run_of(fixture, "runpod", "a", "123");
    run_of(fixture, "local", "l", NULL);
    budget_reconciled result = reconcile(fixture, bill, &found); /* there is but one vendor */
    expect(&result, 1, 0, 0, 0, 0);
    run_of(fixture, "vast", "b", NULL); /* and its instance was never attached */
    result = reconcile(fixture, "instance_id,usd,line_id\n123,0.5,2\n124,0.5,1\n", &found);
    assert_int_equal(result.counts[BUDGET_FINDING_AMBIGUOUS], 1);
    assert_int_equal(result.counts[BUDGET_FINDING_MISSING_IN_LEDGER], 1);
    result = reconcile_vendor(fixture, "instance_id,usd,line_id\n123,0.5,2\n", "vast", &found,
                              fixture->clock.wall_ms / 1000);
    assert_int_equal(result.counts[BUDGET_FINDING_MISSING_IN_LEDGER], 1);
    assert_int_equal(spent(fixture), 500000);
}

/* A run that was authorized without a vendor is of any, as long as there is no choice. */
static void a_run_without_a_vendor_may_be_any_ones(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    const int64_t now_s = fixture->clock.wall_ms / 1000;
    run_of(fixture, BUDGET_VENDOR_ANY, "a", "123");
    budget_reconciled result =
        reconcile_vendor(fixture, "instance_id,usd,line_id\n123,0.5,1\n", "runpod", &found, now_s);
    expect(&result, 1, 0, 0, 0, 0);
    run_of(fixture, "runpod", "b", "456");
    static const char bill[] = "label,instance_id,usd,line_id\n,123,0.5,2\na,,0.25,3\n,456,1,4\n";
    result = reconcile_vendor(fixture, bill, "runpod", &found, now_s);
    assert_int_equal(result.counts[BUDGET_FINDING_MATCHED], 2);
    assert_int_equal(result.counts[BUDGET_FINDING_AMBIGUOUS], 1);
    assert_int_equal(posted(fixture, "a"), 750000);
    result = reconcile_vendor(fixture, bill, BUDGET_VENDOR_ANY, &found, now_s);
    assert_int_equal(result.counts[BUDGET_FINDING_MATCHED], 1);
    assert_int_equal(result.counts[BUDGET_FINDING_MISSING_IN_LEDGER], 1);
    assert_int_equal(posted(fixture, "a"), 1250000);
}

/* What an ambiguous line is about may be any run: none is final by that bill. */
static void an_ambiguous_line_makes_nothing_final(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    run_of(fixture, "runpod", "a", "123");
    run_of(fixture, "vast", "b", "123");
    fixture_pass(fixture, 49 * 3600);
    budget_reconciled result =
        reconcile(fixture, "label,instance_id,usd,line_id\na,,0.5,1\n,123,1,2\n", &found);
    assert_int_equal(result.counts[BUDGET_FINDING_AMBIGUOUS], 1);
    assert_int_equal(posted(fixture, "a"), 500000);
    assert_int_equal(fixture_find(fixture, "a").rule.held, 1500000);
    result = reconcile(fixture, "label,usd,line_id\na,0.5,1\n", &found);
    assert_int_equal(fixture_find(fixture, "a").rule.held, 0);
}

/* ---- what comes back, and when ---- */

enum { HOUR = 3600, SETTLING_S = 48 * HOUR };

static void check_phase(ledger_fixture *fixture, int64_t posted, int64_t reserved)
{
    const budget_account found = fixture_balance(fixture, "phase");
    assert_int_equal(found.posted_usd_micro, posted);
    assert_int_equal(found.reserved_usd_micro, reserved);
}

/* A credit of more than the run cost gives back what it cost, and calls a person. */
static void a_credit_never_raises_the_cap(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    budget_answer answer;
    run(fixture, "a", -1);
    run(fixture, "b", 2 * USD);
    const char *bill = "label,usd,line_id\na,-500.00,1\na,1.00,2\n";
    for (int again = 0; again < 2; again++) { /* and it is not forgotten */
        const budget_reconciled result = reconcile(fixture, bill, &found);
        expect(&result, 0, 1, 0, 1, 0);
        assert_int_equal(result.frozen, again == 0);
        assert_string_equal(found.findings[0].label, "a");
        check_phase(fixture, 2 * USD, 2 * USD); /* a has ended, at a cost that is not final */
        assert_true(fixture_balance(fixture, "phase").frozen);
    }
    const budget_reservation credited = fixture_find(fixture, "a");
    assert_int_equal(credited.rule.posted, 0);
    assert_int_equal(credited.rule.total, -499 * USD);
    assert_reason(fixture_authorize(fixture, "phase", "c", 1), BUDGET_REASON_ACCOUNT_FROZEN);
    fixture_begin(fixture);
    assert_ok(budget_ledger_acknowledge(fixture->ledger, NULL, "phase", &answer, &fixture->error),
              &fixture->error);
    fixture_commit(fixture);
    assert_reason(fixture_authorize(fixture, "phase", "c", 46 * USD + 1), BUDGET_REASON_EXCEEDED);
    assert_granted(fixture_actual(fixture, "a", 0)); /* a person: that was all */
    check_phase(fixture, 2 * USD, 0);
    assert_reason(fixture_authorize(fixture, "phase", "d", 48 * USD + 1), BUDGET_REASON_EXCEEDED);
    assert_granted(fixture_authorize(fixture, "phase", "e", 48 * USD));
}

/* A vendor numbers the lines of each instance from 1. */
static void an_id_counts_within_its_instance(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    run(fixture, "22", -1);
    run(fixture, "23", -1);
    budget_reconciled result =
        reconcile(fixture, "instance_id,usd,line_id\npod-22,0.5,1\n", &found);
    expect(&result, 1, 1, 0, 0, 0);
    result = reconcile(fixture, "instance_id,usd,line_id\npod-23,0.7,1\n", &found);
    expect(&result, 1, 0, 0, 0, 0);
    assert_int_equal(result.recorded, 1);
    assert_int_equal(spent(fixture), 1200000);
    result = reconcile(fixture, "instance_id,usd,line_id\npod-23,0.7,1\npod-22,0.5,1\n", &found);
    expect(&result, 2, 0, 0, 0, 0);
    /* without its instance it is still known by its run; with another amount it is differing */
    result = reconcile(fixture, "label,usd,line_id\n23,0.7,1\n", &found);
    expect(&result, 1, 0, 0, 0, 0);
    result = reconcile(fixture, "label,usd,line_id\n22,0.501,1\n", &found);
    expect(&result, 0, 0, 0, 1, 0);
    assert_string_equal(found.findings[0].label, "22");
    /* the same line for another run is differing */
    result = reconcile(fixture, "label,instance_id,usd,line_id\n22,pod-23,0.7,1\n", &found);
    expect(&result, 0, 0, 0, 1, 0);
    assert_string_equal(found.findings[0].label, "22");
    assert_int_equal(spent(fixture), 1200000);
}

/* Two known lines that changed against each other come to the same sum, and differ. */
static void changes_do_not_cancel_out(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    run(fixture, "a", -1);
    budget_reconciled result = reconcile(fixture, "label,usd,line_id\na,0.5,1\na,0.7,2\n", &found);
    expect(&result, 1, 0, 0, 0, 0);
    result = reconcile(fixture, "label,usd,line_id\na,0.6,1\na,0.6,2\n", &found);
    expect(&result, 0, 0, 0, 1, 0);
}

static void a_bill_is_one_vendors(void **state)
{
    ledger_fixture *fixture = *state;
    budget_reconciled result;
    const budget_charge charge = {.line_id = "1", .instance_id = "pod-a", .usd_micro = 1};
    budget_reconcile_options options = {
        .as_of_s = fixture->clock.wall_ms / 1000, .vendor = "vast", .charges = &charge, .count = 1};
    run(fixture, "a", -1);
    for (int i = 0; i < 2; i++) {
        fixture_begin(fixture);
        assert_ok(budget_reconcile_run(fixture->ledger, NULL, &options, &result, &fixture->error),
                  &fixture->error);
        fixture_commit(fixture);
        expect(&result, i, 0, 1 - i, 0, 0);
        options.vendor = "runpod";
    }
}

static void a_credit_is_kept_by_record_actual_too(void **state)
{
    ledger_fixture *fixture = *state;
    assert_granted(fixture_authorize(fixture, "phase", "a", 9 * USD));
    assert_granted(fixture_create(fixture, "a"));
    assert_granted(fixture_line(fixture, "a", USD, "1"));
    const budget_answer answer = fixture_line(fixture, "a", -500 * USD, "2");
    assert_granted(answer);
    assert_non_null(strstr(answer.message, "a was credited 499.00 USD more than it cost"));
    check_phase(fixture, 0, 9 * USD);
    assert_granted(fixture_line(fixture, "a", 500 * USD, "3"));
    check_phase(fixture, USD, 8 * USD); /* the credit counts against what is billed later */
}

/* A bill of a part, and then the rest of it: at no time is there room for more than the cap. */
static void a_partial_bill_releases_nothing(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    assert_granted(fixture_authorize(fixture, "phase", "a", 50 * USD));
    assert_granted(fixture_create(fixture, "a"));
    assert_granted(fixture_attach(fixture, "a", "pod-a"));
    assert_granted(fixture_prove(fixture, "a", "pod-a"));
    budget_reconciled result =
        reconcile(fixture, "instance_id,usd,line_id\npod-a,0.69,1\n", &found);
    expect(&result, 1, 0, 0, 0, 0);
    check_phase(fixture, 690000, 50 * USD - 690000);
    assert_int_equal(fixture_find(fixture, "a").rule.state, BUDGET_STATE_TERMINATED_UNBILLED);
    assert_reason(fixture_authorize(fixture, "phase", "b", 1), BUDGET_REASON_EXCEEDED);
    result = reconcile(fixture, "instance_id,usd,line_id\npod-a,0.69,1\npod-a,49.31,2\n", &found);
    expect(&result, 1, 0, 0, 0, 0);
    check_phase(fixture, 50 * USD, 0);
}

/* The rest returns by a bill that goes so far beyond the end as the vendor's settling time. */
static void a_settled_bill_releases_the_rest(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    const char *bill = "label,usd,line_id\na,0.69,1\n";
    const int64_t end_s = fixture->clock.wall_ms / 1000;
    run(fixture, "a", -1);
    (void)reconcile(fixture, bill, &found);
    check_phase(fixture, 690000, 1310000);
    (void)reconcile_until(fixture, bill, &found, end_s + 3 * SETTLING_S); /* before it is so late */
    fixture_pass(fixture, SETTLING_S - 1);
    (void)reconcile(fixture, bill, &found);
    check_phase(fixture, 690000, 1310000);
    fixture_pass(fixture, 1);
    (void)reconcile_until(fixture, bill, &found, end_s + SETTLING_S - 1); /* not far enough */
    (void)reconcile(fixture, "label,usd,line_id\n", &found);              /* does not show it */
    (void)reconcile(fixture, "label,usd,line_id\na,0.70,1\n", &found);    /* does not agree */
    check_phase(fixture, 690000, 1310000);
    (void)reconcile(fixture, bill, &found);
    check_phase(fixture, 690000, 0);
    assert_int_equal(fixture_find(fixture, "a").rule.state, BUDGET_STATE_POSTED);
    (void)reconcile(fixture, "label,usd,line_id\na,0.01,2\n", &found); /* late, and still a fact */
    check_phase(fixture, 700000, 0);
}

/* Or by a bill whose periods reach the proven end. */
static void a_bill_to_the_end_releases_the_rest(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    char bill[256];
    run(fixture, "a", -1);
    const int64_t end_s = fixture->clock.wall_ms / 1000;
    const struct {
        int64_t until_s;
        const char *usd;
        const char *instance;
        int64_t reserved;
    } bills[] = {
        {end_s - 1, "0.5", "pod-a", 1500000},     /* not until the end */
        {end_s, "0.4", "pod-b", 1100000},         /* of another instance */
        {end_s + HOUR, "-0.1", "pod-a", 1200000}, /* a credit bills no time */
        {end_s + 61, "0.1", "pod-a", 1100000},    /* a period that goes on may still grow */
        {end_s, "0.1", "pod-a", 0},
    };
    fixture_pass(fixture, 60);
    for (size_t i = 0; i < sizeof bills / sizeof bills[0]; i++) {
        (void)snprintf(bill, sizeof bill, "label,instance_id,usd,line_id,until\na,%s,%s,%zu,%lld\n",
                       bills[i].instance, bills[i].usd, i, (long long)bills[i].until_s);
        (void)reconcile(fixture, bill, &found);
        assert_int_equal(found.count, 0);
        assert_int_equal(fixture_balance(fixture, "phase").reserved_usd_micro, bills[i].reserved);
    }
}

/* Each of two instances must be billed until then. */
static void every_instance_is_billed_to_the_end(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    budget_answer answer;
    char payload[BUDGET_CLAIMS_JSON_BYTES];
    char bill[256];
    budget_authorization claim = fixture_claim(fixture, "phase", "two", 9 * USD);
    claim.claims.instances = 2;
    fixture_begin(fixture);
    assert_ok(
        budget_ledger_authorize(fixture->ledger, NULL, &claim, payload, &answer, &fixture->error),
        &fixture->error);
    fixture_commit(fixture);
    assert_granted(fixture_create(fixture, "two"));
    assert_granted(fixture_attach(fixture, "two", "pod-1"));
    assert_granted(fixture_attach(fixture, "two", "pod-2"));
    assert_granted(fixture_attest(fixture, "two"));
    const long long end_s = fixture->clock.wall_ms / 1000;
    (void)snprintf(bill, sizeof bill,
                   "label,instance_id,usd,line_id,until\ntwo,pod-1,1,1,%lld\ntwo,,1,2,%lld\n",
                   end_s, end_s);
    (void)reconcile(fixture, bill, &found);
    check_phase(fixture, 2 * USD, 7 * USD);
    (void)snprintf(bill, sizeof bill,
                   "instance_id,usd,line_id,until\npod-1,1,1,%lld\npod-2,1,3,%lld\n", end_s, end_s);
    (void)reconcile(fixture, bill, &found);
    check_phase(fixture, 3 * USD, 0);
}

int main(void)
{
#define LEDGER_TEST(name) cmocka_unit_test_setup_teardown(name, make, take_down)
    const struct CMUnitTest tests[] = {
        LEDGER_TEST(a_bill_that_fits_is_matched_and_posted),
        LEDGER_TEST(what_differs_is_not_posted),
        LEDGER_TEST(rounding_is_half_a_cent_a_line),
        LEDGER_TEST(what_is_missing_is_named),
        LEDGER_TEST(a_bill_above_its_reservation_freezes),
        LEDGER_TEST(a_sum_out_of_range_is_differing),
        LEDGER_TEST(two_lines_of_one_id_are_refused),
        LEDGER_TEST(a_line_without_its_instance_is_no_second_one),
        LEDGER_TEST(an_instance_counts_within_its_vendor),
        LEDGER_TEST(an_instance_alone_tells_nothing_among_vendors),
        LEDGER_TEST(a_run_without_a_vendor_may_be_any_ones),
        LEDGER_TEST(an_ambiguous_line_makes_nothing_final),
        LEDGER_TEST(a_credit_never_raises_the_cap),
        LEDGER_TEST(an_id_counts_within_its_instance),
        LEDGER_TEST(changes_do_not_cancel_out),
        LEDGER_TEST(a_bill_is_one_vendors),
        LEDGER_TEST(a_credit_is_kept_by_record_actual_too),
        LEDGER_TEST(a_partial_bill_releases_nothing),
        LEDGER_TEST(a_settled_bill_releases_the_rest),
        LEDGER_TEST(a_bill_to_the_end_releases_the_rest),
        LEDGER_TEST(every_instance_is_billed_to_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
