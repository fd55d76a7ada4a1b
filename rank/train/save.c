/* Writes checkpoints while a training runs: --save-every. Called by train.c and finish.c. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/path.h"
#include "base/sync.h"
#include "proto/checkpoints.h"
#include "rank/checkpoint.h"
#include "train/trainer.h"
#include "train/training_state.h"

/* Large ones, which are read for their digests, and brought to the disk. */
static int file_count(const trainer *self)
{
    const int best = trainer_has_better(self) ? 1 : 0;
    return best + (trainer_is_local(self) ? 2 + 2 * (int)self->job->job.world_size : 3);
}

/* How far each slot of the job is in its epoch: those of other ranks are zero until the sum. The ranks of a replica have the same slots, so that the first one tells. Doubles hold
 * such counts exactly. */
static base_status gather_positions(const trainer *self, uint32_t **positions, base_error *reterr)
{
    const int here = (int)self->job->train.micro_batches;
    const int count = (int)proto_job_replicas(self->job) * here;
    const proto_place place = trainer_place(self);
    const bool tells = place.block == 0 && place.stage == 0 && place.part == 0;
    double *sums = calloc((size_t)count, sizeof *sums);
    *positions = calloc((size_t)count, sizeof **positions);
    base_status status =
        sums != NULL && *positions != NULL
            ? BASE_OK
            : base_fail(reterr, BASE_ERR_MEMORY, "no memory for %d positions", count);
    for (int i = 0; status == BASE_OK && tells && i < here; i++) {
        sums[proto_job_slot(self->job, place.replica, i)] = rank_data_position(self->data, i);
    }
    if (status == BASE_OK) {
        status = trainer_sum(self, sums, (size_t)count, reterr);
    }
    for (int i = 0; status == BASE_OK && i < count; i++) {
        (*positions)[i] = (uint32_t)sums[i];
    }
    free(sums);
    return status;
}

bool trainer_are_moments_sharded(const trainer *self, const float *values)
{
    const bool best = self->best_params != NULL && values == self->best_params;
    return trainer_is_sharded(self) && values != self->params && !best;
}

/* A stage, or a shard. */
bool trainer_are_cut(const trainer *self, const float *values)
{
    return trainer_has_part(self) || trainer_are_moments_sharded(self, values);
}

/* Collective: all values of the model on rank 0, one for each parameter, in the host's memory; the others
 * get NULL. */
static base_status collect(const trainer *self, float *values, float **whole, base_error *reterr)
{
    const rank_device *device = &self->device;
    void *host = NULL;
    *whole = NULL;
    if (trainer_are_cut(self, values)) {
        rank_pipeline_copies copies; /* compared at the end */
        return trainer_collect(self, values, whole, &copies, reterr);
    }
    if (self->worker->identity.rank != 0) {
        return BASE_OK;
    }
    const base_status status = device->backend->map(
        device->queue, values, self->param_count * sizeof *values, false, &host, reterr);
    *whole = host;
    return status;
}

static void give_back(const trainer *self, const float *values, float *whole)
{
    if (trainer_are_cut(self, values)) {
        free(whole);
    } else if (whole != NULL) {
        self->device.backend->unmap(self->device.queue, whole);
    }
}

/* Collective: writes values under the names of the model's tensors; name NULL: the model itself. All ranks
 * wait until it is written: what they do next may be a collective. */
static base_status write_values(const trainer *self, const char *directory, const char *name,
                                float *values, base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    float *whole = NULL;
    base_status status = collect(self, values, &whole, reterr);
    if (status == BASE_OK && whole != NULL && name == NULL) {
        status = trainer_write_model(self, directory, whole, reterr);
    } else if (status == BASE_OK && whole != NULL) {
        status = base_path_join(directory, name, path, reterr);
        if (status == BASE_OK) {
            status = rank_safetensors_write(path, &self->trained, whole, "", RANK_FLOAT32, reterr);
        }
    }
    give_back(self, values, whole);
    return status == BASE_OK ? trainer_await_files(self, 1, reterr) : status;
}

/* Collective: what rank 0 writes into the directory. */
static base_status write_files(const trainer *self, const char *directory, base_error *reterr)
{
    const rank_optimizer_moments moments = rank_optimizer_get_moments(self->optimizer);
    base_status status = BASE_OK;
    if (self->worker->identity.rank == 0) {
        status = base_mkdirs(directory, reterr);
    }
    if (status == BASE_OK) {
        status = write_values(self, directory, NULL, self->params, reterr);
    }
    if (status == BASE_OK && trainer_has_better(self)) {
        status = write_values(self, directory, TRAINER_BEST_FILE, self->best_params, reterr);
    }
    if (status == BASE_OK && trainer_is_local(self)) {
        return trainer_write_local(self, directory, reterr);
    }
    if (status == BASE_OK) {
        status = write_values(self, directory, TRAINER_FIRST_MOMENTS_FILE, moments.first, reterr);
    }
    return status == BASE_OK
               ? write_values(self, directory, TRAINER_SECOND_MOMENTS_FILE, moments.second, reterr)
               : status;
}

static base_status write_state(const trainer *self, const char *directory,
                               const uint32_t *positions, base_error *reterr)
{
    const rank_training_state state = {.course = self->course,
                                       .lora = self->lora,
                                       .local = rank_training_local_of(self->job),
                                       .optimizer = rank_training_optimizer_of(self->job),
                                       .best = self->best,
                                       .step = (int64_t)self->steps_done,
                                       .epoch = (int64_t)self->epoch,
                                       .epoch_ended = self->epoch_ended};
    return rank_training_state_write(directory, &state, positions, reterr);
}

/* A checkpoint gets its name when all of it is on the disk, so that there is never half a one. */
static base_status put_in_place(const trainer *self, const char *partial, base_error *reterr)
{
    const char *out = self->job->output.directory;
    const int64_t keep = self->job->train.keep;
    base_error error;
    char path[BASE_PATH_BYTES];
    base_status status = proto_checkpoint_path(out, self->steps_done, path, reterr);
    if (status == BASE_OK) {
        status = base_sync_directory(partial, reterr);
    }
    if (status == BASE_OK && rename(partial, path) != 0) {
        status = base_fail_errno(reterr, errno, "cannot write %s", path);
    }
    if (status == BASE_OK) {
        status = base_sync_parent(path, reterr);
    }
    if (status == BASE_OK && proto_checkpoints_prune(out, keep != 0 ? keep : PROTO_CHECKPOINTS_KEPT,
                                                     &error) != BASE_OK) {
        base_log(BASE_LOG_WARNING, "an old checkpoint is kept: %s", error.message);
    }
    return status;
}

static base_status write_checkpoint(const trainer *self, base_error *reterr)
{
    char parent[BASE_PATH_BYTES];
    char partial[BASE_PATH_BYTES];
    uint32_t *positions = NULL;
    const bool main = self->worker->identity.rank == 0;
    base_status status =
        base_path_join(self->job->output.directory, PROTO_CHECKPOINTS_DIRECTORY, parent, reterr);
    if (status == BASE_OK) {
        status = base_path_join(parent, PROTO_CHECKPOINT_PARTIAL, partial, reterr);
    }
    if (status == BASE_OK) {
        status = gather_positions(self, &positions, reterr);
    }
    if (status == BASE_OK) {
        status = write_files(self, partial, reterr);
    }
    if (status == BASE_OK && main) {
        status = write_state(self, partial, positions, reterr);
    }
    if (status == BASE_OK && main) {
        status = put_in_place(self, partial, reterr);
    }
    free(positions);
    return status;
}

base_status trainer_save(trainer *self, base_error *reterr)
{
    const int64_t begun_ns = base_now_ns();
    if (self->job->train.save_every == 0 || self->job->output.directory[0] == '\0' ||
        self->saved_step == self->steps_done) {
        return BASE_OK;
    }
    base_status status = write_checkpoint(self, reterr);
    if (status == BASE_OK) {
        status = trainer_await_files(self, file_count(self), reterr);
    }
    self->saved_step = self->steps_done;
    self->checkpoints++;
    self->checkpoint_ns += base_now_ns() - begun_ns;
    return status == BASE_OK ? BASE_OK : base_error_prepend(reterr, status, "saving a checkpoint");
}

bool trainer_may_pause(const trainer *self)
{
    const int64_t done = (int64_t)self->steps_done + 1;
    const int64_t every = self->job->train.save_every;
    return every > 0 && done % every == 0 && done < self->job->train.steps &&
           proto_client_pause_requested(self->worker->client);
}

base_status trainer_confirm_pause(trainer *self, base_error *reterr)
{
    enum { STOP = 1, PAUSE = 2 };
    proto_client *client = self->worker->client;
    const uint8_t mine = proto_client_stop_requested(client)    ? STOP
                         : proto_client_pause_requested(client) ? PAUSE
                                                                : 0;
    uint8_t all[BASE_RANKS_MAX] = {0};
    const base_status status = proto_client_exchange(
        client, &mine, all, sizeof mine,
        base_deadline_after_ns(self->job->parallel.timeout_ms * BASE_NS_PER_MS), reterr);
    self->pausing = false;
    for (int rank = 0; rank < (int)self->job->job.world_size; rank++) {
        self->stopping = self->stopping || all[rank] == STOP;
        self->pausing = self->pausing || all[rank] == PAUSE;
    }
    self->pausing = self->pausing && !self->stopping;
    return status;
}
