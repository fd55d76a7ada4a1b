/* Muon (Jordan and others 2024, https://kellerjordan.github.io/posts/muon): the update of a matrix is its
 * momentum, whose singular values are all brought near 1. It is then as large in every direction,
 * where AdamW's is large in a few. For the matrices of a model's blocks; embeddings, the output's matrix,
 * norms and biases stay AdamW's.
 *
 * For a matrix (rows, columns) with the mean gradient g, as torch.optim.Muon has it:
 *
 *     momentum += (1 - mu) (g - momentum)
 *     u         = g + mu (momentum - g)                       (Nesterov's)
 *     x         = u / max(|u|, 1e-7)                          (Frobenius' norm)
 *     5 times:  a = x xᵀ,  x = 3.4445 x + (-4.7750 a + 2.0315 a a) x     (Newton and Schulz)
 *     w         = (1 - rate · decay) w - rate · 0.2 sqrt(max(rows, columns)) x
 *
 * with the smaller one of x xᵀ and xᵀ x. The last factor makes the update's elements about as large as
 * AdamW's (Liu and others 2025, arXiv 2502.16982), so that one learning rate is for both. All is in
 * float32, where torch has bfloat16 for x.
 *
 * The ranks share out the matrices: each computes x and w for its own, and the others get w from it.
 * The bits are those of one rank, since a matrix is computed by one rank and in one order. Momentum is
 * cheap: every rank has that of all.
 *
 * Where each rank has parts of the matrices alone, with ZeRO (stretches of the options) and where
 * tensor ranks share a model, momentum stays in parts, and matrices are put together in rounds. In
 * a round every rank computes one matrix at most: it gets the parts of u from all the others, gives
 * them their parts of x, and each updates its parts of w. So two all-to-alls make a round, which
 * are the caller's:
 *
 *     rank_muon_begin_round     momentum, and this rank's parts of u of all ranks' matrices
 *     mine → gathered
 *     rank_muon_compute_round   the matrix of this rank
 *     computed → mine
 *     rank_muon_end_round       this rank's parts of w
 *
 * In the host's memory, for a device whose operations are done when they return. Called by
 * optimizer.c. */
#ifndef RANK_OPTIM_MUON_H
#define RANK_OPTIM_MUON_H

#include "rank/optim.h"

typedef struct rank_muon rank_muon;

/* Adds the memory that it takes. */
void rank_muon_plan(const rank_model_config *model, const rank_muon_options *options,
                    rank_memory_use *use);

/* Of the options it takes `muon` and `held`. NULL is fine for destroy. */
BASE_MUST_CHECK base_status rank_muon_create(const rank_device *device,
                                             const rank_model_config *model,
                                             const rank_optimizer_options *options,
                                             rank_muon **muon, base_error *reterr);
void rank_muon_destroy(rank_muon *muon);

/* Writes the ranges of the parameters that are not Muon's, in ascending order, and returns their number.
 * ranges NULL: only that. */
size_t rank_muon_others(const rank_muon *muon, rank_optimizer_piece *ranges);

/* Of whole matrices. From a rank's first matrix to that of the next one, or to the end of the last
 * matrix. What lies between matrices is AdamW's, and equal on all ranks: so the shares are ranges
 * one behind the other. */
rank_optimizer_piece rank_muon_share(const rank_muon *muon, int rank);

/* Bytes that were allocated besides the momentum. */
size_t rank_muon_bytes(const rank_muon *muon);

typedef struct rank_muon_step {
    double learning_rate;
    double weight_decay;
    float grad_scale; /* grads times this are the mean gradient */
    float *params;    /* of the whole model, or of what is held; packed: this rank's pieces */
    const float *grads;
    float *momentum;
    bool packed_params;
    bool packed_grads;
} rank_muon_step;

/* Updates the momentum of all matrices that are not in parts, and this rank's matrices of them. */
void rank_muon_update(rank_muon *muon, const rank_muon_step *step);

/* As those of rank/optim.h. */
int rank_muon_rounds(const rank_muon *muon);
rank_muon_round rank_muon_round_of(const rank_muon *muon, int round, size_t *mine, size_t *parts);
void rank_muon_begin_round(rank_muon *muon, int round, const rank_muon_step *step);
void rank_muon_compute_round(rank_muon *muon, int round);
void rank_muon_end_round(rank_muon *muon, int round, const rank_muon_step *step);

#endif
