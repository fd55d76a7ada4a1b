/* AdamW with decoupled weight decay (Loshchilov and Hutter 2019), global-norm clipping,
 * learning-rate schedules. The arithmetic is PyTorch's. Element-wise and in a fixed order: results
 * do not depend on how parameters are cut into ranges. Pure apart from the arrays handed in. */
#ifndef RANK_OPTIM_H
#define RANK_OPTIM_H

#include <stddef.h>
#include <stdint.h>

#include "rank/model.h"

enum { RANK_NORM_BLOCK = 1024 }; /* elements in one partial sum of a norm */

/* In double, as PyTorch keeps them; a step's constants are rounded to float32 once. */
typedef struct rank_adamw_config {
    double learning_rate;
    double beta1;
    double beta2;
    double epsilon;
    double weight_decay;
} rank_adamw_config;

/* One step on params[0 … count). step counts from 1. Each gradient is first multiplied by
 * grad_scale (1/tokens and clipping in one). decay: whether weight decay applies to this range.
 * first, second: the moments (count), zero before step 1. */
void rank_adamw_step(const rank_adamw_config *config, int64_t step, int decay, float grad_scale,
                     float *params, const float *grads, float *first, float *second, size_t count);

/* Sum of squares in double, over fixed blocks of RANK_NORM_BLOCK elements in block order. */
double rank_sum_of_squares(const float *values, size_t count);

typedef enum rank_schedule { RANK_SCHEDULE_CONSTANT, RANK_SCHEDULE_COSINE } rank_schedule;

/* Linear warm-up over warmup_steps, then constant or cosine from peak to minimum at steps_total.
 * step from 0. */
double rank_learning_rate(rank_schedule schedule, double peak, double minimum, int64_t warmup_steps,
                          int64_t steps_total, int64_t step);

#endif
