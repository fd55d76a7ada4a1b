/* --local-steps: each rank takes steps alone, and at the end of a round the ranks add up what each has
 * changed, and all take the same outer step from the last common parameters. Called by prepare.c and
 * step.c. */
#include <string.h>

#include "base/clock.h"
#include "train/trainer.h"

bool trainer_is_local(const trainer *self)
{
    return proto_job_is_local(self->job);
}

bool trainer_ends_round(const trainer *self, int64_t steps)
{
    return steps % proto_job_local_steps(self->job) == 0;
}

size_t trainer_outer_plan(const trainer *self)
{
    return trainer_is_local(self) ? 2 * self->param_count * sizeof(float) : 0;
}

static base_status make(trainer *self, float **values, base_error *reterr)
{
    const rank_device *device = &self->device;
    const size_t size_bytes = self->param_count * sizeof **values;
    void *memory = NULL;
    const base_status status =
        device->backend->alloc(device->queue, RANK_MEMORY_OPTIMIZER, size_bytes, &memory, reterr);
    self->outer.size_bytes += status == BASE_OK ? size_bytes : 0;
    *values = memory;
    return status;
}

base_status trainer_outer_make(trainer *self, base_error *reterr)
{
    const size_t size_bytes = self->param_count * sizeof *self->params;
    if (!trainer_is_local(self)) {
        return BASE_OK;
    }
    base_status status = make(self, &self->outer.params, reterr);
    if (status == BASE_OK) {
        status = make(self, &self->outer.velocity, reterr);
    }
    if (status == BASE_OK) {
        memcpy(self->outer.params, self->params, size_bytes);
        memset(self->outer.velocity, 0, size_bytes);
    }
    return status;
}

void trainer_outer_free(trainer *self)
{
    const rank_device *device = &self->device;
    if (self->outer.params != NULL) {
        device->backend->release(device->queue, self->outer.velocity);
        device->backend->release(device->queue, self->outer.params);
    }
}

base_status trainer_outer_step(trainer *self, rank_ddp_times *times, int64_t *update_ns,
                               base_error *reterr)
{
    const proto_job_train *train = &self->job->train;
    float *changes = rank_ddp_exchanged(self->ddp);
    int64_t begun_ns = base_now_ns();
    rank_outer_changes(self->outer.params, self->params, self->param_count, changes);
    *update_ns = base_now_ns() - begun_ns;
    const base_status status = rank_ddp_exchange(self->ddp, times, reterr);
    if (status != BASE_OK) {
        return base_error_prepend(reterr, status, "exchanging what ranks have changed");
    }
    begun_ns = base_now_ns();
    rank_outer_update(&(rank_outer_step){.learning_rate = train->outer_learning_rate,
                                         .momentum = train->outer_momentum,
                                         .scale = 1.0 / (double)self->job->job.world_size,
                                         .count = self->param_count,
                                         .sums = changes,
                                         .velocity = self->outer.velocity,
                                         .outer = self->outer.params,
                                         .params = self->params});
    *update_ns += base_now_ns() - begun_ns;
    return BASE_OK;
}
