/* What collectives must give, computed the plain way: one element at a time, in the documented
 * order, sharing no code with the library. */
#ifndef TEST_COLL_REFERENCE_H
#define TEST_COLL_REFERENCE_H

#include <stddef.h>
#include <stdint.h>

#include "coll/coll.h"

/* Bits of a salt. Without one, floats are of mixed magnitudes and signs, so that the order of a sum
 * shows. With one, they are such that no order changes a sum, or a product. */
enum { REFERENCE_EXACT_SUMS = 1 << 29, REFERENCE_EXACT_PRODUCTS = 1 << 30 };

/* A type beside libcoll's own: maps x → a x + b and x → a x + c of integers that wrap, which are 12
 * bytes. Combined they are one after the other, which is not commutative. Has no other reduction. */
#define REFERENCE_MAPS ((coll_type)(COLL_TYPE_LAST + 1))
enum { REFERENCE_BYTES_MAX = 12 };

/* Of that type, or one of libcoll's. */
size_t reference_size_bytes(coll_type type);

/* The input of a rank, in element `index`. Written to out, one element. */
void reference_input(void *out, coll_type type, int rank, size_t index, unsigned salt);

/* An all-reduce of `count` elements over `ranks` ranks with the inputs of that salt. */
typedef struct reference_reduction {
    coll_type type;
    coll_reduce_op reduce;
    coll_algorithm algorithm;
    int ranks;
    size_t count;
    unsigned salt;
} reference_reduction;

/* Element `index` of its result. */
void reference_all_reduce(const reference_reduction *r, size_t index, void *out);

/* out = left · right, one element, as an algorithm does that rounds at every hop. */
void reference_combine(void *out, coll_type type, coll_reduce_op reduce, const void *left,
                       const void *right);

/* out = what leaves every value as it is, one element. */
void reference_neutral(void *out, coll_type type, coll_reduce_op reduce);

/* IEEE binary16 and bfloat16 by their definition: exact values, nearest with ties to even. */
float reference_widen(coll_type type, uint16_t half);
uint16_t reference_narrow(coll_type type, float value);

#endif
