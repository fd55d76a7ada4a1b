/* budget/reconcile.h: whose instance and whose line it is, among vendors and their instances. */
#include "audited_ledger.h"
#include "reconcile_fixture.h"

#include <stdio.h>
#include <string.h>

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
    expect_counts(&result, 1, 0, 0, 0, 0);
    assert_int_equal(posted(fixture, "b"), 500000);
    assert_int_equal(posted(fixture, "a"), 0);
    /* a line's own word comes first; line 1 of the one is not line 1 of the other */
    result = reconcile(fixture,
                       "instance_id,vendor,usd,line_id\n123,runpod,0.25,1\n123,vast,0.5,1\n"
                       "123,lambda,0.75,1\n",
                       &found);
    expect_counts(&result, 2, 0, 1, 0, 1); /* c goes on, and is on no bill */
    assert_int_equal(posted(fixture, "a"), 250000);
    assert_int_equal(posted(fixture, "b"), 500000);
    /* a label is one run's, whatever the vendor; and not another vendor's */
    result = reconcile(fixture, "label,vendor,usd,line_id\na,,0.25,2\na,vast,0.25,3\n", &found);
    expect_counts(&result, 1, 0, 1, 0, 1);
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
    expect_counts(&result, 1, 0, 0, 0, 0);
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
    expect_counts(&result, 1, 0, 0, 0, 0);
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
    make_run(fixture, "a", -1);
    fixture_begin(fixture);
    assert_status(budget_reconcile_run(fixture->ledger, NULL, &options, &result, NULL),
                  BASE_ERR_INVALID);
    fixture_commit(fixture);
    assert_int_equal(spent(fixture), 0);
    result = reconcile(fixture, "label,usd,line_id\na,0.5,1\n", &found);
    expect_counts(&result, 1, 0, 0, 0, 0);
    result =
        reconcile(fixture, "label,instance_id,usd,line_id\na,pod-a,0.5,1\na,pod-b,0.5,1\n", &found);
    expect_counts(&result, 0, 0, 0, 1, 0);
    assert_int_equal(spent(fixture), 500000);
}

/* A vendor numbers the lines of each instance from 1. */
static void an_id_counts_within_its_instance(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    make_run(fixture, "22", -1);
    make_run(fixture, "23", -1);
    budget_reconciled result =
        reconcile(fixture, "instance_id,usd,line_id\npod-22,0.5,1\n", &found);
    expect_counts(&result, 1, 1, 0, 0, 0);
    result = reconcile(fixture, "instance_id,usd,line_id\npod-23,0.7,1\n", &found);
    expect_counts(&result, 1, 0, 0, 0, 0);
    assert_int_equal(result.recorded, 1);
    assert_int_equal(spent(fixture), 1200000);
    result = reconcile(fixture, "instance_id,usd,line_id\npod-23,0.7,1\npod-22,0.5,1\n", &found);
    expect_counts(&result, 2, 0, 0, 0, 0);
    /* without its instance it is still known by its run; with another amount it is differing */
    result = reconcile(fixture, "label,usd,line_id\n23,0.7,1\n", &found);
    expect_counts(&result, 1, 0, 0, 0, 0);
    result = reconcile(fixture, "label,usd,line_id\n22,0.499,1\n", &found);
    expect_counts(&result, 0, 0, 0, 1, 0);
    assert_string_equal(found.findings[0].label, "22");
    /* the same line for another run is differing */
    result = reconcile(fixture, "label,instance_id,usd,line_id\n22,pod-23,0.7,1\n", &found);
    expect_counts(&result, 0, 0, 0, 1, 0);
    assert_string_equal(found.findings[0].label, "22");
    /* and beside the line that it may be, both are */
    result =
        reconcile(fixture, "label,instance_id,usd,line_id\n23,,0.7,1\n22,pod-23,0.7,1\n", &found);
    expect_counts(&result, 0, 0, 0, 2, 0);
    assert_int_equal(spent(fixture), 1200000);
}

static void a_bill_is_one_vendors(void **state)
{
    ledger_fixture *fixture = *state;
    budget_reconciled result;
    const budget_charge charge = {.line_id = "1", .instance_id = "pod-a", .usd_micro = 1};
    budget_reconcile_options options = {
        .as_of_s = fixture->clock.wall_ms / 1000, .vendor = "vast", .charges = &charge, .count = 1};
    make_run(fixture, "a", -1);
    for (int i = 0; i < 2; i++) {
        fixture_begin(fixture);
        assert_ok(budget_reconcile_run(fixture->ledger, NULL, &options, &result, &fixture->error),
                  &fixture->error);
        fixture_commit(fixture);
        expect_counts(&result, i, 0, 1 - i, 0, 0);
        options.vendor = "runpod";
    }
}

/* The evidence described pod-b. It says nothing of pod-a, which was attached later. */
static void an_instance_that_was_not_described_refutes_the_end(void **state)
{
    ledger_fixture *fixture = *state;
    assert_granted(fixture_authorize(fixture, "phase", "a", 2 * USD));
    assert_granted(fixture_create(fixture, "a"));
    assert_granted(fixture_prove(fixture, "a", "pod-b"));
    const budget_answer answer = fixture_attach(fixture, "a", "pod-a");
    assert_granted(answer);
    assert_non_null(strstr(answer.message, "about another instance, and counts no more"));
    assert_true(fixture_find(fixture, "a").rule.refuted);
    assert_reason(fixture_prove(fixture, "a", "pod-b"), BUDGET_REASON_EVIDENCE);
    fixture_pass(fixture, 3600);
    assert_granted(fixture_prove(fixture, "a", "pod-a"));
    assert_false(fixture_find(fixture, "a").rule.refuted);
    assert_granted(fixture_authorize(fixture, "phase", "b", 2 * USD));
    assert_granted(fixture_attest(fixture, "b"));
    assert_granted(fixture_attach(fixture, "b", "pod-c")); /* an admin's word is about the run */
    assert_false(fixture_find(fixture, "b").rule.refuted);
    const budget_audit_report report = audited(fixture, 100);
    assert_true(report.good);
}

int main(void)
{
#define LEDGER_TEST(name) cmocka_unit_test_setup_teardown(name, reconcile_make, reconcile_take_down)
    const struct CMUnitTest tests[] = {
        LEDGER_TEST(an_instance_counts_within_its_vendor),
        LEDGER_TEST(an_instance_alone_tells_nothing_among_vendors),
        LEDGER_TEST(a_run_without_a_vendor_may_be_any_ones),
        LEDGER_TEST(an_ambiguous_line_makes_nothing_final),
        LEDGER_TEST(a_line_without_its_instance_is_no_second_one),
        LEDGER_TEST(an_id_counts_within_its_instance),
        LEDGER_TEST(a_bill_is_one_vendors),
        LEDGER_TEST(an_instance_that_was_not_described_refutes_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
