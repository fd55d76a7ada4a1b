/* The canonical order: a balanced binary tree over the ranks.
 *
 * Neighbours pair up, then the pairs, and so on; one that is left over waits for the next level:
 *
 *     2: r0+r1      3: (r0+r1)+r2      4: (r0+r1)+(r2+r3)      5: ((r0+r1)+(r2+r3))+r4
 *     6: ((r0+r1)+(r2+r3))+(r4+r5)     7: ((r0+r1)+(r2+r3))+((r4+r5)+r6)
 *
 * Put the other way: the left operand of the root is the largest power of two below the number of
 * ranks. Of all balanced trees this one has the property that every rank may hold 2^k operands,
 * tree combined beforehand, and the result is that of one tree over all of them, for any number of
 * ranks: micro-batches and ranks can be traded against each other. The order is per element, so
 * chunks and slices never change a bit.
 *
 * 16-bit floats are widened first: the whole tree is computed in float32, and rounded once. */
#ifndef COLL_SRC_TREE_ORDER_H
#define COLL_SRC_TREE_ORDER_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/kernels.h"

typedef struct coll_tree {
    const coll_kernel *kernel;
    const uint8_t *const *operands;
    int operand_count; /* 1 <= operand_count <= COLL_RANKS_MAX */
    int divisor;       /* for averages; 0 or 1: an intermediate result, not divided */
} coll_tree;

/* Each of the outputs, one or more, = the tree's operands combined, `count` elements. An output may
 * be exactly one of the operands, and not overlap them otherwise. */
void coll_tree_spread(const coll_tree *tree, uint8_t *const *outs, int out_count, size_t count);

/* out = the operands combined in canonical order: coll_tree_spread to one place. */
void coll_tree_combine(const coll_kernel *kernel, void *out, const void *const *operands,
                       int operand_count, size_t count, int divisor);

/* Prefixes of the operands. */
typedef struct coll_tree_prefixes {
    const coll_kernel *kernel; /* divides nothing */
    const uint8_t *const *operands;
    uint8_t *const *outs; /* as many as operands */
    int operand_count;
    bool exclusive;
} coll_tree_prefixes;

/* outs[r] = operands 0 ... r combined in canonical order, exclusive: 0 ... r - 1, and outs[0] stays as it is;
 * `count` elements each. outs[r] may be operands[r], and not overlap any operand otherwise. */
void coll_tree_scan(const coll_tree_prefixes *prefixes, size_t count);

#endif
