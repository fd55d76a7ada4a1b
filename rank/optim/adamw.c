#include "backend/cpu/kernels.h"
#include "rank/optim.h"

void rank_adamw_step(const rank_adamw_config *config, int64_t step, int decay, float grad_scale,
                     float *params, const float *grads, float *first, float *second, size_t count)
{
    rank_kernels_get()->adamw(config, &(rank_adamw_range){.step = step,
                                                          .decay = decay,
                                                          .grad_scale = grad_scale,
                                                          .count = count,
                                                          .params = params,
                                                          .grads = grads,
                                                          .first = first,
                                                          .second = second});
}

double rank_sum_of_squares(const float *values, size_t count)
{
    return rank_kernels_get()->sum_of_squares(values, count);
}
