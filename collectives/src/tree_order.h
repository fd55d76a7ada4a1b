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

#include <stddef.h>

#include "kernels.h"

/* out = the operands combined in canonical order, and where the kernel averages divided by divisor
 * (0: an intermediate result, not divided); 1 <= operand_count <= COLL_RANKS_MAX, `count` elements
 * each. out may be exactly one of the operands. */
void coll_tree_combine(const coll_kernel *kernel, void *out, const void *const *operands,
                       int operand_count, size_t count, int divisor);

#endif
