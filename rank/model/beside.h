/* Adapters beside a matrix (rank/adapters.h) in a step of decoding, where the matrix is held in a type that is not
 * theirs. Called by decoder.c.
 *
 * A rank has of A and B what it has of the matrix: rows of B where that one's outputs are cut, columns of A where its
 * inputs are. x · Aᵀ is whole on each rank: made there, or summed up as the matrix's own product is, in the same
 * exchange. So every number of ranks has the same bits that has them without adapters. */
#ifndef RANK_MODEL_BESIDE_H
#define RANK_MODEL_BESIDE_H

#include "model/family.h"
#include "rank/model.h"

/* The rank of adapters that a step computes beside its matrices; 0: it has none, or they are in the matrices. */
static inline size_t rank_beside_rank(const rank_shape *shape)
{
    return shape->decode_type != RANK_FLOAT32 ? (size_t)shape->config->adapters.rank : 0;
}

/* Of a product with a matrix of the layer. low (rows, rank) = product.a · Aᵀ: this rank's part. Returns how many
 * floats that are; 0: the matrix has no adapter. */
size_t rank_beside_make_low(const rank_run *run, int layer, rank_product product, float *low);

/* product.c += scale · low · Bᵀ, if it has one. low, which is whole, becomes undefined. */
void rank_beside_add(const rank_run *run, int layer, rank_product product, float *low);

#endif
