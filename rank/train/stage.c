/* The training of one stage of a pipeline: what differs from a rank that has all layers. Called by
 * prepare.c and step.c. */
#include <stdlib.h>

#include "ringfence/coll_error.h"
#include "train/trainer.h"

base_status trainer_stage_make(trainer *self, base_error *reterr)
{
    const proto_job *job = self->job;
    const rank_device *device = &self->device;
    coll_error error;
    rank_pipeline_options options = {
        .context = self->worker->context,
        .schedule = proto_job_pipeline(job),
        .tensor = (int)proto_job_tensor(job),
        .bucket_bytes = (size_t)job->parallel.bucket_bytes,
        .device = device,
        .config = &self->config,
        .token_count_max = (int)(job->train.batch * job->model.context),
        .recompute = job->train.recompute,
        .loads = self->loads.step,
        .cp = self->cp,
    };
    void *params = NULL;
    base_status status =
        coll_to_base(coll_algorithm_parse(proto_algorithm_name(job->parallel.algorithm),
                                          &options.algorithm, &error),
                     &error, reterr);
    if (status == BASE_OK) {
        status = rank_pipeline_create(&options, &self->pipeline, reterr);
    }
    if (status == BASE_OK) {
        status = device->backend->alloc(device->queue, RANK_MEMORY_WEIGHTS,
                                        rank_pipeline_held(self->pipeline)->count * sizeof(float),
                                        &params, reterr);
    }
    self->params = params;
    return status;
}

base_status trainer_stage_share(trainer *self, const char *from, base_error *reterr)
{
    float *whole = NULL;
    base_status status = trainer_make_whole(self, &whole, reterr);
    if (status == BASE_OK && whole != NULL) {
        status = trainer_first_params(self, from, whole, reterr);
    }
    if (status == BASE_OK) {
        status = rank_pipeline_scatter(self->pipeline, whole, self->params, self->initial_digest,
                                       reterr);
    }
    free(whole);
    return status;
}

typedef struct stage_batches {
    trainer *trainer;
    uint64_t tokens;
} stage_batches;

/* A rank_pipeline_batch. */
static base_status next_batch(void *user, int micro_batch, rank_batch *batch, base_error *reterr)
{
    stage_batches *batches = user;
    (void)reterr;
    rank_data_next_batch(batches->trainer->data, micro_batch, batch);
    batches->tokens += trainer_tokens_here(batches->trainer, batch);
    return BASE_OK;
}

base_status trainer_stage_compute(trainer *self, uint64_t *tokens, rank_result *results,
                                  base_error *reterr)
{
    stage_batches batches = {.trainer = self};
    const base_status status =
        rank_pipeline_run(self->pipeline, self->params, next_batch, &batches, results, reterr);
    /* all ranks of a copy see the same tokens: the one that has the loss counts them */
    const proto_place place = trainer_place(self);
    const bool counts = place.stage + 1 == (int)proto_job_stages(self->job) && place.part == 0;
    *tokens = counts ? batches.tokens : 0;
    return status;
}
