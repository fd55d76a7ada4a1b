/* Packs matrices into panels, as kernels/product.c reads them. Weights are packed when they are
 * loaded; in training, operands are packed anew for every product. */
#include <string.h>

#include "backend/cpu/transpose.h"
#include "kernels_isa.h"

/* One panel of `width` columns from a (depth, columns) matrix. */
static void pack_rows(const rank_pack *args, size_t column, size_t width, float *to)
{
    const float *from = args->from + column;
    for (size_t k = 0; k < args->depth; k++, from += args->from_row, to += RANK_PANEL) {
        for (size_t j = 0; j < RANK_PANEL; j += VEC_LANES) {
            const vec part = j < width ? vec_load(from + j, width - j) : vec_set(0.0f);
            vec_put(to + j, part);
        }
    }
}

/* The same from a (columns, depth) matrix: squares are transposed in registers, the rest by
 * elements. */
static void pack_columns(const rank_pack *args, size_t column, size_t width, float *to)
{
    const size_t whole = width / VEC_LANES * VEC_LANES;
    const size_t depth = args->depth / VEC_LANES * VEC_LANES;
    const float *from = args->from + column * args->from_row;
    for (size_t k = 0; k < depth; k += VEC_LANES) {
        for (size_t j = 0; j < whole; j += VEC_LANES) {
            vec_transpose(from + j * args->from_row + k, args->from_row, to + k * RANK_PANEL + j,
                          RANK_PANEL);
        }
    }
    for (size_t k = 0; k < args->depth; k++) {
        for (size_t j = k < depth ? whole : 0; j < RANK_PANEL; j++) {
            to[k * RANK_PANEL + j] = j < width ? from[j * args->from_row + k] : 0.0f;
        }
    }
}

/* To (columns, depth) without panels. */
static void turn(const rank_pack *args)
{
    float *to = args->to;
    for (size_t column = 0; column < args->columns; column++) {
        for (size_t k = 0; k < args->depth; k++) {
            const size_t at =
                args->transposed ? column * args->from_row + k : k * args->from_row + column;
            to[column * args->to_row + k] = args->from[at];
        }
    }
}

void KERNEL(pack)(const rank_pack *args)
{
    float *to = args->to;
    if (args->to_row > 0) {
        turn(args);
        return;
    }
    for (size_t column = 0; column < args->columns; column += RANK_PANEL) {
        const size_t left = args->columns - column;
        const size_t width = left < RANK_PANEL ? left : RANK_PANEL;
        if (args->transposed) {
            pack_columns(args, column, width, to);
        } else {
            pack_rows(args, column, width, to);
        }
        to += args->to_panel;
    }
}
