/* The work memory of a rank on a GPU: what it holds besides weights, gradients, activations and
 * cache. Pure. */
#ifndef LAUNCH_PLAN_WORK_H
#define LAUNCH_PLAN_WORK_H

#include "plan/model.h"

/* Bytes of a training step with micro-batches of so many tokens, on each of `tensor` ranks that share
 * a layer. `answers`: the rank has the output over the vocabulary. */
double launch_work_training_bytes(const launch_model *model, double tokens, int tensor,
                                  proto_precision precision, bool answers);

/* Bytes of a decoding step with a token for each of `batch` sequences. */
double launch_work_decoding_bytes(const launch_model *model, double batch, int tensor,
                                  proto_precision precision);

#endif
