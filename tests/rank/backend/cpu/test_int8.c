/* Matrices in int8: how they are packed, and their products, against plain loops. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/kernels.h"
#include "numbers.h"
#include "support.h"

enum {
    ROWS_MAX = 131,
    COLUMNS_MAX = 97,
    DEPTH_MAX = 2240, /* more than many rows meet at a time */
    PACKED_MAX = (COLUMNS_MAX + RANK_PANEL) * DEPTH_MAX,
};

typedef struct operands {
    float a[ROWS_MAX * DEPTH_MAX];
    float b[DEPTH_MAX * COLUMNS_MAX];
    float turned[DEPTH_MAX * COLUMNS_MAX];
    uint16_t packed[2][PACKED_MAX];
    float scratch[(ROWS_MAX + RANK_PANEL) * DEPTH_MAX];
    float c[2][ROWS_MAX * (COLUMNS_MAX + 1)];
} operands;

/* A matrix whose blocks have different scales, some of them zero, and rows of a likewise. */
static operands *make_operands(size_t depth, size_t columns)
{
    operands *all = calloc(1, sizeof *all);
    assert_non_null(all);
    fill(all->a, ROWS_MAX * depth, 1);
    fill(all->b, depth * columns, 2);
    for (size_t i = 0; i < depth * columns; i++) {
        const size_t column = i % columns;
        const size_t k = i / columns;
        all->b[i] = ldexpf(all->b[i], (int)((k / 7 + column) % 5) - 8) * (float)(column % 11 != 10);
        all->turned[column * depth + k] = all->b[i];
    }
    return all;
}

/* Packs leaf by leaf, as shards do, and all columns of each from rows or from columns. */
static void pack(const rank_kernels *kernels, operands *all, size_t depth, size_t columns,
                 int leaves, bool transposed, uint16_t *to)
{
    const size_t leaf = depth / (size_t)leaves;
    const size_t packed = rank_pack_depth(RANK_INT8, depth, leaves);
    for (int i = 0; i < leaves; i++) {
        const size_t first = (size_t)i * leaf;
        kernels->pack(&(rank_pack){
            .depth = leaf,
            .columns = columns,
            .from = transposed ? all->turned + first : all->b + first * columns,
            .from_row = transposed ? depth : columns,
            .transposed = transposed,
            .to = to + (size_t)i * rank_int8_rows(leaf) * RANK_PANEL,
            .to_panel = packed * RANK_PANEL,
            .to_type = RANK_INT8,
        });
    }
}

static rank_bfloat16 nearest(float value)
{
    uint32_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    return (rank_bfloat16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float largest(const float *at, size_t count, size_t step)
{
    float most = 0;
    for (size_t i = 0; i < count; i++) {
        most = fmaxf(most, fabsf(at[i * step]));
    }
    return most;
}

/* A block's term of c, by the definition: *exact is what float32 weights would give, *bound how far
 * from it rounding may lead. */
typedef struct term {
    float sum;
    float scale;
    double exact;
    double bound;
} term;

static term block_term(const float *x, const float *w, size_t columns, size_t count)
{
    term of = {.sum = 0};
    int32_t sum = 0;
    const float w_scale = widened(nearest(largest(w, count, columns) / 127));
    const float x_scale = largest(x, count, 1) / 32767;
    for (size_t k = 0; k < count; k++) {
        const float number = w[k * columns];
        const int q = w_scale > 0 ? (int)rintf(number / w_scale) : 0;
        const int p = x_scale > 0 ? (int)rintf(x[k] / x_scale) : 0;
        assert_in_range(q + 127, 0, 254);
        assert_true(fabs((double)q * w_scale - (double)number) <= 0.5 * (double)w_scale * 1.0001);
        sum += q * p;
        of.exact += (double)x[k] * (double)number;
        of.bound +=
            0.501 * (double)w_scale * fabs((double)x[k]) + (double)x_scale * fabs((double)number);
    }
    of.sum = (float)sum;
    of.scale = w_scale * x_scale;
    return of;
}

/* The leaves first … first + count, as a tree. */
static float leaves_sum(const float *x, const float *w, size_t columns, size_t leaf, int count,
                        double *exact, double *bound)
{
    if (count > 1) {
        const size_t half = leaf * (size_t)(count / 2);
        const float low = leaves_sum(x, w, columns, leaf, count / 2, exact, bound);
        return low +
               leaves_sum(x + half, w + half * columns, columns, leaf, count / 2, exact, bound);
    }
    float sum = 0;
    for (size_t k = 0; k < leaf; k += 32) {
        const term of = block_term(x + k, w + k * columns, columns, leaf - k < 32 ? leaf - k : 32);
        sum = fmaf(of.sum, of.scale, sum);
        *exact += of.exact;
        *bound += of.bound;
    }
    return sum;
}

static void check_product(const operands *all, const rank_product *args, bool fuses)
{
    const size_t columns = args->columns;
    for (size_t i = 0; i < args->rows * columns; i++) {
        double exact = 0;
        double bound = 1e-5;
        const float *x = all->a + i / columns * args->depth;
        const float wanted =
            leaves_sum(x, all->b + i % columns, columns, args->depth / (size_t)args->leaves,
                       args->leaves, &exact, &bound);
        const float got = all->c[0][i / columns * args->c_row + i % columns];
        if (fuses) {
            assert_memory_equal(&got, &wanted, sizeof got);
        }
        assert_true(fabs((double)(got - wanted)) <= 1e-5 * (1 + fabs((double)wanted)));
        assert_true(fabs((double)got - exact) <= bound);
    }
}

/* The last row alone has the bits that it has beside the others. */
static void check_one_row(operands *all, const rank_kernels *kernels, rank_product args)
{
    const size_t last = args.rows - 1;
    const float *const there = all->c[0] + last * args.c_row;
    args.a = all->a + last * args.depth;
    args.c = all->c[1];
    args.rows = 1;
    kernels->product(&args);
    assert_memory_equal(all->c[1], there, args.columns * sizeof(float));
}

static void try_shape(size_t rows, size_t columns, size_t depth, int leaves)
{
    operands *all = make_operands(depth, columns);
    rank_product args = {.rows = rows,
                         .columns = columns,
                         .depth = depth,
                         .a = all->a,
                         .a_row = depth,
                         .a_depth = 1,
                         .b = all->packed[0],
                         .b_type = RANK_INT8,
                         .scratch = all->scratch,
                         .c = all->c[0],
                         .c_row = columns + 1,
                         .leaves = leaves};
    const size_t packed_bytes =
        rank_pack_count(rank_pack_depth(RANK_INT8, depth, leaves), columns) * 2;
    assert_true(packed_bytes <= sizeof all->packed[0]);
    assert_true(rank_narrow_scratch(RANK_INT8, rows, depth, leaves) * sizeof(float) <=
                sizeof all->scratch);
    const rank_kernels *kernels = NULL;
    for (int isa = 0; (kernels = rank_kernels_at(isa)) != NULL; isa++) {
        pack(kernels, all, depth, columns, leaves, false, all->packed[0]);
        pack(kernels, all, depth, columns, leaves, true, all->packed[1]);
        assert_memory_equal(all->packed[0], all->packed[1], packed_bytes);
        memset(all->c, 0xff, sizeof all->c);
        kernels->product(&args);
        check_product(all, &args, isa != 0);
        check_one_row(all, kernels, args);
        assert_true(isnan(all->c[0][columns])); /* between the rows nothing is written */
    }
    free(all);
}

static void every_shape_has_the_bits_of_the_definition(void **state)
{
    (void)state;
    static const size_t rows[] = {1, 2, 3, 5, 6, 14, 15, 18, 43, 131};
    static const size_t columns[] = {1, 31, 32, 33, 97};
    static const struct {
        size_t depth;
        int leaves;
    } sums[] = {{1, 1}, {20, 1}, {6, 2}, {33, 1}, {48, 4}, {640, 8}, {257, 1}, {144, 16}, {100, 2}};
    for (size_t i = 0; i < 90; i++) {
        try_shape(rows[i % 10], columns[i / 2 % 5], sums[i % 9].depth, sums[i % 9].leaves);
    }
}

/* Many rows meet the depth in pieces, if it is one leaf, and whole blocks in each. */
static void a_long_depth_has_them_too(void **state)
{
    (void)state;
    try_shape(47, 33, DEPTH_MAX, 1);
    try_shape(16, 40, DEPTH_MAX - 3, 1);
    try_shape(47, 33, DEPTH_MAX, 2);
}

/* Halves of the depth, packed by themselves, add up to the whole: a rank has the same blocks. */
static void halves_of_the_depth_add_up_to_the_whole(void **state)
{
    (void)state;
    enum { DEPTH = 8 * 20, COLUMNS = 33, ROWS = 5, HALF = DEPTH / 2 };
    const rank_kernels *kernels = rank_kernels_get();
    operands *all = make_operands(DEPTH, COLUMNS);
    float c[3][ROWS * COLUMNS];
    for (int part = 0; part < 3; part++) {
        const size_t depth = part == 0 ? DEPTH : HALF;
        const int leaves = part == 0 ? 8 : 4;
        operands *own = make_operands(DEPTH, COLUMNS);
        if (part == 2) {
            memmove(own->b, own->b + HALF * COLUMNS, sizeof(float) * HALF * COLUMNS);
        }
        pack(kernels, own, depth, COLUMNS, leaves, false, own->packed[0]);
        kernels->product(&(rank_product){.rows = ROWS,
                                         .columns = COLUMNS,
                                         .depth = depth,
                                         .a = all->a + (part == 2 ? HALF : 0),
                                         .a_row = DEPTH,
                                         .a_depth = 1,
                                         .b = own->packed[0],
                                         .b_type = RANK_INT8,
                                         .scratch = own->scratch,
                                         .c = c[part],
                                         .c_row = COLUMNS,
                                         .leaves = leaves});
        free(own);
    }
    for (size_t i = 0; i < ROWS * COLUMNS; i++) {
        assert_true(c[0][i] == c[1][i] + c[2][i]);
    }
    free(all);
}

/* A token's row of a packed table is what its products read. */
static void an_embedding_has_the_same_numbers(void **state)
{
    (void)state;
    enum { TOKENS = 70 };
    static const size_t widths[] = {20, 32, 77};
    static const int32_t ids[] = {0, 31, 32, 69, 70, 11};
    for (size_t i = 0; i < 3; i++) {
        const size_t width = widths[i];
        operands *all = make_operands(width, TOKENS);
        pack(rank_kernels_get(), all, width, TOKENS, 1, true, all->packed[0]);
        rank_kernels_get()->embed_packed(&(rank_embed_packed){.tokens = 6,
                                                              .width = width,
                                                              .ids = ids,
                                                              .columns = TOKENS,
                                                              .wte = all->packed[0],
                                                              .wte_type = RANK_INT8,
                                                              .out = all->c[0]});
        for (size_t j = 0; j < 6 * width; j++) {
            const size_t id = (size_t)ids[j / width];
            const float *row = all->turned + id * width;
            const size_t block = j % width / 32 * 32;
            const size_t count = width - block < 32 ? width - block : 32;
            const float scale =
                id < TOKENS ? widened(nearest(largest(row + block, count, 1) / 127)) : 0;
            const float wanted = scale > 0 ? rintf(row[j % width] / scale) * scale : 0;
            assert_true(all->c[0][j] == wanted);
        }
        free(all);
    }
}

/* What is not a number, or infinite, stays so: in a weight's column, and in a row of a. */
static void what_is_not_finite_is_not_lost(void **state)
{
    (void)state;
    enum { DEPTH = 70, COLUMNS = 40, ROWS = 3 };
    static const float odd[] = {NAN, INFINITY, -INFINITY};
    const rank_kernels *kernels = rank_kernels_get();
    for (int i = 0; i < 6; i++) {
        operands *all = make_operands(DEPTH, COLUMNS);
        const bool weight = i % 2 == 0;
        (weight ? all->b : all->a)[weight ? 67 * COLUMNS + 33 : DEPTH + 69] = odd[i / 2];
        pack(kernels, all, DEPTH, COLUMNS, 1, false, all->packed[0]);
        kernels->product(&(rank_product){.rows = ROWS,
                                         .columns = COLUMNS,
                                         .depth = DEPTH,
                                         .a = all->a,
                                         .a_row = DEPTH,
                                         .a_depth = 1,
                                         .b = all->packed[0],
                                         .b_type = RANK_INT8,
                                         .scratch = all->scratch,
                                         .c = all->c[0],
                                         .c_row = COLUMNS,
                                         .leaves = 1});
        for (size_t j = 0; j < ROWS * COLUMNS; j++) {
            const bool touched = weight ? j % COLUMNS == 33 : j / COLUMNS == 1;
            assert_int_equal(isfinite(all->c[0][j]) != 0, !touched);
        }
        free(all);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_shape_has_the_bits_of_the_definition),
        cmocka_unit_test(a_long_depth_has_them_too),
        cmocka_unit_test(halves_of_the_depth_add_up_to_the_whole),
        cmocka_unit_test(an_embedding_has_the_same_numbers),
        cmocka_unit_test(what_is_not_finite_is_not_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
