/* record/steps.h: the speed of a run whose ranks are held up, and rows that are spread unevenly. */
#include "record/steps.h"

#include <math.h>

#include "support.h"

enum { RANKS = 2, STEPS = 4, TOKENS = 100, MS = 1000000 };

/* Step times in ms, (STEPS, RANKS). */
static double speed_of(const int64_t times_ms[STEPS][RANKS])
{
    launch_steps steps = {.first = 0};
    base_error error;
    assert_ok(launch_steps_init(&steps, RANKS, 0, 1, &error), &error);
    for (int i = 0; i < STEPS; i++) {
        for (int r = 0; r < RANKS; r++) {
            const launch_step step = {.step = (uint64_t)i,
                                      .rank = r,
                                      .times.tokens = TOKENS,
                                      .times.step_ns = times_ms[i][r] * MS};
            assert_ok(launch_steps_add(&steps, &step, &error), &error);
        }
    }
    const double speed = launch_steps_tokens_per_second(&steps, 0, STEPS);
    launch_steps_fini(&steps);
    return speed;
}

/* 800 tokens in 1040 ms: rank 1 stood still for a second behind the exchange of step 1, and rank 0
 * waited for it in step 2. */
static void a_delay_counts_once(void **state)
{
    (void)state;
    static const int64_t held_up[STEPS][RANKS] = {{10, 10}, {10, 1010}, {1010, 10}, {10, 10}};
    static const int64_t even[STEPS][RANKS] = {{10, 10}, {10, 10}, {10, 10}, {10, 10}};
    static const int64_t none[STEPS][RANKS] = {{0}};
    assert_true(fabs(speed_of(held_up) - 800 / 1.04) < 1e-6);
    assert_true(fabs(speed_of(even) - 800 / 0.04) < 1e-6);
    assert_true(isnan(speed_of(none)));
}

/* The largest of each step counts, whichever rank has it, and steps without rows do not. */
static void the_busiest_rank_is_found_in_each_step(void **state)
{
    (void)state;
    static const uint64_t rows[STEPS][RANKS] = {{100, 100}, {0, 0}, {300, 100}, {0, 50}};
    launch_steps steps = {.first = 0};
    base_error error;
    assert_ok(launch_steps_init(&steps, RANKS, 0, 1, &error), &error);
    for (int i = 0; i < STEPS; i++) {
        for (int r = 0; r < RANKS; r++) {
            const launch_step step = {.step = (uint64_t)i,
                                      .rank = r,
                                      .times.expert_rows = rows[i][r],
                                      .busiest_expert = i};
            assert_ok(launch_steps_add(&steps, &step, &error), &error);
        }
        assert_true(steps.busiest[i] == i);
    }
    assert_true(fabs(launch_steps_busiest_rank(&steps, 0, STEPS) - (1.0 + 1.5 + 2.0) / 3) < 1e-9);
    assert_true(launch_steps_busiest_rank(&steps, 2, 1) == 1.5);
    assert_true(isnan(launch_steps_busiest_rank(&steps, 1, 1)));
    assert_true(isnan(launch_steps_busiest_rank(&steps, 0, 0)));
    launch_steps_fini(&steps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_delay_counts_once),
        cmocka_unit_test(the_busiest_rank_is_found_in_each_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
