/* Types of elements, packed matrices, and products: the arguments of backend.h's pack and product. Included
 * by operations.h. */
#ifndef RANK_BACKEND_PRODUCT_H
#define RANK_BACKEND_PRODUCT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RANK_PANEL = 32,      /* columns of a packed matrix that are stored together */
    RANK_LEAVES_MAX = 16, /* of a product's sum */
    RANK_DEPTH_PARTS = 3, /* of one: queries, keys and values */
    RANK_BLOCK = 32,      /* numbers of a column that share a scale, in int8 and int4 */
};

/* The type of an array's elements. */
typedef enum rank_type {
    RANK_FLOAT32,
    RANK_BFLOAT16, /* a float32 without the lower half of its bits */
    RANK_INT8,     /* of packed matrices alone, in blocks, see below; */
    RANK_INT4,     /* likewise */
} rank_type;

typedef uint16_t rank_bfloat16; /* the upper half of a float32's bits */

/* "float32", "bfloat16", "int8", "int4": as the record has it. NULL: no such type. */
static inline const char *rank_type_name(rank_type type)
{
    static const char *const names[] = {"float32", "bfloat16", "int8", "int4"};
    return (size_t)type < sizeof names / sizeof *names ? names[type] : NULL;
}

/* Of an element; in blocks it is two numbers of int8, four of int4, or a scale. */
static inline size_t rank_type_bytes(rank_type type)
{
    return type == RANK_FLOAT32 ? 4 : 2;
}

/* Matrices in blocks: int8 and int4. Each column of the depth is cut into blocks of RANK_BLOCK
 * numbers, and the last one may be shorter. Blocks begin anew at each leaf of the products' sums: so a
 * rank's part of the depth has exactly the whole matrix's blocks. A block has a scale in bfloat16, and
 * a number is q = round(w / scale), ties to even. Such a scale has float32's range, which one in
 * float16 has not, and q · scale is exact in float32.
 *
 * int8: the scale is max |w| / 127, and q is -127 … 127. The largest one is 127 for every rounding of
 * the scale, so no number is off by more than half a step.
 *
 * int4: q is -8 … 7. Let m be the number whose magnitude is largest (of equal ones the first). The
 * scale is m / -n, rounded, for the n of 7, 7.25 … 9 whose sum of squared errors over the block is
 * least (of equal ones the first). The sum is in float32, in the order of the depth, and each square
 * and sum is rounded.
 *
 * In a panel a block is a row of RANK_PANEL scales, then rows with groups of each column's numbers,
 * zero behind the last. int8: a row for each 2 numbers, the first one in the lower byte. int4: two
 * rows for each 8 numbers, which have 32 bits for each column: q + 8 of the numbers 0, 2, 4, 6 in the
 * lower half, the first one in the lowest bits, and of 1, 3, 5, 7 in the upper half. Such rows are
 * what the panel's depth counts, in elements of two bytes. */
static inline bool rank_in_blocks(rank_type type)
{
    return type == RANK_INT8 || type == RANK_INT4;
}

/* Of a block of so many numbers. */
static inline size_t rank_block_rows(rank_type type, size_t numbers)
{
    return 1 + (type == RANK_INT4 ? (numbers + 7) / 8 * 2 : (numbers + 1) / 2);
}

/* Pairs of numbers in a row of a group: how many floats a row of `a` has for it, see rank_product. */
static inline size_t rank_row_pairs(rank_type type)
{
    return type == RANK_INT4 ? 2 : 1;
}

/* Of an embedding and of an output matrix beside other matrices of a type. In int4 they may lose more
 * than all others together: docs/MODELS.md has figures. */
static inline rank_type rank_words_type(rank_type type)
{
    return type == RANK_INT4 ? RANK_INT8 : type;
}

/* Of so many numbers in whole blocks. */
static inline size_t rank_numbers_bytes(rank_type type, size_t count)
{
    const size_t elements =
        rank_in_blocks(type) ? count / RANK_BLOCK * rank_block_rows(type, RANK_BLOCK) : count;
    return elements * rank_type_bytes(type);
}

/* The rows of a panel that hold `depth` rows of a matrix, whose products have so many leaves. */
static inline size_t rank_pack_depth(rank_type type, size_t depth, int leaves)
{
    const size_t leaf = depth / (size_t)leaves;
    const size_t rest = leaf % RANK_BLOCK;
    return rank_in_blocks(type)
               ? (size_t)leaves * (leaf / RANK_BLOCK * rank_block_rows(type, RANK_BLOCK) +
                                   (rest > 0 ? rank_block_rows(type, rest) : 0))
               : depth;
}

/* A matrix (depth, columns) is packed as panels of RANK_PANEL columns, one after the other, each
 * (depth, RANK_PANEL), with zeros behind the last column. So many floats: */
static inline size_t rank_pack_count(size_t depth, size_t columns)
{
    return (columns + RANK_PANEL - 1) / RANK_PANEL * RANK_PANEL * depth;
}

/* Packs rows of a matrix, or its columns from a multiple of RANK_PANEL on. */
typedef struct rank_pack {
    size_t depth; /* rows that are packed now */
    size_t columns;
    const float *from;
    size_t from_row; /* floats from one row of `from` to the next */
    bool transposed; /* from is (columns, depth) */
    void *to;        /* the first of these rows, in the first of these panels */
    size_t to_panel; /* elements from one panel to the next: RANK_PANEL × all of rank_pack_depth */
    /* 0: panels. Else `to` is (columns, depth), with so many elements from one column to the next. */
    size_t to_row;
    rank_type to_type; /* bfloat16: elements are rounded as cast rounds them. With to_row, or in a
                          backend with packs_narrow. int8, int4: the rows begin with a block and are
                          of one leaf; in such a backend, without to_row */
} rank_pack;

/* c (rows, columns) = a (rows, depth) · b; or, with accumulate, c += it.
 *
 * Each element of c is one chain of fused multiply-adds in the order of depth, from 0 or from what
 * stands in c. With more leaves than one (accumulate is not set then), depth is cut into so many
 * leaves; each has a chain of its own, and they are added up as a balanced binary tree. A leaf is an
 * equal share of depth, or of each part of it (the columns of some heads in queries, keys and values).
 * So the bits depend on the row of a, the column of b and the leaves alone: not on the other rows and
 * columns, and on the CPU not on the instruction set, but for the baseline's, which has no fused
 * multiply-add.
 *
 * With packs_narrow a packed b may be bfloat16, beside a in float32: the bits are those of the same
 * numbers in float32.
 *
 * It may also be in blocks. Then each row of a is cut into the same blocks, and is rounded to 16 bits:
 * x = round(a / s), ties to even, with s = max |a| / 32767 of the block. A block's sum of q · x is an
 * integer below 2^27, so it has no order. An element of c is the leaf's chain of fused multiply-adds
 * over its blocks: of that sum in float32, times the product of the two scales. What 16 bits lose is
 * a 256th of what 8 bits of the weights have lost, or less. In return a processor multiplies and adds two
 * numbers in each lane. Nothing is accumulated, and depth is one part.
 *
 * With a library's products (backend `cuda`) the order is the library's, whatever the leaves. a and b
 * are of one type, and bfloat16 only where b is not packed. With plain_weights a may be float32 and b bfloat16, if b is transposed and
 * nothing is accumulated: few rows keep float32, many are rounded to bfloat16 in the scratch, which
 * then has room for rows · depth of them.
 *
 * On a device a transposed b, and a norm's weights and biases, may be read while the operations
 * enqueued just before still run: none of these writes them. */
typedef struct rank_product {
    size_t rows;
    size_t columns;
    size_t depth;
    const void *a; /* element (row, k) at row·a_row + k·a_depth; one of the two is 1 */
    rank_type a_type;
    size_t a_row;
    size_t a_depth;
    const void *b;
    rank_type b_type;
    size_t b_row;      /* 0: b is packed. Else it is (depth, columns), with so many floats from one
                          row to the next, and has no parts if the backend packs */
    bool b_transposed; /* with b_row: it is (columns, depth) */
    float *scratch;    /* NULL, or what makes many rows faster: rank_pack_count(depth, columns)
                          floats to pack b in, if it is not; rank_narrow_scratch if it is, in another
                          type than float32. In blocks not NULL */
    void *c;           /* element (row, column) at row·c_row + column */
    rank_type c_type;
    size_t c_row;
    int leaves; /* a power of two up to RANK_LEAVES_MAX that divides depth, unless leaf_depth is set */
    size_t leaf_depth; /* 0, or of each leaf but the last ones, which may be shorter or empty */
    size_t parts
        [RANK_DEPTH_PARTS]; /* of depth, one behind the other, that leaves divides; zeros: one */
    bool accumulate;
    const float *gelu_bias; /* (columns): c = gelu(a · b + gelu_bias), float32 without gaps between
                               rows. Only with product_gelu of the backend; NULL: not */
} rank_product;

/* Floats of a product's scratch, if b is packed and not float32: a panel that is widened, and in blocks
 * the rows of a. That of int4 is enough for int8. */
static inline size_t rank_narrow_scratch(rank_type type, size_t rows, size_t depth, int leaves)
{
    const size_t packed = rank_pack_depth(type, depth, leaves) * rank_row_pairs(type);
    return packed * (RANK_PANEL + (rank_in_blocks(type) ? rows : 0));
}

/* A leaf's range of the depth, where that is one part. */
typedef struct rank_leaf {
    size_t first;
    size_t depth;
} rank_leaf;

static inline rank_leaf rank_leaf_of(const rank_product *args, int leaf)
{
    const size_t most =
        args->leaf_depth > 0 ? args->leaf_depth : args->depth / (size_t)args->leaves;
    const size_t begin = (size_t)leaf * most;
    const size_t first = begin < args->depth ? begin : args->depth;
    return (rank_leaf){first, args->depth - first < most ? args->depth - first : most};
}

#endif
