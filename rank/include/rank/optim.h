/* The optimizer of one rank: global-norm clipping, AdamW over all tensors of a model, or Muon for the
 * matrices of its blocks (optim/muon.h), and learning-rate schedules. The backend (backend.h) does the arithmetic, element by element and in a
 * fixed order. */
#ifndef RANK_OPTIM_H
#define RANK_OPTIM_H

#include <stdint.h>

#include "backend/graphs.h"
#include "rank/model.h"
#include "rank/zero.h"

typedef struct rank_optimizer rank_optimizer;

/* A range of the model's parameters. */
typedef struct rank_optimizer_piece {
    size_t offset;
    size_t count; /* may be 0 */
} rank_optimizer_piece;

/* How ranks share out the matrices: those that have the same parameters and gradients; or those
 * that have parts of them, the pieces of stretches, or of the model's tensors if these are cut
 * between ranks. */
typedef struct rank_muon_options {
    double momentum; /* below 1 */
    int ranks;       /* 0: AdamW for all parameters */
    int rank;
    const rank_zero_stretch *stretches; /* of all parameters; borrowed during create. NULL: none */
    size_t stretch_count;
    int copies;        /* ranks that have a stretch alike that is apart; 0: there is none */
    int copy;          /* which of them this rank is */
    rank_trace *trace; /* borrowed; gets a span of each matrix's iterations; NULL: none */
} rank_muon_options;

typedef struct rank_optimizer_options {
    rank_adamw_config adamw;
    double norm_max;        /* a larger norm of the mean gradient is scaled down to it; 0: never */
    rank_graphs *graphs;    /* updates are captured and replayed; borrowed. NULL: none is */
    rank_bfloat16 *rounded; /* each step also writes the parameters there; NULL: nowhere */
    const rank_held *held;  /* parameters, gradients and moments are those alone; NULL: all of the
                             * model's. Borrowed during create */
    /* Only these are updated, in ascending order, and moments are those alone, one piece behind the
     * other (ZeRO). Parameters and gradients are arrays of the whole model, or packed like moments.
     * NULL: all are. Not with `held`. Borrowed during create */
    const rank_optimizer_piece *pieces;
    size_t piece_count;
    bool packed_params;
    bool packed_grads;
    rank_muon_options muon; /* not with `graphs`; with `pieces` it has the stretches of these */
} rank_optimizer_options;

/* Adds the device's memory that an optimizer of so many parameters takes, and what Muon takes besides. */
void rank_optimizer_plan(size_t param_count, rank_memory_use *use);
void rank_optimizer_plan_muon(const rank_model_config *model, const rank_muon_options *options,
                              rank_memory_use *use);

/* Makes moments of zero on the device, which is borrowed. */
BASE_MUST_CHECK base_status rank_optimizer_create(const rank_device *device,
                                                  const rank_model_config *model,
                                                  const rank_optimizer_options *options,
                                                  rank_optimizer **optimizer, base_error *reterr);
void rank_optimizer_destroy(rank_optimizer *optimizer); /* NULL is fine */

typedef struct rank_optimizer_values {
    int64_t step; /* from 1 */
    double learning_rate;
    double tokens;             /* the gradients are those of a sum of losses over this many */
    const double *sum_squares; /* of all gradients; NULL: those that are given are all */
} rank_optimizer_values;

/* Updates all parameters, or those of the pieces, once. */
void rank_optimizer_step(rank_optimizer *optimizer, const rank_optimizer_values *values,
                         float *params, const float *grads);

/* With Muon of which ranks have parts of matrices: after a step come so many rounds, that are the
 * same for all ranks. */
int rank_optimizer_rounds(const rank_optimizer *optimizer);

/* What a round exchanges, by two all-to-alls. It stays where it is. */
typedef struct rank_muon_round {
    bool apart;  /* between the copies, not between all ranks */
    float *mine; /* sent first, to the ranks that compute the matrices, and received in the end */
    float *gathered; /* received by a rank that computes a matrix, */
    float *computed; /* and sent back */
} rank_muon_round;

/* mine: elements of each rank's matrix that this one has, for as many ranks; parts: those of this
 * rank's matrix that each has. */
rank_muon_round rank_optimizer_round(const rank_optimizer *optimizer, int round, size_t *mine,
                                     size_t *parts);

/* In this order, with an exchange between two. With what the step was given. */
void rank_optimizer_begin_round(rank_optimizer *optimizer, int round);
void rank_optimizer_compute_round(rank_optimizer *optimizer, int round);
void rank_optimizer_end_round(rank_optimizer *optimizer, int round);

/* With Muon: the range of the parameters that has the matrices of a rank. Those of all ranks, in their order, are one
 * range. */
rank_optimizer_piece rank_optimizer_share(const rank_optimizer *optimizer, int rank);

/* AdamW's moments in the device's memory, one value for each parameter: the running means of the gradient
 * (exp_avg) and of its square (exp_avg_sq). Of Muon's matrices the
 * first is the momentum, and the second stays 0. Together with the step they are all that an optimizer
 * remembers. Owned by the optimizer. */
typedef struct rank_optimizer_moments {
    float *first;
    float *second;
} rank_optimizer_moments;
rank_optimizer_moments rank_optimizer_get_moments(const rank_optimizer *optimizer);

/* Bytes that were allocated, for both and for what Muon needs besides. */
size_t rank_optimizer_moment_bytes(const rank_optimizer *optimizer);

/* The norm of the mean gradient before clipping. Call it after the step and the device's sync. */
double rank_optimizer_norm(const rank_optimizer *optimizer);

/* How long the last step took by the device's clock; negative: it does not say. Call it as the norm. */
int64_t rank_optimizer_device_ns(const rank_optimizer *optimizer);

/* The outer step of local SGD (DiLoCo, arXiv 2311.08105): what ranks have changed in steps of their own is
 * taken for a gradient, and SGD with Nesterov's momentum takes one step with it. In the host's memory;
 * element by element, so that all instruction sets give the same bits. Pure. */

/* changes = outer - params: the way that a rank has gone from the last common parameters, turned round. */
void rank_outer_changes(const float *outer, const float *params, size_t count, float *changes);

/* torch.optim.SGD(momentum, nesterov=True), with the gradient g = scale × sums. For each element
 *
 *     velocity = momentum × velocity + g
 *     outer   -= learning_rate × (g + momentum × velocity)
 *
 * and params = outer. Velocities begin with 0. */
typedef struct rank_outer_step {
    double learning_rate;
    double momentum; /* 0: plain SGD */
    double scale;    /* 1 / ranks, if sums are the sums over ranks of their changes */
    size_t count;
    const float *sums;
    float *velocity;
    float *outer;
    float *params; /* written */
} rank_outer_step;
void rank_outer_update(const rank_outer_step *step);

typedef enum rank_learning_schedule {
    RANK_SCHEDULE_CONSTANT,
    RANK_SCHEDULE_COSINE,
    RANK_SCHEDULE_LINEAR
} rank_learning_schedule;

/* Linear warm-up over warmup_steps, then constant, or from peak to minimum, which is that of the last of
 * steps_total steps. step from 0. */
double rank_learning_rate(rank_learning_schedule schedule, double peak, double minimum,
                          int64_t warmup_steps, int64_t steps_total, int64_t step);

#endif
