/* Element-wise combination of two operands, in the order given: the left operand is the one of the
 * lower rank (or the earlier in the algorithm's order), so that the caller's order decides the
 * bits. coll.h says what becomes of NaN, of -0 and of integers that overflow.
 *
 * 16-bit floats: `combine` computes in float32 and rounds its result to the nearest, ties to even.
 * Where more than two operands are combined at once (tree_order.h), they are widened, combined by
 * the kernel `wide`, and rounded once. min and max select an operand's bits and round nothing, so
 * they have no `wide`.
 *
 * Pointers may have any alignment. An output may be exactly an input,
 * but not overlap it otherwise. */
#ifndef COLL_SRC_KERNELS_H
#define COLL_SRC_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "coll/coll.h"

typedef struct coll_kernel coll_kernel;

struct coll_kernel {
    /* out = left · right, count elements */
    void (*combine)(void *out, const void *left, const void *right, size_t count);
    /* the same, stored twice: one pass over the operands instead of two */
    void (*combine_twice)(void *out, void *also, const void *left, const void *right, size_t count);
    /* Every one of the outputs = all operands combined in canonical order (tree_order.h), divided
     * by divisor if that is above 1, in one pass; size_bytes each. NULL: only in steps. */
    void (*combine_many)(uint8_t *const *outs, int out_count, const uint8_t *const *operands,
                         int operand_count, size_t size_bytes, int divisor);
    /* data = data / divisor; NULL for all but the average */
    void (*divide)(void *data, size_t count, int divisor);
    /* 16-bit sums, products and averages; else NULL */
    const coll_kernel *wide;
    void (*widen)(float *out, const void *in, size_t count);
    void (*narrow)(void *out, const float *in, size_t count);
    size_t element_bytes;
    const coll_reduction *own; /* the program's: all but element_bytes is NULL then */
};

/* own.c: `combine` of a reduction of the program's, which wants its operands aligned. */
void coll_own_combine(const coll_reduction *own, void *out, const void *left, const void *right,
                      size_t count);

/* out = left · right, count elements, whoever's the operation is. */
static inline void coll_kernel_combine(const coll_kernel *kernel, void *out, const void *left,
                                       const void *right, size_t count)
{
    if (kernel->own != NULL) {
        coll_own_combine(kernel->own, out, left, right, count);
    } else {
        kernel->combine(out, left, right, count);
    }
}

/* The kernel for this processor; NULL for a type or reduction that does not exist, or
 * for floats bit by bit. */
const coll_kernel *coll_kernel_find(coll_type type, coll_reduce_op reduce);

/* The same of one instruction set, `index` 0 (baseline), 1, …, with its name; NULL past the last
 * that this processor has. For tests. */
const coll_kernel *coll_kernel_find_in(int index, coll_type type, coll_reduce_op reduce,
                                       const char **name);

/* "avx512f", "avx2" or "baseline": what coll_kernel_find chooses from here. */
const char *coll_kernel_isa(void);

#endif
