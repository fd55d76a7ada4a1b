/* How a tensor may be cut between ranks: arithmetic, without tensors and without ranks. Pure. */
#ifndef RANK_PARALLEL_TENSOR_CUT_H
#define RANK_PARALLEL_TENSOR_CUT_H

#include <stddef.h>

/* What is dealt out. */
typedef enum rank_cut_kind {
    RANK_CUT_NONE, /* every rank has all of it */
    RANK_CUT_HEADS,
    RANK_CUT_KV_HEADS, /* where there are fewer of them than heads */
    RANK_CUT_HIDDEN,   /* the inner columns of the MLP */
    RANK_CUT_VOCAB,
} rank_cut_kind;

/* The axis holds `parts` pieces of equal length behind each other (3 for q, k and v in one tensor),
 * each made of units that stay whole (the columns of a head, say). */
typedef struct rank_cut {
    rank_cut_kind kind;
    int axis;
    int parts;
    size_t unit;
} rank_cut;

/* Units in one part of an axis of that many elements. */
size_t rank_cut_units(const rank_cut *cut, size_t extent);

/* Elements first … first + count along the axis. */
typedef struct rank_cut_range {
    size_t first;
    size_t count;
} rank_cut_range;

/* This rank's range within part `part`. The ranks divide the units. */
rank_cut_range rank_cut_range_make(const rank_cut *cut, size_t extent, int part, int rank,
                                   int ranks);

#endif
