/* backend/squares.h: every order and every partition gives the same bits, on every instruction set,
 * and the sum is right. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/kernels.h"
#include "random.h"
#include "support.h"

enum { COUNT = 5 * 2048 + 77, RANKS_MAX = 7 };

/* Of both signs, with exponents from `least` on. */
static void fill(float *values, size_t count, uint64_t seed, int least, int exponents)
{
    for (size_t i = 0; i < count; i++) {
        const float unit = (float)((int)(test_random(&seed) >> 7) - (1 << 24)) * 0x1p-24f;
        values[i] = ldexpf(unit, least + (int)(test_random(&seed) % (uint32_t)exponents));
    }
}

static void shuffle(float *values, size_t count, uint64_t seed)
{
    for (size_t i = count - 1; i > 0; i--) {
        const size_t other = test_random(&seed) % (i + 1);
        const float kept = values[i];
        values[i] = values[other];
        values[other] = kept;
    }
}

static double sum_of(const rank_kernels *kernels, const float *values, size_t count)
{
    int32_t largest = 0;
    rank_squares sum = {0};
    kernels->largest(&(rank_largest){values, count, &largest});
    kernels->add_squares(&(rank_add_squares){values, count, &largest, &sum});
    return rank_squares_value(&sum, largest);
}

static void assert_same(double found, double expected)
{
    assert_memory_equal(&found, &expected, sizeof found);
}

/* The values as cut at random into ranges, which ranks have in turns; each rank may be of another
 * instruction set. */
static double sum_of_ranks(const float *values, size_t count, int ranks, uint64_t seed)
{
    size_t ends[50];
    enum { RANGES = sizeof ends / sizeof ends[0] };
    int32_t largest = 0;
    rank_squares total = {0};
    size_t end = 0;
    int tables = 1;
    while (rank_kernels_at(tables) != NULL) {
        tables++;
    }
    for (int i = 0; i < RANGES; i++) {
        end += test_random(&seed) % (count - end + 1) / (i % 3 == 0 ? 1 : 8);
        ends[i] = i == RANGES - 1 ? count : end;
    }
    for (int pass = 0; pass < 2; pass++) {
        for (int rank = 0; rank < ranks; rank++) {
            const rank_kernels *kernels = rank_kernels_at(rank % tables);
            int32_t mine = 0;
            rank_squares sum = {0};
            for (int i = rank; i < RANGES; i += ranks) {
                const float *at = values + (i > 0 ? ends[i - 1] : 0);
                const size_t here = (size_t)(values + ends[i] - at);
                if (pass == 0) {
                    kernels->largest(&(rank_largest){at, here, &mine});
                } else {
                    kernels->add_squares(&(rank_add_squares){at, here, &largest, &sum});
                }
            }
            largest = mine > largest ? mine : largest; /* what an all-reduce does */
            total.low += sum.low;
            total.high += sum.high;
        }
    }
    return rank_squares_value(&total, largest);
}

static void order_and_partition_do_not_matter(void **state)
{
    (void)state;
    static const int ranges[][2] = {{-10, 2}, {-40, 60}, {-149, 270}, {-149, 30}, {120, 8}};
    float *values = malloc(COUNT * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        fill(values, COUNT, i, ranges[i][0], ranges[i][1]);
        const double expected = sum_of(rank_kernels_at(0), values, COUNT);
        assert_true(isfinite(expected) && expected > 0.0);
        for (uint64_t seed = 0; seed < 20; seed++) {
            shuffle(values, COUNT, seed);
            for (int isa = 0; rank_kernels_at(isa) != NULL; isa++) {
                assert_same(sum_of(rank_kernels_at(isa), values, COUNT), expected);
            }
            for (int ranks = 1; ranks <= RANKS_MAX; ranks++) {
                assert_same(sum_of_ranks(values, COUNT, ranks, seed), expected);
            }
        }
    }
    free(values);
}

/* Against a compensated sum, whose own error is far below. */
static void the_sum_is_close(void **state)
{
    (void)state;
    float *values = malloc(COUNT * sizeof *values);
    assert_non_null(values);
    for (int exponents = 1; exponents < 250; exponents += 12) {
        fill(values, COUNT, (uint64_t)exponents, -125, exponents);
        double sum = 0.0;
        double rest = 0.0;
        for (int i = 0; i < COUNT; i++) {
            const double square = (double)values[i] * (double)values[i];
            const double next = sum + square;
            rest += sum >= square ? (sum - next) + square : (square - next) + sum;
            sum = next;
        }
        const double expected = sum + rest;
        const double found = sum_of(rank_kernels_at(0), values, COUNT);
        assert_true(fabs(found - expected) < 0x1p-37 * expected);
    }
    free(values);
}

/* The worst case: all but one are just below half an ulp, and are lost. */
static void the_error_is_bounded(void **state)
{
    (void)state;
    enum { MANY = 1 << 20 };
    float *values = malloc(MANY * sizeof *values);
    assert_non_null(values);
    for (int i = 0; i < MANY; i++) {
        values[i] = 0x1.6p-26f;
    }
    values[77] = 1.0f;
    const double expected = 1.0 + (MANY - 1) * (0x1.6p-26 * 0x1.6p-26);
    const double found = sum_of(rank_kernels_at(0), values, MANY);
    assert_true(found == 1.0);
    assert_true(expected - found < 0x1p-30 * expected);
    free(values);
}

static void few_values_are_exact(void **state)
{
    (void)state;
    static const float ones[] = {
        0.0f,       1.0f,        1.7e-3f,          -0x1.fffffep-1f, 0x1p-126f, 0x1p-149f,
        -0x1p-127f, 0x1.8p-146f, 0x1.fffffep-127f, 3.402823466e38f, -0x1p127f, 0x1.000002p0f};
    const rank_kernels *kernels = NULL;
    for (int isa = 0; (kernels = rank_kernels_at(isa)) != NULL; isa++) {
        assert_same(sum_of(kernels, NULL, 0), 0.0);
        for (size_t i = 0; i < sizeof ones / sizeof ones[0]; i++) {
            assert_same(sum_of(kernels, &ones[i], 1), (double)ones[i] * (double)ones[i]);
        }
        const float zeros[100] = {0.0f, -0.0f};
        assert_same(sum_of(kernels, zeros, 100), 0.0);
        const float subnormal[] = {0x1p-149f, -0x1p-149f, 0x1p-128f};
        assert_same(sum_of(kernels, subnormal, 3), 0x1p-297 + 0x1p-256);
        const float huge[] = {0x1.fffffep127f, -0x1.fffffep127f, 0x1.fffffep127f, 1.0f};
        assert_same(sum_of(kernels, huge, 4), 3 * (0x1.fffffep127 * 0x1.fffffep127));
    }
}

static void values_that_are_not_finite_win(void **state)
{
    (void)state;
    float values[] = {1.0f, 3.402823466e38f, -INFINITY, 2.0f};
    const rank_kernels *kernels = NULL;
    for (int isa = 0; (kernels = rank_kernels_at(isa)) != NULL; isa++) {
        values[3] = 2.0f;
        assert_same(sum_of(kernels, values, 4), (double)INFINITY);
        values[3] = -NAN;
        assert_true(isnan(sum_of(kernels, values, 4)));
        values[3] = 0.0f;
        rank_squares sum = {0};
        const int32_t infinite = RANK_SQUARES_INFINITE;
        kernels->add_squares(&(rank_add_squares){values, 4, &infinite, &sum});
        assert_true(sum.low == 0 && sum.high == 0);
    }
}

/* 2^43 values of the largest square, as the limbs of 2^20 ranks: more than an array can have here. */
static void there_is_room_for_many(void **state)
{
    (void)state;
    const float one = 0x1.fffffep0f;
    int32_t largest = 0;
    rank_squares sum = {0};
    rank_kernels_at(0)->largest(&(rank_largest){&one, 1, &largest});
    rank_kernels_at(0)->add_squares(&(rank_add_squares){&one, 1, &largest, &sum});
    const uint64_t ulps = sum.high << 32 | sum.low;
    assert_true(ulps < UINT64_C(1) << 52);
    const uint64_t high = (ulps >> 32) << 23; /* a rank's 2^23 values, with all carries done */
    const uint64_t low = (ulps & UINT32_MAX) << 23;
    sum.high = (high + (low >> 32)) << 20;
    sum.low = (low & UINT32_MAX) << 20;
    assert_same(rank_squares_value(&sum, largest), ldexp((double)one * (double)one, 43));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_and_partition_do_not_matter),
        cmocka_unit_test(the_sum_is_close),
        cmocka_unit_test(the_error_is_bounded),
        cmocka_unit_test(few_values_are_exact),
        cmocka_unit_test(values_that_are_not_finite_win),
        cmocka_unit_test(there_is_room_for_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
