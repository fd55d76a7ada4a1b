/* Modes ddp-cpu and ddp-nccl: data-parallel training, step by step. Called by src/modes.c and
 * src/gpu_modes.c. */
#include "train/mode.h"

#include <stdlib.h>

#include "base/clock.h"
#include "train/trainer.h"

static void trainer_fini(trainer *self)
{
    rank_traced_end(&self->traced, &self->device);
    rank_graphs_destroy(self->graphs);
    trainer_outer_free(self);
    trainer_best_free(self);
    trainer_free_muon(self);
    rank_ddp_destroy(self->ddp);
    rank_pipeline_destroy(self->pipeline);
    rank_model_destroy(self->model);
    rank_cp_group_destroy(self->cp);
    rank_ep_group_destroy(self->ep);
    rank_optimizer_destroy(self->optimizer);
    rank_data_close(self->heldout);
    rank_data_close(self->data);
    rank_chat_fini(&self->chat);
    rank_tokenizer_destroy(self->tokenizer);
    free(self->parts);
    free(self->apart);
    trainer_loads_free(self);
    if (self->frozen != NULL) {
        self->device.backend->release(self->device.queue, self->frozen);
    }
    if (self->params != NULL && !trainer_shards_params(self)) {
        self->device.backend->release(self->device.queue, self->rounded);
        self->device.backend->release(self->device.queue, self->params);
    }
    rank_device_close(&self->device);
}

base_status rank_mode_train(rank_worker *worker, base_error *reterr)
{
    trainer self = {.worker = worker, .job = &worker->identity.job};
    base_status status = trainer_prepare(&self, reterr);
    const int64_t startup_ns = base_now_ns() - worker->started_ns;
    if (status == BASE_OK) {
        status = trainer_ready(&self, reterr);
    }
    while (status == BASE_OK && (int64_t)self.steps_done < self.job->train.steps &&
           !self.stopping && !self.pausing && !trainer_gives_up(&self)) {
        status = trainer_step(&self, reterr);
        const int64_t every = self.job->train.save_every;
        if (status == BASE_OK && every > 0 && (int64_t)self.steps_done % every == 0) {
            status = trainer_save(&self, reterr);
        }
        if (status == BASE_OK && self.pausing) {
            status = trainer_confirm_pause(&self, reterr);
        }
    }
    if (status == BASE_OK) {
        status = self.pausing ? trainer_finish_paused(&self, reterr)
                              : trainer_finish(&self, startup_ns, reterr);
    }
    if (status != BASE_OK) {
        rank_graphs_stop(self.graphs); /* with a graph of NCCL's operations no abort returns */
        rank_worker_leave_device(worker, status, reterr);
    }
    trainer_fini(&self);
    return status;
}
