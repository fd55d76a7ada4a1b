/* budget/reconcile.h: what a bill says beside the ledger, line by line. */
#include "reconcile_fixture.h"

#include <stdio.h>
#include <string.h>

static void a_bill_that_fits_is_matched_and_posted(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    make_run(fixture, "a", -1);
    make_run(fixture, "b", USD);
    make_run(fixture, "c", 1230000);
    assert_granted(fixture_authorize(fixture, "phase", "unused", USD));
    const char *bill = "label,instance_id,usd,line_id\n"
                       "a,,0.25,1\n,pod-a,0.25,2\nb,,0.4,3\nb,,0.6,4\n,pod-c,1.234567,5\n";
    for (int again = 0; again < 2; again++) {
        const budget_reconciled result = reconcile(fixture, bill, &found);
        expect_counts(&result, 3, 0, 0, 0, 0);
        assert_int_equal(result.recorded, again == 0 ? 5 : 0);
        assert_int_equal(spent(fixture), 500000 + 1000000 + 1234567);
    }
    /* said by a person to be all, or only billed so far */
    assert_int_equal(fixture_find(fixture, "b").rule.state, BUDGET_STATE_POSTED);
    assert_int_equal(fixture_find(fixture, "a").rule.state, BUDGET_STATE_TERMINATED_UNBILLED);
    /* the next bill brings another line, and a credit */
    const budget_reconciled result =
        reconcile(fixture, "label,usd,line_id\nb,0.05,7\na,-0.1,8\n", &found);
    expect_counts(&result, 2, 0, 0, 0, 0);
    assert_int_equal(spent(fixture), 400000 + 1050000 + 1234567);
}

/* Less than a person said, or than a bill said before: a person decides. */
static void a_bill_of_less_is_not_posted(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    make_run(fixture, "a", USD);
    for (int again = 0; again < 2; again++) {
        const budget_reconciled result =
            reconcile(fixture, "label,usd,line_id\na,0.99,1\n", &found);
        expect_counts(&result, 0, 0, 0, 1, 0);
        assert_int_equal(result.recorded, 0);
        assert_int_equal(found.count, 1);
        assert_string_equal(found.findings[0].label, "a");
        assert_int_equal(spent(fixture), USD);
    }
    assert_granted(fixture_actual(fixture, "a", -10000)); /* a person has looked */
    budget_reconciled result = reconcile(fixture, "label,usd,line_id\na,0.99,1\n", &found);
    expect_counts(&result, 1, 0, 0, 0, 0);
    result = reconcile(fixture, "label,usd,line_id\na,0.50,1\n", &found); /* a line has changed */
    expect_counts(&result, 0, 0, 0, 1, 0);
    assert_int_equal(spent(fixture), 990000);
    assert_granted(fixture_actual(fixture, "a", -490000));
    result = reconcile(fixture, "label,usd,line_id\na,0.50,1\n", &found);
    expect_counts(&result, 1, 0, 0, 0, 0);
    assert_int_equal(spent(fixture), 500000);
}

/* A bill is a fact: what it has above what a person said is posted at once, and the person is told. */
static void a_bill_of_more_than_was_said_is_posted(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    const char *const bills[] = {"label,usd,line_id\na,1.01,1\n", "label,usd,line_id\nb,0.30,2\n"};
    make_run(fixture, "a", USD);
    make_run(fixture, "b", 0); /* "it cost nothing" */
    for (size_t i = 0; i < 2; i++) {
        budget_reconciled result = reconcile(fixture, bills[i], &found);
        assert_int_equal(result.counts[BUDGET_FINDING_DIFFERING], 1);
        assert_int_equal(result.counts[BUDGET_FINDING_MATCHED], 0);
        assert_int_equal(result.recorded, 1);
        assert_true(found.findings[0].posted);
        result = reconcile(fixture, bills[i], &found);
        assert_int_equal(result.counts[BUDGET_FINDING_DIFFERING], 0);
        assert_int_equal(result.counts[BUDGET_FINDING_MATCHED], 1);
        assert_int_equal(result.recorded, 0);
    }
    assert_int_equal(spent(fixture), 1010000 + 300000);
    assert_granted(fixture_actual(fixture, "a", -20000)); /* a person, who is not overruled again */
    const budget_reconciled result = reconcile(fixture, bills[0], &found);
    assert_int_equal(result.counts[BUDGET_FINDING_DIFFERING], 1);
    assert_false(found.findings[0].posted);
    assert_int_equal(spent(fixture), 990000 + 300000);
}

/* The renter's case: a line of the day grows while the run goes on, beyond what was reserved. Nothing
 * may be granted on the sum that is known to be too small. */
static void a_line_that_grew_takes_the_room(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    budget_answer answer;
    assert_granted(fixture_authorize(fixture, "phase", "a", 2 * USD));
    assert_granted(fixture_create(fixture, "a"));
    budget_reconciled result = reconcile(fixture, "label,usd,line_id\na,0.20,1\n", &found);
    expect_counts(&result, 1, 0, 0, 0, 0);
    check_phase(fixture, 200000, 1800000);
    result = reconcile(fixture, "label,usd,line_id\na,1.20,1\n", &found);
    expect_counts(&result, 1, 0, 0, 0, 0);
    check_phase(fixture, 1200000, 800000); /* the room stays as it was */
    result = reconcile(fixture, "label,usd,line_id\na,45.00,1\n", &found);
    assert_int_equal(result.counts[BUDGET_FINDING_FROZEN], 1);
    check_phase(fixture, 45 * USD, 0);
    assert_reason(fixture_authorize(fixture, "phase", "b", 9 * USD), BUDGET_REASON_ACCOUNT_FROZEN);
    fixture_begin(fixture);
    assert_ok(budget_ledger_acknowledge(fixture->ledger, NULL, "phase", &answer, &fixture->error),
              &fixture->error);
    fixture_commit(fixture);
    assert_reason(fixture_authorize(fixture, "phase", "b", 9 * USD), BUDGET_REASON_EXCEEDED);
}

/* One line is less than it was, and all of them are more: the sum is posted, without a rise that
 * falls again, and a person is called. */
static void a_sum_that_grew_is_posted_at_once(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    make_run(fixture, "a", -1);
    (void)reconcile(fixture, "label,usd,line_id\na,0.5,1\na,1.0,2\n", &found);
    const char *bill = "label,usd,line_id\na,1.9,1\na,0.1,2\n"; /* 2 USD, and 2.90 on the way */
    budget_reconciled result = reconcile(fixture, bill, &found);
    expect_counts(&result, 0, 0, 0, 1, 0);
    assert_int_equal(result.recorded, 2);
    assert_int_equal(spent(fixture), 2 * USD);
    assert_false(fixture_balance(fixture, "phase").frozen);
    result = reconcile(fixture, bill, &found);
    expect_counts(&result, 1, 0, 0, 0, 0);
}

static void rounding_is_half_a_cent_a_line(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    make_run(fixture, "a", USD);
    make_run(fixture, "b", USD);
    budget_reconciled result = reconcile(fixture, "label,usd,line_id\na,0.994999,1\n", &found);
    assert_int_equal(result.counts[BUDGET_FINDING_DIFFERING], 1);
    result = reconcile(fixture, "label,usd,line_id\na,0.995,1\n", &found);
    assert_int_equal(result.counts[BUDGET_FINDING_MATCHED], 1);
    assert_int_equal(spent(fixture), USD + 995000);
    result = reconcile(fixture, "label,usd,line_id\nb,1.005,2\n", &found);
    assert_int_equal(result.counts[BUDGET_FINDING_MATCHED], 1);
    assert_int_equal(spent(fixture), 1005000 + 995000);
}

/* A bill of a hundred lines and more: half a dollar less than a person said is a difference. */
static void rounding_has_a_limit(void **state)
{
    enum { LINES = 150 };
    ledger_fixture *fixture = *state;
    findings_seen found;
    for (int over = 1; over >= 0; over--) {
        char bill[LINES * 32] = "label,usd,line_id\n";
        const char *label = over ? "over" : "within";
        make_run(fixture, label, USD);
        for (int i = 0; i < LINES; i++) {
            const size_t used = strlen(bill);
            (void)snprintf(bill + used, sizeof bill - used, "%s,%s,%d\n", label,
                           i > 0 ? "0.003" : (over ? "0.052999" : "0.053"), i);
        }
        const budget_reconciled result = reconcile(fixture, bill, &found);
        assert_int_equal(result.counts[BUDGET_FINDING_MATCHED], !over);
        assert_int_equal(spent(fixture), over ? USD : USD + USD / 2);
    }
}

static void what_is_missing_is_named(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    make_run(fixture, "posted", USD);
    make_run(fixture, "ended", -1);
    make_run(fixture, "nothing", 0);
    assert_granted(fixture_authorize(fixture, "phase", "running", USD));
    assert_granted(fixture_create(fixture, "running"));
    const budget_reconciled result = reconcile(
        fixture,
        "label,instance_id,usd,line_id\nwho,,1,1\n,pod-who,1,2\n,,0.5,3\nnothing,,0.30,4\n",
        &found);
    expect_counts(&result, 0, 2, 2, 1, 2);
    assert_int_equal(spent(fixture), USD + 300000);
    fixture_pass(fixture, 60);
    make_run(fixture, "later", USD);
    fixture->clock.wall_ms -= 30000; /* as of a moment before "later" */
    fixture->clock.boot_ms -= 30000;
    const budget_reconciled earlier = reconcile(fixture, "label,usd\n", &found);
    expect_counts(&earlier, 0, 2, 0, 0, 1);
}

/* Until a bill goes, what begins in its last second is on it, and what begins later is not. */
static void what_begins_later_is_passed_over(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    char bill[256];
    const long long as_of_s = fixture->clock.wall_ms / 1000;
    make_run(fixture, "a", -1);
    (void)snprintf(bill, sizeof bill, "label,usd,line_id,time\na,0.5,1,%lld\na,0.25,2,%lld\n",
                   as_of_s, as_of_s + 1);
    const budget_reconciled result = reconcile(fixture, bill, &found);
    expect_counts(&result, 1, 0, 0, 0, 0);
    assert_int_equal(result.passed_over, 1);
    assert_int_equal(spent(fixture), USD / 2);
}

static void a_bill_above_its_reservation_freezes(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    make_run(fixture, "a", -1);
    const budget_reconciled result =
        reconcile(fixture, "label,usd,line_id\na,2.000001,1\n", &found);
    expect_counts(&result, 1, 0, 0, 0, 0);
    assert_int_equal(result.counts[BUDGET_FINDING_FROZEN], 1);
    assert_true(fixture_balance(fixture, "phase").frozen);
    assert_int_equal(spent(fixture), 2000001);
}

static void a_sum_out_of_range_is_differing(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    make_run(fixture, "a", -1);
    make_run(fixture, "b", -1);
    const budget_reconciled result =
        reconcile(fixture, "label,usd,line_id\na,600000000,1\na,600000000,2\nb,1,3\n", &found);
    expect_counts(&result, 1, 0, 0, 1, 0);
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
    make_run(fixture, "a", -1);
    fixture_begin(fixture);
    assert_status(budget_reconcile_run(fixture->ledger, NULL, &options, &result, NULL),
                  BASE_ERR_INVALID);
    fixture_commit(fixture);
    assert_int_equal(spent(fixture), 0);
}

/* Two known lines that changed against each other come to the same sum, and differ. */
static void changes_do_not_cancel_out(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    make_run(fixture, "a", -1);
    budget_reconciled result = reconcile(fixture, "label,usd,line_id\na,0.5,1\na,0.7,2\n", &found);
    expect_counts(&result, 1, 0, 0, 0, 0);
    result = reconcile(fixture, "label,usd,line_id\na,0.6,1\na,0.6,2\n", &found);
    expect_counts(&result, 0, 0, 0, 1, 0);
}

/* A line that has grown, and new ones beside it: all of the bill is posted, once, and nothing of it is
 * taken for the lines of the next. */
static void a_line_that_grew_is_posted_beside_new_ones(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    make_run(fixture, "a", -1);
    budget_reconciled result = reconcile(fixture, "label,usd,line_id\na,0.30,12\n", &found);
    expect_counts(&result, 1, 0, 0, 0, 0);
    const char *bill = "label,usd,line_id\na,0.60,12\na,0.60,13\na,0.60,14\n";
    for (int again = 0; again < 3; again++) {
        result = reconcile(fixture, bill, &found);
        expect_counts(&result, 1, 0, 0, 0, 0);
        assert_int_equal(result.recorded, again == 0 ? 3 : 0);
        assert_int_equal(spent(fixture), 1800000);
    }
    const budget_reservation run = fixture_find(fixture, "a");
    assert_int_equal(run.billed_usd_micro, run.rule.total); /* nothing is by hand any more */
    result = reconcile(fixture, "label,usd,line_id\na,0.10,15\n", &found);
    expect_counts(&result, 1, 0, 0, 0, 0);
    assert_int_equal(spent(fixture), 1900000);
}

/* It alone: its new amount is recorded, so the next bill needs no person. */
static void a_line_that_shrank_is_corrected(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    make_run(fixture, "a", -1);
    (void)reconcile(fixture, "label,instance_id,usd,line_id\na,pod-a,0.60,12\na,,0.40,13\n",
                    &found);
    const char *bill = "label,usd,line_id\na,0.254,12\na,0.40,13\n"; /* names no instance now */
    (void)reconcile(fixture, bill, &found);
    assert_int_equal(found.count, 1);
    assert_granted(fixture_actual(fixture, "a", -350000));
    assert_int_equal(spent(fixture), 650000);
    for (int again = 0; again < 2; again++) {
        const budget_reconciled result = reconcile(fixture, bill, &found);
        expect_counts(&result, 1, 0, 0, 0, 0);
        assert_int_equal(result.counts[BUDGET_FINDING_FROZEN], 0);
        assert_int_equal(spent(fixture), 654000);
    }
    budget_reconciled result = reconcile(fixture, "label,usd,line_id\na,0.25,12\n", &found);
    expect_counts(&result, 0, 0, 0, 1, 0); /* another change */
    result = reconcile(fixture, "label,usd,line_id\na,0.60,12\n", &found);
    expect_counts(&result, 1, 0, 0, 0, 0); /* it has grown again */
    assert_int_equal(spent(fixture), USD);
}

int main(void)
{
#define LEDGER_TEST(name) cmocka_unit_test_setup_teardown(name, reconcile_make, reconcile_take_down)
    const struct CMUnitTest tests[] = {
        LEDGER_TEST(a_bill_that_fits_is_matched_and_posted),
        LEDGER_TEST(a_bill_of_less_is_not_posted),
        LEDGER_TEST(a_bill_of_more_than_was_said_is_posted),
        LEDGER_TEST(a_line_that_grew_takes_the_room),
        LEDGER_TEST(a_sum_that_grew_is_posted_at_once),
        LEDGER_TEST(rounding_is_half_a_cent_a_line),
        LEDGER_TEST(rounding_has_a_limit),
        LEDGER_TEST(what_is_missing_is_named),
        LEDGER_TEST(what_begins_later_is_passed_over),
        LEDGER_TEST(a_bill_above_its_reservation_freezes),
        LEDGER_TEST(a_sum_out_of_range_is_differing),
        LEDGER_TEST(two_lines_of_one_id_are_refused),
        LEDGER_TEST(changes_do_not_cancel_out),
        LEDGER_TEST(a_line_that_grew_is_posted_beside_new_ones),
        LEDGER_TEST(a_line_that_shrank_is_corrected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
