/* Parity of operations on bfloat16: the CPU computes with float32, from the same values.
 *
 * Tolerances are relative to 1 + |expected|. A result is rounded to eight bits, so 2^-8 is what a
 * rounding may change, and twice that what it may change where a sum differs, too. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cases.h"
#include "support.h"

#define ROUNDED 0x1p-7 /* a result in bfloat16 */
#define SUMMED  1e-4   /* a result in float32 from bfloat16 values */

/* To nearest, ties to even, from the definition: in double, where nothing else is rounded. */
static float round_by_definition(float value)
{
    int exponent = 0;
    if (!isfinite(value) || value == 0.0f) {
        return value;
    }
    (void)frexp((double)value, &exponent);
    const int last = exponent > -125 ? exponent - 8 : -133; /* the last place's exponent */
    return (float)ldexp(nearbyint(ldexp((double)value, -last)), last);
}

static void cast(twin *t)
{
    static const float special[] = {0.0f,        -0.0f,           INFINITY,      -INFINITY,
                                    0x1.01p0f,   0x1.03p0f,       0x1.010002p0f, 0x1.00fffep0f,
                                    -0x1.01p0f,  0x1.fffffep127f, 0x1p-149f,     0x1.8p-133f,
                                    0x1.8p-134f, 0x1p-126f};
    enum { SPECIAL = sizeof special / sizeof *special, COUNT_MAX = 3000 };
    base_error error;
    float values[COUNT_MAX];
    const rank_device *device = &t->device[TWIN_OTHER];
    const size_t count = twin_between(t, SPECIAL, COUNT_MAX);
    for (size_t i = 0; i < count; i++) {
        const uint32_t bits = (uint32_t)twin_random(t);
        memcpy(&values[i], &bits, sizeof bits);
        values[i] = isnan(values[i]) ? NAN : values[i];
    }
    memcpy(values, special, sizeof special);
    const int from = twin_copy(t, "from", RANK_MEMORY_WORK, values, count * sizeof *values);
    const int to = twin_elements(t, "to", RANK_BFLOAT16, count, 1.0f);
    device->backend->cast(device->queue, &(rank_cast){.count = count,
                                                      .from = FLOATS(t, from, TWIN_OTHER),
                                                      .to = twin_at(t, to, TWIN_OTHER)});
    void *expected = NULL;
    const rank_device *cpu = &t->device[TWIN_CPU];
    assert_ok(cpu->backend->map(cpu->queue, twin_at(t, to, TWIN_CPU), count * sizeof *values, true,
                                &expected, &error),
              &error);
    for (size_t i = 0; i < count; i++) {
        ((float *)expected)[i] = round_by_definition(values[i]);
    }
    cpu->backend->unmap(cpu->queue, expected);
    twin_tolerate(t, to, -1.0);
    twin_compare(t, "cast");
}

/* Both factors in bfloat16, the product in either type. */
static void product(twin *t)
{
    char shape[PARITY_TEXT_BYTES];
    const size_t rows = twin_between(t, 1, 90);
    const size_t columns = twin_between(t, 1, 100);
    const size_t depth = 16 * twin_between(t, 1, 10);
    const bool a_transposed = twin_between(t, 0, 1) > 0;
    const bool b_transposed = twin_between(t, 0, 1) > 0;
    const size_t a_pitch = (a_transposed ? rows : depth) + twin_between(t, 0, 4);
    const size_t b_pitch = (b_transposed ? depth : columns) + twin_between(t, 0, 4);
    const rank_type type = twin_between(t, 0, 1) > 0 ? RANK_BFLOAT16 : RANK_FLOAT32;
    const bool accumulate = type == RANK_FLOAT32 && twin_between(t, 0, 1) > 0;
    const int leaves = accumulate ? 1 : 1 << twin_between(t, 0, 4); /* cublasLt ignores them */
    const int a = twin_elements(t, "a", RANK_BFLOAT16, (a_transposed ? depth : rows) * a_pitch, 1);
    const int b =
        twin_elements(t, "b", RANK_BFLOAT16, (b_transposed ? columns : depth) * b_pitch, 1);
    const int c = twin_elements(t, "c", type, rows * columns, 1);
    for (int side = 0; side < TWIN_SIDES; side++) {
        const rank_device *device = &t->device[side];
        const bool other = side == TWIN_OTHER;
        device->backend->product(device->queue,
                                 &(rank_product){.rows = rows,
                                                 .columns = columns,
                                                 .depth = depth,
                                                 .a = twin_at(t, a, side),
                                                 .a_type = other ? RANK_BFLOAT16 : RANK_FLOAT32,
                                                 .a_row = a_transposed ? 1 : a_pitch,
                                                 .a_depth = a_transposed ? a_pitch : 1,
                                                 .b = twin_at(t, b, side),
                                                 .b_type = other ? RANK_BFLOAT16 : RANK_FLOAT32,
                                                 .b_row = b_pitch,
                                                 .b_transposed = b_transposed,
                                                 .c = twin_at(t, c, side),
                                                 .c_type = other ? type : RANK_FLOAT32,
                                                 .c_row = columns,
                                                 .leaves = other ? leaves : 1,
                                                 .accumulate = accumulate});
    }
    twin_tolerate(t, c, type == RANK_BFLOAT16 ? ROUNDED : SUMMED);
    (void)snprintf(shape, sizeof shape,
                   "bfloat16 (%zu, %zu)·(%zu, %zu) to type %d, leaves %d, accumulate %d, "
                   "transposed %d %d",
                   rows, depth, depth, columns, (int)type, leaves, accumulate, a_transposed,
                   b_transposed);
    twin_compare(t, shape);
}

const parity_case parity_bfloat16_cases[] = {
    {.name = "bfloat16_cast", .run = cast},
    {.name = "bfloat16_product", .run = product},
    {.name = NULL},
};
