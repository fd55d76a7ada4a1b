/* Matrices in blocks, int8 and int4: how they are packed, and their products, against plain loops. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/kernels.h"
#include "numbers.h"
#include "random.h"
#include "support.h"

enum {
    ROWS_MAX = 131,
    COLUMNS_MAX = 97,
    DEPTH_MAX = 3700, /* more than many rows meet at a time: 3616 numbers of int4 */
    PACKED_MAX = (COLUMNS_MAX + RANK_PANEL) * DEPTH_MAX,
};

static const rank_type types[] = {RANK_INT8, RANK_INT4};

typedef struct operands {
    rank_type type; /* of b */
    float a[ROWS_MAX * DEPTH_MAX];
    float b[DEPTH_MAX * COLUMNS_MAX];
    float turned[DEPTH_MAX * COLUMNS_MAX];
    uint16_t packed[2][PACKED_MAX];
    float scratch[(ROWS_MAX + RANK_PANEL) * DEPTH_MAX];
    int8_t q[DEPTH_MAX * COLUMNS_MAX];    /* b's numbers, by the definition, */
    float scale[DEPTH_MAX * COLUMNS_MAX]; /* and their scales */
    float c[2][ROWS_MAX * (COLUMNS_MAX + 1)];
} operands;

/* A matrix whose blocks have different scales, some of them zero, and rows of a likewise. */
static operands *make_operands(rank_type type, size_t depth, size_t columns)
{
    operands *all = calloc(1, sizeof *all);
    assert_non_null(all);
    all->type = type;
    test_random_floats(all->a, ROWS_MAX * depth, 1, 1);
    test_random_floats(all->b, depth * columns, 1, 2);
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
    const size_t packed = rank_pack_depth(all->type, depth, leaves);
    for (int i = 0; i < leaves; i++) {
        const size_t first = (size_t)i * leaf;
        kernels->pack(&(rank_pack){
            .depth = leaf,
            .columns = columns,
            .from = transposed ? all->turned + first : all->b + first * columns,
            .from_row = transposed ? depth : columns,
            .transposed = transposed,
            .to = to + (size_t)i * rank_pack_depth(all->type, leaf, 1) * RANK_PANEL,
            .to_panel = packed * RANK_PANEL,
            .to_type = all->type,
        });
    }
}

static float bfloat16_of(float value)
{
    uint32_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    return widened((rank_bfloat16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16));
}

static float largest(const float *at, size_t count, size_t step)
{
    float most = 0;
    for (size_t i = 0; i < count; i++) {
        most = fmaxf(most, fabsf(at[i * step]));
    }
    return most;
}

static int rounded(rank_type type, float number, float scale)
{
    const int q = scale != 0 ? (int)rintf(number / scale) : 0;
    return type == RANK_INT8 ? q : q < -8 ? -8 : q > 7 ? 7 : q;
}

static float sum_errors(const float *w, size_t count, size_t step, float scale)
{
    float sum = 0;
    for (size_t i = 0; i < count; i++) {
        const float error = w[i * step] - (float)rounded(RANK_INT4, w[i * step], scale) * scale;
        sum += error * error;
    }
    return sum;
}

/* Of int4. */
static float best_scale(const float *w, size_t count, size_t step)
{
    float of = 0; /* the number whose magnitude is largest */
    float best = 0;
    float least = INFINITY;
    for (size_t i = 0; i < count; i++) {
        of = fabsf(w[i * step]) > fabsf(of) ? w[i * step] : of;
    }
    for (int quarters = 28; quarters <= 36; quarters++) {
        const float scale = bfloat16_of(of / ((float)quarters / -4));
        const float sum = sum_errors(w, count, step, scale);
        best = sum < least ? scale : best;
        least = fminf(sum, least);
    }
    return best;
}

/* A block of a column, whose first number is number `first` of b. No number is off by more than half a step; but with
 * 4 bits the largest ones may be 9 steps, on the side where 7 is the most. */
static void define_block(operands *all, size_t first, size_t count, size_t columns)
{
    const float *w = all->b + first;
    const float scale = all->type == RANK_INT8 ? bfloat16_of(largest(w, count, columns) / 127)
                                               : best_scale(w, count, columns);
    const int most = all->type == RANK_INT8 ? 127 : 8;
    const double steps = all->type == RANK_INT8 ? 0.5 : 2.0;
    for (size_t i = 0; i < count; i++) {
        const float number = w[i * columns];
        const int q = rounded(all->type, number, scale);
        assert_in_range(q + most, 0, 2 * most - (all->type == RANK_INT4));
        assert_true(fabs((double)q * scale - number) <= steps * fabs((double)scale) * 1.01);
        all->q[first + i * columns] = (int8_t)q;
        all->scale[first + i * columns] = scale;
    }
}

/* What b becomes. */
static void define(operands *all, size_t depth, size_t columns, int leaves)
{
    const size_t leaf = depth / (size_t)leaves;
    for (size_t column = 0; column < columns; column++) {
        for (size_t k = 0, count = 0; k < depth; k += count) {
            const size_t left = leaf - k % leaf;
            count = left < 32 ? left : 32;
            define_block(all, k * columns + column, count, columns);
        }
    }
}

/* A block's term of c: `exact` is what float32 weights would give, `bound` how far from it rounding may lead. */
typedef struct term {
    float sum;
    float scale;
    double exact;
    double bound;
} term;

static term block_term(const operands *all, const float *x, size_t first, size_t columns,
                       size_t count)
{
    term of = {.sum = 0};
    int32_t sum = 0;
    const float x_scale = largest(x, count, 1) / 32767;
    for (size_t k = 0; k < count; k++) {
        const size_t at = first + k * columns;
        const int p = x_scale > 0 ? (int)rintf(x[k] / x_scale) : 0;
        const double number = all->b[at];
        sum += all->q[at] * p;
        of.exact += (double)x[k] * number;
        of.bound += fabs((double)all->q[at] * all->scale[at] - number) * fabs((double)x[k]) +
                    0.51 * (double)x_scale * fabs((double)all->q[at] * all->scale[at]);
    }
    of.sum = (float)sum;
    of.scale = all->scale[first] * x_scale;
    return of;
}

/* A row of a and a column of b, and what float32 weights would give: `exact`, from which rounding may lead as far as
 * `bound`. */
typedef struct pairing {
    const operands *all;
    size_t columns;
    size_t leaf;
    double exact;
    double bound;
} pairing;

/* Of `count` leaves, whose first number is number `first` of b, as a tree. */
static float leaves_sum(pairing *of, const float *x, size_t first, int count)
{
    float sum = 0;
    if (count > 1) {
        const size_t half = of->leaf * (size_t)(count / 2);
        const float low = leaves_sum(of, x, first, count / 2);
        return low + leaves_sum(of, x + half, first + half * of->columns, count / 2);
    }
    for (size_t k = 0; k < of->leaf; k += 32) {
        const size_t left = of->leaf - k;
        const term add =
            block_term(of->all, x + k, first + k * of->columns, of->columns, left < 32 ? left : 32);
        sum = fmaf(add.sum, add.scale, sum);
        of->exact += add.exact;
        of->bound += add.bound;
    }
    return sum;
}

static void check_product(const operands *all, const rank_product *args, bool fuses)
{
    const size_t columns = args->columns;
    for (size_t i = 0; i < args->rows * columns; i++) {
        pairing of = {.all = all,
                      .columns = columns,
                      .leaf = args->depth / (size_t)args->leaves,
                      .bound = 1e-5};
        const float wanted =
            leaves_sum(&of, all->a + i / columns * args->depth, i % columns, args->leaves);
        const float got = all->c[0][i / columns * args->c_row + i % columns];
        if (fuses) {
            assert_memory_equal(&got, &wanted, sizeof got);
        }
        assert_true(fabs((double)(got - wanted)) <= 1e-5 * (1 + fabs((double)wanted)));
        assert_true(fabs((double)got - of.exact) <= of.bound);
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

static void try_type(rank_type type, size_t rows, size_t columns, size_t depth, int leaves)
{
    operands *all = make_operands(type, depth, columns);
    rank_product args = {.rows = rows,
                         .columns = columns,
                         .depth = depth,
                         .a = all->a,
                         .a_row = depth,
                         .a_depth = 1,
                         .b = all->packed[0],
                         .b_type = type,
                         .scratch = all->scratch,
                         .c = all->c[0],
                         .c_row = columns + 1,
                         .leaves = leaves};
    const size_t packed_bytes = rank_pack_count(rank_pack_depth(type, depth, leaves), columns) * 2;
    assert_true(packed_bytes <= sizeof all->packed[0]);
    assert_true(rank_narrow_scratch(type, rows, depth, leaves) * sizeof(float) <=
                sizeof all->scratch);
    const rank_kernels *kernels = NULL;
    define(all, depth, columns, leaves);
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

static void try_shape(size_t rows, size_t columns, size_t depth, int leaves)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        try_type(types[i], rows, columns, depth, leaves);
    }
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

static void halves_add_up(rank_type type)
{
    enum { DEPTH = 8 * 20, COLUMNS = 33, ROWS = 5, HALF = DEPTH / 2 };
    const rank_kernels *kernels = rank_kernels_get();
    operands *all = make_operands(type, DEPTH, COLUMNS);
    float c[3][ROWS * COLUMNS];
    for (int part = 0; part < 3; part++) {
        const size_t depth = part == 0 ? DEPTH : HALF;
        const int leaves = part == 0 ? 8 : 4;
        operands *own = make_operands(type, DEPTH, COLUMNS);
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
                                         .b_type = type,
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

/* Halves of the depth, packed by themselves, add up to the whole: a rank has the same blocks. */
static void halves_of_the_depth_add_up_to_the_whole(void **state)
{
    (void)state;
    halves_add_up(RANK_INT8);
    halves_add_up(RANK_INT4);
}

/* A token's row of a packed table is what its products read. Words are not held in int4. */
static void an_embedding_has_the_same_numbers(void **state)
{
    (void)state;
    enum { TOKENS = 70 };
    static const size_t widths[] = {20, 32, 77};
    static const int32_t ids[] = {0, 31, 32, 69, 70, 11};
    for (size_t i = 0; i < 3; i++) {
        const size_t width = widths[i];
        operands *all = make_operands(RANK_INT8, width, TOKENS);
        define(all, width, TOKENS, 1);
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
            const size_t at = j % width * TOKENS + id;
            assert_true(all->c[0][j] == (id < TOKENS ? (float)all->q[at] * all->scale[at] : 0));
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
    for (int i = 0; i < 12; i++) {
        const rank_type type = types[i / 6];
        operands *all = make_operands(type, DEPTH, COLUMNS);
        const bool weight = i % 2 == 0;
        (weight ? all->b : all->a)[weight ? 67 * COLUMNS + 33 : DEPTH + 69] = odd[i % 6 / 2];
        pack(kernels, all, DEPTH, COLUMNS, 1, false, all->packed[0]);
        kernels->product(&(rank_product){.rows = ROWS,
                                         .columns = COLUMNS,
                                         .depth = DEPTH,
                                         .a = all->a,
                                         .a_row = DEPTH,
                                         .a_depth = 1,
                                         .b = all->packed[0],
                                         .b_type = type,
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
