/* Parity of operations on bfloat16: the CPU computes with float32, from the same values.
 * cases.h has the tolerances. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cases.h"
#include "support.h"

#define SUMMED 1e-4 /* a result in float32 from bfloat16 values */

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
    const bool odd = twin_between(t, 0, 1) > 0; /* as a vocabulary is */
    const size_t depth = odd ? 2 * twin_between(t, 0, 80) + 1 : 16 * twin_between(t, 1, 10);
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
    twin_tolerate(t, c, type == RANK_BFLOAT16 ? PARITY_ROUNDED : SUMMED);
    (void)snprintf(shape, sizeof shape,
                   "bfloat16 (%zu, %zu)·(%zu, %zu) to type %d, leaves %d, accumulate %d, "
                   "transposed %d %d",
                   rows, depth, depth, columns, (int)type, leaves, accumulate, a_transposed,
                   b_transposed);
    twin_compare(t, shape);
}

/* Rows in float32 and a matrix (columns, depth) in bfloat16, as in decoding: of few rows the product
 * is that of these values, of many the rows are rounded, too. */
static void product_few(twin *t)
{
    base_error error;
    char shape[PARITY_TEXT_BYTES];
    void *scratch = NULL;
    const bool vectors = twin_between(t, 0, 3) > 0;
    const size_t rows = twin_between(t, 1, 11);
    const size_t columns = twin_between(t, 1, 40);
    const size_t depth = vectors ? 8 * twin_between(t, 1, 270) : twin_between(t, 1, 70);
    const int a = twin_floats(t, "a", rows * depth, 1.0f);
    const int b = twin_elements(t, "b", RANK_BFLOAT16, columns * depth, 0.3f);
    const int c = twin_floats(t, "c", rows * columns, 1.0f);
    const rank_device *other = &t->device[TWIN_OTHER];
    assert_ok(
        other->backend->alloc(other->queue, RANK_MEMORY_WORK, rows * depth * 2, &scratch, &error),
        &error);
    for (int side = 0; side < TWIN_SIDES; side++) {
        const rank_device *device = &t->device[side];
        device->backend->product(
            device->queue,
            &(rank_product){.rows = rows,
                            .columns = columns,
                            .depth = depth,
                            .a = twin_at(t, a, side),
                            .a_row = depth,
                            .a_depth = 1,
                            .b = twin_at(t, b, side),
                            .b_type = side == TWIN_OTHER ? RANK_BFLOAT16 : RANK_FLOAT32,
                            .b_row = depth,
                            .b_transposed = true,
                            .scratch = side == TWIN_OTHER ? scratch : NULL,
                            .c = twin_at(t, c, side),
                            .c_row = columns,
                            .leaves = 1});
    }
    twin_tolerate(t, c, rows <= 8 ? SUMMED : 4 * PARITY_ROUNDED);
    (void)snprintf(shape, sizeof shape, "float32 (%zu, %zu)·bfloat16 (%zu, %zu)", rows, depth,
                   depth, columns);
    twin_compare(t, shape);
    other->backend->release(other->queue, scratch);
}

/* A matrix that is rounded as it is turned, and read by embed_packed. */
static void turn_and_embed(twin *t)
{
    const size_t depth = twin_between(t, 1, 70);
    const size_t columns = twin_between(t, 1, 70);
    const size_t row = depth + twin_between(t, 0, 3);
    const int from = twin_floats(t, "from", depth * columns, 1.0f);
    const int to = twin_elements(t, "to", RANK_BFLOAT16, columns * row, 1.0f);
    const int ids = twin_ints(t, "ids", 20, -1, (int)columns);
    const int positions = twin_ints(t, "positions", 20, 0, 4);
    const int wpe = twin_floats(t, "wpe", 5 * depth, 1.0f);
    const int out = twin_floats(t, "out", 20 * depth, 1.0f);
    for (int side = 0; side < TWIN_SIDES; side++) {
        const rank_device *device = &t->device[side];
        const rank_type type = side == TWIN_OTHER ? RANK_BFLOAT16 : RANK_FLOAT32;
        device->backend->pack(device->queue, &(rank_pack){.depth = depth,
                                                          .columns = columns,
                                                          .from = FLOATS(t, from, side),
                                                          .from_row = columns,
                                                          .to = twin_at(t, to, side),
                                                          .to_row = row,
                                                          .to_type = type});
        device->backend->embed_packed(device->queue,
                                      &(rank_embed_packed){.tokens = 20,
                                                           .width = depth,
                                                           .ids = INTS(t, ids, side),
                                                           .positions = INTS(t, positions, side),
                                                           .columns = (int32_t)columns,
                                                           .wte = twin_at(t, to, side),
                                                           .wpe = FLOATS(t, wpe, side),
                                                           .out = FLOATS(t, out, side),
                                                           .wte_row = row,
                                                           .wte_type = type});
    }
    twin_tolerate(t, to, 0x1p-9);
    twin_tolerate(t, out, 0x1p-9);
    twin_compare(t, "pack to bfloat16 and embed_packed");
}

const parity_case parity_bfloat16_cases[] = {
    {.name = "bfloat16_cast", .run = cast},
    {.name = "bfloat16_product", .run = product},
    {.name = "bfloat16_product_few", .run = product_few, .shapes = 30},
    {.name = "bfloat16_turn_and_embed", .run = turn_and_embed},
    {.name = "bfloat16_layernorm", .run = parity_layernorm_bfloat16},
    {.name = "bfloat16_layernorm_grad", .run = parity_layernorm_grad_bfloat16},
    {.name = "bfloat16_gelu", .run = parity_gelu_bfloat16},
    {.name = "bfloat16_cross_entropy", .run = parity_cross_entropy_bfloat16},
    {.name = "bfloat16_optimizer", .run = parity_optimizer_bfloat16},
    {.name = "bfloat16_attention", .run = parity_attention_bfloat16},
    {.name = "bfloat16_attention_tiles", .run = parity_attention_tiles_bfloat16},
    {.name = "bfloat16_attention_long", .run = parity_attention_long_bfloat16, .shapes = 1},
    {.name = "bfloat16_attention_cached", .run = parity_attention_cached_bfloat16},
    {.name = NULL},
};
