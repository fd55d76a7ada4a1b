/* How a tensor is cut between ranks. Pure arithmetic, without tensors or ranks. */
#ifndef RANK_PARALLEL_TENSOR_CUT_H
#define RANK_PARALLEL_TENSOR_CUT_H

#include <stddef.h>

/* The units that are distributed. */
typedef enum rank_cut_kind {
    RANK_CUT_NONE, /* every rank has all of it */
    RANK_CUT_HEADS,
    /* Heads of keys and values, if there are fewer of them than query heads. If there are fewer than ranks, too,
     * neighbouring ranks have the same one. */
    RANK_CUT_KV_HEADS,
    RANK_CUT_HIDDEN, /* the inner columns of the MLP */
    RANK_CUT_VOCAB,
} rank_cut_kind;

/* The axis has `parts` pieces of equal length one after the other (3 for q, k and v in one tensor).
 * Each consists of units that are never split (the columns of a head, say). */
typedef struct rank_cut {
    rank_cut_kind kind;
    int axis;
    int parts;
    size_t unit;
} rank_cut;

/* How many units one part of an axis has. extent: the elements of the axis. */
size_t rank_cut_units(const rank_cut *cut, size_t extent);

/* Elements first … first + count along the axis. */
typedef struct rank_cut_range {
    size_t first;
    size_t count;
} rank_cut_range;

/* This rank's range within part `part`. The ranks divide the units, or a multiple of units of RANK_CUT_KV_HEADS. */
rank_cut_range rank_cut_range_make(const rank_cut *cut, size_t extent, int part, int rank,
                                   int ranks);

#endif
