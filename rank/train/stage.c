/* The training of one stage of a pipeline: what differs from a rank that has all layers. Called by
 * prepare.c, step.c and finish.c. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "ringfence/coll_error.h"
#include "train/trainer.h"

base_status trainer_stage_make(trainer *self, base_error *reterr)
{
    const proto_job *job = self->job;
    const rank_device *device = &self->device;
    coll_error error;
    rank_pipeline_options options = {
        .context = self->worker->context,
        .stages = (int)proto_job_stages(job),
        .tensor = (int)proto_job_tensor(job),
        .bucket_bytes = (size_t)job->parallel.bucket_bytes,
        .device = device,
        .config = &self->config,
        .kind = job->parallel.pipeline,
        .micro_batches = (int)job->train.micro_batches,
        .token_count_max = (int)(job->train.batch * job->model.context),
        .recompute = job->train.recompute,
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

base_status trainer_make_whole(const trainer *self, float **whole, base_error *reterr)
{
    *whole = NULL;
    if (self->worker->identity.rank != 0) {
        return BASE_OK;
    }
    *whole = malloc(self->param_count * sizeof **whole);
    return *whole != NULL
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_MEMORY, "no memory for the model's %zu parameters",
                           self->param_count);
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
    const base_status status =
        rank_data_next_batch(batches->trainer->data, micro_batch, batch, reterr);
    batches->tokens += status == BASE_OK ? (uint64_t)batch->token_count : 0;
    return status;
}

base_status trainer_stage_compute(trainer *self, uint64_t *tokens, rank_result *results,
                                  base_error *reterr)
{
    stage_batches batches = {.trainer = self};
    const base_status status =
        rank_pipeline_run(self->pipeline, self->params, next_batch, &batches, results, reterr);
    /* all ranks of a replica see the same tokens: the one that has the loss counts them */
    const proto_place place = trainer_place(self);
    const bool counts = place.stage + 1 == (int)proto_job_stages(self->job) && place.part == 0;
    *tokens = counts ? batches.tokens : 0;
    return status;
}

/* What rank 0 tells the others. */
typedef struct stage_end {
    uint8_t digest[PROTO_DIGEST_BYTES];
    rank_pipeline_copies copies;
} stage_end;

base_status trainer_stage_save(const trainer *self, uint8_t digest[PROTO_DIGEST_BYTES],
                               bool *byte_equal, double *max_abs_difference, base_error *reterr)
{
    float *whole = NULL;
    coll_error error;
    stage_end end = {.copies = {.byte_equal = false}};
    base_status status =
        rank_pipeline_compare(self->pipeline, self->params, byte_equal, max_abs_difference, reterr);
    if (status == BASE_OK) {
        status = trainer_make_whole(self, &whole, reterr);
    }
    if (status == BASE_OK) {
        status = rank_pipeline_gather(self->pipeline, self->params, whole, &end.copies, reterr);
    }
    if (status == BASE_OK && whole != NULL) {
        proto_sha256(whole, self->param_count * sizeof *whole, end.digest);
    }
    if (status == BASE_OK) {
        status = coll_to_base(coll_broadcast(coll_context_world(self->worker->context), &end,
                                             sizeof end, COLL_UINT8, 0, &error),
                              &error, reterr);
    }
    if (status == BASE_OK && whole != NULL) { /* last: nobody waits for it */
        status = trainer_write(self, whole, reterr);
    }
    free(whole);
    memcpy(digest, end.digest, PROTO_DIGEST_BYTES);
    *byte_equal = *byte_equal && end.copies.byte_equal;
    if (!isnan(*max_abs_difference) && !(end.copies.max_abs_difference <= *max_abs_difference)) {
        *max_abs_difference = end.copies.max_abs_difference;
    }
    return status;
}

/* Collective: all parameters of rank 0 on every rank, a slice at a time. */
static base_status give_whole(const trainer *self, float *whole, base_error *reterr)
{
    enum { SLICE = 4 << 20 }; /* elements */
    coll_comm *world = coll_context_world(self->worker->context);
    base_status status = BASE_OK;
    for (size_t done = 0; status == BASE_OK && done < self->param_count; done += SLICE) {
        coll_error error;
        const size_t count = base_min_size(SLICE, self->param_count - done);
        status = coll_to_base(coll_broadcast(world, whole + done, count, COLL_FLOAT32, 0, &error),
                              &error, reterr);
    }
    return status;
}

base_status trainer_stage_accuracy(const trainer *self, uint64_t *total, uint64_t *correct,
                                   base_error *reterr)
{
    rank_pipeline_copies copies; /* compared when the model was saved */
    float *whole = malloc(self->param_count * sizeof *whole);
    if (whole == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY,
                         "no memory to evaluate the model's %zu parameters", self->param_count);
    }
    base_status status = rank_pipeline_gather(self->pipeline, self->params, whole, &copies, reterr);
    if (status == BASE_OK) {
        status = give_whole(self, whole, reterr);
    }
    if (status == BASE_OK) {
        status = trainer_accuracy(self, whole, true, total, correct, reterr);
    }
    free(whole);
    return status;
}
