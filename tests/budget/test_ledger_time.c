/* budget/ledger.h: expiry, deadlines, and clocks that jump. */
#include "budget/ledger.h"

#include <stdio.h>
#include <string.h>

#include "ledger_fixture.h"

/* What a driver saw before there was an instance proves nothing. */
static void evidence_from_before_the_start_proves_nothing(void **state)
{
    ledger_fixture *fixture = *state;
    char early[1024];
    budget_answer answer;
    assert_granted(fixture_authorize(fixture, "phase/lab", "run", USD));
    fixture_evidence(fixture, "run", "pod-1", early, sizeof early);
    fixture_pass(fixture, 10);
    assert_granted(fixture_create(fixture, "run"));
    budget_termination termination = {
        .label = "run", .evidence = early, .evidence_bytes = strlen(early)};
    fixture_begin(fixture);
    assert_ok(
        budget_ledger_terminated(fixture->ledger, NULL, &termination, &answer, &fixture->error),
        &fixture->error);
    fixture_commit(fixture);
    assert_reason(answer, BUDGET_REASON_EVIDENCE);
    assert_non_null(strstr(answer.message, "before the last redemption"));
    assert_granted(fixture_prove(fixture, "run", "pod-1"));
}

static void a_token_unused_at_its_exp_is_worth_nothing(void **state)
{
    ledger_fixture *fixture = *state;
    assert_granted(fixture_authorize(fixture, "phase/lab", "run", USD));
    assert_granted(fixture_authorize(fixture, "phase/lab", "used", USD));
    fixture_pass(fixture, 899);
    assert_granted(fixture_redeem(fixture, "used", 0, 1, 1));
    fixture_pass(fixture, 1);
    assert_reason(fixture_redeem(fixture, "run", 0, 1, 1), BUDGET_REASON_TOKEN_EXPIRED);
    assert_reason(fixture_create(fixture, "run"), BUDGET_REASON_TOKEN_EXPIRED);
    assert_granted(fixture_redeem(fixture, "used", 0, 2, 1));
}

static void a_deadline_without_proof_keeps_the_money(void **state)
{
    ledger_fixture *fixture = *state;
    int64_t overdue = 0;
    int64_t frozen = 0;
    assert_granted(fixture_authorize(fixture, "phase/lab", "run", USD));
    assert_granted(fixture_redeem(fixture, "run", 0, 1, 1));
    assert_granted(fixture_attach(fixture, "run", "pod-1"));
    fixture_pass(fixture, 3599);
    assert_int_equal(fixture_expire(fixture), 0);
    fixture_pass(fixture, 1);
    assert_reason(fixture_redeem(fixture, "run", 1, 1, 1), BUDGET_REASON_DEADLINE_PASSED);
    assert_int_equal(fixture_expire(fixture), 1);
    assert_int_equal(fixture_expire(fixture), 0);
    assert_int_equal(fixture_find(fixture, "run").rule.state, BUDGET_STATE_EXPIRED_UNCONFIRMED);
    fixture_check(fixture, "phase", USD, 0);
    assert_ok(budget_ledger_attention(fixture->ledger, &overdue, &frozen, &fixture->error),
              &fixture->error);
    assert_int_equal(overdue, 1);
    assert_granted(fixture_prove(fixture, "run", "pod-1"));
    fixture_check(fixture, "phase", USD, 0);
    assert_granted(fixture_actual(fixture, "run", USD / 4));
    fixture_check(fixture, "phase", 0, USD / 4);
}

static int64_t deadline_of(ledger_fixture *fixture, const char *label)
{
    return fixture_find(fixture, label).rule.deadline_ms;
}

/* Without leave, and its token is never redeemed: somebody is told all the same. */
static void an_instance_made_by_hand_has_a_deadline(void **state)
{
    ledger_fixture *fixture = *state;
    int64_t overdue = 0;
    int64_t frozen = 0;
    const char *labels[] = {"attached", "billed"};
    assert_granted(fixture_authorize(fixture, "phase/lab", labels[0], USD));
    assert_granted(fixture_authorize(fixture, "phase/lab", labels[1], USD));
    assert_granted(fixture_actual(fixture, labels[1], 0)); /* nothing so far: it may not be there */
    assert_int_equal(deadline_of(fixture, labels[1]), 0);
    const int64_t now_ms = fixture->clock.wall_ms;
    assert_granted(fixture_attach(fixture, labels[0], "pod-1"));
    assert_granted(fixture_line(fixture, labels[1], USD / 4, "line-1"));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(fixture_find(fixture, labels[i]).rule.state, BUDGET_STATE_CREATED);
        assert_int_equal(deadline_of(fixture, labels[i]), now_ms + INT64_C(3600) * 1000);
        assert_int_equal(fixture_find(fixture, labels[i]).entry.redeemed_at, 0);
        assert_reason(fixture_void(fixture, labels[i]), BUDGET_REASON_STATE);
    }
    fixture_pass(fixture, 900);
    assert_reason(fixture_redeem(fixture, labels[0], 0, 1, 1), BUDGET_REASON_TOKEN_EXPIRED);
    assert_reason(fixture_create(fixture, labels[0]), BUDGET_REASON_TOKEN_EXPIRED);
    assert_granted(fixture_line(fixture, labels[1], USD / 4, "line-2")); /* no later deadline */
    fixture_pass(fixture, 2699);
    assert_int_equal(fixture_expire(fixture), 0);
    fixture_pass(fixture, 1);
    assert_int_equal(fixture_expire(fixture), 2);
    assert_ok(budget_ledger_attention(fixture->ledger, &overdue, &frozen, &fixture->error),
              &fixture->error);
    assert_int_equal(overdue, 2);
}

/* The money was reserved for so long: a redemption does not start the time again. */
static void an_attached_instance_spends_the_time(void **state)
{
    ledger_fixture *fixture = *state;
    assert_granted(fixture_authorize(fixture, "phase/lab", "run", USD));
    assert_granted(fixture_attach(fixture, "run", "pod-1"));
    const int64_t deadline_ms = deadline_of(fixture, "run");
    fixture_pass(fixture, 600);
    assert_granted(fixture_redeem(fixture, "run", 0, 1, 1));
    assert_int_equal(deadline_of(fixture, "run"), deadline_ms);
    assert_int_equal(fixture_find(fixture, "run").entry.redeemed_at, fixture->clock.wall_ms / 1000);
    assert_granted(fixture_authorize(fixture, "phase/lab", "ended", USD));
    assert_granted(fixture_attest(fixture, "ended"));
    assert_granted(fixture_attach(fixture, "ended", "pod-2"));
    assert_granted(fixture_line(fixture, "ended", USD / 4, "line-1"));
    assert_int_equal(deadline_of(fixture, "ended"), 0); /* it is over */
}

/* Vendor local costs nothing and gets no bill: its deadline ends it, and what it held is free. */
static void a_local_run_ends_at_its_deadline(void **state)
{
    ledger_fixture *fixture = *state;
    budget_answer answer;
    char payload[BUDGET_CLAIMS_JSON_BYTES];
    budget_authorization claim = fixture_claim(fixture, "phase/lab", "mine", USD);
    (void)snprintf(claim.claims.vendor, sizeof claim.claims.vendor, "local");
    (void)snprintf(claim.claims.machine_id, sizeof claim.claims.machine_id, "%032d", 1);
    claim.claims.max_usd_micro = 0;
    fixture_begin(fixture);
    assert_ok(
        budget_ledger_authorize(fixture->ledger, NULL, &claim, payload, &answer, &fixture->error),
        &fixture->error);
    fixture_commit(fixture);
    assert_granted(answer);
    assert_granted(fixture_redeem(fixture, "mine", 0, 1, 1));
    fixture_pass(fixture, 3599);
    assert_int_equal(fixture_expire(fixture), 0);
    assert_int_equal(fixture_find(fixture, "mine").rule.state, BUDGET_STATE_CREATED);
    fixture_pass(fixture, 1);
    assert_int_equal(fixture_expire(fixture), 0); /* nobody is alarmed */
    const budget_reservation found = fixture_find(fixture, "mine");
    assert_int_equal(found.rule.state, BUDGET_STATE_POSTED);
    assert_int_equal(found.rule.posted, 0);
    assert_int_equal(found.rule.held, 0);
    assert_int_equal(found.entry.terminated_at, fixture->clock.wall_ms / 1000);
    fixture_check(fixture, "phase", 0, 0);
}

static void clock_jumps_neither_expire_nor_revive(void **state)
{
    ledger_fixture *fixture = *state;
    assert_granted(fixture_authorize(fixture, "phase/lab", "run", USD));
    assert_granted(fixture_redeem(fixture, "run", 0, 1, 1));
    fixture->clock.wall_ms += INT64_C(10) * 86400 * 1000; /* forward: lives on */
    assert_int_equal(fixture_expire(fixture), 0);
    assert_granted(fixture_redeem(fixture, "run", 1, 1, 1));
    fixture_reopen(fixture);
    assert_int_equal(fixture_expire(fixture), 0);
    fixture->clock.wall_ms -= INT64_C(20) * 86400 * 1000; /* back: dies in time */
    fixture->clock.boot_ms += INT64_C(3600) * 1000;
    assert_reason(fixture_redeem(fixture, "run", 0, 2, 1), BUDGET_REASON_DEADLINE_PASSED);
    assert_int_equal(fixture_expire(fixture), 1);
    (void)snprintf(fixture->clock.boot_id, sizeof fixture->clock.boot_id, "second-boot");
    fixture->clock.boot_ms = 10;
    fixture_reopen(fixture);
    assert_reason(fixture_redeem(fixture, "run", 0, 2, 1), BUDGET_REASON_DEADLINE_PASSED);
}

static void a_repaired_clock_keeps_the_time_that_was_left(void **state)
{
    ledger_fixture *fixture = *state;
    budget_answer answer;
    int64_t wall_ms = 0;
    int64_t skew_ms = 0;
    assert_granted(fixture_authorize(fixture, "phase/lab", "run", USD));
    assert_granted(fixture_redeem(fixture, "run", 0, 1, 1));
    const int64_t deadline_s = fixture_find(fixture, "run").entry.deadline;
    const int64_t jump_ms = INT64_C(7200) * 1000;
    fixture->clock.wall_ms += jump_ms;
    assert_ok(
        budget_ledger_now(fixture->ledger, &fixture->clock, &wall_ms, &skew_ms, &fixture->error),
        &fixture->error);
    assert_int_equal(skew_ms, jump_ms);
    fixture_begin(fixture);
    assert_ok(budget_ledger_clock_repair(fixture->ledger, NULL, &answer, &fixture->error),
              &fixture->error);
    fixture_commit(fixture);
    fixture_reopen(fixture);
    assert_ok(
        budget_ledger_now(fixture->ledger, &fixture->clock, &wall_ms, &skew_ms, &fixture->error),
        &fixture->error);
    assert_int_equal(skew_ms, 0);
    assert_int_equal(fixture_find(fixture, "run").entry.deadline, deadline_s + jump_ms / 1000);
    fixture_pass(fixture, 3599);
    assert_int_equal(fixture_expire(fixture), 0);
    fixture_pass(fixture, 1);
    assert_int_equal(fixture_expire(fixture), 1);
}

int main(void)
{
#define LEDGER_TEST(name)                                                                          \
    cmocka_unit_test_setup_teardown(name, fixture_setup_phase, fixture_teardown)
    const struct CMUnitTest tests[] = {
        LEDGER_TEST(evidence_from_before_the_start_proves_nothing),
        LEDGER_TEST(a_token_unused_at_its_exp_is_worth_nothing),
        LEDGER_TEST(a_deadline_without_proof_keeps_the_money),
        LEDGER_TEST(an_instance_made_by_hand_has_a_deadline),
        LEDGER_TEST(an_attached_instance_spends_the_time),
        LEDGER_TEST(a_local_run_ends_at_its_deadline),
        LEDGER_TEST(clock_jumps_neither_expire_nor_revive),
        LEDGER_TEST(a_repaired_clock_keeps_the_time_that_was_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
