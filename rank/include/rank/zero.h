/* How ZeRO cuts an array of parameters (or gradients, or moments) between ranks. Pure arithmetic.
 *
 * The array is cut into units: as large as a bucket, counted from the array's start. Each unit is cut
 * into one piece for each rank, in the ranks' order. So every unit is the work of all ranks. A rank's
 * pieces, one behind the other, are its shard.
 *
 *     array    | unit 0              | unit 1              | unit 2   |
 *     pieces   | rank 0 | 1   | 2    | rank 0 | 1   | 2    | 0  | 1 |2|
 *     shard of rank 1: the pieces 1 of units 0, 1 and 2
 *
 * Every cut is a multiple of RANK_ZERO_BLOCK elements from the array's start, so that it is at the end of
 * a page of memory. */
#ifndef RANK_ZERO_H
#define RANK_ZERO_H

#include <stdbool.h>
#include <stddef.h>

enum { RANK_ZERO_BLOCK = 1024 }; /* float32s in 4096 bytes */

typedef struct rank_zero_cut {
    size_t count;         /* elements of the array */
    size_t offset;        /* of the array in a larger one, in which all ranges are; else 0 */
    size_t unit_elements; /* a multiple of ranks × RANK_ZERO_BLOCK; the last unit may be smaller */
    int ranks;
} rank_zero_cut;

/* A range of a larger array that is cut by itself. */
typedef struct rank_zero_stretch {
    rank_zero_cut cut;
    bool apart; /* not all ranks have it alike: it is cut between those that do */
} rank_zero_stretch;

typedef struct rank_zero_range {
    size_t offset; /* in the array, or the larger one */
    size_t count;  /* may be 0 */
} rank_zero_range;

/* Units of elements_wished, rounded up to what can be cut equally. count and ranks are at least 1. */
rank_zero_cut rank_zero_cut_make(size_t count, size_t elements_wished, int ranks);

size_t rank_zero_units(const rank_zero_cut *cut);
rank_zero_range rank_zero_unit(const rank_zero_cut *cut, size_t unit);
rank_zero_range rank_zero_piece(const rank_zero_cut *cut, size_t unit, int rank);

/* Where the rank's piece of the unit stands in its shard; of the unit behind the last one: how long
 * the shard is. */
size_t rank_zero_place(const rank_zero_cut *cut, size_t unit, int rank);
size_t rank_zero_shard(const rank_zero_cut *cut, int rank);

#endif
