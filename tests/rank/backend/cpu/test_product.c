/* Products of packed matrices: the very bits of the chains that kernels.h promises, whatever the
 * shape of the product, and on every instruction set with fused multiply-add. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/kernels.h"
#include "numbers.h"
#include "random.h"
#include "support.h"

enum { ROWS_MAX = 131, COLUMNS_MAX = 100, DEPTH_MAX = 640 };

typedef struct operands {
    float a[ROWS_MAX * DEPTH_MAX];
    float b[DEPTH_MAX * COLUMNS_MAX];
    float packed[(COLUMNS_MAX + RANK_PANEL) * DEPTH_MAX];
    float c[ROWS_MAX * COLUMNS_MAX];
    float expected[ROWS_MAX * COLUMNS_MAX];
} operands;

/* sum and the chain over a range of the depth. */
static float chain(const operands *all, const rank_product *args, const size_t at[2], rank_leaf of,
                   float sum)
{
    for (size_t k = of.first; k < of.first + of.depth; k++) {
        sum = fmaf(all->a[at[0] * args->a_row + k * args->a_depth],
                   all->b[k * args->columns + at[1]], sum);
    }
    return sum;
}

static float leaf_sum(const operands *all, const rank_product *args, const size_t at[2],
                      size_t leaf)
{
    const size_t leaves = (size_t)args->leaves;
    float sum = args->accumulate ? all->c[at[0] * args->c_row + at[1]] : 0.0f;
    if (args->leaf_depth > 0) {
        const size_t first = leaf * args->leaf_depth;
        const size_t end = first + args->leaf_depth;
        return first < args->depth
                   ? chain(all, args, at,
                           (rank_leaf){first, (end < args->depth ? end : args->depth) - first}, sum)
                   : sum;
    }
    const size_t one[RANK_DEPTH_PARTS] = {args->depth};
    const size_t *parts = args->parts[0] > 0 ? args->parts : one;
    size_t begin = 0;
    for (int part = 0; part < RANK_DEPTH_PARTS; part++) {
        const size_t share = parts[part] / leaves;
        sum = chain(all, args, at, (rank_leaf){begin + leaf * share, share}, sum);
        begin += parts[part];
    }
    return sum;
}

/* Leaves first … first + count of element (row, column), as the balanced tree adds them. */
static float tree(const operands *all, const rank_product *args, const size_t at[2], int first,
                  int count)
{
    if (count == 1) {
        return leaf_sum(all, args, at, (size_t)first);
    }
    const float left = tree(all, args, at, first, count / 2);
    return left + tree(all, args, at, first + count / 2, count / 2);
}

static void expect(operands *all, const rank_product *args)
{
    for (size_t row = 0; row < args->rows; row++) {
        for (size_t column = 0; column < args->columns; column++) {
            all->expected[row * args->c_row + column] =
                tree(all, args, (const size_t[]){row, column}, 0, args->leaves);
        }
    }
}

/* How b is handed in. */
typedef enum layout {
    PACKED,
    AS_IT_IS,  /* its rows near each other, and next to nothing behind the last */
    FAR_APART, /* with room to pack it */
    TRANSPOSED,
    TRANSPOSED_FAR_APART,
    LAYOUTS,
} layout;

enum { FAR_ROW = 1100 };

/* b as the layout has it, in memory of its own length. */
static float *lay_out(const operands *all, rank_product *args, layout how)
{
    const bool far = how == FAR_APART || how == TRANSPOSED_FAR_APART;
    const bool transposed = how == TRANSPOSED || how == TRANSPOSED_FAR_APART;
    const size_t rows = transposed ? args->columns : args->depth;
    const size_t columns = transposed ? args->depth : args->columns;
    const size_t row = far ? FAR_ROW : columns;
    float *b = malloc(((rows > 0 ? rows - 1 : 0) * row + columns + 1) * sizeof *b);
    assert_non_null(b);
    for (size_t k = 0; k < args->depth; k++) {
        for (size_t j = 0; j < args->columns; j++) {
            b[transposed ? j * row + k : k * row + j] = all->b[k * args->columns + j];
        }
    }
    args->b = b;
    args->b_row = row;
    args->b_transposed = transposed;
    args->scratch = far ? (float *)all->packed : NULL;
    return b;
}

static void run(operands *all, const rank_kernels *kernels, rank_product args, layout how)
{
    float *b = NULL;
    test_random_floats(all->c, ROWS_MAX * COLUMNS_MAX, 1, 3);
    if (how == PACKED) {
        kernels->pack(&(rank_pack){.depth = args.depth,
                                   .columns = args.columns,
                                   .from = all->b,
                                   .from_row = args.columns,
                                   .to = all->packed,
                                   .to_panel = args.depth * RANK_PANEL});
    } else {
        b = lay_out(all, &args, how);
    }
    kernels->product(&args);
    free(b);
}

/* The reference and every instruction set, for one shape. */
static void compare(operands *all, rank_product args)
{
    test_random_floats(all->a, ROWS_MAX * DEPTH_MAX, 1, 1);
    test_random_floats(all->b, args.depth * args.columns, 1, 2);
    args.a = all->a;
    args.b = all->packed;
    args.c = all->c;
    args.c_row = args.columns + 3;
    test_random_floats(all->c, ROWS_MAX * COLUMNS_MAX, 1, 3);
    test_random_floats(all->expected, ROWS_MAX * COLUMNS_MAX, 1,
                       3); /* so what lies between rows is compared too */
    expect(all, &args);
    const rank_kernels *kernels = NULL;
    for (int isa = 1; (kernels = rank_kernels_at(isa)) != NULL; isa++) {
        for (int how = 0; how < (args.parts[0] > 0 ? 1 : LAYOUTS); how++) {
            run(all, kernels, args, (layout)how);
            if (memcmp(all->c, all->expected, sizeof all->c) != 0) {
                fail_msg("%s: %zu × %zu × %zu, %d leaves, accumulate %d, a_row %zu, layout %d",
                         kernels->name, args.rows, args.columns, args.depth, args.leaves,
                         args.accumulate, args.a_row, how);
            }
        }
    }
}

static operands *new_operands(void)
{
    operands *all = calloc(1, sizeof *all);
    assert_non_null(all);
    return all;
}

static void every_shape_has_the_bits_of_the_chains(void **state)
{
    (void)state;
    static const size_t rows[] = {1, 2, 3, 4, 5, 6, 7, 13, 14, 15, 16, 17, 113, 131};
    static const size_t columns[] = {1, 8, 31, 32, 33, 64, 97};
    static const size_t depths[] = {0, 1, 16, 48, 255, 256, 257, 640};
    operands *all = new_operands();
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        for (size_t c = 0; c < sizeof columns / sizeof *columns; c++) {
            const size_t depth = depths[(r + 3 * c) % (sizeof depths / sizeof *depths)];
            compare(all, (rank_product){.rows = rows[r],
                                        .columns = columns[c],
                                        .depth = depth,
                                        .a_row = depth,
                                        .a_depth = 1,
                                        .leaves = 1,
                                        .accumulate = (int)((r + c) % 2)});
        }
    }
    free(all);
}

static void leaves_are_added_as_a_balanced_tree(void **state)
{
    (void)state;
    static const size_t rows[] = {1, 3, 6, 14, 20, 126, 131};
    operands *all = new_operands();
    for (int leaves = 1; leaves <= RANK_LEAVES_MAX; leaves *= 2) {
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
            compare(all, (rank_product){.rows = rows[r],
                                        .columns = 33,
                                        .depth = 640,
                                        .a_row = 640,
                                        .a_depth = 1,
                                        .leaves = leaves});
        }
    }
    free(all);
}

/* As the columns of a vocabulary: the last leaf is shorter, or some have none. */
static void leaves_may_be_cut_short(void **state)
{
    (void)state;
    static const size_t depths[] = {640, 601, 321, 320, 33, 7};
    operands *all = new_operands();
    for (size_t i = 0; i < sizeof depths / sizeof *depths; i++) {
        for (size_t rows = 1; rows <= 31; rows += 6) {
            compare(all, (rank_product){.rows = rows,
                                        .columns = 65 - i,
                                        .depth = depths[i],
                                        .a_row = depths[i] + 9,
                                        .a_depth = 1,
                                        .leaves = 16,
                                        .leaf_depth = depths[i] > 512 ? 40 : 32});
        }
    }
    free(all);
}

/* As heads of queries, keys and values. */
static void leaves_may_have_a_share_of_each_part(void **state)
{
    (void)state;
    static const size_t parts[][RANK_DEPTH_PARTS] = {{64, 64, 64}, {128, 32, 32}, {96, 96, 0}};
    operands *all = new_operands();
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        for (int leaves = 1; leaves <= RANK_LEAVES_MAX; leaves *= 2) {
            compare(all, (rank_product){.rows = 5 * i + (size_t)leaves,
                                        .columns = 33,
                                        .depth = parts[i][0] + parts[i][1] + parts[i][2],
                                        .a_row = 200,
                                        .a_depth = 1,
                                        .leaves = leaves,
                                        .parts = {parts[i][0], parts[i][1], parts[i][2]}});
        }
    }
    free(all);
}

static void an_operand_may_be_read_by_columns(void **state)
{
    (void)state;
    operands *all = new_operands();
    for (size_t rows = 1; rows <= 29; rows += 7) {
        compare(all, (rank_product){.rows = rows,
                                    .columns = 40,
                                    .depth = 300,
                                    .a_row = 1,
                                    .a_depth = rows + 2,
                                    .leaves = 1,
                                    .accumulate = 1});
    }
    free(all);
}

/* Two halves of the depth on two ranks, and their sums added, are the whole's tree. */
static void halves_of_the_depth_add_up_to_the_whole(void **state)
{
    (void)state;
    enum { ROWS = 3, COLUMNS = 40, DEPTH = 256 };
    static float a[ROWS * DEPTH];
    static float b[DEPTH * COLUMNS];
    static float packed[2 * RANK_PANEL * DEPTH];
    static float c[3][ROWS * COLUMNS];
    const rank_kernels *kernels = rank_kernels_get();
    test_random_floats(a, ROWS * DEPTH, 1, 5);
    test_random_floats(b, DEPTH * COLUMNS, 1, 6);
    for (int part = 0; part < 3; part++) { /* the whole, the first half, the second half */
        const size_t depth = part == 0 ? DEPTH : DEPTH / 2;
        const size_t first = part == 2 ? DEPTH / 2 : 0;
        kernels->pack(&(rank_pack){.depth = depth,
                                   .columns = COLUMNS,
                                   .from = b + first * COLUMNS,
                                   .from_row = COLUMNS,
                                   .to = packed,
                                   .to_panel = depth * RANK_PANEL});
        kernels->product(&(rank_product){.rows = ROWS,
                                         .columns = COLUMNS,
                                         .depth = depth,
                                         .a = a + first,
                                         .a_row = DEPTH,
                                         .a_depth = 1,
                                         .b = packed,
                                         .c = c[part],
                                         .c_row = COLUMNS,
                                         .leaves = part == 0 ? 8 : 4});
    }
    for (size_t i = 0; i < ROWS * COLUMNS; i++) {
        assert_true(c[0][i] == c[1][i] + c[2][i]);
    }
}

/* b packed in one type and in the other, as rows and as columns; then both products. */
static void compare_types(operands *all, const rank_kernels *kernels, rank_product args)
{
    static float turned[DEPTH_MAX * COLUMNS_MAX];
    static float widened_panel[DEPTH_MAX * RANK_PANEL];
    static rank_bfloat16 half[2][(COLUMNS_MAX + RANK_PANEL) * DEPTH_MAX];
    static float c[ROWS_MAX * COLUMNS_MAX];
    test_random_floats(all->a, ROWS_MAX * DEPTH_MAX, 1, 1);
    test_random_floats(all->b, args.depth * args.columns, 1, 2);
    for (size_t i = 0; i < args.depth * args.columns; i++) {
        all->b[i] = widened(upper(all->b[i]));
        turned[i % args.columns * args.depth + i / args.columns] = all->b[i];
    }
    rank_pack pack = {.depth = args.depth,
                      .columns = args.columns,
                      .from = all->b,
                      .from_row = args.columns,
                      .to = all->packed,
                      .to_panel = args.depth * RANK_PANEL};
    kernels->pack(&pack);
    pack.to_type = RANK_BFLOAT16;
    pack.to = half[0];
    kernels->pack(&pack);
    pack.from = turned;
    pack.from_row = args.depth;
    pack.transposed = true;
    pack.to = half[1];
    kernels->pack(&pack);
    const size_t count = rank_pack_count(args.depth, args.columns);
    assert_memory_equal(half[0], half[1], count * sizeof half[0][0]);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(half[0][i], upper(all->packed[i]));
    }
    test_random_floats(all->c, ROWS_MAX * COLUMNS_MAX, 1, 3);
    test_random_floats(c, ROWS_MAX * COLUMNS_MAX, 1, 3);
    args.a = all->a;
    args.b = all->packed;
    args.c = c;
    args.c_row = args.columns + 1;
    kernels->product(&args);
    args.b = half[0];
    args.b_type = RANK_BFLOAT16;
    args.c = all->c;
    kernels->product(&args);
    assert_memory_equal(all->c, c, sizeof c);
    test_random_floats(all->c, ROWS_MAX * COLUMNS_MAX, 1, 3);
    args.scratch = widened_panel;
    kernels->product(&args);
    assert_memory_equal(all->c, c, sizeof c);
}

static void bfloat16_has_the_bits_of_the_same_numbers(void **state)
{
    (void)state;
    static const size_t rows[] = {1, 2, 3, 5, 6, 14, 15, 41, 42, 43, 131};
    static const size_t columns[] = {1, 31, 32, 33, 97};
    operands *all = new_operands();
    const rank_kernels *kernels = NULL;
    for (int isa = 0; (kernels = rank_kernels_at(isa)) != NULL; isa++) {
        for (size_t i = 0; i < 55; i++) {
            const size_t depth = i % 3 == 0 ? 48 : i % 3 == 1 ? 257 : 640;
            compare_types(all, kernels,
                          (rank_product){.rows = rows[i % 11],
                                         .columns = columns[i % 5],
                                         .depth = depth,
                                         .a_row = depth,
                                         .a_depth = 1,
                                         .leaves = depth == 257 ? 1 : 1 << i % 4,
                                         .accumulate = depth == 257 && i % 2 == 0});
        }
    }
    free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape_has_the_bits_of_the_chains),
        cmocka_unit_test(leaves_are_added_as_a_balanced_tree),
        cmocka_unit_test(leaves_may_be_cut_short),
        cmocka_unit_test(leaves_may_have_a_share_of_each_part),
        cmocka_unit_test(an_operand_may_be_read_by_columns),
        cmocka_unit_test(halves_of_the_depth_add_up_to_the_whole),
        cmocka_unit_test(bfloat16_has_the_bits_of_the_same_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
