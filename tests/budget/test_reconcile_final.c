/* budget/reconcile.h: what comes back of a reservation, and when. */
#include "audited_ledger.h"
#include "reconcile_fixture.h"

#include <stdio.h>
#include <string.h>

enum { SETTLING_S = 48 * 3600 };

/* A credit of more than the run cost gives back what it cost, and calls a person. */
static void a_credit_never_raises_the_cap(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    budget_answer answer;
    make_run(fixture, "a", -1);
    make_run(fixture, "b", 2 * USD);
    const char *bill = "label,usd,line_id\na,-500.00,1\na,1.00,2\n";
    for (int again = 0; again < 2; again++) { /* and it is not forgotten */
        const budget_reconciled result = reconcile(fixture, bill, &found);
        expect_counts(&result, 0, 1, 0, 1, 0);
        assert_int_equal(result.counts[BUDGET_FINDING_FROZEN], 1);
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

/* What a person said is taken off the lines: what is posted does not rise and fall on the way. */
static void lines_of_what_was_said_by_hand_freeze_nothing(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    budget_answer answer;
    make_run(fixture, "a", 2 * USD);
    make_run(fixture, "z", 60 * USD); /* more than the account may */
    assert_true(fixture_balance(fixture, "phase").frozen);
    fixture_begin(fixture);
    assert_ok(budget_ledger_acknowledge(fixture->ledger, NULL, "phase", &answer, &fixture->error),
              &fixture->error);
    fixture_commit(fixture);
    const budget_reconciled result =
        reconcile(fixture, "label,usd,line_id\na,0.50,1\na,1.00,2\na,0.50,3\n", &found);
    assert_int_equal(result.counts[BUDGET_FINDING_MATCHED], 1);
    assert_int_equal(result.recorded, 3);
    assert_int_equal(result.counts[BUDGET_FINDING_FROZEN], 0);
    check_phase(fixture, 62 * USD, 0);
    const budget_reservation run = fixture_find(fixture, "a");
    assert_int_equal(run.rule.total, 2 * USD);
    assert_int_equal(run.billed_usd_micro, 2 * USD);
}

/* Of a charge and its credit, too. */
static void a_credit_in_what_was_said_by_hand_freezes_nothing(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    budget_answer answer;
    make_run(fixture, "a", 2 * USD);
    make_run(fixture, "z", 60 * USD);
    fixture_begin(fixture);
    assert_ok(budget_ledger_acknowledge(fixture->ledger, NULL, "phase", &answer, &fixture->error),
              &fixture->error);
    fixture_commit(fixture);
    const budget_reconciled result =
        reconcile(fixture, "label,usd,line_id\na,3.00,1\na,-1.00,2\n", &found);
    assert_int_equal(result.counts[BUDGET_FINDING_MATCHED], 1);
    assert_int_equal(result.recorded, 2);
    assert_int_equal(result.counts[BUDGET_FINDING_FROZEN], 0);
    check_phase(fixture, 62 * USD, 0);
    assert_int_equal(fixture_find(fixture, "a").billed_usd_micro, 2 * USD);
}

static void a_credit_is_kept_by_record_actual_too(void **state)
{
    ledger_fixture *fixture = *state;
    assert_granted(fixture_authorize(fixture, "phase", "a", 9 * USD));
    assert_granted(fixture_create(fixture, "a"));
    assert_granted(fixture_line(fixture, "a", USD, "1"));
    const budget_answer answer = fixture_line(fixture, "a", -500 * USD, "2");
    assert_granted(answer);
    assert_non_null(strstr(answer.message, "a was credited $499.00 more than it cost"));
    check_phase(fixture, 0, 9 * USD);
    assert_granted(fixture_line(fixture, "a", 500 * USD, "3"));
    check_phase(fixture, USD, 8 * USD); /* the credit counts against what is billed later */
}

/* Lines of a bill are no story: a credit that stands first, or has the lower id, calls nobody. */
static void a_credit_may_stand_before_its_charge(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    make_run(fixture, "a", -1);
    const budget_reconciled result =
        reconcile(fixture, "label,usd,line_id\na,-0.50,1\na,1.00,2\n", &found);
    expect_counts(&result, 1, 0, 0, 0, 0);
    assert_int_equal(result.counts[BUDGET_FINDING_FROZEN], 0);
    check_phase(fixture, USD / 2, 3 * USD / 2);
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
    expect_counts(&result, 1, 0, 0, 0, 0);
    check_phase(fixture, 690000, 50 * USD - 690000);
    assert_int_equal(fixture_find(fixture, "a").rule.state, BUDGET_STATE_TERMINATED_UNBILLED);
    assert_reason(fixture_authorize(fixture, "phase", "b", 1), BUDGET_REASON_EXCEEDED);
    result = reconcile(fixture, "instance_id,usd,line_id\npod-a,0.69,1\npod-a,49.31,2\n", &found);
    expect_counts(&result, 1, 0, 0, 0, 0);
    check_phase(fixture, 50 * USD, 0);
}

/* The rest returns by a bill that goes so far beyond the end as the vendor's settling time. */
static void a_settled_bill_releases_the_rest(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    const char *bill = "label,usd,line_id\na,0.69,1\n";
    const int64_t end_s = fixture->clock.wall_ms / 1000;
    make_run(fixture, "a", -1);
    (void)reconcile(fixture, bill, &found);
    check_phase(fixture, 690000, 1310000);
    (void)reconcile_until(fixture, bill, &found, end_s + 3 * SETTLING_S); /* before it is so late */
    fixture_pass(fixture, SETTLING_S - 1);
    (void)reconcile(fixture, bill, &found);
    check_phase(fixture, 690000, 1310000);
    fixture_pass(fixture, 1);
    (void)reconcile_until(fixture, bill, &found, end_s + SETTLING_S - 1); /* not far enough */
    (void)reconcile(fixture, "label,usd,line_id\n", &found);              /* does not show it */
    (void)reconcile(fixture, "label,usd,line_id\na,0.68,1\n", &found);    /* does not agree */
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
    make_run(fixture, "a", -1);
    const int64_t end_s = fixture->clock.wall_ms / 1000;
    const struct {
        int64_t until_s;
        const char *usd;
        const char *instance;
        int64_t reserved;
    } bills[] = {
        {end_s - 1, "0.5", "pod-a", 1500000},  /* not until the end */
        {end_s, "0.4", "pod-b", 1100000},      /* of another instance */
        {end_s, "-0.1", "pod-a", 1200000},     /* a credit bills no time */
        {end_s + 61, "0.1", "pod-a", 1100000}, /* a period that goes on may still grow */
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

/* The ledger's time and the wall's may lie apart. A bill has the wall's. */
static void a_bill_has_the_walls_time(void **state)
{
    enum { APART_S = 7200 };
    ledger_fixture *fixture = *state;
    findings_seen found;
    budget_answer answer;
    char bill[256];
    fixture->clock.wall_ms += APART_S * 1000;
    fixture_begin(fixture);
    assert_ok(budget_ledger_clock_repair(fixture->ledger, NULL, &answer, &fixture->error),
              &fixture->error);
    fixture_commit(fixture);
    make_run(fixture, "a", -1);
    const long long end_s = fixture->clock.wall_ms / 1000;
    fixture_pass(fixture, 60);
    for (int early = 1; early >= 0; early--) {
        (void)snprintf(bill, sizeof bill, "label,usd,line_id,until\na,0.5,%d,%lld\n", early,
                       end_s - early);
        (void)reconcile(fixture, bill, &found);
        assert_int_equal(found.count, 0);
        check_phase(fixture, (2 - early) * USD / 2, early * 3 * USD / 2);
    }
}

/* Time alone releases nothing while an instance is not known, unless an admin vouched for it. */
static void a_settled_bill_knows_every_instance(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    const char *bill = "label,usd,line_id\nproven,1,1\nvouched,1,2\n";
    assert_granted(fixture_authorize_instances(fixture, "phase", "proven", 9 * USD, 2));
    assert_granted(fixture_create(fixture, "proven"));
    assert_granted(fixture_prove(fixture, "proven", "pod-1,pod-2"));
    assert_granted(fixture_authorize_instances(fixture, "phase", "vouched", 9 * USD, 2));
    assert_granted(fixture_attach(fixture, "vouched", "pod-3"));
    assert_granted(fixture_attest(fixture, "vouched"));
    fixture_pass(fixture, SETTLING_S);
    (void)reconcile(fixture, bill, &found);
    check_phase(fixture, 2 * USD, 8 * USD);
    assert_int_equal(fixture_find(fixture, "vouched").rule.state, BUDGET_STATE_POSTED);
    assert_granted(fixture_attach(fixture, "proven", "pod-1"));
    (void)reconcile(fixture, bill, &found);
    check_phase(fixture, 2 * USD, 8 * USD);
    assert_granted(fixture_attach(fixture, "proven", "pod-2"));
    (void)reconcile(fixture, bill, &found);
    check_phase(fixture, 2 * USD, 0);
}

/* The pod was not gone. What had returned was granted to another run; the bill is posted all the
 * same, and a person is called. */
static void lines_after_the_end_are_found_and_freeze(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    char bill[256];
    make_run(fixture, "a", -1);
    assert_granted(fixture_line(fixture, "a", 200000, "1"));
    assert_granted(fixture_actual(fixture, "a", 0)); /* final: 1.80 USD return */
    assert_granted(fixture_authorize(fixture, "phase", "b", 49700000));
    const long long end_s = fixture->clock.wall_ms / 1000;
    fixture_pass(fixture, 3 * 3600);
    (void)snprintf(bill, sizeof bill, "label,usd,line_id,time\na,0.10,2,%lld\n",
                   end_s + 3900); /* within what the vendor bills at least, and clocks differ by */
    budget_reconciled result = reconcile(fixture, bill, &found);
    expect_counts(&result, 1, 0, 0, 0, 0);
    assert_int_equal(found.count, 0);
    assert_int_equal(result.counts[BUDGET_FINDING_FROZEN], 0);
    (void)snprintf(bill, sizeof bill, "label,usd,line_id,time\na,0.50,3,%lld\n", end_s + 3901);
    for (int again = 0; again < 2; again++) {
        result = reconcile(fixture, bill, &found);
        expect_counts(&result, 1, 0, 0, 0, 0);
        assert_int_equal(result.counts[BUDGET_FINDING_AFTER_THE_END], 1);
        assert_string_equal(found.findings[0].label, "a");
        assert_int_equal(found.findings[0].known, again == 1);
        assert_int_equal(result.counts[BUDGET_FINDING_FROZEN], again == 0);
    }
    check_phase(fixture, 800000, 49700000);
    assert_int_equal(fixture_balance(fixture, "phase").remaining_usd_micro, -500000);
    assert_true(fixture_balance(fixture, "phase").frozen);
}

/* Nor is any cost final by such a bill. */
static void lines_after_the_end_release_nothing(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    char bill[256];
    make_run(fixture, "a", -1);
    const long long end_s = fixture->clock.wall_ms / 1000;
    fixture_pass(fixture, 2 * SETTLING_S);
    (void)snprintf(bill, sizeof bill, "label,usd,line_id,time\na,0.20,1,%lld\n", end_s + 7200);
    (void)reconcile(fixture, bill, &found);
    assert_int_equal(found.count, 1);
    check_phase(fixture, 200000, 1800000);
    fixture_reopen(fixture);
    (void)snprintf(bill, sizeof bill, "label,usd,line_id,time\na,0.10,2,%lld\n", end_s - 60);
    (void)reconcile(fixture, bill, &found); /* an earlier bill, which does not show it */
    assert_int_equal(found.count, 1);
    assert_false(found.findings[0].known);
    assert_int_equal(found.findings[0].kind, BUDGET_FINDING_AFTER_THE_END);
    check_phase(fixture, 300000, 1700000);
}

/* Not until the end is proven anew, after the one that was none. */
static void a_refuted_end_is_proven_anew(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    char bill[256];
    char old[2048];
    make_run(fixture, "a", -1);
    fixture_evidence(fixture, "a", "pod-a", old, sizeof old);
    const long long end_s = fixture->clock.wall_ms / 1000;
    (void)snprintf(bill, sizeof bill, "label,usd,line_id,time\na,0.20,1,%lld\n", end_s + 7200);
    for (int again = 0; again < 2; again++) {
        fixture_pass(fixture, 3 * 3600);
        (void)reconcile(fixture, bill, &found);
        assert_int_equal(found.count, 1);
    }
    assert_true(fixture_find(fixture, "a").rule.refuted);
    assert_reason(fixture_terminate(fixture, "a", old, BUDGET_ATTEST_NOTHING),
                  BUDGET_REASON_EVIDENCE);
    assert_granted(fixture_prove(fixture, "a", "pod-a"));
    assert_int_equal(fixture_find(fixture, "a").rule.ended_ms / 1000 - end_s, 6 * 3600);
    fixture_pass(fixture, SETTLING_S - 1);
    (void)reconcile(fixture, bill, &found); /* the settling time begins anew as well */
    assert_int_equal(found.count, 0);
    check_phase(fixture, 200000, 1800000);
    fixture_pass(fixture, 1);
    (void)reconcile(fixture, bill, &found);
    check_phase(fixture, 200000, 0);
    const budget_audit_report report = audited(fixture, 100);
    assert_true(report.good);
}

/* A person may say as well that nothing more can come. */
static void a_person_ends_a_refuted_run(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    char bill[256];
    make_run(fixture, "a", -1);
    const long long end_s = fixture->clock.wall_ms / 1000;
    (void)snprintf(bill, sizeof bill, "label,usd,line_id,time\na,0.20,1,%lld\n", end_s + 7200);
    fixture_pass(fixture, 3 * 3600);
    (void)reconcile(fixture, bill, &found);
    assert_granted(fixture_actual(fixture, "a", 0));
    check_phase(fixture, 200000, 0);
    const budget_audit_report report = audited(fixture, 100);
    assert_true(report.good);
}

/* A credit is no time of an instance. */
static void a_credit_refutes_no_end(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    char bill[256];
    make_run(fixture, "a", -1);
    const long long end_s = fixture->clock.wall_ms / 1000;
    assert_granted(fixture_line(fixture, "a", 200000, "1"));
    fixture_pass(fixture, 2 * SETTLING_S);
    (void)snprintf(bill, sizeof bill, "label,usd,line_id,time\na,-0.10,2,%lld\n", end_s + 7200);
    (void)reconcile(fixture, bill, &found);
    assert_int_equal(found.count, 0);
    check_phase(fixture, 100000, 0);
}

static budget_answer replace(ledger_fixture *fixture, const char *label, const char *instance,
                             const char *replaces)
{
    budget_answer answer;
    const budget_replacement what = {.label = label, .instance_id = instance, .replaces = replaces};
    fixture_begin(fixture);
    assert_ok(budget_ledger_replace(fixture->ledger, NULL, &what, &answer, &fixture->error),
              &fixture->error);
    fixture_commit(fixture);
    return answer;
}

/* How many runs alarms and status show. */
static size_t overdue(ledger_fixture *fixture)
{
    static budget_reservation runs[4];
    budget_ledger_moment after = {0};
    int64_t overdue_count = 0;
    int64_t frozen_count = 0;
    size_t count = 0;
    fixture_begin(fixture);
    assert_ok(budget_ledger_overdue(fixture->ledger, &after, 4, runs, &count, &fixture->error),
              &fixture->error);
    assert_ok(
        budget_ledger_attention(fixture->ledger, &overdue_count, &frozen_count, &fixture->error),
        &fixture->error);
    fixture_commit(fixture);
    assert_int_equal(overdue_count, count);
    return count;
}

/* An admin vouched for its end before anything had started its deadline. A bill says that it goes on, since when
 * nobody knows: the alarm comes at once, until the end is proven anew. */
static void a_refuted_end_without_a_deadline_raises_an_alarm(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    char bill[256];
    assert_granted(fixture_authorize(fixture, "phase", "a", 2 * USD));
    assert_granted(fixture_attest(fixture, "a"));
    assert_int_equal(fixture_find(fixture, "a").rule.deadline_ms, 0);
    const long long end_s = fixture->clock.wall_ms / 1000;
    fixture_pass(fixture, 4 * 3600);
    assert_int_equal(overdue(fixture), 0);
    (void)snprintf(bill, sizeof bill, "label,usd,line_id,time\na,0.20,1,%lld\n", end_s + 7200);
    (void)reconcile(fixture, bill, &found);
    assert_int_equal(overdue(fixture), 1);
    const budget_reservation run = fixture_find(fixture, "a");
    assert_int_equal(run.entry.deadline, fixture->clock.wall_ms / 1000);
    assert_true(run.entry.began_at >= run.entry.authorized_at);
    fixture_pass(fixture, 3600);
    assert_granted(fixture_attest(fixture, "a"));
    assert_int_equal(overdue(fixture), 0);
    const budget_audit_report report = audited(fixture, 100);
    assert_true(report.good);
}

/* A person's word is of the run, whatever its instance is called: attested, or a final cost. */
static void a_mistyped_instance_leaves_what_a_person_said(void **state)
{
    ledger_fixture *fixture = *state;
    static const char *const labels[] = {"attested", "final"};
    for (int i = 0; i < 2; i++) {
        assert_granted(fixture_authorize(fixture, "phase", labels[i], USD));
        assert_granted(fixture_attach(fixture, labels[i], labels[i]));
        assert_granted(i == 0 ? fixture_attest(fixture, labels[i])
                              : fixture_prove(fixture, labels[i], labels[i]));
        if (i == 1) {
            assert_granted(fixture_actual(fixture, labels[i], 100000));
        }
        assert_granted(replace(fixture, labels[i], i == 0 ? "pod-a" : "pod-f", labels[i]));
        assert_false(fixture_find(fixture, labels[i]).rule.refuted);
    }
}

/* The evidence was of the mistyped instance: no bill makes the cost final by it, and the room stays,
 * until the right one is proven to be gone. */
static void a_mistyped_instance_has_proven_nothing(void **state)
{
    ledger_fixture *fixture = *state;
    findings_seen found;
    assert_granted(fixture_authorize(fixture, "phase", "a", 2 * USD));
    assert_granted(fixture_create(fixture, "a"));
    assert_granted(fixture_attach(fixture, "a", "pod-b"));
    assert_granted(fixture_prove(fixture, "a", "pod-b"));
    assert_granted(replace(fixture, "a", "pod-a", "pod-b"));
    assert_string_equal(fixture_find(fixture, "a").entry.instance_id, "pod-a");
    fixture_pass(fixture, SETTLING_S);
    const char *bill = "instance_id,usd,line_id\npod-a,0.5,1\n";
    (void)reconcile(fixture, bill, &found);
    check_phase(fixture, 500000, 1500000);
    fixture_pass(fixture, 1);
    assert_granted(fixture_prove(fixture, "a", "pod-a"));
    fixture_pass(fixture, SETTLING_S);
    (void)reconcile(fixture, bill, &found);
    check_phase(fixture, 500000, 0);
    assert_reason(replace(fixture, "a", "pod-c", "pod-a"), BUDGET_REASON_STATE); /* it is billed */
}

int main(void)
{
#define LEDGER_TEST(name) cmocka_unit_test_setup_teardown(name, reconcile_make, reconcile_take_down)
    const struct CMUnitTest tests[] = {
        LEDGER_TEST(a_credit_never_raises_the_cap),
        LEDGER_TEST(lines_of_what_was_said_by_hand_freeze_nothing),
        LEDGER_TEST(a_credit_in_what_was_said_by_hand_freezes_nothing),
        LEDGER_TEST(a_credit_is_kept_by_record_actual_too),
        LEDGER_TEST(a_credit_may_stand_before_its_charge),
        LEDGER_TEST(a_partial_bill_releases_nothing),
        LEDGER_TEST(a_settled_bill_releases_the_rest),
        LEDGER_TEST(a_bill_to_the_end_releases_the_rest),
        LEDGER_TEST(a_bill_has_the_walls_time),
        LEDGER_TEST(a_settled_bill_knows_every_instance),
        LEDGER_TEST(lines_after_the_end_are_found_and_freeze),
        LEDGER_TEST(lines_after_the_end_release_nothing),
        LEDGER_TEST(a_refuted_end_is_proven_anew),
        LEDGER_TEST(a_person_ends_a_refuted_run),
        LEDGER_TEST(a_credit_refutes_no_end),
        LEDGER_TEST(a_refuted_end_without_a_deadline_raises_an_alarm),
        LEDGER_TEST(a_mistyped_instance_leaves_what_a_person_said),
        LEDGER_TEST(a_mistyped_instance_has_proven_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
