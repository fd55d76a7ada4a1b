/* Prepares a training: model, optimizer, data, and the same parameters on all ranks. Called by
 * train.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/memory_use.h"
#include "generate/mode.h"
#include "proto/limits.h"
#include "rank/adapters.h"
#include "rank/checkpoint.h"
#include "ringfence/coll_error.h"
#include "train/config.h"
#include "train/trainer.h"

_Static_assert(PROTO_BATCH_TOKENS_MAX <= (int)RANK_MODEL_TOKENS_MAX,
               "a job's check promises a model");

_Static_assert((int)PROTO_MICRO_BATCHES_MAX <= (int)RANK_DDP_MICRO_BATCHES_MAX,
               "a job's check promises the buffers of its leaves");

/* Each size of a micro-batch, with each place of it in the tree of a rank's leaves; the all-reduces;
 * the update. */
enum { GRAPHS_MAX = 512 };

static bool trains_rounded(const trainer *self)
{
    return self->job->gpu.precision == PROTO_PRECISION_BFLOAT16;
}

static rank_model_options model_options(const trainer *self)
{
    return (rank_model_options){.config = self->ep != NULL ? &self->own : &self->config,
                                .device = &self->device,
                                .token_count_max =
                                    (int)(self->job->train.batch * self->job->model.context),
                                .training = true,
                                .recompute = self->job->train.recompute,
                                .loads = self->loads.step,
                                .graphs = self->graphs,
                                .batches_max = (int)self->job->train.micro_batches,
                                .cp = self->cp != NULL ? rank_cp_group_cp(self->cp) : NULL,
                                .ep = self->ep != NULL ? rank_ep_group_ep(self->ep) : NULL,
                                .type = trains_rounded(self) ? RANK_BFLOAT16 : RANK_FLOAT32};
}

rank_ddp_options trainer_ddp_options(const trainer *self)
{
    const proto_job *job = self->job;
    return (rank_ddp_options){
        .device = &self->device,
        .param_count = self->own_params,
        .bucket_bytes = (size_t)job->parallel.bucket_bytes,
        .micro_batches = (int)job->train.micro_batches,
        .bracketed = job->parallel.timing == PROTO_TIMING_BRACKETED,
        .zero = (int)job->parallel.zero,
        .local = trainer_is_local(self),
        .ranks_first = trainer_shares_experts(self),
        .apart = trainer_apart(self),
        .parts = self->parts,
        .part_count = self->part_count,
        .graphs = self->graphs,
        .trace = self->traced.trace,
    };
}

bool trainer_is_sharded(const trainer *self)
{
    return self->job->parallel.zero > 0;
}

bool trainer_shards_params(const trainer *self)
{
    return self->job->parallel.zero == PROTO_ZERO_PARAMETERS;
}

/* What passes read at one time, for ZeRO from stage 2 on. */
static base_status find_parts(trainer *self, base_error *reterr)
{
    if (self->job->parallel.zero < PROTO_ZERO_GRADIENTS) {
        return BASE_OK;
    }
    self->part_count = rank_model_part_count(&self->config);
    self->parts = calloc((size_t)self->part_count, sizeof *self->parts);
    if (self->parts == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the parts of a model");
    }
    for (int part = 0; part < self->part_count; part++) {
        rank_model_reads reads;
        rank_model_part_reads(&self->config, part, &reads);
        for (int i = 0; i < 2; i++) {
            self->parts[part].ranges[i] =
                (rank_zero_range){.offset = reads.offset[i], .count = reads.count[i]};
        }
    }
    return BASE_OK;
}

size_t trainer_params_here(const trainer *self)
{
    if (self->pipeline != NULL) {
        return rank_pipeline_held(self->pipeline)->count;
    }
    const proto_identity *identity = &self->worker->identity;
    const rank_ddp_options options = trainer_ddp_options(self);
    const rank_zero_cut cut = rank_ddp_cut(&options, identity->world_size);
    return trainer_shards_params(self) ? rank_zero_shard(&cut, identity->rank) : self->own_params;
}

void trainer_round(const trainer *self)
{
    self->device.backend->cast(
        self->device.queue,
        &(rank_cast){.count = self->param_count, .from = self->params, .to = self->rounded});
}

void trainer_plan_state(const trainer *self, rank_memory_use *use)
{
    const proto_identity *identity = &self->worker->identity;
    const rank_ddp_options options = trainer_ddp_options(self);
    if (!trainer_shards_params(self)) {
        use->bytes[RANK_MEMORY_WEIGHTS] += self->own_params * sizeof *self->params;
    }
    if (trainer_adapts(self)) {
        use->bytes[RANK_MEMORY_WEIGHTS] += self->model_params * sizeof *self->frozen;
    }
    trainer_plan_update(self, use);
    rank_ddp_plan(&options, identity->rank, identity->world_size, use);
}

/* Adds up what a training takes of the device, and refuses what has no room there. The device's
 * queue is open already. */
static base_status check_room(trainer *self, base_error *reterr)
{
    const rank_model_options model = model_options(self);
    rank_ddp_options ddp = trainer_ddp_options(self);
    if (self->job->parallel.algorithm == PROTO_ALGORITHM_NATIVE) {
        ddp.algorithm = COLL_ALGORITHM_NATIVE;
    }
    rank_memory_use use = {{0}};
    trainer_plan_state(self, &use);
    use.bytes[RANK_MEMORY_OPTIMIZER] += trainer_outer_plan(self);
    use.bytes[RANK_MEMORY_WEIGHTS] += trainer_best_plan(self);
    if (trains_rounded(self)) {
        use.bytes[RANK_MEMORY_WEIGHTS] += self->param_count * sizeof *self->rounded;
    }
    const rank_memory_use state = use;
    rank_model_plan(&model, &use);
    base_status status = rank_memory_check(
        &self->device, "training", &use,
        rank_ddp_plan_collectives(&ddp, self->worker->identity.world_size), reterr);
    if (status == BASE_OK && self->device.backend->free_bytes == NULL) {
        status = trainer_check_host(self, &model, &state, reterr);
    }
    use.bytes[RANK_MEMORY_QUEUES] += self->device.backend->queue_bytes;
    self->planned = use;
    return status;
}

/* Memory for the parameters, and for what products read of them if they are rounded. */
static base_status make_memory(trainer *self, base_error *reterr)
{
    const rank_device *device = &self->device;
    const size_t size_bytes = self->own_params * sizeof *self->params;
    void *params = NULL;
    void *rounded = NULL;
    if (trainer_shards_params(self)) {
        return BASE_OK;
    }
    base_status status =
        device->backend->alloc(device->queue, RANK_MEMORY_WEIGHTS, size_bytes, &params, reterr);
    if (status != BASE_OK) {
        return status;
    }
    self->params = params;
    self->param_bytes = size_bytes;
    device->backend->zero(device->queue, params, size_bytes);
    if (trains_rounded(self)) {
        status =
            device->backend->alloc(device->queue, RANK_MEMORY_WEIGHTS,
                                   self->param_count * sizeof *self->rounded, &rounded, reterr);
        self->rounded = rounded;
    }
    return status;
}

/* Finds the ranks that share micro-batches with this one: those with its place in other copies. */
static base_status make_context_ranks(trainer *self, base_error *reterr)
{
    const proto_job *job = self->job;
    const int ranks = (int)proto_job_context_ranks(job);
    const int copy = (int)(proto_job_stages(job) * proto_job_tensor(job));
    return ranks > 1 ? rank_cp_group_create(coll_context_world(self->worker->context), ranks, copy,
                                            (size_t)(job->train.batch * job->model.context),
                                            &self->cp, reterr)
                     : BASE_OK;
}

static void trace_groups(const trainer *self)
{
    if (self->cp != NULL) {
        rank_cp_group_trace(self->cp, self->traced.trace);
    }
    if (self->ep != NULL) {
        rank_ep_group_trace(self->ep, self->traced.trace);
    }
}

static base_status make_model(trainer *self, base_error *reterr)
{
    const proto_job *job = self->job;
    base_status status = rank_train_config(job, &self->config, &self->checkpoint_context, reterr);
    if (status == BASE_OK) {
        status = rank_worker_open_device(self->worker, &self->device, reterr);
    }
    if (status == BASE_OK && self->device.backend->capture != NULL) {
        status = rank_graphs_create(self->device.backend, GRAPHS_MAX, &self->graphs, reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    self->trained = trainer_adapts(self) ? rank_adapters_config(&self->config) : self->config;
    self->param_count = rank_model_param_count(&self->trained);
    self->own = self->trained;
    self->own_params = self->param_count;
    self->model_params = rank_model_param_count(&self->config);
    status = rank_traced_begin(self->worker, &self->device, true, &self->traced, reterr);
    status = status == BASE_OK ? trainer_loads_make(self, reterr) : status;
    status = status == BASE_OK ? make_context_ranks(self, reterr) : status;
    status = status == BASE_OK ? trainer_make_expert_ranks(self, reterr) : status;
    if (status != BASE_OK) {
        return status;
    }
    trace_groups(self);
    if (proto_mode_get(job->job.mode)->pipelined) {
        status = trainer_stage_make(self, reterr);
    } else {
        status = find_parts(self, reterr);
        status = status == BASE_OK ? trainer_find_stretches(self, reterr) : status;
        if (status == BASE_OK) {
            status = check_room(self, reterr);
        }
        if (status == BASE_OK) {
            status = make_memory(self, reterr);
        }
        if (status == BASE_OK) {
            status = trainer_make_frozen(self, reterr);
        }
    }
    if (status != BASE_OK) {
        return status;
    }
    const rank_model_options model = model_options(self);
    status = trainer_make_optimizer(self, reterr);
    status = status == BASE_OK ? trainer_make_muon(self, reterr) : status;
    return status == BASE_OK && self->pipeline == NULL
               ? rank_model_create(&model, &self->model, reterr)
               : status;
}

base_status trainer_first_params(const trainer *self, const char *from, float *params,
                                 base_error *reterr)
{
    const proto_job_model *model = &self->job->model;
    char path[BASE_PATH_BYTES + 32];
    if (from[0] == '\0') {
        rank_model_init(&self->trained, (uint64_t)self->job->job.seed, params);
        return BASE_OK;
    }
    (void)snprintf(path, sizeof path, "%s/%s", from,
                   rank_training_model_file(trainer_adapts(self)));
    return strcmp(from, model->checkpoint) == 0 || strcmp(from, model->adapter) == 0
               ? rank_safetensors_read(path, &self->trained, params, reterr)
               : rank_safetensors_read_saved(path, &self->trained, params, reterr);
}

rank_data_options trainer_data_options(const trainer *self)
{
    const proto_job *job = self->job;
    return (rank_data_options){
        .path = job->data.train,
        .tokenizer = self->tokenizer,
        .chat = job->model.checkpoint[0] != '\0' ? &self->chat : NULL,
        .slot_count = (int)(proto_job_replicas(job) * job->train.micro_batches),
        .slot_first = (int)proto_job_slot(job, trainer_place(self).replica, 0),
        .slot_step = (int)proto_job_slot_step(job),
        .slots_here = (int)job->train.micro_batches,
        .batch = (int)job->train.batch,
        .context = (int)job->model.context,
        .seed = (uint64_t)job->job.seed,
        .loss_on_correction = job->data.loss_on == PROTO_LOSS_ON_CORRECTION,
        .windows = job->data.windows,
        .plain = job->data.plain,
        .tokens = job->data.tokens,
        .tokenizer_sha256 = self->tokenizer_sha256,
    };
}

static base_status open_data(trainer *self, base_error *reterr)
{
    const proto_job *job = self->job;
    base_status status = rank_tokenizer_load(job->data.tokenizer, &self->tokenizer, reterr);
    if (status != BASE_OK) {
        return status;
    }
    if (rank_tokenizer_vocab_size(self->tokenizer) > self->config.vocab_size) {
        return base_fail(reterr, BASE_ERR_INVALID, "%s has %d tokens, the model only %d",
                         job->data.tokenizer, rank_tokenizer_vocab_size(self->tokenizer),
                         self->config.vocab_size);
    }
    if (rank_tokenizer_end_id(self->tokenizer) < 0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "%s has no <|endoftext|>, <|end_of_text|> or </s> to end sentences with",
                         job->data.tokenizer);
    }
    status = rank_training_file_hex(job->data.tokenizer, self->tokenizer_sha256, reterr);
    if (status != BASE_OK) {
        return status;
    }
    (void)rank_train_chat(job, self->tokenizer, &self->chat);
    status = rank_mode_check_chat_date(job, &self->chat, reterr);
    const rank_data_options options = trainer_data_options(self);
    return status == BASE_OK ? rank_data_open(&options, &self->data, reterr) : status;
}

base_status trainer_wrap(trainer *self, float *params, base_error *reterr)
{
    const proto_job *job = self->job;
    rank_ddp_options options = trainer_ddp_options(self);
    const base_status status = (base_status)coll_algorithm_parse(
        proto_algorithm_name(job->parallel.algorithm), &options.algorithm, coll_error_of(reterr));
    if (status != BASE_OK) {
        return status;
    }
    const base_status wrapped = rank_ddp_wrap(coll_context_world(self->worker->context), &options,
                                              params, &self->ddp, reterr);
    if (wrapped == BASE_OK) {
        memcpy(self->initial_digest, rank_ddp_initial_digest(self->ddp), RANK_DIGEST_BYTES);
    }
    return wrapped;
}

/* Makes the first parameters on rank 0, or reads them from the directory `from`. The others get them from
 * it. */
static base_status make_params(trainer *self, const char *from, base_error *reterr)
{
    const rank_device *device = &self->device;
    void *host = NULL;
    base_status status = device->backend->map(
        device->queue, self->params, self->param_count * sizeof(float), true, &host, reterr);
    if (status != BASE_OK) {
        return status;
    }
    status = trainer_first_params(self, from, host, reterr);
    device->backend->unmap(device->queue, host);
    return status;
}

/* Makes all of rank 0's parameters for a while, and gives every rank its shard of them. */
static base_status share_shards(trainer *self, const char *from, base_error *reterr)
{
    float *whole = NULL;
    base_status status = trainer_make_whole(self, &whole, reterr);
    if (status == BASE_OK && whole != NULL) {
        status = trainer_first_params(self, from, whole, reterr);
    }
    if (status == BASE_OK) {
        status = trainer_wrap(self, whole, reterr);
    }
    free(whole);
    self->params = status == BASE_OK ? rank_ddp_shard(self->ddp) : NULL;
    return status;
}

/* Gives every rank its first parameters. `resumed` is a checkpoint of this training, or empty. */
static base_status share_params(trainer *self, const char *resumed, base_error *reterr)
{
    const proto_job_model *model = &self->job->model;
    const char *begun = trainer_adapts(self) ? model->adapter : model->checkpoint;
    const char *from = resumed[0] != '\0' ? resumed : begun;
    if (self->pipeline != NULL) {
        return trainer_stage_share(self, from, reterr);
    }
    if (trainer_shares_experts(self)) {
        return trainer_share_experts(self, from, reterr);
    }
    if (trainer_shards_params(self)) {
        return share_shards(self, from, reterr);
    }
    const base_status status =
        self->worker->identity.rank == 0 ? make_params(self, from, reterr) : BASE_OK;
    const base_status wrapped =
        status == BASE_OK ? trainer_wrap(self, self->params, reterr) : status;
    return wrapped == BASE_OK ? trainer_share_frozen(self, reterr) : wrapped;
}

base_status trainer_prepare(trainer *self, base_error *reterr)
{
    char resumed[BASE_PATH_BYTES] = "";
    const bool main = self->worker->identity.rank == 0;
    const proto_job_train *train = &self->job->train;
    base_status status = make_model(self, reterr);
    if (status == BASE_OK && main && (train->save_every > 0 || train->resume)) {
        status = rank_training_course_of(self->job, &self->course, reterr);
    }
    if (status == BASE_OK) {
        status = trainer_read_frozen(self, reterr);
    }
    if (status == BASE_OK) {
        status = open_data(self, reterr);
    }
    if (status == BASE_OK) {
        status = trainer_heldout_open(self, reterr);
    }
    if (status == BASE_OK && main && train->resume) {
        status = trainer_find_checkpoint(self, resumed, reterr);
    }
    if (status == BASE_OK) {
        status = share_params(self, resumed, reterr);
    }
    if (status == BASE_OK) {
        status = trainer_outer_make(self, reterr);
    }
    if (status == BASE_OK) {
        status = trainer_best_make(self, reterr);
    }
    if (status == BASE_OK && self->job->train.resume) {
        status = trainer_go_on(self, resumed, reterr);
    }
    if (status == BASE_OK && self->rounded != NULL) { /* later on AdamW does it */
        trainer_round(self);
    }
    return status;
}
