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

static inline float *rank_pieces_cut(rank_pieces *from, size_t count)
{
    float *piece = from->begin != NULL ? from->begin + from->used : NULL;
    from->used += (count + RANK_PIECE_FLOATS - 1) / RANK_PIECE_FLOATS * RANK_PIECE_FLOATS;
    return piece;
}

#endif
