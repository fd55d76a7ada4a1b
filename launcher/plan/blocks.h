/* The bytes of a model that decodes with matrices in int8 or int4. Pure. */
#ifndef LAUNCH_PLAN_BLOCKS_H
#define LAUNCH_PLAN_BLOCKS_H

#include "plan/model.h"
#include "proto/job.h"

/* The type of embeddings and output matrices beside others of this one. */
proto_weights launch_blocks_words(proto_weights weights);

/* Of a column of so many numbers, in which blocks begin anew at each of equal leaves. A block may be shorter, and
 * numbers are stored in groups. */
double launch_blocks_column_bytes(proto_weights weights, int64_t depth, int64_t leaves);

/* Of the whole model, on one of `tensor` ranks, without padding. Norms, routers, biases and positions take
 * `number_bytes` each. */
double launch_blocks_weight_bytes(const launch_model *model, proto_weights weights, int tensor,
                                  double number_bytes);

/* Of these, the experts'. */
double launch_blocks_expert_bytes(const launch_model *model, proto_weights weights, int tensor);

#endif
