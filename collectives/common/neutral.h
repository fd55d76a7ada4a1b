/* The neutral elements of reductions: what an exclusive scan gives rank 0. */
#ifndef COLL_COMMON_NEUTRAL_H
#define COLL_COMMON_NEUTRAL_H

#include <stddef.h>

#include "coll/coll.h"

/* Stores `count` of them at out: 0 of sums, or and xor; 1 of products; all bits of and; of min the largest value
 * of the type, of max the smallest (infinities of floats). The type takes the reduction. */
void coll_neutral_fill(void *out, coll_type type, coll_reduce_op reduce, size_t count);

#endif
