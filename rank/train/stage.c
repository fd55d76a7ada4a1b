/* The training of one stage of a pipeline: what differs from a rank that has all layers. Called by
 * prepare.c, step.c and heldout.c. */
#include <stdlib.h>

#include "ringfence/coll_error.h"
#include "train/trainer.h"

base_status trainer_stage_make(trainer *self, base_error *reterr)
{
    const proto_job *job = self->job;
    const rank_device *device = &self->device;
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
        .trace = self->traced.trace,
    };
    void *params = NULL;
    base_status status = (base_status)coll_algorithm_parse(
        proto_algorithm_name(job->parallel.algorithm), &options.algorithm, coll_error_of(reterr));
    if (status == BASE_OK) {
        status = trainer_check_stage_host(self, &options, reterr);
    }
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

bool trainer_has_loss(const trainer *self)
{
    const proto_place place = trainer_place(self);
    return place.stage + 1 == (int)proto_job_stages(self->job) && place.part == 0;
}

typedef struct stage_batches {
    trainer *trainer;
    uint64_t tokens;
} stage_batches;

/* A rank_pipeline_batch. */
static base_status next_batch(void *user, int micro_batch, rank_batch *batch, base_error *reterr)
{
    stage_batches *batches = user;
    const base_status status = trainer_next_batch(batches->trainer, micro_batch, batch, reterr);
    batches->tokens += status == BASE_OK ? trainer_tokens_here(batches->trainer, batch) : 0;
    return status;
}

base_status trainer_stage_compute(trainer *self, uint64_t *tokens, rank_result *results,
                                  base_error *reterr)
{
    stage_batches batches = {.trainer = self};
    const base_status status =
        rank_pipeline_run(self->pipeline, self->params, next_batch, &batches, results, reterr);
    *tokens = trainer_has_loss(self) ? batches.tokens : 0; /* all ranks of a copy see the same */
    return status;
}

/* The held-out batches of this pipeline's slots, slot by slot. */
typedef struct heldout_batches {
    trainer *trainer;
    int ends[RANK_DDP_MICRO_BATCHES_MAX]; /* batches of a slot and of those before it */
    int slot;                             /* of the next batch, */
    int loss_slot;                        /* and of the next loss, which may come later */
    double *losses;                       /* (slots) */
    double *targets;                      /* of all slots */
} heldout_batches;

/* All stages must know how many there are. */
static base_status count_batches(trainer *self, heldout_batches *batches, base_error *reterr)
{
    const int slots = (int)self->job->train.micro_batches;
    int count = 0;
    rank_batch batch;
    base_status status = trainer_heldout_begin(self, reterr);
    for (int slot = 0; status == BASE_OK && slot < slots; slot++) {
        status = rank_data_next_batch(self->heldout, slot, &batch, reterr);
        for (; status == BASE_OK && batch.token_count > 0; count++) {
            status = rank_data_next_batch(self->heldout, slot, &batch, reterr);
        }
        batches->ends[slot] = count;
    }
    return status;
}

/* A rank_pipeline_batch. */
static base_status next_heldout(void *user, int number, rank_batch *batch, base_error *reterr)
{
    heldout_batches *batches = user;
    while (number >= batches->ends[batches->slot]) {
        batches->slot++;
    }
    return rank_data_next_batch(batches->trainer->heldout, batches->slot, batch, reterr);
}

/* A rank_pipeline_loss. */
static void take_loss(void *user, int number, const rank_result *result)
{
    heldout_batches *batches = user;
    while (number >= batches->ends[batches->loss_slot]) {
        batches->loss_slot++;
    }
    batches->losses[batches->loss_slot] += result->loss_sum;
    *batches->targets += (double)result->target_count;
}

base_status trainer_stage_heldout(trainer *self, double *losses, double *targets,
                                  base_error *reterr)
{
    heldout_batches batches = {.trainer = self, .losses = losses, .targets = targets};
    base_status status = count_batches(self, &batches, reterr);
    if (status == BASE_OK) {
        status = trainer_heldout_begin(self, reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    const rank_pipeline_evaluation evaluation = {
        .batches = batches.ends[self->job->train.micro_batches - 1],
        .batch = next_heldout,
        .loss = take_loss,
        .user = &batches};
    return rank_pipeline_evaluate(self->pipeline, self->params, &evaluation, reterr);
}
