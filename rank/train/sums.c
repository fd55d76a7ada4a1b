/* What ranks add up in a step besides gradients. Called by step.c, heldout.c and loads.c. */
#include "ringfence/coll_error.h"
#include "train/trainer.h"

base_status trainer_sum(const trainer *self, double *values, size_t count, base_error *reterr)
{
    return (base_status)coll_all_reduce(coll_context_world(self->worker->context), values, values,
                                        count, COLL_FLOAT64, COLL_SUM, coll_error_of(reterr));
}

double trainer_sum_losses(const double *losses, int count)
{
    double sums[RANK_DDP_LEVELS_MAX] = {0.0};
    for (int i = 0; i < count; i++) {
        const rank_leaf_plan plan = rank_leaf_plan_make(count, i);
        double *sum = &sums[plan.level];
        *sum = losses[i];
        for (int merge = 0; merge < plan.merges; merge++, sum--) {
            sum[-1] += sum[0];
        }
    }
    return sums[0];
}
