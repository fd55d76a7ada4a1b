/* record/scaling_point.h: the middle round counts, and a disturbed machine is noticed. */
#include "record/scaling_point.h"

#include <math.h>
#include <string.h>

#include "sample.h"
#include "support.h"

static launch_scaling_round round_of(double tokens_per_second, double step_ms)
{
    return (launch_scaling_round){
        .tokens_per_second = tokens_per_second, .steps = 15, .mean_step = {.step_ms = step_ms}};
}

static void the_middle_round_counts(void **state)
{
    (void)state;
    const launch_scaling_round rounds[] = {round_of(23130, 44), round_of(63, 16000),
                                           round_of(21000, 48)};
    const launch_scaling_point three = launch_scaling_point_of(2, rounds, 3);
    assert_int_equal(three.ranks, 2);
    assert_int_equal(three.rounds, 3);
    assert_int_equal(three.steps, 45);
    assert_true(three.tokens_per_second == 21000);
    assert_true(three.mean_step.step_ms == 48);
    assert_true(three.tokens_per_second_low == 63 && three.tokens_per_second_high == 23130);
    const launch_scaling_point two = launch_scaling_point_of(2, rounds, 2);
    assert_true(two.tokens_per_second == 63); /* the slower one */
    const launch_scaling_point one = launch_scaling_point_of(2, rounds, 1);
    assert_true(one.tokens_per_second == 23130 && one.tokens_per_second_low == 23130);
    const launch_scaling_round equal[] = {round_of(5, 1), round_of(5, 2), round_of(5, 3)};
    assert_true(launch_scaling_point_of(2, equal, 3).mean_step.step_ms == 2);
}

static void assert_suspect(const launch_scaling_point *points, int count, const char *expected)
{
    char sentence[LAUNCH_SUSPECT_BYTES];
    launch_scaling_suspect(points, count, sentence);
    assert_string_equal(sentence, expected);
}

static void a_disturbed_machine_is_noticed(void **state)
{
    (void)state;
    launch_scaling_point points[] = {sample_point(1, 10000, 9, 1), sample_point(2, 21900, 9, 1)};
    assert_suspect(points, 2, ""); /* a little more than 2 times */
    points[1].tokens_per_second = 22100;
    assert_suspect(
        points, 2,
        "2 processes were 2.21 times as fast as one, and so many cannot be: this machine "
        "was disturbed, and the speed-up says nothing. Run it again on a quiet machine.");
    points[0].tokens_per_second_low = 63;
    points[0].tokens_per_second_high = 23130;
    assert_suspect(
        points, 2,
        "The rounds of one process differ 367 times (63 to 23130 tokens/s): this machine "
        "was disturbed, and the speed-up says nothing. Run it again on a quiet machine.");
    points[0] = sample_point(1, 10000, 9, 1);
    points[1] = sample_point(2, 15000, 9, 1);
    points[1].tokens_per_second_low = 7600; /* 2 times up to 15200 */
    points[1].tokens_per_second_high = 15200;
    assert_suspect(points, 2, "");
    points[1].tokens_per_second_high = 19000;
    assert_suspect(points, 2,
                   "The rounds of 2 processes differ 2.5 times (7600 to 19000 tokens/s): this "
                   "machine was disturbed, and the speed-up says nothing. Run it again on a quiet "
                   "machine.");
    points[1].rounds = 0; /* the run itself */
    points[1].tokens_per_second_low = points[1].tokens_per_second_high = NAN;
    assert_suspect(points, 2, "");
    assert_suspect(points, 0, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_middle_round_counts),
        cmocka_unit_test(a_disturbed_machine_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
