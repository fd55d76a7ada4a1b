/* Matrix products whose bits do not depend on the number of rows or columns.
 *
 * A tile is a few rows of c times a few vectors of columns. Its sums stay in registers while the
 * loop goes through the depth: it loads a row of the panel, and multiplies each row's element of a
 * with it. A panel is stored in the order of reading. So one row (decoding) streams weights at the
 * speed of memory. Many rows (prefill, training) use a block of panels that stays in the second
 * cache, while the rows of a tile stay in the first.
 *
 * A packed b in bfloat16 is half as much to read. Each element is widened to the float32 that it is
 * the upper half of, so the sums are those of the same numbers in float32, bit for bit. Few rows
 * widen as they read; many rows would do so again for each tile, and read a panel that was widened
 * once. In blocks it is the same, but for the rows of a, which are rounded beforehand (product.h). Of
 * int8 a row of a then has one float for each row of a panel: a scale and pairs for each block. Of
 * int4 it has two: a scale, what 8 added to each number has made too much, and pairs.
 *
 * A matrix b that is not packed is read in place if its rows are close to each other. Rows far
 * apart share the same few sets of the caches, so such a matrix is packed first. With leaves a tile
 * needs the whole depth, of which each tile would read b from memory. So many rows pack b piece by piece.
 */
#include <string.h>

#include "backend/cpu/tile.h"
#include "kernels_isa.h"

enum {
    DEPTH_AT_ONCE = 1024,      /* of panels that many rows meet */
    ROWS_FLOATS = 144 * 1024,  /* of a, that stay in the second cache with a block of panels */
    PANELS_FLOATS = 64 * 1024, /* of such a block: 256 KiB */
    FAR_ROW = 1024,            /* floats between rows of b from which on it is packed */
    PIECE_DEPTH = 256,         /* of a panel that is packed by itself */
    LEAF_ROWS = 126, /* that meet it for each leaf: whole tiles, whose sums stay in the caches */
    MANY_TILES = 3,  /* rows of so many tiles: b is widened beforehand */
};

/* A panel's columns of c, for at most TILE_ROWS rows. */
static void run_panel(tile at, size_t columns)
{
    at.vectors = at.rows <= FEW_ROWS ? WIDE_VECTORS : TILE_VECTORS;
    const size_t width = (size_t)at.vectors * VEC_LANES;
    for (size_t column = 0; column < columns; column += width) {
        at.columns = columns - column;
        run_tile(&at);
        at.b += width * form_bytes(at.b_form);
        at.c += width;
        at.column += width;
    }
}

/* Rows first … end of c, in the columns of a block of panels. */
static void run_block(const rank_product *args, size_t first, size_t end, size_t columns,
                      const tile *of)
{
    const size_t b_panel = args->b_row > 0 ? RANK_PANEL * sizeof(float) : args->depth * of->b_row;
    tile at = *of;
    for (size_t row = first; row < end; row += TILE_ROWS) {
        at.rows = end - row < TILE_ROWS ? (int)(end - row) : TILE_ROWS;
        at.a = of->a + row * args->a_row;
        at.b = of->b;
        at.c = of->c + row * args->c_row;
        for (size_t column = 0; column < columns; column += RANK_PANEL) {
            const size_t left = columns - column;
            run_panel(at, left < RANK_PANEL ? left : RANK_PANEL);
            at.b += b_panel;
            at.c += RANK_PANEL;
        }
    }
}

/* Rows of a panel in bfloat16, or of scales. */
static void widen_rows(const uint16_t *from, size_t rows, float *to)
{
#pragma GCC unroll 4
    for (size_t j = 0; j < rows * RANK_PANEL; j += VEC_LANES) {
        vec_put(to + j, vec_get_bfloat16(from + j));
    }
}

/* Of int8: pairs of numbers. */
static void widen_pairs(const uint16_t *from, size_t rows, float *to)
{
#pragma GCC unroll 4
    for (size_t j = 0; j < rows * RANK_PANEL; j += VEC_LANES) {
        vec_put(to + j, (vec)vec_get_pairs(from + j));
    }
}

/* Of int4: two rows are 8 numbers of each column. */
static void widen_eights(const uint16_t *from, size_t rows, float *to)
{
    for (; rows > 0; rows -= 2, from += 2 * RANK_PANEL, to += 4 * RANK_PANEL) {
#pragma GCC unroll 4
        for (size_t j = 0; j < RANK_PANEL; j += VEC_LANES) {
            const vec_int eight = (vec_int)vec_get((const void *)(from + 2 * j));
#pragma GCC unroll 4
            for (int place = 0; place < 4; place++) {
                vec_put(to + (size_t)place * RANK_PANEL + j,
                        (vec)((vec_halves)get_nibbles(eight, place, false) - 8));
            }
        }
    }
}

/* A panel that is not float32, for many rows: it is widened once, and not for each tile. */
static void widen(const rank_product *args, tile *at)
{
    const uint16_t *from = (const void *)at->b;
    float *to = args->scratch;
    const bool blocks = rank_in_blocks(args->b_type);
    const size_t pairs = rank_row_pairs(args->b_type);
    const size_t leaf = blocks ? at->depth / (size_t)args->leaves : at->depth;
    const size_t block = blocks ? rank_block_rows(args->b_type, RANK_BLOCK) : at->depth;
    for (size_t k = 0, rows = 0; k < at->depth;
         k += rows, from += rows * RANK_PANEL, to += rows * pairs * RANK_PANEL) {
        const size_t left = leaf - k % leaf;
        rows = left < block ? left : block;
        widen_rows(from, blocks ? 1 : rows, to);
        if (args->b_type == RANK_INT8) {
            widen_pairs(from + RANK_PANEL, rows - 1, to + RANK_PANEL);
        } else if (args->b_type == RANK_INT4) {
            widen_eights(from + RANK_PANEL, rows - 1, to + pairs * RANK_PANEL);
        }
    }
    at->b = (const char *)args->scratch;
    at->b_form = blocks ? FORM_INT16 : FORM_FLOAT32;
    at->b_row = pairs * RANK_PANEL * sizeof(float);
}

/* A part of the depth: blocks of rows, and for each of them blocks of panels. */
static void run_depth(const rank_product *args, const tile *of)
{
    tile at = *of;
    const bool widens = args->b_row == 0 && at.b_form != FORM_FLOAT32 && args->scratch != NULL &&
                        args->rows >= MANY_TILES * TILE_ROWS;
    const size_t depth = at.depth > 0 ? at.depth * rank_row_pairs(args->b_type) : 1;
    const size_t rows_fit = ROWS_FLOATS / depth / TILE_ROWS * TILE_ROWS;
    const size_t panels_fit = widens ? 1 : PANELS_FLOATS / depth / RANK_PANEL * RANK_PANEL;
    const size_t rows = rows_fit > TILE_ROWS ? rows_fit : TILE_ROWS;
    const size_t columns = panels_fit > RANK_PANEL ? panels_fit : RANK_PANEL;
    const size_t b_column = (args->b_row > 0 ? 1 : args->depth) * form_bytes(at.b_form);
    for (size_t row = 0; row < args->rows; row += rows) {
        const size_t end = args->rows - row < rows ? args->rows : row + rows;
        for (size_t column = 0; column < args->columns; column += columns) {
            const size_t left = args->columns - column;
            at = *of;
            at.b += column * b_column;
            at.c = (float *)args->c + column;
            if (widens) {
                widen(args, &at);
            }
            run_block(args, row, end, left < columns ? left : columns, &at);
        }
    }
}

/* b is packed, or its columns are whole panels. */
static void run(const rank_product *args)
{
    /* Few rows read a panel once, from memory, in one go. Leaves are not cut. */
    const int whole = args->rows <= TILE_ROWS || args->leaves > 1;
    const size_t unit =
        rank_in_blocks(args->b_type) ? rank_block_rows(args->b_type, RANK_BLOCK) : 1;
    const size_t depth_at_once = whole ? args->depth : DEPTH_AT_ONCE / unit * unit;
    tile at = {.a_row = args->a_row,
               .a_depth = args->a_depth,
               .b_form = (form)args->b_type,
               .b_row =
                   (args->b_row > 0 ? args->b_row : RANK_PANEL) * rank_type_bytes(args->b_type),
               .c_row = args->c_row,
               .accumulate = args->accumulate,
               .of = args};
    size_t done = 0;
    do {
        const size_t left = args->depth - done;
        at.depth = left < depth_at_once ? left : depth_at_once;
        at.a = (const float *)args->a + done * args->a_depth;
        at.b = (const char *)args->b + done * at.b_row;
        run_depth(args, &at);
        at.accumulate = 1;
        done += at.depth;
    } while (done < args->depth);
}

/* Packs a part of b, which is not packed: `columns` from `column` on, `depth` rows from `row` on. */
static void pack(const rank_product *args, size_t column, size_t row, size_t depth, size_t columns,
                 float *to)
{
    const size_t at = args->b_transposed ? column * args->b_row + row : row * args->b_row + column;
    REST(pack)
    (&(rank_pack){.depth = depth,
                  .columns = columns,
                  .from = (const float *)args->b + at,
                  .from_row = args->b_row,
                  .transposed = args->b_transposed,
                  .to = to,
                  .to_panel = depth * RANK_PANEL});
}

/* The chain over a range of the depth, in the panel of columns from `column` on, which is packed piece by
 * piece. `piece` says where the sums go. */
static void run_pieces(const rank_product *args, rank_leaf range, size_t column, rank_product piece)
{
    float packed[PIECE_DEPTH * RANK_PANEL];
    size_t done = 0;
    piece.b = packed;
    piece.b_row = 0;
    piece.leaves = 1;
    do {
        const size_t left = range.depth - done;
        const size_t at = range.first + done;
        piece.depth = left < PIECE_DEPTH ? left : PIECE_DEPTH;
        piece.a = (const float *)args->a + at * args->a_depth;
        pack(args, column, at, piece.depth, piece.columns, packed);
        run(&piece);
        piece.accumulate = true;
        done += piece.depth;
    } while (done < range.depth);
}

/* The same with leaves, for up to LEAF_ROWS rows: these sums wait as those in add_leaves do. */
static void run_leaf_pieces(const rank_product *args, size_t column, rank_product piece)
{
    float waiting[LEVELS + 1][LEAF_ROWS * RANK_PANEL];
    rank_product one = piece;
    const size_t count = piece.rows * RANK_PANEL;
    int level = 0;
    one.c_row = RANK_PANEL;
    for (int leaf = 0; leaf < args->leaves; leaf++, level++) {
        one.c = waiting[level];
        run_pieces(args, rank_leaf_of(args, leaf), column, one);
        for (int carry = leaf; carry % 2 == 1; carry /= 2, level--) {
            for (size_t i = 0; i < count; i++) {
                waiting[level - 1][i] += waiting[level][i];
            }
        }
    }
    for (size_t row = 0; row < piece.rows; row++) {
        memcpy((float *)piece.c + row * piece.c_row, waiting[0] + row * RANK_PANEL,
               piece.columns * sizeof(float));
    }
}

/* The columns of b from `column` on, panel by panel. */
static void run_unpacked(const rank_product *args, size_t column)
{
    for (; column < args->columns; column += RANK_PANEL) {
        const size_t left = args->columns - column;
        rank_product piece = *args;
        piece.columns = left < RANK_PANEL ? left : RANK_PANEL;
        piece.c = (float *)args->c + column;
        if (args->leaves == 1) {
            run_pieces(args, (rank_leaf){0, args->depth}, column, piece);
            continue;
        }
        for (size_t row = 0; row < args->rows; row += LEAF_ROWS) {
            rank_product rows = *args;
            rows.a = (const float *)args->a + row * args->a_row;
            piece.rows = args->rows - row < LEAF_ROWS ? args->rows - row : LEAF_ROWS;
            piece.c = (float *)args->c + row * args->c_row + column;
            run_leaf_pieces(&rows, column, piece);
        }
    }
}

/* A block of a row of a: its scale, of int4 what 8 added to each number of b makes too much, negated,
 * then its numbers in pairs. Returns what is behind them. */
static float *round_block(rank_type type, const float *from, size_t count, float *to)
{
    int16_t rounded[RANK_BLOCK] = {0};
    vec_int largest = {0};
    int32_t sum = 0;
    for (size_t k = 0; k < count; k += VEC_LANES) {
        largest = vec_larger_bits(largest, vec_load(from + k, count - k));
    }
    const float scale = vec_largest_bits(largest) / INT16_MAX;
    for (size_t k = 0; k < count; k += VEC_LANES) {
        vec_put_low(
            (uint16_t *)rounded + k,
            vec_round(vec_load(from + k, count - k) / vec_set(scale), -INT16_MAX, INT16_MAX));
    }
    const size_t pairs = (rank_block_rows(type, count) - 1) * rank_row_pairs(type);
    *to++ = scale;
    if (type == RANK_INT4) {
        for (size_t k = 0; k < RANK_BLOCK; k++) {
            sum -= 8 * rounded[k];
        }
        memcpy(to++, &sum, sizeof sum);
    }
    memcpy(to, rounded, pairs * sizeof *to);
    return to + pairs;
}

/* The product with a b in blocks, as one whose depth is that of the packed b. */
static rank_product with_rounded_rows(const rank_product *args)
{
    rank_product of = *args;
    const rank_leaf leaf = rank_leaf_of(args, 0);
    of.depth = rank_pack_depth(args->b_type, args->depth, args->leaves);
    of.a = args->scratch;
    of.a_depth = rank_row_pairs(args->b_type);
    of.a_row = of.depth * of.a_depth;
    float *to = args->scratch;
    for (size_t row = 0; row < args->rows; row++) {
        const float *from = (const float *)args->a + row * args->a_row;
        for (int i = 0; i < args->leaves; i++, from += leaf.depth) {
            for (size_t k = 0; k < leaf.depth; k += RANK_BLOCK) {
                const size_t left = leaf.depth - k;
                to = round_block(args->b_type, from + k, left < RANK_BLOCK ? left : RANK_BLOCK, to);
            }
        }
    }
    of.scratch = to;
    return of;
}

void KERNEL(product)(const rank_product *args)
{
    rank_product of = rank_in_blocks(args->b_type) ? with_rounded_rows(args) : *args;
    if (of.b_row >= FAR_ROW && of.scratch != NULL) {
        pack(args, 0, 0, args->depth, args->columns, args->scratch);
        of.b = of.scratch;
        of.b_row = 0;
    }
    const size_t in_panels = of.columns / RANK_PANEL * RANK_PANEL;
    const bool packs = of.b_transposed || (of.leaves > 1 && of.rows > TILE_ROWS);
    const size_t in_place = of.b_row == 0 ? of.columns : packs ? 0 : in_panels;
    if (in_place < of.columns) {
        run_unpacked(&of, in_place);
    }
    of.columns = in_place;
    run(&of);
}
