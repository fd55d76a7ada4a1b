/* One tile of a product: a few rows times a few vectors of columns. Included by kernels/product.c.
 *
 * Registers hold the sums, the panel's vectors and one element of a. Tiles with few rows are wider,
 * because each step of a short chain of additions would wait for the one before. In blocks the
 * registers hold a block's sums, and the chain's are in the cache for that long. */
#ifndef RANK_BACKEND_CPU_TILE_H
#define RANK_BACKEND_CPU_TILE_H

#include <string.h>

#include "backend/cpu/vec.h"
#include "backend/operations.h"

#if VEC_LANES == 16 || defined(VEC_NEON)
#define TILE_ROWS 14 /* 14 × 2 sums, 2 vectors of the panel, 1 element: of 32 registers */
#else
#define TILE_ROWS 6 /* 6 × 2 sums, 2, 1: of 16 registers */
#endif

enum {
    TILE_VECTORS = 2, /* of a tile with TILE_ROWS rows */
    FEW_ROWS = 3, /* of a tile with WIDE_VECTORS; 3 × 4 sums, 4, … and one spilled at worst */
    WIDE_VECTORS = RANK_PANEL / VEC_LANES < 4 ? RANK_PANEL / VEC_LANES : 4,
    CACHE_LINE = 64,
    AHEAD = 24, /* rows of a panel in float32 to fetch in advance */
    LEVELS = 4, /* of the tree over RANK_LEAVES_MAX leaves */
};

/* What b's elements are: a rank_type, or what it becomes for many rows. */
typedef enum form {
    FORM_FLOAT32 = RANK_FLOAT32,
    FORM_BFLOAT16 = RANK_BFLOAT16, /* many rows: float32 */
    FORM_INT8 = RANK_INT8,
    FORM_INT4 = RANK_INT4,
    FORM_INT16, /* int8 or int4, widened: pairs of 16 bits, and scales in float32 */
    FORM_COUNT,
} form;

VEC_INLINE size_t form_bytes(form of)
{
    return of == FORM_FLOAT32 || of == FORM_INT16 ? 4 : 2;
}

typedef vec sums[TILE_ROWS][WIDE_VECTORS > TILE_VECTORS ? WIDE_VECTORS : TILE_VECTORS];

typedef vec_int int_sums[TILE_ROWS][sizeof(sums) / sizeof(vec[TILE_ROWS])];

/* One tile of c. rows and vectors are constants wherever these functions are inlined. */
typedef struct tile {
    int rows;
    int vectors;
    size_t columns; /* that exist: the last tile of a row may be cut */
    size_t column;  /* of the panel, the tile's first */
    size_t depth;
    const float *a;
    size_t a_row;
    size_t a_depth; /* in blocks rank_row_pairs */
    const char *b;
    form b_form;
    size_t b_row; /* bytes */
    float *c;
    size_t c_row;
    int accumulate;
    const rank_product
        *of; /* whose leaves these are, of which the tile has the whole depth; or 1 */
} tile;

/* The rows of a panel to fetch in advance, in bytes. */
VEC_INLINE size_t ahead_bytes(form of, const tile *at)
{
    return at->b_row * AHEAD * sizeof(float) / form_bytes(of);
}

/* Of 8 numbers in 4 bits: those at one of 4 places in the halves of each lane. With one row few
 * instructions are what counts: at places 1 and 3 numbers are 16 times too large. */
VEC_INLINE vec_int get_nibbles(vec_int eight, int place, bool sixteenfold)
{
    const vec_bits bits = (vec_bits)eight;
    return sixteenfold && place % 2 == 1 ? (vec_int)(bits >> 4 * (place - 1) & 0x00f000f0)
                                         : (vec_int)(bits >> 4 * place & 0x000f000f);
}

/* A block's integers of int4: sum = the products of its numbers, which stand in groups of 8 of each
 * column. `a` has, for each row, what the 8 added to each number have made too much, negated; then pairs. */
VEC_INLINE void add_eights(int_sums sum, int rows, int vectors, const tile *at, const float *a,
                           const char *b, size_t groups)
{
    enum { PAIRS = 4 };
    const bool one = rows == 1;
    vec_int high[4] = {{0}};
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
        const vec_int begin = vec_set_bits(a + (size_t)r * at->a_row);
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            sum[r][v] = begin;
        }
    }
    a++;
    b += at->column * 2; /* it has stepped over 2 of 4 bytes for each column */
    for (size_t k = 0; k < groups; k++, a += PAIRS, b += 2 * at->b_row) {
        vec_int panel[4];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            const char *from = b + (size_t)v * sizeof *panel;
            panel[v] = (vec_int)vec_get((const void *)from);
            if ((size_t)v * sizeof *panel % CACHE_LINE == 0) {
                __builtin_prefetch(from + ahead_bytes(FORM_INT4, at));
            }
        }
#pragma GCC unroll 4
        for (int place = 0; place < PAIRS; place++) {
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) {
                const vec_int pairs = get_nibbles(panel[v], place, one);
#pragma GCC unroll 16
                for (int r = 0; r < rows; r++) {
                    const vec_int pair = vec_set_bits(a + (size_t)r * at->a_row + place);
                    vec_int *const to = one && place % 2 == 1 ? &high[v] : &sum[r][v];
                    *to = vec_add_pair(*to, pair, pairs);
                }
            }
        }
    }
#pragma GCC unroll 4
    for (int v = 0; v < vectors && one; v++) {
        sum[0][v] += high[v] >> 4;
    }
}

/* The same of int8, or widened: sum = the products of so many pairs of each column. */
VEC_INLINE void add_pairs(int_sums sum, int rows, int vectors, form of, const tile *at,
                          const float *a, const char *b, size_t count)
{
    const size_t vector_bytes = VEC_LANES * form_bytes(of);
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            sum[r][v] = (vec_int){0};
        }
    }
    for (size_t k = 0; k < count; k++, a++, b += RANK_PANEL * form_bytes(of)) {
        vec_int panel[4];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            const char *from = b + (size_t)v * vector_bytes;
            panel[v] = of == FORM_INT8 ? vec_get_pairs((const void *)from)
                                       : (vec_int)vec_get((const void *)from);
            if ((size_t)v * vector_bytes % CACHE_LINE == 0) {
                __builtin_prefetch(from + ahead_bytes(of, at));
            }
        }
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++) {
            const vec_int pair = (vec_int)vec_set_bits(a + (size_t)r * at->a_row);
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) {
                sum[r][v] = vec_add_pair(sum[r][v], pair, panel[v]);
            }
        }
    }
}

/* sum += a·b in blocks, over some whole ones. */
VEC_INLINE void add_blocks(sums sum, int rows, int vectors, form of, const tile *at, size_t first,
                           size_t depth)
{
    const size_t a_depth = of == FORM_INT8 ? 1 : of == FORM_INT4 ? 2 : at->a_depth;
    const size_t full = rank_block_rows(a_depth == 1 ? RANK_INT8 : RANK_INT4, RANK_BLOCK);
    const float *a = at->a + first * a_depth;
    const char *b = at->b + first * at->b_row;
    size_t left = depth;
    while (left > 0) {
        const size_t block = left < full ? left : full;
        int_sums pairs;
        if (of == FORM_INT4) {
            add_eights(pairs, rows, vectors, at, a + 1, b + at->b_row, block / 2);
        } else {
            add_pairs(pairs, rows, vectors, of, at, a + a_depth, b + at->b_row,
                      (block - 1) * a_depth);
        }
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            const char *from = b + (size_t)v * VEC_LANES * form_bytes(of);
            const vec scale = of == FORM_INT16 ? vec_get((const void *)from)
                                               : vec_get_bfloat16((const void *)from);
#pragma GCC unroll 16
            for (int r = 0; r < rows; r++) {
                const vec whole = __builtin_convertvector(pairs[r][v], vec);
                sum[r][v] = vec_fma(whole, scale * vec_set(a[(size_t)r * at->a_row]), sum[r][v]);
            }
        }
        left -= block;
        a += block * a_depth;
        b += block * at->b_row;
    }
}

/* sum += a·b over some depth, in its order. */
VEC_INLINE void add_chain(sums sum, int rows, int vectors, form of, const tile *at, size_t first,
                          size_t depth)
{
    if (of >= FORM_INT8) {
        add_blocks(sum, rows, vectors, of, at, first, depth);
        return;
    }
    const float *a = at->a + first * at->a_depth;
    const size_t b_row = at->b_row;
    const char *b = at->b + first * b_row;
    const size_t vector_bytes = VEC_LANES * form_bytes(of);
    for (size_t k = 0; k < depth; k++, a += at->a_depth, b += b_row) {
        vec panel[4];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            const char *from = b + (size_t)v * vector_bytes;
            panel[v] = of == FORM_BFLOAT16 ? vec_get_bfloat16((const void *)from)
                                           : vec_get((const void *)from);
            if ((size_t)v * vector_bytes % CACHE_LINE == 0) {
                __builtin_prefetch(from + ahead_bytes(of, at));
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
VEC_INLINE void add_leaf(sums sum, int rows, int vectors, form of, const tile *at, int leaf)
{
    const rank_product *args = at->of;
    size_t first = 0;
    set_zero(sum, rows, vectors);
    if (args->parts[0] == 0) {
        const rank_leaf own = rank_leaf_of(args, leaf);
        add_chain(sum, rows, vectors, of, at, own.first, own.depth);
        return;
    }
    for (int part = 0; part < RANK_DEPTH_PARTS; part++) {
        const size_t depth = args->parts[part] / (size_t)args->leaves;
        add_chain(sum, rows, vectors, of, at, first + (size_t)leaf * depth, depth);
        first += args->parts[part];
    }
}

/* Each leaf's sum is added to those that wait for it, as a binary counter carries: when leaf number
 * i is done, there waits one sum for each bit set in i. */
VEC_INLINE void add_leaves(sums sum, int rows, int vectors, form of, const tile *at)
{
    sums waiting[LEVELS];
    for (int leaf = 0;; leaf++) {
        int level = 0;
        add_leaf(sum, rows, vectors, of, at, leaf);
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

VEC_INLINE void do_tile(int rows, int vectors, form of, const tile *at)
{
    sums sum;
    if (at->of->leaves > 1) {
        add_leaves(sum, rows, vectors, of, at);
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
        add_chain(sum, rows, vectors, of, at, 0, at->depth);
    }
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            vec_put(at->c + (size_t)r * at->c_row + v * VEC_LANES, sum[r][v]);
        }
    }
}

#define TILE_OF(of, name, rows, vectors)                                                           \
    static __attribute__((noinline)) void tile_##name##_##rows(const tile *at)                     \
    {                                                                                              \
        do_tile(rows, vectors, of, at);                                                            \
    }
#define TILE(rows, vectors)                                                                        \
    TILE_OF(FORM_FLOAT32, float32, rows, vectors)                                                  \
    TILE_OF(FORM_BFLOAT16, bfloat16, rows, vectors)                                                \
    TILE_OF(FORM_INT8, int8, rows, vectors)                                                        \
    TILE_OF(FORM_INT4, int4, rows, vectors)                                                        \
    TILE_OF(FORM_INT16, int16, rows, vectors)

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

static void (*const tiles[FORM_COUNT][TILE_ROWS + 1])(const tile *at) = {
    [FORM_FLOAT32] = {EACH_TILE(tile_float32_)}, [FORM_BFLOAT16] = {EACH_TILE(tile_bfloat16_)},
    [FORM_INT8] = {EACH_TILE(tile_int8_)},       [FORM_INT4] = {EACH_TILE(tile_int4_)},
    [FORM_INT16] = {EACH_TILE(tile_int16_)},
};

/* Runs the tile, or the part of it that exists if its columns are cut. */
static void run_tile(const tile *at)
{
    const size_t width = (size_t)at->vectors * VEC_LANES;
    if (at->columns >= width) {
        tiles[at->b_form][at->rows](at);
        return;
    }
    float whole[TILE_ROWS * RANK_PANEL] = {0};
    tile padded = *at;
    padded.c = whole;
    padded.c_row = width;
    for (size_t r = 0; at->accumulate && r < (size_t)at->rows; r++) {
        memcpy(whole + r * width, at->c + r * at->c_row, at->columns * sizeof *whole);
    }
    tiles[at->b_form][at->rows](&padded);
    for (size_t r = 0; r < (size_t)at->rows; r++) {
        memcpy(at->c + r * at->c_row, whole + r * width, at->columns * sizeof *whole);
    }
}

#endif
