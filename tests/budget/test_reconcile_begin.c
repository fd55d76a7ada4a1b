/* budget/reconcile.h: which bills show a run whole, from its beginning to its end, so that its
 * cost is final. */
#include "audited_ledger.h"
#include "reconcile_fixture.h"

#include <stdio.h>
#include <string.h>

enum {
    SLACK_S = 3600 + 300, /* the granularity that no policy names, and what clocks differ by */
};

static long long now_s(const ledger_fixture *fixture)
{
    return fixture->clock.wall_ms / 1000;
}

static void begin_run(ledger_fixture *fixture, const char *label)
{
    assert_granted(fixture_authorize(fixture, "phase", label, 2 * USD));
    assert_granted(fixture_create(fixture, label));
    assert_granted(fixture_attach(fixture, label, label));
}

/* A bill that begins in the middle of a run says nothing of the hours before, also when it is sent again
 * and its lines are known. */
static void a_bill_goes_back_to_the_start(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    char bill[256];
    for (int late = 1; late >= 0; late--) {
        const char *label = late ? "late" : "whole";
        begin_run(fixture, label);
        const long long begins_s = now_s(fixture) + SLACK_S + late;
        fixture_pass(fixture, 3 * SLACK_S);
        assert_granted(fixture_prove(fixture, label, label));
        (void)snprintf(bill, sizeof bill, "label,usd,line_id,time,until\n%s,0.5,%s,%lld,%lld\n",
                       label, label, begins_s, now_s(fixture));
        for (int again = 0; again < 2; again++) {
            const budget_reconciled result = reconcile(fixture, bill, &found);
            expect_counts(&result, 1, 0, 0, 0, 0);
            assert_int_equal(fixture_find(fixture, label).rule.held, late ? 3 * USD / 2 : 0);
        }
    }
    const budget_audit_report report = audited(fixture, 100);
    assert_true(report.good);
}

/* The first day's bill and the last day's, and none of the day between them. */
static void bills_with_a_gap_release_nothing(void **state)
{
    enum { DAY_S = 86400 };
    ledger_fixture *fixture = *state;
    findings_seen found;
    char lines[3][64];
    char bill[256];
    begin_run(fixture, "a");
    for (int day = 0; day < 3; day++) {
        (void)snprintf(lines[day], sizeof lines[day], "a,0.5,%d,%lld,%lld\n", day, now_s(fixture),
                       now_s(fixture) + DAY_S);
        fixture_pass(fixture, DAY_S);
    }
    assert_granted(fixture_prove(fixture, "a", "a"));
    for (int day = 0; day < 3; day += 2) {
        (void)snprintf(bill, sizeof bill, "label,usd,line_id,time,until\n%s", lines[day]);
        (void)reconcile(fixture, bill, &found);
    }
    check_phase(fixture, USD, USD);
    (void)snprintf(bill, sizeof bill, "label,usd,line_id,time,until\n%s%s%s", lines[0], lines[1],
                   lines[2]);
    (void)reconcile(fixture, bill, &found);
    check_phase(fixture, 3 * USD / 2, 0);
}

/* A run of two instances, with $9 of the phase's. */
static void start_two(ledger_fixture *fixture)
{
    assert_granted(fixture_authorize_instances(fixture, "phase", "two", 9 * USD, 2));
    assert_granted(fixture_create(fixture, "two"));
    assert_granted(fixture_attach(fixture, "two", "pod-1"));
    assert_granted(fixture_attach(fixture, "two", "pod-2"));
}

/* Each of two instances. */
static void every_instance_is_billed_from_the_start(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    char bill[256];
    start_two(fixture);
    const long long begin_s = now_s(fixture);
    fixture_pass(fixture, 3 * SLACK_S);
    assert_granted(fixture_prove(fixture, "two", "pod-1,pod-2"));
    for (int late = 1; late >= 0; late--) {
        (void)snprintf(bill, sizeof bill,
                       "instance_id,usd,line_id,time,until\n"
                       "pod-1,1,1,%lld,%lld\npod-2,1,%d,%lld,%lld\n",
                       begin_s, now_s(fixture), late, begin_s + SLACK_S + late, now_s(fixture));
        (void)reconcile(fixture, bill, &found);
        check_phase(fixture, (3 - late) * USD, late ? 7 * USD : 0);
    }
}

/* Each of two instances must be billed until the end. */
static void every_instance_is_billed_to_the_end(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    char bill[256];
    start_two(fixture);
    assert_granted(fixture_attest(fixture, "two"));
    const long long end_s = fixture->clock.wall_ms / 1000;
    (void)snprintf(bill, sizeof bill,
                   "label,instance_id,usd,line_id,until\ntwo,pod-1,1,1,%lld\ntwo,,1,2,%lld\n",
                   end_s, end_s);
    (void)reconcile(fixture, bill, &found);
    check_phase(fixture, 2 * USD, 7 * USD);
    (void)snprintf(bill, sizeof bill, "instance_id,usd,line_id,until\npod-2,1,3,%lld\n", end_s);
    (void)reconcile(fixture, bill, &found);
    check_phase(fixture, 3 * USD, 6 * USD); /* pod-1 is not on it */
    (void)snprintf(bill, sizeof bill,
                   "instance_id,usd,line_id,until\npod-1,1,1,%lld\npod-2,1,3,%lld\n", end_s, end_s);
    (void)reconcile(fixture, bill, &found);
    check_phase(fixture, 3 * USD, 0);
}

/* A token that was never redeemed says not since when its instance goes on: attaching it says nothing. */
static void an_instance_made_by_hand_begins_with_the_grant(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    char bill[256];
    assert_granted(fixture_authorize(fixture, "phase", "a", 2 * USD));
    const long long granted_s = now_s(fixture);
    fixture_pass(fixture, 3 * SLACK_S);
    assert_granted(fixture_attach(fixture, "a", "pod-a"));
    assert_granted(fixture_prove(fixture, "a", "pod-a"));
    for (int late = 1; late >= 0; late--) {
        (void)snprintf(bill, sizeof bill,
                       "instance_id,usd,line_id,time,until\npod-a,0.5,%d,%lld,%lld\n", late,
                       granted_s + SLACK_S + late, now_s(fixture));
        (void)reconcile(fixture, bill, &found);
        check_phase(fixture, (2 - late) * USD / 2, late ? 3 * USD / 2 : 0);
    }
}

/* The bill has a charge for a time after the end, and --as-of hides it. */
static void a_bill_with_a_line_passed_over_makes_nothing_final(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    char bill[256];
    begin_run(fixture, "a");
    const long long begin_s = now_s(fixture);
    fixture_pass(fixture, SLACK_S);
    assert_granted(fixture_prove(fixture, "a", "a"));
    const long long end_s = now_s(fixture);
    fixture_pass(fixture, 4 * SLACK_S);
    (void)snprintf(bill, sizeof bill,
                   "label,usd,line_id,time,until\na,0.5,1,%lld,%lld\na,0.5,2,%lld,%lld\n", begin_s,
                   end_s, end_s + 2 * SLACK_S, end_s + 3 * SLACK_S);
    const budget_reconciled result = reconcile_until(fixture, bill, &found, end_s + 1);
    expect_counts(&result, 1, 0, 0, 0, 0);
    assert_int_equal(result.passed_over, 1);
    assert_int_equal(result.unsettled, 1);
    check_phase(fixture, USD / 2, 3 * USD / 2);
    (void)reconcile(fixture, bill, &found);
    assert_int_equal(found.findings[0].kind, BUDGET_FINDING_AFTER_THE_END);
    check_phase(fixture, USD, USD);
}

int main(void)
{
#define LEDGER_TEST(name) cmocka_unit_test_setup_teardown(name, reconcile_make, reconcile_take_down)
    const struct CMUnitTest tests[] = {
        LEDGER_TEST(a_bill_goes_back_to_the_start),
        LEDGER_TEST(bills_with_a_gap_release_nothing),
        LEDGER_TEST(every_instance_is_billed_from_the_start),
        LEDGER_TEST(every_instance_is_billed_to_the_end),
        LEDGER_TEST(an_instance_made_by_hand_begins_with_the_grant),
        LEDGER_TEST(a_bill_with_a_line_passed_over_makes_nothing_final),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
