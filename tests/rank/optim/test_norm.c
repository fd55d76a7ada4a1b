/* The sum of squares: right, and the sum of its blocks in order. */
#include <math.h>
#include <stdlib.h>

#include "cpu_device.h"
#include "support.h"

enum { COUNT = 5 * RANK_NORM_BLOCK + 77 };

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

/* So shards that end at a block's end give the same bits as the whole. */
static void blocks_add_up_in_order(void **state)
{
    (void)state;
    float *values = make_values();
    double sum = 0.0;
    for (int i = 0; i < COUNT; i += RANK_NORM_BLOCK) {
        const int left = COUNT - i < RANK_NORM_BLOCK ? COUNT - i : RANK_NORM_BLOCK;
        sum += sum_squares(values + i, (size_t)left);
    }
    assert_true(sum == sum_squares(values, COUNT));
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
        cmocka_unit_test(blocks_add_up_in_order),
        cmocka_unit_test(values_that_are_not_finite_show_in_the_sum),
    };
    return cmocka_run_group_tests(tests, test_device_open, test_device_close);
}
