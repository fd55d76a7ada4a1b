/* Writes checkpoints while a training runs: --save-every. Called by train.c and finish.c. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/path.h"
#include "proto/checkpoints.h"
#include "rank/checkpoint.h"
#include "train/trainer.h"
#include "train/training_state.h"

/* How far each slot of the job is in its epoch: a rank's slots are contiguous, and the others are zero
 * until the sum. Doubles hold such counts exactly. */
static base_status gather_positions(trainer *self, uint32_t **positions, base_error *reterr)
{
    const int here = (int)self->job->train.micro_batches;
    const int count = (int)self->job->job.world_size * here;
    const int first = self->worker->identity.rank * here;
    double *sums = calloc((size_t)count, sizeof *sums);
    *positions = calloc((size_t)count, sizeof **positions);
    base_status status =
        sums != NULL && *positions != NULL
            ? BASE_OK
            : base_fail(reterr, BASE_ERR_MEMORY, "no memory for %d positions", count);
    for (int i = 0; status == BASE_OK && i < here; i++) {
        sums[first + i] = rank_data_position(self->data, i);
    }
    if (status == BASE_OK) {
        status = rank_ddp_sum(self->ddp, sums, (size_t)count, reterr);
    }
    for (int i = 0; status == BASE_OK && i < count; i++) {
        (*positions)[i] = (uint32_t)sums[i];
    }
    free(sums);
    return status;
}

/* Writes values of the device, one for each parameter, under the names of the model's tensors. */
static base_status write_values(const trainer *self, const char *directory, const char *name,
                                float *values, base_error *reterr)
{
    const rank_device *device = &self->device;
    char path[BASE_PATH_BYTES];
    void *host = NULL;
    base_status status = base_path_join(directory, name, path, reterr);
    if (status == BASE_OK) {
        status = device->backend->map(device->queue, values, self->param_count * sizeof *values,
                                      false, &host, reterr);
    }
    if (status == BASE_OK) {
        status = rank_safetensors_write(path, &self->config, host, "", reterr);
        device->backend->unmap(device->queue, host);
    }
    return status;
}

static base_status write_model(const trainer *self, const char *directory, base_error *reterr)
{
    const rank_device *device = &self->device;
    void *host = NULL;
    base_status status =
        device->backend->map(device->queue, self->params, self->param_count * sizeof *self->params,
                             false, &host, reterr);
    if (status == BASE_OK) {
        status = rank_checkpoint_write(directory, &self->config, host, self->job->data.tokenizer,
                                       trainer_prompt_suffix(self), reterr);
        device->backend->unmap(device->queue, host);
    }
    return status;
}

static base_status write_files(const trainer *self, const char *directory,
                               const uint32_t *positions, base_error *reterr)
{
    const rank_optimizer_moments moments = rank_optimizer_get_moments(self->optimizer);
    rank_training_state state = {.step = (int64_t)self->steps_done,
                                 .epoch = (int64_t)self->epoch,
                                 .epoch_ended = self->epoch_ended};
    base_status status = base_mkdirs(directory, reterr);
    if (status == BASE_OK) {
        status = rank_training_course_of(self->job, &state.course, reterr);
    }
    if (status == BASE_OK) {
        status = write_model(self, directory, reterr);
    }
    if (status == BASE_OK) {
        status = write_values(self, directory, TRAINER_FIRST_MOMENTS_FILE, moments.first, reterr);
    }
    if (status == BASE_OK) {
        status = write_values(self, directory, TRAINER_SECOND_MOMENTS_FILE, moments.second, reterr);
    }
    return status == BASE_OK ? rank_training_state_write(directory, &state, positions, reterr)
                             : status;
}

/* Waits until the file, or the names in the directory, are on the disk. */
static bool sync_path(int directory_fd, const char *name)
{
    const int fd = openat(directory_fd, name, O_RDONLY | O_CLOEXEC);
    const bool done = fd >= 0 && fsync(fd) == 0;
    const int reason = errno;
    if (fd >= 0) {
        (void)close(fd);
    }
    errno = reason;
    return done;
}

static base_status sync_directory(const char *path, base_error *reterr)
{
    const struct dirent *entry = NULL;
    DIR *entries = opendir(path);
    bool done = entries != NULL;
    while (done && (entry = readdir(entries)) != NULL) {
        if (strcmp(entry->d_name, "..") != 0) {
            done = sync_path(dirfd(entries), entry->d_name);
        }
    }
    const int reason = errno;
    if (entries != NULL) {
        (void)closedir(entries);
    }
    return done ? BASE_OK : base_fail_errno(reterr, reason, "cannot write %s", path);
}

/* A checkpoint gets its name when all of it is on the disk, so that there is never half a one. */
static base_status write_checkpoint(const trainer *self, const uint32_t *positions,
                                    base_error *reterr)
{
    const char *out = self->job->output.directory;
    const int64_t keep = self->job->train.keep;
    char parent[BASE_PATH_BYTES];
    char partial[BASE_PATH_BYTES];
    char path[BASE_PATH_BYTES];
    base_status status = base_path_join(out, PROTO_CHECKPOINTS_DIRECTORY, parent, reterr);
    if (status == BASE_OK) {
        status = base_path_join(parent, PROTO_CHECKPOINT_PARTIAL, partial, reterr);
    }
    if (status == BASE_OK) {
        status = proto_checkpoint_path(out, self->steps_done, path, reterr);
    }
    if (status == BASE_OK) {
        status = write_files(self, partial, positions, reterr);
    }
    if (status == BASE_OK) {
        status = sync_directory(partial, reterr);
    }
    if (status == BASE_OK && rename(partial, path) != 0) {
        status = base_fail_errno(reterr, errno, "cannot write %s", path);
    }
    if (status == BASE_OK && !sync_path(AT_FDCWD, parent)) {
        status = base_fail_errno(reterr, errno, "cannot write %s", parent);
    }
    return status == BASE_OK
               ? proto_checkpoints_prune(out, keep != 0 ? keep : PROTO_CHECKPOINTS_KEPT, reterr)
               : status;
}

base_status trainer_save(trainer *self, base_error *reterr)
{
    const int64_t begun_ns = base_now_ns();
    uint32_t *positions = NULL;
    double done = 1.0; /* the others wait here for rank 0 */
    if (self->job->train.save_every == 0 || self->job->output.directory[0] == '\0' ||
        self->saved_step == self->steps_done) {
        return BASE_OK;
    }
    base_status status = gather_positions(self, &positions, reterr);
    if (status == BASE_OK && rank_ddp_is_main(self->ddp)) {
        status = write_checkpoint(self, positions, reterr);
    }
    free(positions);
    if (status == BASE_OK) {
        status = rank_ddp_sum(self->ddp, &done, 1, reterr);
    }
    self->saved_step = self->steps_done;
    self->checkpoints++;
    self->checkpoint_ns += base_now_ns() - begun_ns;
    return status == BASE_OK ? BASE_OK : base_error_prepend(reterr, status, "saving a checkpoint");
}
