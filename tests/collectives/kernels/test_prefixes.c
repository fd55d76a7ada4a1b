/* Prefixes in canonical order, for every instruction set, type and operation, against the reference; and
 * the neutral elements. */
#include <string.h>

#include "common/neutral.h"
#include "kernels/tree_order.h"
#include "random.h"
#include "reference.h"
#include "support.h"

enum { RANKS = 13, COUNT = 4200 };
static uint8_t inputs[RANKS][COUNT * 8];

/* Prefixes of n operands, of more than a block, apart or each written over its operand. */
static void check_prefixes(const coll_kernel *kernel, coll_type type, coll_reduce_op reduce, int n,
                           bool exclusive, bool in_place)
{
    static uint8_t results[RANKS][COUNT * 8];
    const size_t size = coll_type_size_bytes(type);
    const uint8_t *from[RANKS];
    uint8_t *outs[RANKS];
    reference_reduction reduction = {
        .type = type, .reduce = reduce, .algorithm = COLL_ALGORITHM_DIRECT, .salt = 3};
    for (int r = 0; r < n; r++) {
        outs[r] = results[r];
        from[r] = in_place ? outs[r] : inputs[r];
        memcpy(results[r], inputs[r], COUNT * size);
    }
    coll_tree_scan(&(const coll_tree_prefixes){kernel, from, outs, n, exclusive}, COUNT);
    for (int r = 0; r < n; r++) {
        reduction.ranks = exclusive ? r : r + 1;
        for (size_t i = 0; i < COUNT; i += 131) {
            uint8_t expected[8];
            memcpy(expected, inputs[r] + i * size, size); /* of no operand: as it was */
            if (reduction.ranks > 0) {
                reference_all_reduce(&reduction, i, expected);
            }
            assert_memory_equal(results[r] + i * size, expected, size);
        }
    }
}

static void test_prefixes(void **state)
{
    static const int counts[] = {1, 2, 3, 8, 13};
    const char *name = "";
    (void)state;
    for (int i = 0; i < COLL_TYPE_LAST * COLL_REDUCE_OP_LAST * 5; i++) {
        const coll_type type = (coll_type)(COLL_FLOAT32 + i / 5 / COLL_REDUCE_OP_LAST);
        const coll_reduce_op reduce = (coll_reduce_op)(COLL_SUM + i / 5 % COLL_REDUCE_OP_LAST);
        const size_t size = coll_type_size_bytes(type);
        for (int r = 0; r < RANKS && i % (5 * COLL_REDUCE_OP_LAST) == 0; r++) {
            for (size_t at = 0; at < COUNT; at++) {
                reference_input(inputs[r] + at * size, type, r, at, 3);
            }
        }
        for (int set = 0; reduce != COLL_AVERAGE; set++) {
            const coll_kernel *kernel = coll_kernel_find_in(set, type, reduce, &name);
            if (kernel == NULL) {
                break;
            }
            for (int way = 0; way < 4; way++) {
                check_prefixes(kernel, type, reduce, counts[i % 5], way % 2 != 0, way / 2 != 0);
            }
        }
    }
}

/* Any bits, signaling NaNs too: prefixes are what the other protocols combine of as many operands. */
static void check_any_bits(const coll_kernel *kernel, int n, bool exclusive)
{
    static uint8_t results[RANKS][COUNT * 8];
    static uint8_t expected[COUNT * 8];
    const size_t count = 500;
    const uint8_t *from[RANKS];
    const void *operands[RANKS];
    uint8_t *outs[RANKS];
    for (int r = 0; r < n; r++) {
        from[r] = inputs[r];
        operands[r] = inputs[r];
        outs[r] = results[r];
    }
    coll_tree_scan(&(const coll_tree_prefixes){kernel, from, outs, n, exclusive}, count);
    for (int r = exclusive ? 1 : 0; r < n; r++) {
        coll_tree_combine(kernel, expected, operands, exclusive ? r : r + 1, count, 0);
        assert_memory_equal(results[r], expected, count * kernel->element_bytes);
    }
}

static void test_any_bits(void **state)
{
    const char *name = "";
    (void)state;
    test_random_bytes(inputs, sizeof inputs, 1);
    for (int i = 0; i < COLL_TYPE_LAST * COLL_REDUCE_OP_LAST; i++) {
        const coll_type type = (coll_type)(COLL_FLOAT32 + i / COLL_REDUCE_OP_LAST);
        const coll_reduce_op reduce = (coll_reduce_op)(COLL_SUM + i % COLL_REDUCE_OP_LAST);
        const coll_kernel *kernel = NULL;
        for (int set = 0; reduce != COLL_AVERAGE &&
                          (kernel = coll_kernel_find_in(set, type, reduce, &name)) != NULL;
             set++) {
            check_any_bits(kernel, 7, false);
            check_any_bits(kernel, 7, true);
        }
    }
}

static void test_neutral_elements(void **state)
{
    uint8_t filled[3 * 8];
    uint8_t expected[8];
    (void)state;
    for (int i = 0; i < COLL_TYPE_LAST * COLL_REDUCE_OP_LAST; i++) {
        const coll_type type = (coll_type)(COLL_FLOAT32 + i / COLL_REDUCE_OP_LAST);
        const coll_reduce_op reduce = (coll_reduce_op)(COLL_SUM + i % COLL_REDUCE_OP_LAST);
        const size_t size = coll_type_size_bytes(type);
        memset(filled, 0xa5, sizeof filled);
        if (coll_kernel_find(type, reduce) != NULL) {
            coll_neutral_fill(filled, type, reduce, 2);
            reference_neutral(expected, type, reduce);
            assert_memory_equal(filled, expected, size);
            assert_memory_equal(filled + size, expected, size);
            assert_int_equal(filled[2 * size], 0xa5);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prefixes),
        cmocka_unit_test(test_any_bits),
        cmocka_unit_test(test_neutral_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
