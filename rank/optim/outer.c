/* The outer step of local SGD: from what ranks have changed to their next common parameters. Called by
 * train/outer.c. */
#include "rank/optim.h"

void rank_outer_changes(const float *outer, const float *params, size_t count, float *changes)
{
    for (size_t i = 0; i < count; i++) {
        changes[i] = outer[i] - params[i];
    }
}

void rank_outer_update(const rank_outer_step *step)
{
    const float rate = (float)step->learning_rate;
    const float momentum = (float)step->momentum;
    const float scale = (float)step->scale;
    for (size_t i = 0; i < step->count; i++) {
        const float grad = scale * step->sums[i];
        const float velocity = momentum * step->velocity[i] + grad;
        const float next = step->outer[i] - rate * (grad + momentum * velocity);
        step->velocity[i] = velocity;
        step->outer[i] = next;
        step->params[i] = next;
    }
}
