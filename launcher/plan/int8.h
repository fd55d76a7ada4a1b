/* The bytes of a model that decodes with matrices in int8. Pure. */
#ifndef LAUNCH_PLAN_INT8_H
#define LAUNCH_PLAN_INT8_H

#include "plan/model.h"

/* Of a column of so many numbers, in which blocks begin anew at each of equal leaves. A block may be shorter, and
 * numbers are stored in pairs. */
double launch_int8_column_bytes(int64_t depth, int64_t leaves);

/* Of the whole model, on one of `tensor` ranks, without padding. Norms, routers, biases and positions take
 * `number_bytes` each. */
double launch_int8_weight_bytes(const launch_model *model, int tensor, double number_bytes);

/* Of these, the experts'. */
double launch_int8_expert_bytes(const launch_model *model, int tensor);

#endif
