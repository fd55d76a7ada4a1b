/* Packs matrices into panels, as kernels/product.c reads them. Weights are packed when they are
 * loaded; in training, operands are packed anew for every product. */

#include "backend/cpu/transpose.h"
#include "kernels_isa.h"

enum {
    ROUNDED_ROWS = 64, /* at a time: 8 KiB */
    LEAST_STEPS = 7,   /* of int4: the largest number is so many scales, */
    TRIED_SCALES = 9,  /* or 1/4, 2/4 … of one more */
};

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

/* In one lane each: columns of a block's numbers (count, RANK_PANEL), and what they become (product.h). */
typedef struct block {
    rank_type type;
    size_t count;
    const float *numbers;
} block;

/* A number of each column, divided by the scales and rounded; 0 behind the last. */
static vec_int rounded(const block *of, size_t i, vec scale)
{
    const vec_int whole =
        vec_round(vec_get(of->numbers + i * RANK_PANEL) / scale,
                  of->type == RANK_INT8 ? -INT8_MAX : -8, of->type == RANK_INT8 ? INT8_MAX : 7);
    return i < of->count ? whole : (vec_int){0};
}

/* The numbers whose magnitudes are largest. */
static vec find_largest(const block *of)
{
    vec largest = vec_set(0.0f);
    for (size_t i = 0; i < of->count; i++) {
        const vec number = vec_get(of->numbers + i * RANK_PANEL);
        const vec_int more = ((vec_int)number & INT32_MAX) > ((vec_int)largest & INT32_MAX);
        largest = vec_select(more, number, largest);
    }
    return largest;
}

static vec sum_errors(const block *of, vec scale)
{
    vec sum = vec_set(0.0f);
    for (size_t i = 0; i < of->count; i++) {
        const vec error = vec_get(of->numbers + i * RANK_PANEL) -
                          __builtin_convertvector(rounded(of, i, scale), vec) * scale;
        sum += error * error;
    }
    return sum;
}

/* Writes scales, and returns them. */
static vec put_scales(uint16_t *to, vec scale)
{
    vec_put_bfloat16(to, scale);
    return vec_get_bfloat16(to);
}

static vec find_scales(const block *of, uint16_t *to)
{
    const vec largest = find_largest(of);
    if (of->type == RANK_INT8) {
        return put_scales(to, (vec)((vec_int)largest & INT32_MAX) / vec_set(INT8_MAX));
    }
    vec best = put_scales(to, largest / vec_set(-LEAST_STEPS));
    vec least = sum_errors(of, best);
    for (int i = 1; i < TRIED_SCALES; i++) {
        const vec scale = put_scales(to, largest / vec_set(-LEAST_STEPS - (float)i / 4));
        const vec sum = sum_errors(of, scale);
        best = vec_select(sum < least, scale, best);
        least = vec_min(sum, least);
    }
    return put_scales(to, best);
}

/* Two numbers of each column. */
static void put_pairs(const block *of, size_t i, vec scale, uint16_t *to)
{
    vec_put_low(to, (rounded(of, i, scale) & UINT8_MAX) | rounded(of, i + 1, scale) << 8);
}

static void put_eights(const block *of, size_t first, vec scale, float *to)
{
    vec_int eight = {0};
    for (int i = 0; i < 8; i++) {
        eight |= (rounded(of, first + (size_t)i, scale) + 8) << (i / 2 * 4 + i % 2 * 16);
    }
    vec_put(to, (vec)eight);
}

/* Packs a block at a time. */
static void pack_blocks(const rank_pack *args, size_t column, uint16_t *to)
{
    float rows[RANK_BLOCK * RANK_PANEL] = {0};
    rank_pack piece = *args;
    for (size_t k = 0; k < args->depth; k += RANK_BLOCK) {
        piece.depth = args->depth - k < RANK_BLOCK ? args->depth - k : RANK_BLOCK;
        piece.from = args->from + k * (args->transposed ? 1 : args->from_row);
        pack_panel(&piece, column, rows);
        uint16_t *const groups = to + RANK_PANEL;
        for (size_t j = 0; j < RANK_PANEL; j += VEC_LANES) {
            const block of = {args->to_type, piece.depth, rows + j};
            const vec scale = find_scales(&of, to + j);
            for (size_t i = 0; i < of.count && of.type == RANK_INT8; i += 2) {
                put_pairs(&of, i, scale, groups + i / 2 * RANK_PANEL + j);
            }
            for (size_t i = 0; i < of.count && of.type == RANK_INT4; i += 8) {
                put_eights(&of, i, scale, (float *)(void *)(groups + i / 4 * RANK_PANEL) + j);
            }
        }
        to += rank_block_rows(args->to_type, piece.depth) * RANK_PANEL;
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
        if (rank_in_blocks(args->to_type)) {
            pack_blocks(args, column, (uint16_t *)(void *)to);
        } else if (args->to_type == RANK_BFLOAT16) {
            pack_rounded(args, column, (rank_bfloat16 *)(void *)to);
        } else {
            pack_panel(args, column, (float *)(void *)to);
        }
    }
}
