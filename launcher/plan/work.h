/* The work memory of a rank on a GPU: what it holds besides weights, gradients, activations and
 * cache. Pure. */
#ifndef LAUNCH_PLAN_WORK_H
#define LAUNCH_PLAN_WORK_H

#include "plan/model.h"

/* A rank's part of a training. */
typedef struct launch_work {
    double tokens;     /* of a micro-batch */
    int tensor;        /* ranks that share each layer */
    int context_ranks; /* ranks that share a micro-batch, each with so many tokens */
    int expert_ranks;  /* ranks that share out the experts of each layer */
    proto_precision precision;
    int64_t adapter_rank; /* 0: none */
    bool answers;         /* it has the output over the vocabulary */
    bool recompute;       /* backward computes blocks again */
} launch_work;

double launch_work_training_bytes(const launch_model *model, const launch_work *work);

/* Bytes of a decoding step with a token for each of `batch` sequences. */
double launch_work_decoding_bytes(const launch_model *model, double batch, int tensor,
                                  proto_precision precision);

#endif
