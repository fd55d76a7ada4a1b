/* Every path of the rules: all reservations that can be reached in a few steps, each step of each
 * of them, and what must hold of every one. Then sums at the ends of the int64. */
#include "budget/rules.h"

#include <string.h>

#include "budget/clock.h"
#include "budget/money.h"
#include "support.h"

enum { DEPTH = 7, AMOUNT = 4, STEPS = 21, CAP = 10 };

static const uint8_t key_one[32] = {1};
static const uint8_t key_two[32] = {2};

/* What a step may not do, whatever came before. */
static void check_step(const budget_rule_reservation *before, const budget_rule_reservation *after,
                       budget_reason reason, int step)
{
    if (reason != BUDGET_REASON_NONE) {
        assert_memory_equal(before, after, sizeof *before); /* a refusal changes nothing */
    }
    assert_true(after->held >= 0 && after->held <= after->amount);
    assert_int_equal(after->amount, before->amount);
    if (after->held < before->held) {
        /* money goes from held to posted, or back when voided or when it is over */
        const bool over = after->terminated && after->final;
        const bool voided = after->state == BUDGET_STATE_VOIDED;
        assert_true(over || voided || before->held - after->held <= after->posted - before->posted);
    }
    if (after->state == BUDGET_STATE_VOIDED) {
        assert_int_equal(after->attempt, 0);
        assert_false(after->created);
    }
    /* what a credit frees was posted for this run, and until it is over nothing is freed */
    const int64_t used_before = before->held + before->posted;
    const int64_t used = after->held + after->posted;
    const bool closed = after->final || after->state == BUDGET_STATE_VOIDED;
    assert_true(after->posted >= 0);
    assert_true(closed || used >= AMOUNT);
    assert_true(used >= used_before || closed || used_before - used <= before->posted);
    assert_int_equal(after->state == BUDGET_STATE_POSTED, after->terminated && after->final);
    assert_int_equal(after->ended_ms != 0, after->terminated);
    assert_false(before->final && !after->final);
    assert_false(after->final && !after->terminated);
    assert_false(before->terminated && !after->terminated);
    assert_true(!before->terminated || before->refuted || after->ended_ms == before->ended_ms);
    assert_false(after->refuted && (!after->terminated || after->final));
    assert_false(before->billed && !after->billed);
    assert_false(before->expired && !after->expired);
    assert_true(after->attempt >= before->attempt);
    assert_true(after->attempt <= before->attempt + 1);
    assert_true(before->deadline_ms == 0 || after->deadline_ms == before->deadline_ms);
    assert_false(before->created && !after->created);
    assert_true(step >= 0);
}

/* The total, and whether the rules call a person, is a sum and two comparisons. */
static budget_reason take_cost(budget_rule_reservation *reservation, int64_t amount, bool final)
{
    bool freeze = false;
    const int64_t total = reservation->total + amount;
    const bool voided = reservation->state == BUDGET_STATE_VOIDED;
    const budget_rule_cost cost = {.amount = amount, .billed = amount < 0, .final = final};
    const budget_reason reason = budget_rule_actual(reservation, &cost, &freeze);
    assert_int_equal(reservation->total, total);
    assert_int_equal(reservation->posted, total > 0 ? total : 0);
    assert_true(reservation->state != BUDGET_STATE_RESERVED || (total == 0 && amount >= 0));
    assert_int_equal(freeze,
                     (amount > 0 && total > (voided ? 0 : AMOUNT)) || (amount < 0 && total < 0));
    return reason;
}

static budget_reason take_bill(budget_rule_reservation *reservation, int64_t until_ms,
                               int64_t billed_until_ms, const budget_rule_now *now)
{
    const budget_rule_bill bill = {
        .until_ms = until_ms, .billed_until_ms = billed_until_ms, .settling_ms = 5000};
    const budget_rule_reservation before = *reservation;
    const budget_reason reason = budget_rule_finalize(reservation, &bill, now);
    const int64_t seen_ms = until_ms < now->ledger_ms ? until_ms : now->ledger_ms;
    const bool expected = before.terminated && !before.refuted && !before.final && before.billed &&
                          seen_ms >= before.ended_ms &&
                          (billed_until_ms >= before.ended_ms || seen_ms >= before.ended_ms + 5000);
    assert_int_equal(reason == BUDGET_REASON_NONE, expected);
    return reason;
}

static budget_reason take_step(budget_rule_reservation *reservation, int step)
{
    const budget_rule_now early = {.ledger_ms = 1000, .wall_ms = 1000};
    const budget_rule_now late = {.ledger_ms = 100000, .wall_ms = 100000};
    const budget_rule_now *now = step % 2 == 0 ? &early : &late;
    budget_rule_tuple tuple = {.rank = 0, .job_public_key = key_one};
    bool foreign = false;
    budget_reason reason = BUDGET_REASON_NONE;
    switch (step) {
    case 0:
    case 1:
        tuple.attempt = 1;
        return budget_rule_redeem(reservation, &tuple, false, now);
    case 2:
    case 3:
        tuple.attempt = 2;
        return budget_rule_redeem(reservation, &tuple, false, now);
    case 4:
        tuple.attempt = reservation->attempt + 1;
        tuple.job_public_key = key_two;
        foreign = reservation->has_key && reservation->job_public_key[0] == key_one[0];
        reason = budget_rule_redeem(reservation, &tuple, false, now);
        assert_false(foreign && reason == BUDGET_REASON_NONE);
        return reason;
    case 5:
        tuple.attempt = reservation->attempt;
        reason = budget_rule_redeem(reservation, &tuple, true, now);
        assert_int_not_equal(reason, BUDGET_REASON_NONE);
        return reason;
    case 6:
    case 7:
        return budget_rule_create(reservation, false, now);
    case 8:
        return budget_rule_void(reservation);
    case 9:
        return take_cost(reservation, 0, true);
    case 10:
        return take_cost(reservation, 3, false);
    case 11:
    case 12:
        return budget_rule_terminated(reservation, step == 11 ? &early : &late);
    case 14:
        return take_cost(reservation, -2, false);
    case 15:
        return take_cost(reservation, 1, true);
    case 19:
        reason = budget_rule_start(reservation, &early) ? BUDGET_REASON_NONE : BUDGET_REASON_STATE;
        assert_true(reservation->deadline_ms != 0 || reservation->state > BUDGET_STATE_CREATED);
        return reason;
    case 20:
        foreign = reservation->terminated && !reservation->refuted && !reservation->final;
        assert_int_equal(budget_rule_refute(reservation, &late), foreign);
        assert_true(!foreign || reservation->deadline_ms != 0);
        return foreign ? BUDGET_REASON_NONE : BUDGET_REASON_STATE;
    case 16:
        return take_bill(reservation, 100000, 0, &early);
    case 17:
        return take_bill(reservation, 100000, 0, &late);
    case 18:
        return take_bill(reservation, 1000, 1000, &late);
    default:
        return budget_rule_expire(reservation, now) ? BUDGET_REASON_NONE : BUDGET_REASON_STATE;
    }
}

static int64_t walked;

static void walk(const budget_rule_reservation *from, const budget_rule_chain *chain, int depth)
{
    walked++;
    for (int step = 0; depth < DEPTH && step < STEPS; step++) {
        budget_rule_reservation next = *from;
        budget_rule_chain sums = *chain;
        const budget_reason reason = take_step(&next, step);
        check_step(from, &next, reason, step);
        assert_true(budget_rule_effect(&sums, from, &next, false));
        for (size_t i = 0; i < sums.count; i++) {
            assert_int_equal(sums.accounts[i].reserved, next.held);
            assert_int_equal(sums.accounts[i].posted, next.posted);
        }
        if (reason == BUDGET_REASON_NONE) {
            walk(&next, &sums, depth + 1);
        }
    }
}

static void every_path_keeps_the_rules(void **state)
{
    (void)state;
    size_t which = 0;
    budget_rule_chain chain = {.count = 2, .accounts = {{.cap = CAP}, {.cap = CAP}}};
    const budget_rule_reservation first = {.state = BUDGET_STATE_RESERVED,
                                           .amount = AMOUNT,
                                           .held = AMOUNT,
                                           .world_size = 1,
                                           .max_attempts = 3,
                                           .max_seconds = 10,
                                           .expires_at_s = 50};
    assert_int_equal(budget_rule_authorize(&chain, AMOUNT, &which), BUDGET_REASON_NONE);
    walked = 0;
    walk(&first, &chain, 0);
    assert_true(walked > 1000);
}

/* The edges that rules.h draws and names, and no others. */
static void states_change_along_the_diagram(void **state)
{
    static const struct {
        budget_state from;
        budget_state to;
    } edges[] = {
        {BUDGET_STATE_RESERVED, BUDGET_STATE_VOIDED},
        {BUDGET_STATE_RESERVED, BUDGET_STATE_CREATED},
        {BUDGET_STATE_RESERVED, BUDGET_STATE_TERMINATED_UNBILLED},
        {BUDGET_STATE_CREATED, BUDGET_STATE_TERMINATED_UNBILLED},
        {BUDGET_STATE_CREATED, BUDGET_STATE_EXPIRED_UNCONFIRMED},
        {BUDGET_STATE_CREATED, BUDGET_STATE_POSTED}, /* local, at its deadline */
        {BUDGET_STATE_EXPIRED_UNCONFIRMED, BUDGET_STATE_TERMINATED_UNBILLED},
        {BUDGET_STATE_TERMINATED_UNBILLED, BUDGET_STATE_POSTED},
    };
    (void)state;
    for (int from = BUDGET_STATE_RESERVED; from <= BUDGET_STATE_VOIDED; from++) {
        for (int to = BUDGET_STATE_RESERVED; to <= BUDGET_STATE_VOIDED; to++) {
            bool drawn = from == to;
            for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++) {
                drawn = drawn || ((int)edges[i].from == from && (int)edges[i].to == to);
            }
            assert_int_equal(budget_rule_may_become((budget_state)from, (budget_state)to), drawn);
        }
    }
}

static void a_grant_never_passes_a_cap(void **state)
{
    (void)state;
    for (int64_t cap = 0; cap <= 6; cap++) {
        for (int64_t parent = 0; parent <= 6; parent++) {
            for (int64_t amount = 0; amount <= 7; amount++) {
                budget_rule_chain chain = {
                    .count = 2,
                    .accounts = {{.cap = cap, .posted = 1, .reserved = 1}, {.cap = parent}}};
                size_t which = 9;
                const budget_reason reason = budget_rule_authorize(&chain, amount, &which);
                const bool fits = 2 + amount <= cap && amount <= parent;
                assert_int_equal(reason, fits ? BUDGET_REASON_NONE : BUDGET_REASON_EXCEEDED);
                assert_int_equal(which, parent < cap - 2 ? 1 : 0);
                assert_int_equal(chain.accounts[1].reserved, fits ? amount : 0);
            }
        }
    }
}

/* Money that had returned, and was granted to others, is spent after all. */
static void a_cost_after_the_end_passes_a_cap(void **state)
{
    (void)state;
    for (int64_t others = 0; others <= 6; others++) {
        for (int64_t held = 0; held <= 3; held++) {
            const budget_rule_reservation before = {.amount = 3, .held = held};
            const budget_rule_reservation after = {
                .amount = 3, .held = held > 2 ? held - 2 : 0, .posted = 2, .total = 2};
            const budget_rule_chain chain = {
                .count = 2,
                .accounts = {{.cap = 9}, {.cap = 6, .posted = 2, .reserved = others + after.held}}};
            assert_int_equal(budget_rule_passes_cap(&chain, &before, &after),
                             held < 2 && 2 + others + after.held > 6);
        }
    }
}

static void a_frozen_account_freezes_all_below_it(void **state)
{
    (void)state;
    for (size_t frozen = 0; frozen < 3; frozen++) {
        budget_rule_chain chain = {.count = 3, .accounts = {{.cap = 9}, {.cap = 9}, {.cap = 9}}};
        size_t which = 9;
        chain.accounts[frozen].frozen = true;
        assert_int_equal(budget_rule_authorize(&chain, 1, &which), BUDGET_REASON_ACCOUNT_FROZEN);
        assert_int_equal(which, frozen);
        assert_int_equal(chain.accounts[0].reserved, 0);
    }
}

static void sums_at_the_end_of_the_int64_are_refused(void **state)
{
    (void)state;
    size_t which = 0;
    bool freeze = false;
    budget_rule_chain chain = {.count = 1, .accounts = {{.cap = INT64_MAX}}};
    assert_int_equal(budget_rule_authorize(&chain, -1, &which), BUDGET_REASON_OVERFLOW);
    assert_int_equal(budget_rule_authorize(&chain, BUDGET_MONEY_MICRO_MAX + 1, &which),
                     BUDGET_REASON_OVERFLOW);
    chain.accounts[0].posted = INT64_MAX;
    chain.accounts[0].reserved = 1;
    assert_int_equal(budget_rule_remaining(&chain.accounts[0]), INT64_MIN);
    assert_int_equal(budget_rule_authorize(&chain, 0, &which), BUDGET_REASON_EXCEEDED);
    const budget_rule_reservation before = {.state = BUDGET_STATE_RESERVED,
                                            .amount = 5,
                                            .held = 5,
                                            .total = BUDGET_MONEY_MICRO_MAX,
                                            .posted = BUDGET_MONEY_MICRO_MAX};
    budget_rule_reservation after = before;
    for (int i = 0; i < 3; i++) {
        const int64_t amounts[] = {1, INT64_MAX, INT64_MIN};
        const budget_rule_cost cost = {.amount = amounts[i]};
        assert_int_equal(budget_rule_actual(&after, &cost, &freeze), BUDGET_REASON_OVERFLOW);
        assert_memory_equal(&before, &after, sizeof before);
    }
    after.posted += 1;
    chain.accounts[0] = (budget_rule_account){.posted = INT64_MAX / 4, .reserved = 5};
    assert_false(budget_rule_effect(&chain, &before, &after, false));
    assert_int_equal(chain.accounts[0].posted, INT64_MAX / 4);
}

static void names_are_there_and_differ(void **state)
{
    (void)state;
    for (int i = 0; i < BUDGET_REASON_COUNT_; i++) {
        assert_string_not_equal(budget_reason_name((budget_reason)i), "UNKNOWN");
        for (int k = 0; k < i; k++) {
            assert_string_not_equal(budget_reason_name((budget_reason)i),
                                    budget_reason_name((budget_reason)k));
        }
    }
    for (int i = BUDGET_KIND_GENESIS; i < BUDGET_KIND_COUNT_; i++) {
        assert_string_not_equal(budget_kind_name((budget_kind)i), "unknown");
    }
    assert_string_equal(budget_reason_name(BUDGET_REASON_COUNT_), "UNKNOWN");
    assert_string_equal(budget_reason_name((budget_reason)-1), "UNKNOWN");
}

/* ---- the ledger's time ---- */

static budget_clock_anchor anchored(void)
{
    return (budget_clock_anchor){
        .ledger_ms = 1000000,
        .clock = {.wall_ms = 1000000, .boot_ms = 500, .boot_id = "a"},
    };
}

static void ledger_time_goes_on_with_the_boot_clock(void **state)
{
    (void)state;
    const budget_clock_anchor anchor = anchored();
    budget_clock clock = {.wall_ms = 1000000, .boot_ms = 1500, .boot_id = "a"};
    for (int64_t wall_ms = 0; wall_ms < 5000000; wall_ms += 999999) {
        clock.wall_ms = wall_ms; /* whatever it says */
        assert_int_equal(budget_clock_ledger_ms(&anchor, &clock), 1001000);
        assert_int_equal(budget_clock_skew_ms(&anchor, &clock), wall_ms - 1001000);
    }
    clock.boot_ms = 100; /* cannot be, and does not go back */
    assert_int_equal(budget_clock_ledger_ms(&anchor, &clock), 1000000);
}

static void over_a_reboot_the_wall_clock_counts_but_not_back(void **state)
{
    (void)state;
    const budget_clock_anchor anchor = anchored();
    budget_clock clock = {.wall_ms = 1060000, .boot_ms = 7000, .boot_id = "b"};
    assert_int_equal(budget_clock_ledger_ms(&anchor, &clock), 1060000);
    clock.wall_ms = 10; /* it was set back: at least the time since that boot has passed */
    assert_int_equal(budget_clock_ledger_ms(&anchor, &clock), 1007000);
}

static void a_repair_moves_the_offset_alone(void **state)
{
    (void)state;
    budget_clock_anchor anchor = anchored();
    const budget_clock clock = {.wall_ms = 9000000, .boot_ms = 1500, .boot_id = "a"};
    budget_clock_repair(&anchor, &clock);
    assert_int_equal(anchor.ledger_ms, 1001000);
    assert_int_equal(anchor.offset_ms, 9000000 - 1001000);
    assert_int_equal(budget_clock_skew_ms(&anchor, &clock), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_path_keeps_the_rules),
        cmocka_unit_test(states_change_along_the_diagram),
        cmocka_unit_test(a_grant_never_passes_a_cap),
        cmocka_unit_test(a_cost_after_the_end_passes_a_cap),
        cmocka_unit_test(a_frozen_account_freezes_all_below_it),
        cmocka_unit_test(sums_at_the_end_of_the_int64_are_refused),
        cmocka_unit_test(names_are_there_and_differ),
        cmocka_unit_test(ledger_time_goes_on_with_the_boot_clock),
        cmocka_unit_test(over_a_reboot_the_wall_clock_counts_but_not_back),
        cmocka_unit_test(a_repair_moves_the_offset_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
