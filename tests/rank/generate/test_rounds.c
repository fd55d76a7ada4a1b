/* The arithmetic of repeated measurements. */
#include "generate/rounds.h"

#include <math.h>

#include "support.h"

static bool near(double found, double expected)
{
    return fabs(found - expected) < 1e-9;
}

static void a_spread_is_of_the_rounds_in_the_middle(void **state)
{
    (void)state;
    static const double eleven[] = {11, 1, 2, 3, 10, 9, 4, 5, 8, 7, 6};
    static const double three[] = {5, 1, 3};
    static const double two[] = {4, 2};
    static const double one[] = {7};
    const rank_spread of_eleven = rank_spread_of(eleven, 11);
    assert_true(near(of_eleven.median, 6) && near(of_eleven.low, 2) && near(of_eleven.high, 10));
    const rank_spread of_three = rank_spread_of(three, 3);
    assert_true(near(of_three.median, 3) && near(of_three.low, 1.4) && near(of_three.high, 4.6));
    assert_true(near(rank_spread_of(two, 2).median, 3));
    const rank_spread of_one = rank_spread_of(one, 1);
    assert_true(of_one.median == 7 && of_one.low == 7 && of_one.high == 7);
}

/* One stall of many rounds moves neither the median nor the spread. */
static void a_stall_does_not_count(void **state)
{
    (void)state;
    double rounds[20];
    for (int i = 0; i < 20; i++) {
        rounds[i] = i == 4 ? 90 : 2;
    }
    const rank_spread spread = rank_spread_of(rounds, 20);
    assert_true(near(spread.median, 2) && near(spread.low, 2) && near(spread.high, 2));
}

static void what_is_not_known_does_not_count(void **state)
{
    (void)state;
    static const double some[] = {NAN, 2, INFINITY, 4};
    static const double none[] = {NAN, NAN};
    assert_true(near(rank_spread_of(some, 4).median, 3));
    assert_true(isnan(rank_spread_of(none, 2).median));
    const rank_spread empty = rank_spread_of(NULL, 0);
    assert_true(isnan(empty.median) && isnan(empty.low) && isnan(empty.high));
}

static int rounds_of(double pass_s, double round_s)
{
    int count = 1;
    while (rank_rounds_go_on(count, count * pass_s, count * round_s, 10)) {
        count++;
    }
    return count;
}

static void short_work_has_many_rounds_and_long_work_few(void **state)
{
    (void)state;
    assert_int_equal(rounds_of(0.007, 0.04), RANK_ROUNDS_MAX);
    assert_int_equal(rounds_of(0.0625, 0.3), 8); /* half a second of it */
    assert_int_equal(rounds_of(0.7, 2), RANK_ROUNDS_MIN);
    assert_int_equal(rounds_of(2, 6), 2); /* the third would begin after 12 s */
    assert_int_equal(rounds_of(4, 12), 1);
    assert_int_equal(rounds_of(0.001, 0.4), 25); /* what loading takes counts as well */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_spread_is_of_the_rounds_in_the_middle),
        cmocka_unit_test(a_stall_does_not_count),
        cmocka_unit_test(what_is_not_known_does_not_count),
        cmocka_unit_test(short_work_has_many_rounds_and_long_work_few),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
