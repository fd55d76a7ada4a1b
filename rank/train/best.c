/* --keep-best and --patience: the parameters of the evaluation that had the lowest held-out loss, and whether a
 * lower one has not come for too long. Called by prepare.c, heldout.c, resume.c, train.c and finish.c. */
#include <math.h>

#include "train/trainer.h"

bool trainer_keeps_best(const trainer *self)
{
    return self->job->train.keep_best;
}

size_t trainer_best_plan(const trainer *self)
{
    return trainer_keeps_best(self) ? trainer_params_here(self) * sizeof(float) : 0;
}

/* Enqueues a copy. */
static void copy(const trainer *self, float *to, const float *from)
{
    const rank_device *device = &self->device;
    device->backend->copy(device->queue, to, from, trainer_best_plan(self));
}

base_status trainer_best_make(trainer *self, base_error *reterr)
{
    const rank_device *device = &self->device;
    void *memory = NULL;
    double measured = trainer_heldout_measured(self);
    if (!trainer_keeps_best(self)) {
        return BASE_OK;
    }
    base_status status = trainer_sum(self, &measured, 1, reterr);
    if (status == BASE_OK && measured == 0.0) {
        status = base_fail(reterr, BASE_ERR_INVALID,
                           "--keep-best: %s has no sentence that fits into a context of %d tokens",
                           self->job->data.heldout, self->config.context);
    }
    if (status != BASE_OK) {
        return status;
    }
    status = device->backend->alloc(device->queue, RANK_MEMORY_WEIGHTS, trainer_best_plan(self),
                                    &memory, reterr);
    self->best_params = memory;
    return status;
}

void trainer_best_free(trainer *self)
{
    if (self->best_params != NULL) {
        self->device.backend->release(self->device.queue, self->best_params);
    }
}

void trainer_note_best(trainer *self, int64_t step, const trainer_heldout_result *heldout)
{
    rank_training_best *best = &self->best;
    if (!trainer_keeps_best(self)) {
        return;
    }
    if (!isfinite(heldout->loss) || (best->step > 0 && !(heldout->loss < best->loss))) {
        best->waited++;
        return;
    }
    *best = (rank_training_best){.step = step, .loss = heldout->loss};
    copy(self, self->best_params, self->params);
}

bool trainer_gives_up(const trainer *self)
{
    const int64_t patience = self->job->train.patience;
    return patience > 0 && self->best.waited >= patience;
}

bool trainer_has_better(const trainer *self)
{
    return self->best.step > 0 && self->best.step != (int64_t)self->steps_done;
}

void trainer_take_best(trainer *self)
{
    if (!trainer_has_better(self)) {
        return;
    }
    copy(self, self->params, self->best_params);
    if (self->rounded != NULL) {
        trainer_round(self);
    }
}

base_status trainer_resume_best(trainer *self, const char *path, const rank_training_best *saved,
                                base_error *reterr)
{
    self->best = *saved;
    if (saved->step == 0) {
        return BASE_OK;
    }
    if (!trainer_has_better(self)) { /* the checkpoint's model is the best one */
        copy(self, self->best_params, self->params);
        return BASE_OK;
    }
    return trainer_share_file(self, path, TRAINER_BEST_FILE, self->best_params, "best parameters",
                              reterr);
}
