/* Element-wise combination of two operands, in the order given: the left operand is the one of the
 * lower rank (or the earlier in the algorithm's order), so that the caller's order decides the
 * bits.
 *
 * Sums of integers wrap. min and max keep the left operand unless the right one is strictly less
 * (greater): a NaN on the left stays, one on the right is passed over.
 *
 * Pointers may have any alignment. An output may be exactly an input, but not overlap it otherwise.
 */
#ifndef COLL_SRC_KERNELS_H
#define COLL_SRC_KERNELS_H

#include <stddef.h>

#include "coll/coll.h"

typedef struct coll_kernel {
    /* out = left · right, count elements */
    void (*combine)(void *out, const void *left, const void *right, size_t count);
    /* the same, stored twice: one pass over the operands instead of two */
    void (*combine_twice)(void *out, void *also, const void *left, const void *right, size_t count);
} coll_kernel;

/* The kernel for this processor; NULL for a type or reduction that does not exist. */
const coll_kernel *coll_kernel_find(coll_type type, coll_reduce reduce);

/* "avx512f", "avx2" or "baseline": what coll_kernel_find chooses from here. */
const char *coll_kernel_isa(void);

#endif
