/* Parity of matrix products and packing. */
#include <stdio.h>

#include "cases.h"

static void pack(twin *t)
{
    char shape[PARITY_TEXT_BYTES];
    const size_t depth = twin_between(t, 1, 70);
    const size_t columns = twin_between(t, 1, 100);
    const bool transposed = twin_between(t, 0, 1) > 0;
    const size_t row = (transposed ? depth : columns) + twin_between(t, 0, 5);
    const size_t panel = (depth + twin_between(t, 0, 3)) * RANK_PANEL;
    const size_t panels = (columns + RANK_PANEL - 1) / RANK_PANEL;
    const int from = twin_floats(t, "from", (transposed ? columns : depth) * row, 1.0f);
    const size_t to_row = twin_between(t, 0, 1) > 0 ? depth + twin_between(t, 0, 3) : 0;
    const int to = twin_floats(t, "to", to_row > 0 ? columns * to_row : panels * panel, 1.0f);
    ON_BOTH(t, pack,
            &(rank_pack){.depth = depth,
                         .columns = columns,
                         .from = FLOATS(t, from, side),
                         .from_row = row,
                         .transposed = transposed,
                         .to = FLOATS(t, to, side),
                         .to_panel = panel,
                         .to_row = to_row});
    (void)snprintf(shape, sizeof shape, "pack (%zu, %zu), transposed %d, to rows %zu", depth,
                   columns, transposed, to_row);
    twin_compare(t, shape);
}

/* The arrays of one product, and their strides. */
typedef struct operands {
    rank_product args;
    int a, b, c;
    int bias; /* of GELU behind the product; 0: none, for that is another array */
} operands;

/* As decoding does it: in the product where the backend can do that. */
static void multiply_and_gelu(const rank_device *device, rank_product args, const float *bias)
{
    if (bias != NULL && device->backend->product_gelu) {
        args.gelu_bias = bias;
    }
    device->backend->product(device->queue, &args);
    if (bias != NULL && !device->backend->product_gelu) {
        device->backend->gelu(device->queue, &(rank_gelu){.rows = args.rows,
                                                          .width = args.columns,
                                                          .bias = bias,
                                                          .x = args.c,
                                                          .out = args.c});
    }
}

static void multiply(twin *t, const operands *of, const char *kind)
{
    char shape[PARITY_TEXT_BYTES];
    const rank_product *args = &of->args;
    for (int side = 0; side < TWIN_SIDES; side++) {
        const float *bias = of->bias > 0 ? FLOATS(t, of->bias, side) : NULL;
        rank_product mine = of->args;
        mine.a = FLOATS(t, of->a, side);
        mine.b = FLOATS(t, of->b, side);
        mine.c = FLOATS(t, of->c, side);
        multiply_and_gelu(&t->device[side], mine, bias);
    }
    (void)snprintf(shape, sizeof shape,
                   "%s (%zu, %zu)·(%zu, %zu), leaves %d, accumulate %d, a transposed %d, gelu %d",
                   kind, args->rows, args->depth, args->depth, args->columns, args->leaves,
                   args->accumulate, args->a_depth != 1, of->bias > 0);
    twin_compare(t, shape);
}

static operands make(twin *t, size_t depth)
{
    operands of = {.args = {.rows = twin_between(t, 1, 90),
                            .columns = twin_between(t, 1, 100),
                            .depth = depth,
                            .leaves = 1}};
    rank_product *args = &of.args;
    const bool a_transposed = twin_between(t, 0, 1) > 0;
    const size_t a_pitch = (a_transposed ? args->rows : depth) + twin_between(t, 0, 4);
    args->a_row = a_transposed ? 1 : a_pitch;
    args->a_depth = a_transposed ? a_pitch : 1;
    args->c_row = args->columns + twin_between(t, 0, 4);
    of.a = twin_floats(t, "a", (a_transposed ? depth : args->rows) * a_pitch, 1.0f);
    of.c = twin_floats(t, "c", args->rows * args->c_row, 1.0f);
    return of;
}

static void product_packed(twin *t)
{
    operands of = make(t, twin_between(t, 1, 100));
    of.args.accumulate = twin_between(t, 0, 1) > 0;
    of.b = twin_floats(t, "b", rank_pack_count(of.args.depth, of.args.columns), 1.0f);
    multiply(t, &of, "packed");
}

static void product_leaves(twin *t)
{
    const int leaves = 1 << twin_between(t, 0, 4);
    operands of = make(t, (size_t)leaves * twin_between(t, 1, 20));
    of.args.leaves = leaves;
    of.b = twin_floats(t, "b", rank_pack_count(of.args.depth, of.args.columns), 1.0f);
    multiply(t, &of, "leaves");
}

static void product_plain(twin *t)
{
    operands of = make(t, twin_between(t, 1, 100));
    rank_product *args = &of.args;
    args->accumulate = twin_between(t, 0, 1) > 0;
    args->b_transposed = twin_between(t, 0, 1) > 0;
    args->b_row = (args->b_transposed ? args->depth : args->columns) + twin_between(t, 0, 4);
    of.b =
        twin_floats(t, "b", (args->b_transposed ? args->columns : args->depth) * args->b_row, 1.0f);
    multiply(t, &of, args->b_transposed ? "plain, b transposed" : "plain");
}

/* A few rows times a matrix (columns, depth), as in decoding: with and without whole vectors, and
 * with depths of several parts. */
static void product_few(twin *t)
{
    const bool vectors = twin_between(t, 0, 3) > 0;
    const size_t unit = vectors ? 8 : 1;
    const size_t depth = unit * twin_between(t, 1, twin_between(t, 0, 1) > 0 ? 20 : 1200 / unit);
    operands of = {.args = {.rows = twin_between(t, 1, 9),
                            .columns = twin_between(t, 1, 50),
                            .depth = depth,
                            .a_depth = 1,
                            .b_transposed = true,
                            .leaves = 1}};
    rank_product *args = &of.args;
    args->a_row = depth + unit * twin_between(t, 0, 2);
    args->b_row = depth + unit * twin_between(t, 0, 2);
    const bool gelu = twin_between(t, 0, 1) > 0;
    args->c_row = args->columns + (gelu ? 0 : twin_between(t, 0, 4));
    of.a = twin_floats(t, "a", args->rows * args->a_row, 1.0f);
    of.b = twin_floats(t, "b", args->columns * args->b_row, 1.0f);
    of.c = twin_floats(t, "c", args->rows * args->c_row, 1.0f);
    of.bias = gelu ? twin_floats(t, "bias", args->columns, 1.0f) : 0;
    multiply(t, &of, "few rows");
}

/* Enough columns for a warp to have several, and a depth of all parts. */
static void product_few_large(twin *t)
{
    operands of = {.args = {.rows = twin_between(t, 1, 8),
                            .columns = twin_between(t, 1060, 1080),
                            .depth = 8 * twin_between(t, 513, 540),
                            .a_depth = 1,
                            .b_transposed = true,
                            .leaves = 1}};
    rank_product *args = &of.args;
    args->a_row = args->depth;
    args->b_row = args->depth;
    args->c_row = args->columns;
    of.a = twin_floats(t, "a", args->rows * args->a_row, 1.0f);
    of.b = twin_floats(t, "b", args->columns * args->b_row, 0.1f);
    of.c = twin_floats(t, "c", args->rows * args->c_row, 1.0f);
    multiply(t, &of, "few rows, large");
}

const parity_case parity_product_cases[] = {
    {.name = "pack", .run = pack},
    {.name = "product_packed", .run = product_packed},
    {.name = "product_leaves", .run = product_leaves},
    {.name = "product_plain", .run = product_plain},
    {.name = "product_few", .run = product_few, .shapes = 30},
    {.name = "product_few_large", .run = product_few_large, .shapes = 1, .one_order = true},
    {.name = NULL},
};
