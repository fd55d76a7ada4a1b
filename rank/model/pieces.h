/* Cuts one block of memory into pieces, each at a cache line. With begin NULL it only counts. For
 * families: saved_floats and the passes cut in the same way. */
#ifndef RANK_MODEL_PIECES_H
#define RANK_MODEL_PIECES_H

#include <stddef.h>

enum { RANK_PIECE_FLOATS = 16 };

typedef struct rank_pieces {
    float *begin;
    size_t used; /* floats */
} rank_pieces;

/* Floats of a piece that has so many, with what lies behind it. */
static inline size_t rank_pieces_size(size_t count)
{
    return (count + RANK_PIECE_FLOATS - 1) / RANK_PIECE_FLOATS * RANK_PIECE_FLOATS;
}

static inline float *rank_pieces_cut(rank_pieces *from, size_t count)
{
    float *piece = from->begin != NULL ? from->begin + from->used : NULL;
    from->used += rank_pieces_size(count);
    return piece;
}

#endif
