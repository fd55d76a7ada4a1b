/* Goes on from the newest checkpoint of the same training: --resume. Called by prepare.c. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/path.h"
#include "proto/checkpoints.h"
#include "rank/checkpoint.h"
#include "train/config.h"
#include "train/trainer.h"
#include "train/training_state.h"

/* What rank 0 tells the others, as values that are zero on them and then summed. Doubles hold such counts
 * exactly. The positions of all slots follow. */
typedef struct course_sums {
    double resumed;
    double step;
    double epoch;
    double epoch_ended;
    double best_step; /* of --keep-best */
    double best_loss;
    double best_waited;
} course_sums;

enum { HEAD = sizeof(course_sums) / sizeof(double) };

void trainer_name_older(const trainer *self, uint64_t step, char text[TRAINER_OLDER_BYTES])
{
    bool found = false;
    uint64_t older = 0;
    const base_status status =
        proto_checkpoints_newest_before(self->job->output.directory, step, &found, &older, NULL);
    text[0] = '\0';
    if (status == BASE_OK && found) {
        (void)snprintf(text, TRAINER_OLDER_BYTES,
                       " (without its directory, --resume goes on after step %" PRIu64 ")", older);
    }
}

/* Whether this job goes on with that training. */
static base_status check_state(const trainer *self, const char *path,
                               const rank_training_state *state, base_error *reterr)
{
    rank_model_config saved;
    base_status status = rank_training_course_check(&state->course, &self->course, reterr);
    if (status == BASE_OK) {
        status = rank_training_lora_check(&state->lora, &self->lora, reterr);
    }
    if (status == BASE_OK) {
        const rank_training_local local = rank_training_local_of(self->job);
        status = rank_training_local_check(&state->local, &local, reterr);
    }
    if (status == BASE_OK) {
        const rank_training_optimizer optimizer = rank_training_optimizer_of(self->job);
        status = rank_training_optimizer_check(&state->optimizer, &optimizer, reterr);
    }
    if (status == BASE_OK && trainer_adapts(self)) {
        return BASE_OK; /* the frozen model is the same */
    }
    if (status == BASE_OK) {
        status = rank_checkpoint_config(path, &saved, reterr);
    }
    return status == BASE_OK ? rank_train_config_check(&saved, &self->config, reterr) : status;
}

base_status trainer_find_checkpoint(trainer *self, char path[BASE_PATH_BYTES], base_error *reterr)
{
    const char *out = self->job->output.directory;
    rank_training_state state;
    char older[TRAINER_OLDER_BYTES] = "";
    uint32_t *positions = NULL;
    uint64_t step = 0;
    bool found = false;
    path[0] = '\0';
    base_status status = proto_checkpoints_newest(out, &found, &step, reterr);
    if (status != BASE_OK || !found) {
        return status;
    }
    status = proto_checkpoint_path(out, step, path, reterr);
    if (status != BASE_OK) {
        return status;
    }
    status = rank_training_state_read(path, &state, &positions, reterr);
    free(positions);
    if (status == BASE_OK) {
        status = rank_training_files_check(path, &state, reterr);
        if (status != BASE_OK) {
            trainer_name_older(self, step, older);
        }
    }
    if (status == BASE_OK) {
        status = check_state(self, path, &state, reterr);
    }
    if (status == BASE_OK) {
        const rank_training_optimizer now = rank_training_optimizer_of(self->job);
        rank_training_optimizer_compare(&state.optimizer, &now);
    }
    return status == BASE_OK
               ? BASE_OK
               : base_error_prepend(reterr, status, "--resume from %s%s", path, older);
}

/* The best step of the checkpoint; none if this training cannot compare with it, which a warning says. */
static rank_training_best best_of(const trainer *self, const rank_training_state *state)
{
    const bool known = state->best.step > 0 || state->best.waited > 0;
    const bool same = strcmp(state->course.heldout_sha256, self->course.heldout_sha256) == 0;
    if (known && !trainer_keeps_best(self)) {
        base_log(BASE_LOG_WARNING,
                 "--resume without --keep-best: the best model, after step %" PRId64
                 ", is not kept any longer",
                 state->best.step);
    } else if (known && !same) {
        base_log(BASE_LOG_WARNING,
                 "--resume with another --heldout: the best model, after step %" PRId64
                 ", is not kept, since losses on two files do not compare",
                 state->best.step);
    }
    return known && same && trainer_keeps_best(self) ? state->best
                                                     : (rank_training_best){.step = 0};
}

/* Fills what rank 0 tells: the head, and the positions. */
static base_status tell(const trainer *self, const char *path, int slots, double *sums,
                        base_error *reterr)
{
    rank_training_state state;
    uint32_t *positions = NULL;
    const base_status status = rank_training_state_read(path, &state, &positions, reterr);
    if (status != BASE_OK) {
        return status;
    }
    const rank_training_best best = best_of(self, &state);
    const course_sums head = {.resumed = 1.0,
                              .step = (double)state.step,
                              .epoch = (double)state.epoch,
                              .epoch_ended = state.epoch_ended ? 1.0 : 0.0,
                              .best_step = (double)best.step,
                              .best_loss = best.loss,
                              .best_waited = (double)best.waited};
    memcpy(sums, &head, sizeof head);
    for (int i = 0; i < slots; i++) {
        sums[HEAD + i] = positions[i];
    }
    free(positions);
    return BASE_OK;
}

/* Collective: gives each rank what it has of the values, all of which are rank 0's. */
static base_status spread_whole(const trainer *self, const float *whole, float *values,
                                const char *what, base_error *reterr)
{
    uint8_t digest[RANK_DIGEST_BYTES];
    if (self->pipeline != NULL) {
        return rank_pipeline_scatter(self->pipeline, whole, values, digest, reterr);
    }
    if (!trainer_shares_experts(self)) {
        return rank_ddp_spread(self->ddp, whole, values, what, reterr);
    }
    if (trainer_are_moments_sharded(self, values)) {
        return trainer_spread_shards(self, whole, values, what, reterr);
    }
    const base_status status = trainer_spread_experts(self, whole, values, reterr);
    return status == BASE_OK ? rank_ddp_share(self->ddp, values, self->own_params, what, reterr)
                             : status;
}

/* Collective: gives each stage or shard its part of the values in rank 0's file. */
static base_status spread(const trainer *self, const char *file, float *values, const char *what,
                          base_error *reterr)
{
    float *whole = NULL;
    base_status status = trainer_make_whole(self, &whole, reterr);
    if (status == BASE_OK && whole != NULL) {
        status = rank_safetensors_read_saved(file, &self->trained, whole, reterr);
    }
    if (status == BASE_OK) {
        status = spread_whole(self, whole, values, what, reterr);
    }
    free(whole);
    return status;
}

base_status trainer_share_file(const trainer *self, const char *directory, const char *name,
                               float *values, const char *what, base_error *reterr)
{
    const rank_device *device = &self->device;
    const size_t size_bytes = self->param_count * sizeof *values;
    char file[BASE_PATH_BYTES] = "";
    void *host = NULL;
    base_status status = BASE_OK;
    if (self->worker->identity.rank == 0) {
        status = base_path_join(directory, name, file, reterr);
    }
    if (status == BASE_OK && trainer_are_cut(self, values)) {
        return spread(self, file, values, what, reterr);
    }
    if (status == BASE_OK && file[0] != '\0') {
        status = device->backend->map(device->queue, values, size_bytes, true, &host, reterr);
    }
    if (status == BASE_OK && host != NULL) {
        status = rank_safetensors_read_saved(file, &self->trained, host, reterr);
        device->backend->unmap(device->queue, host);
    }
    return status == BASE_OK ? rank_ddp_share(self->ddp, values, self->param_count, what, reterr)
                             : status;
}

/* Goes to the place in the data that the sums say. */
static base_status seek(trainer *self, const double *sums, base_error *reterr)
{
    const int here = (int)self->job->train.micro_batches;
    const int replica = trainer_place(self).replica;
    course_sums head;
    uint32_t *positions = calloc((size_t)here, sizeof *positions);
    if (positions == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for %d positions", here);
    }
    memcpy(&head, sums, sizeof head);
    for (int i = 0; i < here; i++) {
        positions[i] = (uint32_t)sums[HEAD + proto_job_slot(self->job, replica, i)];
    }
    self->first_step = (uint64_t)head.step;
    self->steps_done = self->first_step;
    self->saved_step = self->first_step;
    self->worker->step = self->first_step;
    self->epoch = (uint64_t)head.epoch;
    self->epoch_ended = head.epoch_ended > 0.0;
    const base_status status = rank_data_seek(self->data, self->epoch, positions, reterr);
    free(positions);
    return status;
}

/* Collective: gives each rank what it has of the moments. path is rank 0's. */
static base_status share_moments(const trainer *self, const char *path, base_error *reterr)
{
    const rank_optimizer_moments moments = rank_optimizer_get_moments(self->optimizer);
    if (trainer_is_local(self)) {
        return trainer_read_local(self, path, reterr);
    }
    const base_status status = trainer_share_file(self, path, TRAINER_FIRST_MOMENTS_FILE,
                                                  moments.first, "first moments", reterr);
    return status == BASE_OK ? trainer_share_file(self, path, TRAINER_SECOND_MOMENTS_FILE,
                                                  moments.second, "second moments", reterr)
                             : status;
}

base_status trainer_go_on(trainer *self, const char *path, base_error *reterr)
{
    const int slots = (int)(proto_job_replicas(self->job) * self->job->train.micro_batches);
    double *sums = calloc(HEAD + (size_t)slots, sizeof *sums);
    if (sums == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the positions of %d slots", slots);
    }
    base_status status = path[0] != '\0' ? tell(self, path, slots, sums, reterr) : BASE_OK;
    if (status == BASE_OK) {
        status = trainer_sum(self, sums, HEAD + (size_t)slots, reterr);
    }
    const bool resumed = sums[0] > 0.0;
    course_sums head;
    memcpy(&head, sums, sizeof head);
    if (status == BASE_OK && resumed) {
        status = seek(self, sums, reterr);
    }
    free(sums);
    if (status == BASE_OK && resumed) {
        status = share_moments(self, path, reterr);
    }
    if (status == BASE_OK && resumed) {
        const rank_training_best best = {.step = (int64_t)head.best_step,
                                         .loss = head.best_loss,
                                         .waited = (int64_t)head.best_waited};
        status = trainer_resume_best(self, path, &best, reterr);
    }
    return status == BASE_OK ? BASE_OK : base_error_prepend(reterr, status, "--resume");
}
