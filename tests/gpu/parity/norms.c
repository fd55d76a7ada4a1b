/* Parity of norms: of layers, RMS norms, and those of heads. */
#include <stdio.h>
#include <stdlib.h>

#include "cases.h"
#include "support.h"

static void layernorm_of(twin *t, rank_type type)
{
    char shape[PARITY_TEXT_BYTES];
    const size_t rows = twin_between(t, 1, 70);
    const size_t width = parity_width(t, 150);
    const size_t residual_rows = rows + twin_between(t, 0, 9);
    const bool with_residual = twin_between(t, 0, 2) > 0;
    const bool picked = twin_between(t, 0, 1) > 0;
    const bool with_out = !with_residual || twin_between(t, 0, 3) > 0;
    const int x = twin_floats(t, "x", rows * width, 2.0f);
    const int residual = twin_floats(t, "residual", residual_rows * width, 1.0f);
    const int residual_bias = twin_floats(t, "residual_bias", width, 1.0f);
    const int picks = twin_ints(t, "residual_rows", rows, 0, (int)residual_rows - 1);
    const int weight = twin_floats(t, "weight", width, 1.0f);
    const int bias = twin_floats(t, "bias", width, 1.0f);
    const int out = twin_elements(t, "out", type, rows * width, 1.0f);
    const int mean = twin_floats(t, "mean", rows, 1.0f);
    const int rstd = twin_floats(t, "rstd", rows, 1.0f);
    ON_BOTH(t, layernorm,
            &(rank_layernorm){.rows = rows,
                              .width = width,
                              .x = FLOATS(t, x, side),
                              .residual = with_residual ? FLOATS(t, residual, side) : NULL,
                              .residual_bias = FLOATS(t, residual_bias, side),
                              .residual_rows = picked ? INTS(t, picks, side) : NULL,
                              .weight = FLOATS(t, weight, side),
                              .bias = FLOATS(t, bias, side),
                              .out = with_out ? twin_at(t, out, side) : NULL,
                              .mean = FLOATS(t, mean, side),
                              .rstd = FLOATS(t, rstd, side),
                              .type = twin_type(type, side)});
    if (type == RANK_BFLOAT16) {
        twin_tolerate(t, out, PARITY_ROUNDED);
    }
    (void)snprintf(shape, sizeof shape, "layernorm (%zu, %zu), residual %d, picked %d, out %d",
                   rows, width, with_residual, picked, with_out);
    twin_compare(t, shape);
}

static void layernorm(twin *t)
{
    layernorm_of(t, RANK_FLOAT32);
}

void parity_layernorm_bfloat16(twin *t)
{
    layernorm_of(t, RANK_BFLOAT16);
}

/* bfloat16: dx is also written rounded. On the CPU a copy of dx stands for that. */
static void layernorm_grad_of(twin *t, size_t width, rank_type type)
{
    char shape[PARITY_TEXT_BYTES];
    const size_t rows = twin_between(t, 1, 150);
    const bool keep = twin_between(t, 0, 1) > 0;
    const bool with_sum = twin_between(t, 0, 1) > 0;
    const bool in_place = !keep && twin_between(t, 0, 1) > 0;
    const int x = twin_floats(t, "x", rows * width, 2.0f);
    const int mean = twin_floats(t, "mean", rows, 0.5f);
    const int rstd = twin_floats(t, "rstd", rows, 1.0f);
    const int weight = twin_floats(t, "weight", width, 1.0f);
    const int dout = twin_floats(t, "dout", rows * width, 1.0f);
    const int dx = twin_floats(t, "dx", rows * width, 1.0f);
    const int dweight = twin_floats(t, "dweight", width, 1.0f);
    const int dbias = twin_floats(t, "dbias", width, 1.0f);
    const int dx_sum = twin_floats(t, "dx_sum", width, 1.0f);
    const bool narrow = type == RANK_BFLOAT16;
    const int rounded = twin_elements(t, "rounded", type, rows * width, 1.0f);
    ON_BOTH(t, layernorm_grad,
            &(rank_layernorm_grad){
                .rows = rows,
                .width = width,
                .keep = keep,
                .x = FLOATS(t, x, side),
                .mean = FLOATS(t, mean, side),
                .rstd = FLOATS(t, rstd, side),
                .weight = FLOATS(t, weight, side),
                .dout = FLOATS(t, dout, side),
                .dx = FLOATS(t, in_place ? dout : dx, side),
                .dweight = FLOATS(t, dweight, side),
                .dbias = FLOATS(t, dbias, side),
                .dx_sum = with_sum ? FLOATS(t, dx_sum, side) : NULL,
                .rounded = narrow && side == TWIN_OTHER ? twin_at(t, rounded, side) : NULL});
    if (narrow) {
        const rank_device *cpu = &t->device[TWIN_CPU];
        cpu->backend->copy(cpu->queue, twin_at(t, rounded, TWIN_CPU),
                           twin_at(t, in_place ? dout : dx, TWIN_CPU),
                           rows * width * sizeof(float));
        twin_tolerate(t, rounded, PARITY_ROUNDED);
    }
    (void)snprintf(shape, sizeof shape, "layernorm_grad (%zu, %zu), keep %d, sum %d, in place %d",
                   rows, width, keep, with_sum, in_place);
    twin_compare(t, shape);
}

static void layernorm_grad(twin *t)
{
    layernorm_grad_of(t, parity_width(t, 100), RANK_FLOAT32);
}

/* Rows that a warp keeps in several pieces, whose sums follow each other through the same shared
 * memory. */
static void layernorm_grad_in_pieces(twin *t)
{
    layernorm_grad_of(t, twin_between(t, 129, 300), RANK_FLOAT32);
}

void parity_layernorm_grad_bfloat16(twin *t)
{
    layernorm_grad_of(t, parity_width(t, 100), RANK_BFLOAT16);
}

static void rmsnorm(twin *t)
{
    char shape[PARITY_TEXT_BYTES];
    const size_t rows = twin_between(t, 1, 150);
    const size_t width = parity_width(t, 300);
    const bool with_residual = twin_between(t, 0, 1) > 0;
    const bool with_out = !with_residual || twin_between(t, 0, 3) > 0;
    const int x = twin_floats(t, "x", rows * width, 2.0f);
    const int residual = twin_floats(t, "residual", rows * width, 1.0f);
    const int weight = twin_floats(t, "weight", width, 1.0f);
    const int out = twin_floats(t, "out", rows * width, 1.0f);
    const int rstd = twin_floats(t, "rstd", rows, 1.0f);
    const int dx = twin_floats(t, "dx", rows * width, 1.0f);
    const int dweight = twin_floats(t, "dweight", width, 1.0f);
    const bool keep = twin_between(t, 0, 1) > 0;
    ON_BOTH(t, rmsnorm,
            &(rank_rmsnorm){.rows = rows,
                            .width = width,
                            .epsilon = 1e-5f,
                            .x = FLOATS(t, x, side),
                            .residual = with_residual ? FLOATS(t, residual, side) : NULL,
                            .weight = FLOATS(t, weight, side),
                            .out = with_out ? FLOATS(t, out, side) : NULL,
                            .rstd = with_out ? FLOATS(t, rstd, side) : NULL});
    ON_BOTH(t, rmsnorm_grad,
            &(rank_rmsnorm_grad){.rows = rows,
                                 .width = width,
                                 .keep = keep,
                                 .x = FLOATS(t, x, side),
                                 .rstd = FLOATS(t, rstd, side),
                                 .weight = FLOATS(t, weight, side),
                                 .dout = FLOATS(t, out, side),
                                 .dx = FLOATS(t, dx, side),
                                 .dweight = FLOATS(t, dweight, side)});
    (void)snprintf(shape, sizeof shape, "rmsnorm (%zu, %zu), residual %d, out %d, keep %d", rows,
                   width, with_residual, with_out, keep);
    twin_compare(t, shape);
}

/* Heads in place, and behind them in the row what stays as it is. */
static void head_norm(twin *t)
{
    char shape[PARITY_TEXT_BYTES];
    const size_t rows = twin_between(t, 1, 60);
    const size_t width = parity_width(t, 130);
    const size_t heads = twin_between(t, 1, 5);
    const rank_side_by_side side_by_side = {heads, heads * width + twin_between(t, 0, 40)};
    const size_t all = rows * side_by_side.row;
    const int at = twin_floats(t, "at", all, 2.0f);
    const int weight = twin_floats(t, "weight", width, 1.0f);
    const int before = twin_floats(t, "before", rows * heads * width, 1.0f);
    const int rstd = twin_floats(t, "rstd", rows * heads, 1.0f);
    const int dweight = twin_floats(t, "dweight", heads * width, 1.0f);
    const int d = twin_floats(t, "d", all, 1.0f);
    ON_BOTH(t, rmsnorm,
            &(rank_rmsnorm){.rows = rows,
                            .width = width,
                            .epsilon = 1e-5f,
                            .x = FLOATS(t, at, side),
                            .weight = FLOATS(t, weight, side),
                            .out = FLOATS(t, at, side),
                            .rstd = FLOATS(t, rstd, side),
                            .heads = side_by_side,
                            .before = FLOATS(t, before, side)});
    ON_BOTH(t, rmsnorm_grad,
            &(rank_rmsnorm_grad){.rows = rows,
                                 .width = width,
                                 .x = FLOATS(t, before, side),
                                 .rstd = FLOATS(t, rstd, side),
                                 .weight = FLOATS(t, weight, side),
                                 .dout = FLOATS(t, d, side),
                                 .dx = FLOATS(t, d, side),
                                 .dweight = FLOATS(t, dweight, side),
                                 .heads = side_by_side});
    (void)snprintf(shape, sizeof shape, "rmsnorm of heads (%zu, %zu of %zu), row %zu", rows, heads,
                   width, side_by_side.row);
    twin_compare(t, shape);
}

const parity_case parity_norm_cases[] = {
    {.name = "layernorm", .run = layernorm},
    {.name = "layernorm_grad", .run = layernorm_grad},
    {.name = "layernorm_grad_in_pieces", .run = layernorm_grad_in_pieces, .shapes = 2},
    {.name = "rmsnorm", .run = rmsnorm},
    {.name = "head_norm", .run = head_norm},
    {.name = NULL},
};
