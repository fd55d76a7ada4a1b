/* The device's sum of squares: right, and without an order (tests/rank/backend/cpu/test_squares.c has more). */
#include <math.h>
#include <stdlib.h>

#include "cpu_device.h"
#include "support.h"

enum { COUNT = 5 * 1024 + 77 };

static double sum_squares(const float *values, size_t count)
{
    double sum = -1.0;
    test_device.backend->sum_squares(
        test_device.queue, &(rank_sum_squares){.values = values, .count = count, .sum = &sum});
    return sum;
}

static float *make_values(void)
{
    float *values = malloc(COUNT * sizeof *values);
    assert_non_null(values);
    for (int i = 0; i < COUNT; i++) {
        values[i] = (float)((i * 7919) % 2003 - 1000) * 1.7e-3f;
    }
    return values;
}

static void it_is_the_sum_of_squares(void **state)
{
    (void)state;
    float *values = make_values();
    double expected = 0.0;
    for (int i = 0; i < COUNT; i++) {
        expected += (double)values[i] * (double)values[i];
    }
    assert_true(fabs(sum_squares(values, COUNT) - expected) < 1e-12 * expected);
    assert_true(sum_squares(values, 0) == 0.0);
    assert_true(sum_squares(values, 1) == (double)values[0] * (double)values[0]);
    free(values);
}

/* So ranks that have parts get the bits of one that has all. */
static void parts_add_up_to_the_whole(void **state)
{
    (void)state;
    float *values = make_values();
    const rank_device *device = &test_device;
    int32_t largest = 0;
    rank_squares sum = {0};
    for (size_t i = 0; i < COUNT; i += 100) {
        const size_t left = COUNT - i < 100 ? COUNT - i : 100;
        device->backend->largest(device->queue, &(rank_largest){values + i, left, &largest});
    }
    for (size_t end = COUNT; end > 0; end -= end < 333 ? end : 333) {
        const size_t left = end < 333 ? end : 333;
        device->backend->add_squares(
            device->queue, &(rank_add_squares){values + end - left, left, &largest, &sum});
    }
    assert_true(rank_squares_value(&sum, largest) == sum_squares(values, COUNT));
    free(values);
}

static void values_that_are_not_finite_show_in_the_sum(void **state)
{
    (void)state;
    float *values = make_values();
    values[COUNT - 1] = NAN;
    assert_true(isnan(sum_squares(values, COUNT)));
    values[COUNT - 1] = INFINITY;
    assert_true(isinf(sum_squares(values, COUNT)));
    free(values);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_the_sum_of_squares),
        cmocka_unit_test(parts_add_up_to_the_whole),
        cmocka_unit_test(values_that_are_not_finite_show_in_the_sum),
    };
    return cmocka_run_group_tests(tests, test_device_open, test_device_close);
}
