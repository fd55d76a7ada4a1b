/* Training of adapters alone (rank/adapters.h): the frozen model beside them, what a checkpoint says of both, and
 * the model with its adapters merged. Called by the other files of this directory. */
#include <stdlib.h>
#include <string.h>

#include "base/path.h"
#include "rank/adapters.h"
#include "rank/checkpoint.h"
#include "train/trainer.h"

_Static_assert((int)PROTO_LORA_RANK_MAX == (int)RANK_ADAPTERS_RANK_MAX,
               "a job's check promises it");
_Static_assert((int)PROTO_LORA_TARGETS_BYTES == (int)RANK_ADAPTERS_NAMES_BYTES, "names fit");

bool trainer_adapts(const trainer *self)
{
    return self->config.adapters.rank > 0;
}

base_status trainer_make_frozen(trainer *self, base_error *reterr)
{
    const rank_device *device = &self->device;
    void *memory = NULL;
    if (!trainer_adapts(self)) {
        return BASE_OK;
    }
    const base_status status =
        device->backend->alloc(device->queue, RANK_MEMORY_WEIGHTS,
                               self->model_params * sizeof *self->frozen, &memory, reterr);
    self->frozen = memory;
    return status;
}

/* What the checkpoints of this training say of it. */
static void describe(trainer *self)
{
    rank_training_lora *lora = &self->lora;
    uint8_t digest[RANK_DIGEST_BYTES];
    lora->rank = self->job->lora.rank;
    lora->alpha = proto_job_lora_alpha(&self->job->lora);
    rank_adapters_names(&self->config, lora->targets);
    self->device.backend->digest(
        self->device.queue, &(rank_digest){.at = self->frozen,
                                           .size_bytes = self->model_params * sizeof *self->frozen,
                                           .digest = digest});
    proto_digest_hex(digest, lora->frozen_blake2b256);
}

base_status trainer_read_frozen(trainer *self, base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    if (!trainer_adapts(self) || self->worker->identity.rank != 0) {
        return BASE_OK;
    }
    base_status status =
        base_path_join(self->job->model.checkpoint, "model.safetensors", path, reterr);
    if (status == BASE_OK) {
        status = rank_safetensors_read(path, &self->config, self->frozen, reterr);
    }
    if (status == BASE_OK) {
        describe(self);
    }
    return status;
}

base_status trainer_share_frozen(const trainer *self, base_error *reterr)
{
    return trainer_adapts(self) ? rank_ddp_share(self->ddp, self->frozen, self->model_params,
                                                 "frozen parameters", reterr)
                                : BASE_OK;
}

base_status trainer_merge(const trainer *self, float **whole, base_error *reterr)
{
    const size_t size_bytes = self->model_params * sizeof **whole;
    *whole = malloc(size_bytes);
    if (*whole == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the model's %zu parameters",
                         self->model_params);
    }
    memcpy(*whole, self->frozen, size_bytes);
    rank_adapters_merge(&self->config, self->params, *whole);
    return BASE_OK;
}
