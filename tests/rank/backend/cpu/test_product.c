/* Products of packed matrices: the very bits of the chains that kernels.h promises, whatever the
 * shape of the product, and on every instruction set with fused multiply-add. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/kernels.h"
#include "support.h"

enum { ROWS_MAX = 131, COLUMNS_MAX = 100, DEPTH_MAX = 640 };

typedef struct operands {
    float a[ROWS_MAX * DEPTH_MAX];
    float b[DEPTH_MAX * COLUMNS_MAX];
    float packed[(COLUMNS_MAX + RANK_PANEL) * DEPTH_MAX];
    float c[ROWS_MAX * COLUMNS_MAX];
    float expected[ROWS_MAX * COLUMNS_MAX];
} operands;

static const char *const fused[] = {"avx2", "avx512"};
enum { FUSED_COUNT = 2 };

static void fill(float *values, size_t count, uint32_t seed)
{
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = (float)(int32_t)seed * 0x1p-31f;
    }
}

/* Leaves first … first + count of element (row, column), as the balanced tree adds them. */
static float tree(const operands *all, const rank_product *args, const size_t at[2], int first,
                  int count)
{
    if (count > 1) {
        const float left = tree(all, args, at, first, count / 2);
        return left + tree(all, args, at, first + count / 2, count / 2);
    }
    const size_t depth = args->depth / (size_t)args->leaves;
    const size_t begin = (size_t)first * depth;
    float sum = args->accumulate ? all->c[at[0] * args->c_row + at[1]] : 0.0f;
    for (size_t k = begin; k < begin + depth; k++) {
        sum = fmaf(all->a[at[0] * args->a_row + k * args->a_depth],
                   all->b[k * args->columns + at[1]], sum);
    }
    return sum;
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
    fill(all->c, ROWS_MAX * COLUMNS_MAX, 3);
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
    fill(all->a, ROWS_MAX * DEPTH_MAX, 1);
    fill(all->b, args.depth * args.columns, 2);
    args.a = all->a;
    args.b = all->packed;
    args.c = all->c;
    args.c_row = args.columns + 3;
    fill(all->c, ROWS_MAX * COLUMNS_MAX, 3);
    fill(all->expected, ROWS_MAX * COLUMNS_MAX, 3); /* so what lies between rows is compared too */
    expect(all, &args);
    for (int isa = 0; isa < FUSED_COUNT; isa++) {
        const rank_kernels *kernels = rank_kernels_named(fused[isa]);
        if (kernels == NULL) {
            continue;
        }
        for (int how = 0; how < (args.leaves > 1 ? 1 : LAYOUTS); how++) {
            run(all, kernels, args, (layout)how);
            if (memcmp(all->c, all->expected, sizeof all->c) != 0) {
                fail_msg("%s: %zu × %zu × %zu, %d leaves, accumulate %d, a_row %zu, layout %d",
                         fused[isa], args.rows, args.columns, args.depth, args.leaves,
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
    static const size_t rows[] = {1, 3, 6, 14, 20};
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
    fill(a, ROWS * DEPTH, 5);
    fill(b, DEPTH * COLUMNS, 6);
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

static void a_transposed_matrix_packs_alike(void **state)
{
    (void)state;
    enum { DEPTH = 70, COLUMNS = 83, COUNT = 96 * DEPTH };
    static float b[DEPTH * COLUMNS];
    static float turned[COLUMNS * DEPTH];
    static float packed[2][COUNT];
    assert_int_equal(rank_pack_count(DEPTH, COLUMNS), COUNT);
    fill(b, DEPTH * COLUMNS, 4);
    for (size_t k = 0; k < DEPTH; k++) {
        for (size_t j = 0; j < COLUMNS; j++) {
            turned[j * DEPTH + k] = b[k * COLUMNS + j];
        }
    }
    for (int isa = 0; isa < FUSED_COUNT; isa++) {
        const rank_kernels *kernels = rank_kernels_named(fused[isa]);
        if (kernels == NULL) {
            continue;
        }
        fill(packed[0], COUNT, 7);
        fill(packed[1], COUNT, 8);
        kernels->pack(&(rank_pack){DEPTH, COLUMNS, b, COLUMNS, false, packed[0], DEPTH * RANK_PANEL,
                                   0, RANK_FLOAT32});
        kernels->pack(&(rank_pack){DEPTH, COLUMNS, turned, DEPTH, true, packed[1],
                                   DEPTH * RANK_PANEL, 0, RANK_FLOAT32});
        assert_memory_equal(packed[0], packed[1], sizeof packed[0]);
        assert_true(packed[0][RANK_PANEL + 5] == b[COLUMNS + 5]);
        assert_true(packed[0][2 * RANK_PANEL * DEPTH + RANK_PANEL - 1] == 0.0f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape_has_the_bits_of_the_chains),
        cmocka_unit_test(leaves_are_added_as_a_balanced_tree),
        cmocka_unit_test(an_operand_may_be_read_by_columns),
        cmocka_unit_test(halves_of_the_depth_add_up_to_the_whole),
        cmocka_unit_test(a_transposed_matrix_packs_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
