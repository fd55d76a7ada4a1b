/* What experts cost the ranks of a layout. They have columns of each (tensor), or some whole ones each (expert
 * ranks). Rows are taken to be spread evenly over experts. An estimate; docs/PARALLELISM.md, "Experts in a plan",
 * has the formulas. Pure.
 *
 * Source: Lepikhin et al., "GShard: Scaling Giant Models with Conditional Computation and Automatic Sharding",
 * arXiv:2006.16668. */
#ifndef LAUNCH_PLAN_EXPERTS_H
#define LAUNCH_PLAN_EXPERTS_H

#include "plan/estimate.h"

/* Parameters that a rank has of a part. */
double launch_experts_held_params(const launch_ask *ask, const launch_layout *layout,
                                  const launch_stage *part);

/* Of these, what only the ranks have that have the same experts; 0: all copies of the model have all. */
double launch_experts_apart_params(const launch_ask *ask, const launch_layout *layout,
                                   const launch_stage *part);

/* Bytes of the rows that come to a layer's experts with a micro-batch, which backward needs. 0: none come. `tokens`
 * are a rank's own, here and below. */
double launch_experts_row_bytes(const launch_ask *ask, const launch_layout *layout, double tokens);

/* Seconds of the exchanges of a layer with a micro-batch: among ranks that have columns of each expert, and among
 * those that have some. */
typedef struct launch_experts_times {
    double tensor_forward_s;
    double tensor_backward_s;
    double rows_forward_s;
    double rows_backward_s;
} launch_experts_times;

launch_experts_times launch_experts_time(const launch_ask *ask, const launch_layout *layout,
                                         double tokens);

/* Adds these exchanges to the bill, each so often: of so many layers with so many micro-batches. */
void launch_experts_bill(const launch_ask *ask, launch_estimate *made, double tokens, double times);

#endif
