/* Every kernel of every instruction set that this processor has, against the reference: all types
 * and operations, lengths around every vector width, odd addresses, outputs that are an input, and
 * special values. The conversions of 16-bit floats: all values up, and every rounding down. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/kinds.h"
#include "common/limits.h"
#include "kernels/kernels.h"
#include "kernels/tree_order.h"
#include "reference.h"
#include "support.h"

enum { COUNT_MAX = 600, BYTES = COUNT_MAX * 8 + 64, GUARD = 0xA5 };

/* Zeros and infinities of both signs, NaNs, ones, the smallest and the largest, as float32. */
static const uint32_t special_bits[] = {0x00000000, 0x80000000, 0x7f800000, 0xff800000, 0x7fc01000,
                                        0xffc12000, 0x3f800000, 0xbf800000, 0x00000001, 0x80000001,
                                        0x7f7fffff, 0xff7fffff, 0x3f801000, 0x7fc0beef};
enum { SPECIALS = sizeof special_bits / sizeof special_bits[0] };

static void special_input(void *out, coll_type type, size_t index)
{
    float value;
    memcpy(&value, &special_bits[index % SPECIALS], sizeof value);
    if (type == COLL_FLOAT64) {
        const double wide = (double)value;
        memcpy(out, &wide, sizeof wide);
    } else if (type == COLL_FLOAT16 || type == COLL_BFLOAT16) {
        const uint16_t half = reference_narrow(type, value);
        memcpy(out, &half, sizeof half);
    } else {
        memcpy(out, &value, coll_type_size_bytes(type) < 4 ? 1 : 4);
    }
}

typedef struct operands {
    uint8_t left[BYTES];
    uint8_t right[BYTES];
    uint8_t expected[BYTES];
    uint8_t out[BYTES];
    uint8_t also[BYTES];
} operands;

static void fill(operands *o, coll_type type, coll_reduce_op reduce, size_t count, bool special)
{
    const size_t size = coll_type_size_bytes(type);
    memset(o, 0, sizeof *o);
    for (size_t i = 0; i < count; i++) {
        uint8_t *l = o->left + 1 + i * size;
        uint8_t *r = o->right + 1 + i * size;
        if (special) {
            special_input(l, type, i);
            special_input(r, type, i / SPECIALS);
        } else {
            reference_input(l, type, 0, i, 7);
            reference_input(r, type, 1, i, 7);
        }
        reference_combine(o->expected + 1 + i * size, type, reduce, l, r);
    }
    memset(o->out, GUARD, sizeof o->out);
    memset(o->also, GUARD, sizeof o->also);
}

static bool is_nan(coll_type type, const void *element)
{
    double wide = 0;
    float value = 0;
    uint16_t half = 0;
    switch (type) {
    case COLL_FLOAT64:
        memcpy(&wide, element, sizeof wide);
        return isnan(wide);
    case COLL_FLOAT32:
        memcpy(&value, element, sizeof value);
        return isnan(value);
    case COLL_FLOAT16:
    case COLL_BFLOAT16:
        memcpy(&half, element, sizeof half);
        return isnan(reference_widen(type, half));
    default:
        return false;
    }
}

/* Of two NaN operands, which one's bits a sum or product has is not said. */
static void check_values(const operands *o, const uint8_t *got, coll_type type, size_t count)
{
    const size_t size = coll_type_size_bytes(type);
    for (size_t i = 0; i < count; i++) {
        const size_t at = 1 + i * size;
        if (is_nan(type, o->left + at) && is_nan(type, o->right + at)) {
            assert_true(is_nan(type, got + at));
        } else if (memcmp(got + at, o->expected + at, size) != 0) {
            fail_msg("element %zu of %zu, type %s", i, count, coll_type_name(type));
        }
    }
}

static void check_guards(const uint8_t *buffer, size_t bytes)
{
    assert_int_equal(buffer[0], GUARD);
    for (size_t i = 1 + bytes; i < BYTES; i++) {
        assert_true(buffer[i] == GUARD);
    }
}

static void check_kernel(const coll_kernel *kernel, coll_type type, coll_reduce_op reduce,
                         size_t count, bool special)
{
    static operands o;
    const size_t bytes = count * coll_type_size_bytes(type);
    assert_int_equal(kernel->element_bytes, coll_type_size_bytes(type));
    fill(&o, type, reduce, count, special);
    kernel->combine(o.out + 1, o.left + 1, o.right + 1, count);
    check_values(&o, o.out, type, count);
    check_guards(o.out, bytes);
    memset(o.out, GUARD, sizeof o.out);
    kernel->combine_twice(o.out + 1, o.also + 1, o.left + 1, o.right + 1, count);
    check_values(&o, o.out, type, count);
    check_values(&o, o.also, type, count);
    check_guards(o.out, bytes);
    check_guards(o.also, bytes);
    memcpy(o.out, o.left, sizeof o.out);
    kernel->combine(o.out + 1, o.out + 1, o.right + 1, count);
    check_values(&o, o.out, type, count);
    memcpy(o.out, o.right, sizeof o.out);
    kernel->combine(o.out + 1, o.left + 1, o.out + 1, count);
    check_values(&o, o.out, type, count);
}

static void check_set(int set)
{
    static const size_t counts[] = {0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 130, 300};
    const char *name = "";
    for (int type = COLL_FLOAT32; type <= COLL_TYPE_LAST; type++) {
        for (int reduce = COLL_SUM; reduce <= COLL_REDUCE_OP_LAST; reduce++) {
            const coll_kernel *kernel =
                coll_kernel_find_in(set, (coll_type)type, (coll_reduce_op)reduce, &name);
            if (!coll_reduce_op_takes((coll_reduce_op)reduce, (coll_type)type)) {
                assert_null(kernel);
                continue;
            }
            for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
                check_kernel(kernel, (coll_type)type, (coll_reduce_op)reduce, counts[c], false);
            }
            check_kernel(kernel, (coll_type)type, (coll_reduce_op)reduce,
                         (size_t)SPECIALS * SPECIALS, true);
        }
    }
}

static void test_against_reference(void **state)
{
    const char *name = "";
    (void)state;
    for (int set = 0; coll_kernel_find_in(set, COLL_FLOAT32, COLL_SUM, &name) != NULL; set++) {
        print_message("%s\n", name);
        check_set(set);
    }
    assert_null(coll_kernel_find((coll_type)0, COLL_SUM));
    assert_null(coll_kernel_find((coll_type)11, COLL_SUM));
    assert_null(coll_kernel_find(COLL_INT8, (coll_reduce_op)9));
}

/* Hosts of one job may differ in their instruction sets: also which of two NaNs a result has must
 * not. */
static void test_sets_agree(void **state)
{
    enum { COUNT = SPECIALS * SPECIALS };
    static operands o;
    static uint8_t first[BYTES];
    const coll_kernel *kernel = NULL;
    const char *name = "";
    (void)state;
    for (int type = COLL_FLOAT32; type <= COLL_TYPE_LAST; type++) {
        const size_t size = coll_type_size_bytes((coll_type)type);
        for (int reduce = COLL_SUM; reduce <= COLL_REDUCE_OP_LAST; reduce++) {
            fill(&o, (coll_type)type, (coll_reduce_op)reduce, COUNT, true);
            for (int set = 0; (kernel = coll_kernel_find_in(set, (coll_type)type,
                                                            (coll_reduce_op)reduce, &name)) != NULL;
                 set++) {
                for (size_t at = 0; at < COUNT; at += 37) { /* the loops' rests too */
                    const size_t n = COUNT - at < 37 ? COUNT - at : 37;
                    kernel->combine(o.out + at * size, o.left + 1 + at * size,
                                    o.right + 1 + at * size, n);
                }
                if (set == 0) {
                    memcpy(first, o.out, sizeof first);
                }
                if (memcmp(first, o.out, COUNT * size) != 0) {
                    fail_msg("%s of %s differs: %s", coll_reduce_op_name((coll_reduce_op)reduce),
                             coll_type_name((coll_type)type), name);
                }
                kernel->combine_twice(o.out, o.also, o.left + 1, o.right + 1, COUNT);
                if (memcmp(first, o.out, COUNT * size) != 0) {
                    fail_msg("%s of %s differs in one go: %s",
                             coll_reduce_op_name((coll_reduce_op)reduce),
                             coll_type_name((coll_type)type), name);
                }
            }
        }
    }
}

static void check_conversions(const coll_kernel *kernel, coll_type type)
{
    static uint16_t halves[0x10000];
    static uint16_t back[0x10000];
    static float wide[0x10000];
    for (unsigned i = 0; i < 0x10000; i++) {
        halves[i] = (uint16_t)i;
    }
    kernel->widen(wide, halves, 0x10000);
    kernel->narrow(back, wide, 0x10000);
    for (unsigned i = 0; i < 0x10000; i++) {
        const float expected = reference_widen(type, halves[i]);
        assert_memory_equal(&wide[i], &expected, sizeof expected);
        assert_true(isnan(expected) || back[i] == halves[i]);
    }
    /* Every value, halfway to the next, and one float32 to either side of that. */
    for (int offset = -1; offset <= 1; offset++) {
        for (unsigned i = 0; i < 0x10000; i++) {
            const float low = reference_widen(type, (uint16_t)i);
            const float high = reference_widen(type, (uint16_t)(i + 1));
            const float half = (float)(((double)low + (double)high) / 2);
            const float towards = offset < 0 ? -INFINITY : INFINITY;
            wide[i] = offset == 0 ? half : nextafterf(half, towards);
        }
        kernel->narrow(back, wide, 0xffff); /* odd: the loop's rest as well */
        for (unsigned i = 0; i < 0xffff; i++) {
            assert_int_equal(back[i], reference_narrow(type, wide[i]));
        }
    }
}

static void test_conversions(void **state)
{
    const char *name = "";
    (void)state;
    for (int set = 0; coll_kernel_find_in(set, COLL_FLOAT32, COLL_SUM, &name) != NULL; set++) {
        check_conversions(coll_kernel_find_in(set, COLL_FLOAT16, COLL_SUM, &name), COLL_FLOAT16);
        check_conversions(coll_kernel_find_in(set, COLL_BFLOAT16, COLL_SUM, &name), COLL_BFLOAT16);
    }
}

/* The canonical order over any number of operands, for each set: the reference's bits. */
enum { RANKS = 13, TREE_COUNT = 5000 };
static uint8_t inputs[RANKS][TREE_COUNT * 8];

static void check_tree(coll_type type, coll_reduce_op reduce, int n)
{
    static uint8_t out[TREE_COUNT * 8];
    const size_t size = coll_type_size_bytes(type);
    const coll_kernel *kernel = NULL;
    const char *name = "";
    const void *pointers[RANKS];
    for (int r = 0; r < n; r++) {
        pointers[r] = inputs[r];
    }
    const reference_reduction reduction = {.type = type,
                                           .reduce = reduce,
                                           .algorithm = COLL_ALGORITHM_DIRECT,
                                           .ranks = n,
                                           .count = TREE_COUNT,
                                           .salt = 3};
    for (int set = 0; (kernel = coll_kernel_find_in(set, type, reduce, &name)) != NULL; set++) {
        coll_tree_combine(kernel, out, pointers, n, TREE_COUNT, n);
        for (size_t i = 0; i < TREE_COUNT; i += 3) {
            uint8_t expected[8];
            reference_all_reduce(&reduction, i, expected);
            assert_memory_equal(out + i * size, expected, size);
        }
    }
}

static void test_tree_order(void **state)
{
    static const int counts[] = {1, 2, 3, 4, 5, 8, 13};
    (void)state;
    for (int type = COLL_FLOAT32; type <= COLL_TYPE_LAST; type++) {
        const size_t size = coll_type_size_bytes((coll_type)type);
        for (int r = 0; r < RANKS; r++) {
            for (size_t i = 0; i < TREE_COUNT; i++) {
                reference_input(inputs[r] + i * size, (coll_type)type, r, i, 3);
            }
        }
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
            for (int reduce = COLL_SUM; reduce <= COLL_REDUCE_OP_LAST; reduce++) {
                check_tree((coll_type)type, (coll_reduce_op)reduce, counts[c]);
            }
        }
    }
}

/* Several operands in one pass: of NaNs with different bits each set keeps the same one, in the
 * vectors and in their rest. */
static void test_many_agree(void **state)
{
    enum { OPERANDS = 7, COUNT = 300 };
    static uint8_t parts[OPERANDS][COUNT * 8];
    static uint8_t out[COUNT * 8];
    static uint8_t first[COUNT * 8];
    const uint8_t *operands_at[OPERANDS];
    const coll_kernel *kernel = NULL;
    const char *name = "";
    (void)state;
    for (int type = COLL_FLOAT32; type <= COLL_FLOAT64; type++) {
        const size_t size = coll_type_size_bytes((coll_type)type);
        for (int r = 0; r < OPERANDS; r++) {
            operands_at[r] = parts[r];
            for (size_t i = 0; i < COUNT; i++) { /* NaNs of the rank's own, here and there */
                const uint32_t small = UINT32_C(0x7fc00000) + (uint32_t)r + 1;
                const uint64_t large = UINT64_C(0x7ff8000000000000) + (uint64_t)r + 1;
                const bool nan = (i >> r & 1) == 0;
                const float value = (float)r;
                const double wide = (double)r;
                const void *from = size == 4 ? (nan ? (const void *)&small : &value)
                                             : (nan ? (const void *)&large : &wide);
                memcpy(parts[r] + i * size, from, size);
            }
        }
        for (int reduce = COLL_SUM; reduce <= COLL_REDUCE_OP_LAST; reduce++) {
            for (int set = 0; (kernel = coll_kernel_find_in(set, (coll_type)type,
                                                            (coll_reduce_op)reduce, &name)) != NULL;
                 set++) {
                for (size_t at = 0; at < COUNT; at += 37) {
                    const size_t n = COUNT - at < 37 ? COUNT - at : 37;
                    const uint8_t *from[OPERANDS];
                    uint8_t *const to = out + at * size;
                    for (int r = 0; r < OPERANDS; r++) {
                        from[r] = operands_at[r] + at * size;
                    }
                    kernel->combine_many(&to, 1, from, OPERANDS, n * size, 0);
                }
                if (set == 0) {
                    memcpy(first, out, sizeof first);
                }
                assert_memory_equal(out, first, COUNT * size);
                uint8_t *const to = out;
                kernel->combine_many(&to, 1, operands_at, OPERANDS, COUNT * size, 0);
                assert_memory_equal(out, first, COUNT * size);
            }
        }
    }
}

/* All parts combined by pairs of vectors, as tree_order.h draws it; into `out`. */
static void fold(const coll_kernel *kernel, uint8_t *out, uint8_t *const *parts, int n,
                 size_t count)
{
    static uint8_t levels[8][COUNT_MAX * 8];
    static int depth;
    int left = 1;
    if (n == 1) {
        memcpy(out, parts[0], count * kernel->element_bytes);
        return;
    }
    while (left * 2 < n) {
        left *= 2;
    }
    uint8_t *right = levels[depth++];
    fold(kernel, out, parts, left, count);
    fold(kernel, right, parts + left, n - left, count);
    kernel->combine(out, out, right, count);
    depth--;
}

/* To three places at once: apart, an operand's own, and apart at an odd address. */
static void check_spread(const coll_kernel *kernel, coll_type type, int n, size_t count)
{
    static uint8_t inputs_of[COLL_RANKS_MAX][BYTES];
    static uint8_t places[COLL_RANKS_MAX][BYTES];
    static coll_type filled; /* inputs_of are of this type */
    static uint8_t expected[COUNT_MAX * 8];
    static uint8_t apart[2][BYTES];
    uint8_t *parts[COLL_RANKS_MAX];
    const size_t bytes = count * kernel->element_bytes;
    for (size_t i = 0; filled != type && i < (size_t)COLL_RANKS_MAX * COUNT_MAX; i++) {
        const int r = (int)(i / COUNT_MAX);
        reference_input(inputs_of[r] + r % 3 + i % COUNT_MAX * kernel->element_bytes, type, r,
                        i % COUNT_MAX, 3);
    }
    filled = type;
    for (int r = 0; r < n; r++) {
        memcpy(places[r], inputs_of[r], sizeof places[r]);
        parts[r] = places[r] + r % 3;
    }
    fold(kernel, expected, parts, n, count);
    if (kernel->divide != NULL) {
        kernel->divide(expected, count, n);
    }
    memset(apart, GUARD, sizeof apart);
    uint8_t *outs[] = {apart[0] + 1, parts[n / 2], apart[1] + 64};
    const coll_tree tree = {.kernel = kernel,
                            .operands = (const uint8_t *const *)parts,
                            .operand_count = n,
                            .divisor = n};
    coll_tree_spread(&tree, outs, 3, count);
    for (int o = 0; o < 3; o++) {
        assert_memory_equal(outs[o], expected, bytes);
    }
    check_guards(apart[0], bytes);
    for (size_t i = 0; i < 64; i++) {
        assert_int_equal(apart[1][i], GUARD);
        assert_int_equal(outs[2][bytes + i], GUARD);
    }
    /* And to where all of them are, as the owner of a slice does. */
    fold(kernel, expected, parts, n, count);
    if (kernel->divide != NULL) {
        kernel->divide(expected, count, n);
    }
    coll_tree_spread(&tree, parts, n, count);
    for (int r = 0; r < n; r++) {
        assert_memory_equal(parts[r], expected, bytes);
    }
}

static void test_spread(void **state)
{
    static const int sizes[] = {1, 2, 3, 4, 7, 8, COLL_RANKS_MAX};
    static const size_t counts[] = {0, 1, 15, 33, 64, 65, 128, 257};
    const coll_kernel *kernel = NULL;
    const char *name = "";
    (void)state;
    for (int type = COLL_FLOAT32; type <= COLL_TYPE_LAST; type++) {
        for (int reduce = COLL_SUM; reduce <= COLL_REDUCE_OP_LAST; reduce++) {
            for (int set = 0; (kernel = coll_kernel_find_in(set, (coll_type)type,
                                                            (coll_reduce_op)reduce, &name)) != NULL;
                 set++) {
                for (size_t i = 0; kernel->wide == NULL && i < 7 * 8; i++) {
                    check_spread(kernel, (coll_type)type, sizes[i % 7], counts[i / 7]);
                }
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_reference),
        cmocka_unit_test(test_sets_agree),
        cmocka_unit_test(test_conversions),
        cmocka_unit_test(test_tree_order),
        cmocka_unit_test(test_spread),
        cmocka_unit_test(test_many_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
