/* The learning rate of a step: warm-up, then constant, cosine or linear. Called by train/step.c. */
#include "rank/optim.h"

#include <math.h>

double rank_learning_rate(rank_learning_schedule schedule, double peak, double minimum,
                          int64_t warmup_steps, int64_t steps_total, int64_t step)
{
    if (step < warmup_steps) {
        return peak * (double)(step + 1) / (double)warmup_steps;
    }
    if (schedule == RANK_SCHEDULE_CONSTANT || steps_total <= warmup_steps + 1) {
        return peak;
    }
    const double done = (double)(step - warmup_steps) / (double)(steps_total - 1 - warmup_steps);
    const double part = done < 1.0 ? done : 1.0;
    if (schedule == RANK_SCHEDULE_LINEAR) {
        return minimum + (peak - minimum) * (1.0 - part);
    }
    return minimum + (peak - minimum) * 0.5 * (1.0 + cos(acos(-1.0) * part));
}
