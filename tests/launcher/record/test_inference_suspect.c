/* Which speed-ups of inference a report calls suspect, and why. */
#include <math.h>

#include "record/inference.h"
#include "record/inference_lesson.h"
#include "support.h"

static bool is_suspect(double speedup, double parameters, bool network)
{
    return launch_inference_suspect(&(launch_inference_claim){.speedup = speedup,
                                                              .parameters = parameters,
                                                              .ranks = 2,
                                                              .network = network,
                                                              .cache_bytes = 3e7,
                                                              .apart = (double)NAN}) != NULL;
}

static void impossible_speed_ups_are_suspect(void **state)
{
    (void)state;
    assert_false(is_suspect(1.9, 1e8, false));
    assert_true(is_suspect(2.1, 1e8, false));
    assert_false(is_suspect(2.1, 1e7, false)); /* a half fits the cache */
    assert_true(is_suspect(2.1, 1e6, false));  /* the whole did too */
    assert_true(is_suspect(1.1, 5e5, true));
    assert_false(is_suspect(0.9, 5e5, true));
    assert_false(is_suspect((double)NAN, 5e5, true));
}

static void rounds_that_are_far_apart_are_suspect(void **state)
{
    (void)state;
    launch_inference_claim claim = {
        .speedup = 1.5, .parameters = 1e8, .ranks = 2, .cache_bytes = 3e7, .apart = 1.9};
    assert_null(launch_inference_suspect(&claim));
    claim.apart = 2.1;
    assert_has(launch_inference_suspect(&claim), "slow rounds");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(impossible_speed_ups_are_suspect),
        cmocka_unit_test(rounds_that_are_far_apart_are_suspect),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
