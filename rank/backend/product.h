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
    RANK_INT8_BLOCK = 32, /* numbers of a column that share a scale */
    RANK_INT8_ROWS = 1 + RANK_INT8_BLOCK / 2, /* of a panel: the scales, then pairs */
};

/* The type of an array's elements. */
typedef enum rank_type {
    RANK_FLOAT32,
    RANK_BFLOAT16, /* a float32 without the lower half of its bits */
    RANK_INT8,     /* of packed matrices alone, see below */
} rank_type;

typedef uint16_t rank_bfloat16; /* the upper half of a float32's bits */

/* "float32", "bfloat16", "int8": as the record has it. NULL: no such type. */
static inline const char *rank_type_name(rank_type type)
{
    static const char *const names[] = {"float32", "bfloat16", "int8"};
    return (size_t)type < sizeof names / sizeof *names ? names[type] : NULL;
}

/* Of int8: a pair of numbers, or a scale. */
static inline size_t rank_type_bytes(rank_type type)
{
    return type == RANK_FLOAT32 ? 4 : 2;
}

/* Matrices in int8. Each column of the depth is cut into blocks of RANK_INT8_BLOCK numbers, and the
 * last one may be shorter. Blocks begin anew at each leaf of the products' sums: so a rank's part of
 * the depth has exactly the whole matrix's blocks. A block has a scale, max |w| / 127 rounded to
 * bfloat16, and a number is round(w / scale), ties to even, -127 … 127. The largest one is 127 for
 * every rounding of the scale, so no number is off by more than half a step. A scale in bfloat16 has
 * float32's range, which one in float16 has not, and q · scale is exact in float32.
 *
 * In a panel a block is a row of RANK_PANEL scales, then a row of RANK_PANEL pairs for each two rows
 * of the matrix: a column's numbers k and k + 1, zero if there is no k + 1. Such rows are what the
 * panel's depth counts, in elements of two bytes: */
static inline size_t rank_int8_rows(size_t leaf_depth)
{
    return (leaf_depth + RANK_INT8_BLOCK - 1) / RANK_INT8_BLOCK + (leaf_depth + 1) / 2;
}

/* Of so many numbers in whole blocks. */
static inline size_t rank_numbers_bytes(rank_type type, size_t count)
{
    const size_t elements = type == RANK_INT8 ? count / RANK_INT8_BLOCK * RANK_INT8_ROWS : count;
    return elements * rank_type_bytes(type);
}

/* The rows of a panel that hold `depth` rows of a matrix, whose products have so many leaves. */
static inline size_t rank_pack_depth(rank_type type, size_t depth, int leaves)
{
    return type == RANK_INT8 ? (size_t)leaves * rank_int8_rows(depth / (size_t)leaves) : depth;
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
                          backend with packs_narrow. int8: the rows begin with a block and are of one
                          leaf; in such a backend, without to_row */
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
 * It may also be int8. Then each row of a is cut into the same blocks, and is rounded to 16 bits:
 * x = round(a / s), ties to even, with s = max |a| / 32767 of the block. A block's sum of q · x is an
 * integer below 2^27, so it has no order. An element of c is the leaf's chain of fused multiply-adds
 * over its blocks: of that sum in float32, times the product of the two scales. What 16 bits lose is
 * a 256th of what 8 bits of the weights have lost. In return a processor multiplies and adds two
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
                          type than float32. With int8 not NULL */
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

/* Floats of a product's scratch, if b is packed and not float32: a panel that is widened, and with int8
 * the rows of a. */
static inline size_t rank_narrow_scratch(rank_type type, size_t rows, size_t depth, int leaves)
{
    const size_t packed = rank_pack_depth(type, depth, leaves);
    return packed * (RANK_PANEL + (type == RANK_INT8 ? rows : 0));
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
