/* ZeRO over the copies of the model: what each of them keeps, and what they exchange for that. An estimate;
 * docs/PARALLELISM.md, "ZeRO in a plan", has the formulas. Pure.
 *
 * Source: Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models",
 * arXiv:1910.02054. */
#ifndef LAUNCH_PLAN_ZERO_H
#define LAUNCH_PLAN_ZERO_H

#include "plan/estimate.h"

/* The part of the model that a rank would have without ZeRO. */
typedef struct launch_zero_part {
    launch_stage stage;
    double params;  /* with adapters */
    double trained; /* of those: the adapters', or all */
    double apart;   /* of those: experts that ranks share out */
} launch_zero_part;

/* Of so many parameters, `apart` of them experts that ranks share out, those of which a copy keeps what `stage`
 * shards. */
double launch_zero_kept(const launch_ask *ask, const launch_layout *layout, proto_zero stage,
                        double params, double apart);

/* Bytes of parameters, with their copies in the products' type, and of gradients. */
double launch_zero_weight_bytes(const launch_ask *ask, const launch_layout *layout,
                                const launch_zero_part *part);
double launch_zero_gradient_bytes(const launch_ask *ask, const launch_layout *layout,
                                  const launch_zero_part *part, double micro_batches);

/* Adds the copies' exchanges to the bill, those of experts between the ranks that have the same, and sets their times: all of them, and what computing does not
 * hide. `backward_s` is one micro-batch's; its forward is made->forward_s. */
void launch_zero_bill(const launch_ask *ask, launch_estimate *made, const launch_zero_part *part,
                      double backward_s);

#endif
