/* Memory of a routing (backend/experts.h), cut from a block of memory as all arrays of a pass. Called by
 * decoding and by training. */
#ifndef RANK_MODEL_ROUTING_H
#define RANK_MODEL_ROUTING_H

#include "backend/experts.h"
#include "model/decoder.h"
#include "model/pieces.h"

/* Floats and numbers of choices are as long. */
_Static_assert(sizeof(int32_t) == sizeof(float), "a piece holds either");

static inline rank_routing rank_routing_cut(rank_pieces *from, const rank_decoder *of, size_t rows)
{
    const size_t places = rows * of->chosen;
    return (rank_routing){
        .scores = rank_pieces_cut(from, rows * of->experts),
        .weights = rank_pieces_cut(from, places),
        .choices = (void *)rank_pieces_cut(from, places),
        .places = (void *)rank_pieces_cut(from, places),
        .at = (void *)rank_pieces_cut(from, places),
        .begins = (void *)rank_pieces_cut(from, of->experts + 1),
    };
}

#endif
