/* exp, log and the noise made with them: accuracy against libm, the same bits everywhere, and the
 * distribution. */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/fixed_math.h"
#include "generate/noise.h"
#include "support.h"

/* Distance in units of the last place. */
static int64_t ulps(double a, double b)
{
    int64_t i = 0;
    int64_t j = 0;
    memcpy(&i, &a, sizeof i);
    memcpy(&j, &b, sizeof j);
    return i > j ? i - j : j - i;
}

static uint64_t hash_double(uint64_t hash, double x)
{
    uint64_t bits = 0;
    memcpy(&bits, &x, sizeof bits);
    return (hash ^ bits) * UINT64_C(0x100000001b3);
}

static void test_exp(void **state)
{
    (void)state;
    uint64_t hash = 0;
    for (int i = 0; i <= 2000000; i++) {
        const double x = i * -0.000353;
        assert_true(ulps(base_fixed_exp(x), exp(x)) <= 2);
        hash = hash_double(hash, base_fixed_exp(x));
    }
    assert_true(base_fixed_exp(0) == 1);
    assert_true(base_fixed_exp(-708.001) == 0 && base_fixed_exp(-INFINITY) == 0);
    assert_true(base_fixed_exp(-1e300) == 0);
    assert_int_equal(hash, UINT64_C(0xe54a1dea673d2fa0));
}

static void test_log(void **state)
{
    (void)state;
    uint64_t hash = 0;
    double x = 1e-300;
    for (int i = 0; i < 1000000; i++, x *= 1.0013) {
        assert_true(ulps(base_fixed_log(x), log(x)) <= 2);
        hash = hash_double(hash, base_fixed_log(x));
    }
    for (int i = 1; i <= 1000000; i++) { /* just below and just above 1, and in between */
        assert_true(ulps(base_fixed_log(1 - i * 0x1p-53), log(1 - i * 0x1p-53)) <= 2);
        assert_true(ulps(base_fixed_log(i * 1e-6), log(i * 1e-6)) <= 2);
    }
    assert_true(base_fixed_log(1) == 0);
    assert_int_equal(hash, UINT64_C(0x8c05947df22c8f51));
}

static void test_noise_has_the_same_bits_everywhere(void **state)
{
    (void)state;
    uint64_t hash = 0;
    for (uint64_t position = 0; position < 100; position++) {
        const uint64_t stream = rank_noise_stream(35000, position % 7, position);
        for (int32_t token = 0; token < 1000; token++) {
            hash = hash_double(hash, rank_noise_gumbel(rank_noise_bits(stream, token)));
        }
    }
    assert_int_equal(hash, UINT64_C(0xe475caa336f6ac85));
}

static void test_bound(void **state)
{
    (void)state;
    const uint64_t last = (UINT64_C(1) << 52) - 1;
    for (int i = 0; i < 1000000; i++) {
        const uint64_t bits = rank_noise_bits(7, i);
        assert_true(bits <= last);
        const double noise = rank_noise_gumbel(bits);
        assert_true(noise <= rank_noise_bound(bits));
        assert_true(rank_noise_bound(bits) < noise + 0.7 + (noise < 1 ? 4.4 : 0.7));
    }
    for (uint64_t i = 0; i < 1000; i++) {
        assert_true(rank_noise_gumbel(last - i) <= rank_noise_bound(last - i));
    }
    for (int shift = 0; shift < 52; shift++) { /* the bits where the bound steps */
        for (uint64_t off = 0; off < 3; off++) {
            const uint64_t bits = (last - (UINT64_C(1) << shift) + off) & last;
            assert_true(rank_noise_gumbel(bits) <= rank_noise_bound(bits));
        }
    }
    assert_true(rank_noise_gumbel(last) < RANK_NOISE_MAX);
    assert_true(rank_noise_gumbel(0) > -3.7);
}

/* Equal bins of probability, over tokens of one stream, positions, prompts and seeds. */
static void test_distribution(void **state)
{
    (void)state;
    enum { BINS = 64, DRAWS = 640000 };
    for (int axis = 0; axis < 4; axis++) {
        int bins[BINS] = {0};
        for (int i = 0; i < DRAWS; i++) {
            const uint64_t n = (uint64_t)i;
            const uint64_t stream =
                rank_noise_stream(axis == 3 ? n : 1, axis == 2 ? n : 2, axis == 1 ? n : 3);
            const double noise = rank_noise_gumbel(rank_noise_bits(stream, axis == 0 ? i : 5));
            bins[(int)(exp(-exp(-noise)) * BINS)]++;
        }
        double chi_squared = 0;
        for (int i = 0; i < BINS; i++) {
            const double expected = (double)DRAWS / BINS;
            chi_squared += (bins[i] - expected) * (bins[i] - expected) / expected;
        }
        assert_true(chi_squared > 30 && chi_squared < 110); /* 63 degrees: 0.01 % on each side */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exp),
        cmocka_unit_test(test_log),
        cmocka_unit_test(test_noise_has_the_same_bits_everywhere),
        cmocka_unit_test(test_bound),
        cmocka_unit_test(test_distribution),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
