/* The two kinds of steps that an estimate is of. */
#ifndef LAUNCH_PLAN_STEP_H
#define LAUNCH_PLAN_STEP_H

#include "plan/estimate.h"

/* Both fill in an estimate whose layout is possible. Statuses of training: as launch_estimate_make. */
BASE_MUST_CHECK base_status launch_step_training(const launch_ask *ask, launch_estimate *made,
                                                 base_error *reterr);
void launch_step_decoding(const launch_ask *ask, launch_estimate *made);

/* The memory of the rank of a training that holds most. */
void launch_step_training_memory(const launch_ask *ask, launch_estimate *made);

#endif
