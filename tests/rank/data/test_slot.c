/* Slots cover the file without overlap, and an epoch takes each sentence once. Exhaustive over
 * ranks, micro-batches and small files. */
#include "slot.h"

#include "support.h"

enum { TOTAL_MAX = 70, RANKS_MAX = 8, MICRO_BATCHES_MAX = 4, EPOCHS = 3 };

static void slots_cover_the_file_once(void **state)
{
    (void)state;
    for (int slots = 1; slots <= RANKS_MAX * MICRO_BATCHES_MAX; slots++) {
        for (uint64_t total = 0; total <= TOTAL_MAX; total++) {
            int seen[TOTAL_MAX] = {0};
            uint64_t sum = 0;
            for (int slot = 0; slot < slots; slot++) {
                const uint64_t size = rank_slot_size(total, slots, slot);
                sum += size;
                for (uint64_t i = 0; i < size; i++) {
                    const uint64_t index = (uint64_t)slot + i * (uint64_t)slots;
                    assert_true(index < total);
                    assert_int_equal(index % (uint64_t)slots, slot);
                    seen[index]++;
                }
            }
            assert_int_equal(sum, total);
            for (uint64_t index = 0; index < total; index++) {
                assert_int_equal(seen[index], 1);
            }
        }
    }
}

static void an_order_is_a_permutation(void **state)
{
    (void)state;
    uint32_t order[TOTAL_MAX];
    for (uint32_t count = 0; count <= TOTAL_MAX; count++) {
        for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
            int seen[TOTAL_MAX] = {0};
            rank_slot_order(35000, 1, epoch, order, count);
            for (uint32_t i = 0; i < count; i++) {
                assert_true(order[i] < count);
                assert_int_equal(seen[order[i]]++, 0);
            }
        }
    }
}

static void an_order_depends_on_seed_plus_slot_and_on_epoch(void **state)
{
    (void)state;
    uint32_t first[TOTAL_MAX];
    uint32_t other[TOTAL_MAX];
    rank_slot_order(35000, 1, 2, first, TOTAL_MAX);
    rank_slot_order(35000, 1, 2, other, TOTAL_MAX);
    assert_memory_equal(first, other, sizeof first);
    rank_slot_order(35001, 0, 2, other, TOTAL_MAX);
    assert_memory_equal(first, other, sizeof first);
    rank_slot_order(35000, 2, 2, other, TOTAL_MAX);
    assert_memory_not_equal(first, other, sizeof first);
    rank_slot_order(35000, 1, 3, other, TOTAL_MAX);
    assert_memory_not_equal(first, other, sizeof first);
}

/* The order is part of the project's reproducibility: it may not change by accident. Made by the
 * Python lines in tests/oracle/make_tokenizer_fixtures.py (slot_order). */
static void the_order_is_the_documented_one(void **state)
{
    (void)state;
    static const uint32_t expected[] = {
#include "slot_order.inc"
    };
    uint32_t order[sizeof expected / sizeof *expected];
    rank_slot_order(35000, 1, 0, order, sizeof expected / sizeof *expected);
    assert_memory_equal(order, expected, sizeof expected);
}

/* 3 standard deviations around the mean of 6000 draws of 3! orders. */
static void orders_are_even(void **state)
{
    (void)state;
    int counts[27] = {0};
    for (uint64_t epoch = 0; epoch < 6000; epoch++) {
        uint32_t order[3];
        rank_slot_order(1, 0, epoch, order, 3);
        counts[order[0] * 9 + order[1] * 3 + order[2]]++;
    }
    int orders = 0;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        orders += counts[i] > 0;
        assert_true(counts[i] == 0 || (counts[i] > 910 && counts[i] < 1090));
    }
    assert_int_equal(orders, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_cover_the_file_once),
        cmocka_unit_test(an_order_is_a_permutation),
        cmocka_unit_test(an_order_depends_on_seed_plus_slot_and_on_epoch),
        cmocka_unit_test(the_order_is_the_documented_one),
        cmocka_unit_test(orders_are_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
