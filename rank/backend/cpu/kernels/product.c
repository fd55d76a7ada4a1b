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
 * once.
 *
 * A matrix b that is not packed is read in place if its rows are close to each other. Rows far
 * apart share the same few sets of the caches, so such a matrix is packed first. With leaves a tile
 * needs the whole depth, of which each tile would read b from memory. So many rows pack b piece by piece.
 *
 * Registers hold the sums, the panel's vectors and one element of a. Tiles with few rows are wider,
 * because each step of a short chain of additions would wait for the one before. */
#include <string.h>

#include "kernels_isa.h"

#if VEC_LANES == 16
#define TILE_ROWS 14 /* 14 × 2 sums, 2 vectors of the panel, 1 element: of 32 registers */
#else
#define TILE_ROWS 6 /* 6 × 2 sums, 2, 1: of 16 registers */
#endif

enum {
    TILE_VECTORS = 2, /* of a tile with TILE_ROWS rows */
    FEW_ROWS = 3, /* of a tile with WIDE_VECTORS; 3 × 4 sums, 4, … and one spilled at worst */
    WIDE_VECTORS = RANK_PANEL / VEC_LANES < 4 ? RANK_PANEL / VEC_LANES : 4,
    DEPTH_AT_ONCE = 1024,      /* of panels that many rows meet */
    ROWS_FLOATS = 144 * 1024,  /* of a, that stay in the second cache with a block of panels */
    PANELS_FLOATS = 64 * 1024, /* of such a block: 256 KiB */
    CACHE_LINE = 64,
    AHEAD = 24,        /* rows of a panel in float32 to fetch in advance */
    FAR_ROW = 1024,    /* floats between rows of b from which on it is packed */
    PIECE_DEPTH = 256, /* of a panel that is packed by itself */
    LEAF_ROWS = 126,   /* that meet it for each leaf: whole tiles, whose sums stay in the caches */
    MANY_TILES = 3,    /* rows of so many tiles: b is widened beforehand */
    LEVELS = 4,        /* of the tree over RANK_LEAVES_MAX leaves */
};

typedef vec sums[TILE_ROWS][WIDE_VECTORS > TILE_VECTORS ? WIDE_VECTORS : TILE_VECTORS];

/* One tile of c. rows and vectors are constants wherever these functions are inlined. */
typedef struct tile {
    int rows;
    int vectors;
    size_t columns; /* that exist: the last tile of a row may be cut */
    size_t depth;
    const float *a;
    size_t a_row;
    size_t a_depth;
    const char *b;
    rank_type b_type;
    size_t b_row; /* bytes */
    float *c;
    size_t c_row;
    int accumulate;
    const rank_product
        *of; /* whose leaves these are, of which the tile has the whole depth; or 1 */
} tile;

/* sum += a·b over some depth, in its order. */
VEC_INLINE void add_chain(sums sum, int rows, int vectors, rank_type type, const tile *at,
                          size_t first, size_t depth)
{
    const float *a = at->a + first * at->a_depth;
    const size_t b_row = at->b_row;
    const char *b = at->b + first * b_row;
    const size_t vector_bytes = VEC_LANES * rank_type_bytes(type);
    const size_t ahead = b_row * AHEAD * sizeof(float) / rank_type_bytes(type);
    for (size_t k = 0; k < depth; k++, a += at->a_depth, b += b_row) {
        vec panel[4];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            const char *from = b + (size_t)v * vector_bytes;
            panel[v] = type == RANK_BFLOAT16 ? vec_get_bfloat16((const void *)from)
                                             : vec_get((const void *)from);
            if ((size_t)v * vector_bytes % CACHE_LINE == 0) {
                __builtin_prefetch(from + ahead);
            }
        }
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++) {
            const vec element = vec_set(a[(size_t)r * at->a_row]);
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) {
                sum[r][v] = vec_fma(element, panel[v], sum[r][v]);
            }
        }
    }
}

VEC_INLINE void set_zero(sums sum, int rows, int vectors)
{
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            sum[r][v] = vec_set(0.0f);
        }
    }
}

/* sum = a leaf's chain, over its share of each part of the depth. */
VEC_INLINE void add_leaf(sums sum, int rows, int vectors, rank_type type, const tile *at, int leaf)
{
    const rank_product *of = at->of;
    size_t first = 0;
    set_zero(sum, rows, vectors);
    if (of->parts[0] == 0) {
        const rank_leaf own = rank_leaf_of(of, leaf);
        add_chain(sum, rows, vectors, type, at, own.first, own.depth);
        return;
    }
    for (int part = 0; part < RANK_DEPTH_PARTS; part++) {
        const size_t depth = of->parts[part] / (size_t)of->leaves;
        add_chain(sum, rows, vectors, type, at, first + (size_t)leaf * depth, depth);
        first += of->parts[part];
    }
}

/* Each leaf's sum is added to those that wait for it, as a binary counter carries: when leaf number
 * i is done, there waits one sum for each bit set in i. */
VEC_INLINE void add_leaves(sums sum, int rows, int vectors, rank_type type, const tile *at)
{
    sums waiting[LEVELS];
    for (int leaf = 0;; leaf++) {
        int level = 0;
        add_leaf(sum, rows, vectors, type, at, leaf);
        for (int carry = leaf; carry % 2 == 1; carry /= 2, level++) {
#pragma GCC unroll 16
            for (int r = 0; r < rows; r++) {
#pragma GCC unroll 4
                for (int v = 0; v < vectors; v++) {
                    sum[r][v] = waiting[level][r][v] + sum[r][v];
                }
            }
        }
        if (leaf + 1 == at->of->leaves) {
            return;
        }
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++) {
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) {
                waiting[level][r][v] = sum[r][v];
            }
        }
    }
}

VEC_INLINE void do_tile(int rows, int vectors, rank_type type, const tile *at)
{
    sums sum;
    if (at->of->leaves > 1) {
        add_leaves(sum, rows, vectors, type, at);
    } else {
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++) {
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) {
                const float *c = at->c + (size_t)r * at->c_row + v * VEC_LANES;
                sum[r][v] = at->accumulate ? vec_get(c) : vec_set(0.0f);
                if (at->accumulate && v * VEC_LANES % 16 == 0) {
                    __builtin_prefetch(c + RANK_PANEL, 1); /* the next tile's */
                }
            }
        }
        add_chain(sum, rows, vectors, type, at, 0, at->depth);
    }
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            vec_put(at->c + (size_t)r * at->c_row + v * VEC_LANES, sum[r][v]);
        }
    }
}

/* For each type of b. */
#define TILE(rows, vectors)                                                                        \
    static __attribute__((noinline)) void tile_##rows(const tile *at)                              \
    {                                                                                              \
        do_tile(rows, vectors, RANK_FLOAT32, at);                                                  \
    }                                                                                              \
    static __attribute__((noinline)) void tile_bfloat16_##rows(const tile *at)                     \
    {                                                                                              \
        do_tile(rows, vectors, RANK_BFLOAT16, at);                                                 \
    }

TILE(1, WIDE_VECTORS)
TILE(2, WIDE_VECTORS)
TILE(3, WIDE_VECTORS)
TILE(4, TILE_VECTORS)
TILE(5, TILE_VECTORS)
TILE(6, TILE_VECTORS)
#if TILE_ROWS == 14
TILE(7, TILE_VECTORS)
TILE(8, TILE_VECTORS)
TILE(9, TILE_VECTORS)
TILE(10, TILE_VECTORS)
TILE(11, TILE_VECTORS)
TILE(12, TILE_VECTORS)
TILE(13, TILE_VECTORS)
TILE(14, TILE_VECTORS)
#endif

#if TILE_ROWS == 14
#define EACH_TILE(name)                                                                            \
    NULL, name##1, name##2, name##3, name##4, name##5, name##6, name##7, name##8, name##9,         \
        name##10, name##11, name##12, name##13, name##14
#else
#define EACH_TILE(name) NULL, name##1, name##2, name##3, name##4, name##5, name##6
#endif

static void (*const tiles[][TILE_ROWS + 1])(const tile *at) = {
    [RANK_FLOAT32] = {EACH_TILE(tile_)},
    [RANK_BFLOAT16] = {EACH_TILE(tile_bfloat16_)},
};

/* Runs the tile, or the part of it that exists if its columns are cut. */
static void run_tile(const tile *at)
{
    const size_t width = (size_t)at->vectors * VEC_LANES;
    if (at->columns >= width) {
        tiles[at->b_type][at->rows](at);
        return;
    }
    float whole[TILE_ROWS * RANK_PANEL] = {0};
    tile padded = *at;
    padded.c = whole;
    padded.c_row = width;
    for (size_t r = 0; at->accumulate && r < (size_t)at->rows; r++) {
        memcpy(whole + r * width, at->c + r * at->c_row, at->columns * sizeof *whole);
    }
    tiles[at->b_type][at->rows](&padded);
    for (size_t r = 0; r < (size_t)at->rows; r++) {
        memcpy(at->c + r * at->c_row, whole + r * width, at->columns * sizeof *whole);
    }
}

/* A panel's columns of c, for at most TILE_ROWS rows. */
static void run_panel(tile at, size_t columns)
{
    at.vectors = at.rows <= FEW_ROWS ? WIDE_VECTORS : TILE_VECTORS;
    const size_t width = (size_t)at.vectors * VEC_LANES;
    for (size_t column = 0; column < columns; column += width) {
        at.columns = columns - column;
        run_tile(&at);
        at.b += width * rank_type_bytes(at.b_type);
        at.c += width;
    }
}

/* Rows first … end of c, in the columns of a block of panels. */
static void run_block(const rank_product *args, size_t first, size_t end, size_t columns,
                      const tile *of)
{
    const size_t b_panel =
        (args->b_row > 0 ? RANK_PANEL : args->depth * RANK_PANEL) * rank_type_bytes(of->b_type);
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

/* A panel in bfloat16, for many rows: it is widened once, and not for each tile. */
static void widen(const rank_product *args, tile *at)
{
    const rank_bfloat16 *from = (const void *)at->b;
    for (size_t i = 0; i < at->depth * RANK_PANEL; i += VEC_LANES) {
        vec_put(args->scratch + i, vec_get_bfloat16(from + i));
    }
    at->b = (const char *)args->scratch;
    at->b_type = RANK_FLOAT32;
    at->b_row = RANK_PANEL * sizeof(float);
}

/* A part of the depth: blocks of rows, and for each of them blocks of panels. */
static void run_depth(const rank_product *args, const tile *of)
{
    tile at = *of;
    const bool widens =
        at.b_type == RANK_BFLOAT16 && args->scratch != NULL && args->rows >= MANY_TILES * TILE_ROWS;
    const size_t depth = at.depth > 0 ? at.depth : 1;
    const size_t rows_fit = ROWS_FLOATS / depth / TILE_ROWS * TILE_ROWS;
    const size_t panels_fit = widens ? 1 : PANELS_FLOATS / depth / RANK_PANEL * RANK_PANEL;
    const size_t rows = rows_fit > TILE_ROWS ? rows_fit : TILE_ROWS;
    const size_t columns = panels_fit > RANK_PANEL ? panels_fit : RANK_PANEL;
    const size_t b_column = (args->b_row > 0 ? 1 : args->depth) * rank_type_bytes(at.b_type);
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
    const size_t depth_at_once = whole ? args->depth : DEPTH_AT_ONCE;
    tile at = {.a_row = args->a_row,
               .a_depth = args->a_depth,
               .b_type = args->b_type,
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
    KERNEL(pack)
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

void KERNEL(product)(const rank_product *args)
{
    rank_product of = *args;
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
