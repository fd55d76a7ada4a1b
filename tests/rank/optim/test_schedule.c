/* The learning-rate schedules of rank/optim.h, step by step. */
#include <math.h>

#include "rank/optim.h"
#include "support.h"

static void warm_up_is_linear(void **state)
{
    (void)state;
    for (int step = 0; step < 10; step++) {
        const double rate = rank_learning_rate(RANK_SCHEDULE_COSINE, 1.0, 0.1, 10, 100, step);
        assert_true(fabs(rate - (step + 1) / 10.0) < 1e-15);
    }
}

static void constant_stays(void **state)
{
    (void)state;
    for (int step = 0; step < 5; step++) {
        assert_true(rank_learning_rate(RANK_SCHEDULE_CONSTANT, 3e-4, 0.0, 0, 100, step) == 3e-4);
    }
    assert_true(rank_learning_rate(RANK_SCHEDULE_CONSTANT, 3e-4, 0.0, 7, 100, 1000) == 3e-4);
}

static void cosine_goes_from_peak_to_minimum(void **state)
{
    (void)state;
    const double peak = 3e-4;
    const double minimum = 3e-5;
    double last = rank_learning_rate(RANK_SCHEDULE_COSINE, peak, minimum, 5, 106, 5);
    assert_true(last == peak);
    for (int step = 6; step < 106; step++) {
        const double rate = rank_learning_rate(RANK_SCHEDULE_COSINE, peak, minimum, 5, 106, step);
        assert_true(rate < last);
        last = rate;
    }
    assert_true(fabs(last - minimum) < 1e-18);
    assert_true(fabs(rank_learning_rate(RANK_SCHEDULE_COSINE, peak, minimum, 5, 106, 55) -
                     (peak + minimum) / 2) < 1e-18);
    /* beyond the end it stays there */
    assert_true(rank_learning_rate(RANK_SCHEDULE_COSINE, peak, minimum, 5, 106, 500) == last);
}

/* Equal steps from the peak, which the first step behind the warm-up has, to the minimum, which the last has. */
static void linear_goes_in_equal_steps(void **state)
{
    (void)state;
    for (int step = 5; step < 106; step++) {
        const double rate = rank_learning_rate(RANK_SCHEDULE_LINEAR, 3e-4, 1e-4, 5, 106, step);
        assert_true(fabs(rate - (3e-4 - 2e-6 * (step - 5))) < 1e-18);
    }
    assert_true(rank_learning_rate(RANK_SCHEDULE_LINEAR, 3e-4, 1e-4, 5, 106, 105) == 1e-4);
    assert_true(rank_learning_rate(RANK_SCHEDULE_LINEAR, 3e-4, 1e-4, 5, 106, 500) == 1e-4);
    assert_true(rank_learning_rate(RANK_SCHEDULE_LINEAR, 1.0, 0.0, 5, 106, 3) == 0.8);
}

static void short_runs_are_fine(void **state)
{
    (void)state;
    assert_true(rank_learning_rate(RANK_SCHEDULE_COSINE, 1.0, 0.1, 0, 1, 0) == 1.0);
    assert_true(rank_learning_rate(RANK_SCHEDULE_COSINE, 1.0, 0.1, 10, 5, 4) == 0.5);
    assert_true(rank_learning_rate(RANK_SCHEDULE_COSINE, 1.0, 0.1, 4, 5, 4) == 1.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(warm_up_is_linear),
        cmocka_unit_test(constant_stays),
        cmocka_unit_test(cosine_goes_from_peak_to_minimum),
        cmocka_unit_test(linear_goes_in_equal_steps),
        cmocka_unit_test(short_runs_are_fine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
