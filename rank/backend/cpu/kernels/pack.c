/* Packs matrices into panels, as kernels/product.c reads them. Weights are packed when they are
 * loaded; in training, operands are packed anew for every product. */
#include <string.h>

#include "backend/cpu/transpose.h"
#include "kernels_isa.h"

enum { ROUNDED_ROWS = 64 /* at a time: 8 KiB */ };

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

static void pack_panel(const rank_pack *args, size_t column, float *to)
{
    const size_t left = args->columns - column;
    const size_t width = left < RANK_PANEL ? left : RANK_PANEL;
    if (args->transposed) {
        pack_columns(args, column, width, to);
    } else {
        pack_rows(args, column, width, to);
    }
}

/* Packs a few rows at a time, and rounds them. */
static void pack_rounded(const rank_pack *args, size_t column, rank_bfloat16 *to)
{
    float rows[ROUNDED_ROWS * RANK_PANEL];
    rank_pack piece = *args;
    for (size_t k = 0; k < args->depth; k += ROUNDED_ROWS) {
        piece.depth = args->depth - k < ROUNDED_ROWS ? args->depth - k : ROUNDED_ROWS;
        piece.from = args->from + k * (args->transposed ? 1 : args->from_row);
        pack_panel(&piece, column, rows);
        for (size_t i = 0; i < piece.depth * RANK_PANEL; i += VEC_LANES) {
            vec_put_bfloat16(to + k * RANK_PANEL + i, vec_get(rows + i));
        }
    }
}

/* Blocks of a panel: a row of scales, then a row for each two rows of the matrix (product.h). */
static void pack_blocks(const rank_pack *args, size_t column, uint16_t *to)
{
    float rows[RANK_INT8_BLOCK * RANK_PANEL];
    rank_pack piece = *args;
    for (size_t k = 0; k < args->depth; k += RANK_INT8_BLOCK) {
        piece.depth = args->depth - k < RANK_INT8_BLOCK ? args->depth - k : RANK_INT8_BLOCK;
        piece.from = args->from + k * (args->transposed ? 1 : args->from_row);
        memset(rows, 0, sizeof rows);
        pack_panel(&piece, column, rows);
        const size_t pairs = (piece.depth + 1) / 2;
        for (size_t j = 0; j < RANK_PANEL; j += VEC_LANES) {
            vec_int largest = {0};
            for (size_t i = 0; i < piece.depth; i++) {
                largest = vec_larger_bits(largest, vec_get(rows + i * RANK_PANEL + j));
            }
            vec_put_bfloat16(to + j, (vec)largest / vec_set(INT8_MAX));
            const vec scale = vec_get_bfloat16(to + j);
            for (size_t i = 0; i < pairs; i++) {
                const float *first = rows + 2 * i * RANK_PANEL + j;
                const vec_int low = vec_round(vec_get(first) / scale, INT8_MAX);
                const vec_int high = vec_round(vec_get(first + RANK_PANEL) / scale, INT8_MAX);
                vec_put_low(to + (1 + i) * RANK_PANEL + j, (low & UINT8_MAX) | high << 8);
            }
        }
        to += (1 + pairs) * RANK_PANEL;
    }
}

void KERNEL(pack)(const rank_pack *args)
{
    const size_t panel_bytes = args->to_panel * rank_type_bytes(args->to_type);
    char *to = args->to;
    if (args->to_row > 0) {
        turn(args);
        return;
    }
    for (size_t column = 0; column < args->columns; column += RANK_PANEL, to += panel_bytes) {
        if (args->to_type == RANK_INT8) {
            pack_blocks(args, column, (uint16_t *)(void *)to);
        } else if (args->to_type == RANK_BFLOAT16) {
            pack_rounded(args, column, (rank_bfloat16 *)(void *)to);
        } else {
            pack_panel(args, column, (float *)(void *)to);
        }
    }
}
