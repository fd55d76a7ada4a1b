/* coll-bench's numbers: exact in any order, distinguished from wrong ones;
 * sizes divided as in nccl-tests. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data.h"
#include "support.h"

enum { COUNT = 3 * BENCH_PERIOD + 5 };

/* A bfloat16 or IEEE half as a float; normal numbers and 0 only. */
static float widen(coll_type type, uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float number = 0.0F;
    if (type == COLL_FLOAT16 && (half & 0x7fffU) != 0) {
        bits = (uint32_t)(half & 0x8000U) << 16 | ((half >> 10 & 0x1fU) - 15 + 127) << 23 |
               (uint32_t)(half & 0x3ffU) << 13;
    }
    memcpy(&number, &bits, sizeof number);
    return number;
}

/* Every combination is whole and within what the type holds: so nothing was rounded. */
static void check_exact_sums(coll_type type, int ranks, float most)
{
    bench_data *data = bench_data_create(ranks, type, COLL_SUM, ranks);
    uint16_t wanted[BENCH_PERIOD];
    float sums[BENCH_PERIOD] = {0};
    assert_non_null(data);
    for (int r = 0; r < ranks; r++) {
        uint16_t own[BENCH_PERIOD];
        bench_data_fill(data, r, 0, BENCH_PERIOD, own);
        for (int i = 0; i < BENCH_PERIOD; i++) {
            sums[i] += widen(type, own[i]);
            assert_true(sums[i] <= most && sums[i] >= -most);
        }
    }
    bench_data_fill(data, BENCH_REDUCED, 0, BENCH_PERIOD, wanted);
    for (int i = 0; i < BENCH_PERIOD; i++) {
        assert_true(widen(type, wanted[i]) == sums[i]);
    }
    bench_data_destroy(data);
}

static void test_sums_are_exact(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= FORKED_RANKS_MAX; ranks += 7) {
        check_exact_sums(COLL_BFLOAT16, ranks, 256.0F);
        check_exact_sums(COLL_FLOAT16, ranks, 2048.0F);
    }
}

static void test_results(void **state)
{
    (void)state;
    float a[8];
    float b[8];
    float wanted[8];
    static const coll_reduce_op reduces[] = {COLL_SUM, COLL_MIN, COLL_MAX, COLL_PRODUCT,
                                             COLL_AVERAGE};
    for (size_t k = 0; k < sizeof reduces / sizeof reduces[0]; k++) {
        bench_data *data = bench_data_create(2, COLL_FLOAT32, reduces[k], 2);
        assert_non_null(data);
        bench_data_fill(data, 0, 1000, 8, a);
        bench_data_fill(data, 1, 1000, 8, b);
        bench_data_fill(data, BENCH_REDUCED, 1000, 8, wanted);
        for (int i = 0; i < 8; i++) {
            const float results[] = {a[i] + b[i], a[i] < b[i] ? a[i] : b[i],
                                     a[i] > b[i] ? a[i] : b[i], a[i] * b[i], (a[i] + b[i]) / 2.0F};
            assert_true(wanted[i] == results[k]);
        }
        bench_data_destroy(data);
    }
}

/* A scan's results are of the first ranks; of none of them, what changes nothing. */
static void test_prefixes(void **state)
{
    static const coll_reduce_op reduces[] = {COLL_SUM, COLL_MIN, COLL_MAX, COLL_PRODUCT};
    static const float neutral[] = {0, INFINITY, -INFINITY, 1};
    (void)state;
    assert_int_equal(bench_data_operands(COLL_SCAN, 4, 2), 3);
    assert_int_equal(bench_data_operands(COLL_EXSCAN, 4, 2), 2);
    assert_int_equal(bench_data_operands(COLL_REDUCE, 4, 2), 4);
    for (size_t k = 0; k < sizeof reduces / sizeof reduces[0]; k++) {
        float first[BENCH_PERIOD];
        float wanted[BENCH_PERIOD];
        for (int operands = 0; operands < 2; operands++) {
            bench_data *data = bench_data_create(3, COLL_FLOAT32, reduces[k], operands);
            assert_non_null(data);
            bench_data_fill(data, 0, 0, BENCH_PERIOD, first);
            bench_data_fill(data, BENCH_REDUCED, 0, BENCH_PERIOD, wanted);
            for (int i = 0; i < BENCH_PERIOD; i++) {
                assert_true(wanted[i] == (operands == 0 ? neutral[k] : first[i]));
            }
            bench_data_destroy(data);
        }
    }
}

static void test_integers_wrap(void **state)
{
    (void)state;
    int8_t own[BENCH_PERIOD];
    int8_t wanted[BENCH_PERIOD];
    uint8_t sums[BENCH_PERIOD] = {0};
    bench_data *data = bench_data_create(64, COLL_INT8, COLL_SUM, 64);
    assert_non_null(data);
    for (int r = 0; r < 64; r++) {
        bench_data_fill(data, r, 0, BENCH_PERIOD, own);
        for (int i = 0; i < BENCH_PERIOD; i++) {
            sums[i] = (uint8_t)(sums[i] + (uint8_t)own[i]);
        }
    }
    bench_data_fill(data, BENCH_REDUCED, 0, BENCH_PERIOD, wanted);
    assert_memory_equal(wanted, sums, BENCH_PERIOD);
    bench_data_destroy(data);
}

static void test_bits(void **state)
{
    static const coll_reduce_op reduces[] = {COLL_AND, COLL_OR, COLL_XOR};
    uint32_t own[3][BENCH_PERIOD];
    uint32_t wanted[BENCH_PERIOD];
    (void)state;
    for (size_t k = 0; k < sizeof reduces / sizeof reduces[0]; k++) {
        bench_data *data = bench_data_create(3, COLL_UINT32, reduces[k], 3);
        assert_non_null(data);
        for (int r = 0; r < 3; r++) {
            bench_data_fill(data, r, 0, BENCH_PERIOD, own[r]);
        }
        bench_data_fill(data, BENCH_REDUCED, 0, BENCH_PERIOD, wanted);
        for (int i = 0; i < BENCH_PERIOD; i++) {
            const uint32_t results[] = {own[0][i] & own[1][i] & own[2][i],
                                        own[0][i] | own[1][i] | own[2][i],
                                        own[0][i] ^ own[1][i] ^ own[2][i]};
            assert_int_equal(wanted[i], results[k]);
        }
        bench_data_destroy(data);
    }
}

/* Every flipped bit counts, at the ends of periods too. */
static void test_wrong_is_found(void **state)
{
    (void)state;
    static const size_t places[] = {0, 1, BENCH_PERIOD - 1, BENCH_PERIOD, COUNT - 1};
    bench_data *data = bench_data_create(3, COLL_FLOAT64, COLL_SUM, 3);
    double *values = malloc(COUNT * sizeof *values);
    assert_non_null(data);
    assert_non_null(values);
    bench_data_fill(data, BENCH_REDUCED, 77, COUNT, values);
    assert_int_equal(bench_data_wrong(data, BENCH_REDUCED, 77, COUNT, values), 0);
    assert_int_not_equal(bench_data_wrong(data, BENCH_REDUCED, 78, COUNT, values), 0);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        ((uint8_t *)&values[places[i]])[i] ^= 1U;
        assert_int_equal(bench_data_wrong(data, BENCH_REDUCED, 77, COUNT, values), i + 1);
    }
    free(values);
    bench_data_destroy(data);
}

static void test_layouts(void **state)
{
    (void)state;
    bench_layout layout = bench_layout_make(COLL_ALL_REDUCE, 3, 103, 4);
    assert_int_equal(layout.count, 25);
    assert_int_equal(layout.size_bytes, 100);
    layout = bench_layout_make(COLL_ALL_GATHER, 3, 103, 4);
    assert_int_equal(layout.count, 8);
    assert_int_equal(layout.size_bytes, 96);
    assert_int_equal(layout.send_count, 8);
    assert_int_equal(layout.recv_count, 24);
    layout = bench_layout_make(COLL_REDUCE_SCATTER, 3, 96, 4);
    assert_int_equal(layout.send_count, 24);
    assert_int_equal(layout.recv_count, 8);
    layout = bench_layout_make(COLL_ALL_TO_ALL, 3, 96, 4);
    assert_int_equal(layout.send_count, 24);
    assert_int_equal(layout.recv_count, 24);
    layout = bench_layout_make(COLL_SCATTER, 3, 8, 4);
    assert_int_equal(layout.count, 0);
}

static void test_bus_factors(void **state)
{
    (void)state;
    assert_true(bench_bus_factor(COLL_ALL_REDUCE, 4) == 1.5);
    assert_true(bench_bus_factor(COLL_ALL_GATHER, 4) == 0.75);
    assert_true(bench_bus_factor(COLL_REDUCE_SCATTER, 4) == 0.75);
    assert_true(bench_bus_factor(COLL_ALL_TO_ALL, 4) == 0.75);
    assert_true(bench_bus_factor(COLL_GATHER, 4) == 0.75);
    assert_true(bench_bus_factor(COLL_SCATTER, 4) == 0.75);
    assert_true(bench_bus_factor(COLL_BROADCAST, 4) == 1.0);
    assert_true(bench_bus_factor(COLL_REDUCE, 4) == 1.0);
    assert_true(bench_bus_factor(COLL_SCAN, 4) == 1.0);
    assert_true(bench_bus_factor(COLL_SEND, 4) == 1.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_are_exact), cmocka_unit_test(test_results),
        cmocka_unit_test(test_integers_wrap),  cmocka_unit_test(test_bits),
        cmocka_unit_test(test_wrong_is_found), cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_bus_factors),    cmocka_unit_test(test_prefixes),
    };
    return cmocka_run_group_tests_name("coll-bench-data", tests, NULL, NULL);
}
