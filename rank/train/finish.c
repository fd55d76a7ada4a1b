/* The end of a training: the ranks compare their parameters, save them, evaluate, and send
 * Finished. Called by train.c. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/path.h"
#include "control.pb-c.h"
#include "proto/checkpoints.h"
#include "proto/digest.h"
#include "rank/checkpoint.h"
#include "train/trainer.h"
#include "worker/finished.h"

enum {
    SLOW_DISK_NS_PER_BYTE = 100, /* 10 MB/s */
    FILES = 2, /* of parameters that rank 0 writes at the end: its state, the model */
};

/* Warns if a parameter is not finite. No later step computes a loss that would show it. */
static void warn_of_infinity(const trainer *self, const float *params)
{
    size_t finite = 0;
    while (finite < self->param_count && isfinite(params[finite])) {
        finite++;
    }
    if (finite < self->param_count) {
        base_log(BASE_LOG_WARNING, "parameters are not finite any more; a smaller --lr may help");
    }
}

/* What a directory says. config is the model's as it is written, and storage. */
static rank_checkpoint_about describe(const trainer *self, rank_model_config *config)
{
    *config = self->config;
    config->context = self->checkpoint_context > 0 ? self->checkpoint_context : config->context;
    rank_checkpoint_about about = {
        .config = config,
        .tokenizer_path = self->job->data.tokenizer,
        .end_id = rank_tokenizer_end_id(self->tokenizer),
        .prompt_suffix = self->learns_pairs ? RANK_DATA_ARROW : "",
        .end_token = rank_tokenizer_end_token(self->tokenizer),
        .source = self->job->model.checkpoint[0] != '\0' ? self->job->model.checkpoint : NULL};
    about.begin_id =
        rank_tokenizer_begin(self->tokenizer, about.begin_token, sizeof about.begin_token);
    return about;
}

base_status trainer_write_model(const trainer *self, const char *directory, const float *params,
                                base_error *reterr)
{
    rank_model_config config;
    const rank_checkpoint_about about = describe(self, &config);
    if (!trainer_adapts(self)) {
        return rank_checkpoint_write(directory, &about, params, reterr);
    }
    return rank_adapter_write(
        directory,
        &(rank_adapter_about){.checkpoint = about, .alpha = proto_job_lora_alpha(&self->job->lora)},
        params, reterr);
}

/* The model at the end, in the type that --save-dtype says. */
static base_status write_final(const trainer *self, const float *params, base_error *reterr)
{
    rank_model_config config;
    rank_checkpoint_about about = describe(self, &config);
    about.type = self->job->train.save_dtype == PROTO_SAVE_BFLOAT16 ? RANK_BFLOAT16 : RANK_FLOAT32;
    return rank_checkpoint_write(self->job->output.directory, &about, params, reterr);
}

/* --lora-merge: the model with its adapters, and below it these. In one directory transformers would add them to the
 * model once more. */
static base_status write_merged(const trainer *self, const float *adapters, base_error *reterr)
{
    char below[BASE_PATH_BYTES];
    float *whole = NULL;
    base_status status =
        base_path_join(self->job->output.directory, PROTO_ADAPTER_DIRECTORY, below, reterr);
    if (status == BASE_OK) {
        status = base_mkdirs(below, reterr);
    }
    if (status == BASE_OK) {
        status = trainer_write_model(self, below, adapters, reterr);
    }
    if (status == BASE_OK) {
        status = trainer_merge(self, &whole, reterr);
    }
    if (status == BASE_OK) {
        status = write_final(self, whole, reterr);
    }
    free(whole);
    return status;
}

/* A training that goes on with --lora-merge, or without, leaves nothing of the other way: transformers would
 * add old adapters to the new model, and --adapter would find old ones. */
static void remove_other_way(const trainer *self)
{
    static const char *const PLAIN[] = {"adapter_config.json", "adapter_model.safetensors"};
    static const char *const MERGED[] = {"model.safetensors", "config.json",
                                         PROTO_ADAPTER_DIRECTORY "/adapter_config.json",
                                         PROTO_ADAPTER_DIRECTORY "/adapter_model.safetensors"};
    const bool merge = self->job->lora.merge;
    const char *const *names = merge ? PLAIN : MERGED;
    const size_t count = merge ? sizeof PLAIN / sizeof PLAIN[0] : sizeof MERGED / sizeof MERGED[0];
    for (size_t i = 0; self->first_step > 0 && i < count; i++) {
        char path[BASE_PATH_BYTES];
        if (base_path_join(self->job->output.directory, names[i], path, NULL) == BASE_OK) {
            (void)unlink(path);
        }
    }
}

base_status trainer_write(const trainer *self, const float *params, base_error *reterr)
{
    const proto_job *job = self->job;
    const bool main = self->worker->identity.rank == 0;
    char path[BASE_PATH_BYTES + 64];
    if (main) {
        warn_of_infinity(self, params);
    }
    if (job->output.directory[0] == '\0') {
        return BASE_OK;
    }
    (void)snprintf(path, sizeof path, "%s/" PROTO_STATE_FORMAT, job->output.directory,
                   self->worker->identity.rank);
    base_status status =
        rank_safetensors_write(path, &self->trained, params, "", RANK_FLOAT32, reterr);
    if (status == BASE_OK && main && trainer_adapts(self)) {
        remove_other_way(self);
    }
    if (status == BASE_OK && main) {
        status = job->lora.merge ? write_merged(self, params, reterr)
                 : trainer_adapts(self)
                     ? trainer_write_model(self, job->output.directory, params, reterr)
                     : write_final(self, params, reterr);
    }
    return status == BASE_OK ? BASE_OK : base_error_prepend(reterr, status, "saving the model");
}

/* Saves the parameters, and gives their digest. */
static base_status save(const trainer *self, uint8_t digest[PROTO_DIGEST_BYTES], base_error *reterr)
{
    const rank_device *device = &self->device;
    const size_t size_bytes = self->param_count * sizeof *self->params;
    void *host = NULL;
    base_status status =
        device->backend->map(device->queue, self->params, size_bytes, false, &host, reterr);
    if (status != BASE_OK) {
        return status;
    }
    proto_sha256(host, size_bytes, digest);
    status = trainer_write(self, host, reterr);
    device->backend->unmap(device->queue, host);
    return status;
}

/* A rank whose disk stands still is missed like one in a collective, but not before a slow disk is done. */
base_status trainer_await_files(const trainer *self, int count, base_error *reterr)
{
    const uint8_t mine = 1;
    uint8_t all[BASE_RANKS_MAX];
    const size_t merged = self->job->lora.merge ? self->model_params : 0;
    const int64_t bytes = (int64_t)(((size_t)count * self->param_count + merged) * sizeof(float));
    const int64_t writing_ns = bytes * SLOW_DISK_NS_PER_BYTE;
    return proto_client_exchange(
        self->worker->client, &mine, all, sizeof mine,
        base_deadline_after_ns(self->job->parallel.timeout_ms * BASE_NS_PER_MS + writing_ns),
        reterr);
}

static void put_evaluation(const trainer_heldout_result *found,
                           Ringfence__Control__Finished *finished)
{
    finished->eval_total = found->sentences_here;
    finished->eval_correct = found->correct_here;
    finished->eval_loss = found->loss;
    finished->eval_measured = found->measured;
}

static void put_best(const trainer *self, Ringfence__Control__Finished *finished)
{
    finished->best_step = (uint64_t)self->best.step;
    finished->best_loss = self->best.loss;
    finished->stopped_early =
        trainer_gives_up(self) && (int64_t)self->steps_done < self->job->train.steps;
}

base_status trainer_finish_paused(const trainer *self, base_error *reterr)
{
    Ringfence__Control__Finished finished = RINGFENCE__CONTROL__FINISHED__INIT;
    finished.paused = true;
    finished.steps_done = self->steps_done;
    finished.checkpoints = self->checkpoints;
    finished.checkpoint_ns = self->checkpoint_ns;
    return proto_client_finish(self->worker->client, &finished, reterr);
}

base_status trainer_finish(trainer *self, int64_t startup_ns, base_error *reterr)
{
    const rank_worker *worker = self->worker;
    uint8_t digest[PROTO_DIGEST_BYTES];
    bool byte_equal = false;
    double max_abs_difference = 0.0;
    trainer_heldout_result heldout = {.measured = 0};
    base_status status = trainer_save(self, reterr); /* first: what follows may be stopped */
    trainer_take_best(self);
    if (status == BASE_OK && trainer_has_part(self)) {
        status = trainer_save_whole(self, digest, &byte_equal, &max_abs_difference, reterr);
    } else if (status == BASE_OK) {
        status =
            rank_ddp_compare(self->ddp, self->params, &byte_equal, &max_abs_difference, reterr);
        if (status == BASE_OK) {
            status = save(self, digest, reterr);
        }
    }
    if (status == BASE_OK) {
        status = trainer_await_files(self, FILES, reterr);
    }
    if (status == BASE_OK) {
        status = rank_traced_write(self->worker, &self->traced, reterr);
    }
    if (status == BASE_OK && self->job->infer.eval && !self->stopping) {
        status = trainer_heldout(self, true, &heldout, reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    rank_backend_info computed;
    rank_finished_memory memory;
    trainer_state_use use;
    trainer_experts experts;
    const rank_graphs_info graphs = rank_graphs_get_info(self->graphs);
    Ringfence__Control__Finished finished = RINGFENCE__CONTROL__FINISHED__INIT;
    self->device.backend->info(self->device.queue, &computed);
    trainer_put_experts(self, &experts, &finished);
    finished.params_sha256 = (ProtobufCBinaryData){.len = sizeof digest, .data = digest};
    finished.steps_done = self->steps_done;
    finished.checkpoints = self->checkpoints;
    finished.checkpoint_ns = self->checkpoint_ns;
    finished.max_rss_bytes = rank_worker_max_rss_bytes();
    finished.max_abs_difference = max_abs_difference;
    finished.byte_equal = byte_equal;
    finished.startup_ns = startup_ns;
    put_evaluation(&heldout, &finished);
    put_best(self, &finished);
    finished.products = (char *)computed.products; /* the queue's */
    rank_finished_put_memory(&self->device, &self->planned,
                             worker->gpu != NULL ? worker->gpu->info.memory_bytes : 0, &memory,
                             &finished);
    trainer_put_state_use(self, &use, &finished);
    finished.graphs = graphs.captures;
    finished.replays = graphs.replays;
    finished.capture_failure = (char *)graphs.failure; /* the table's */
    return proto_client_finish(worker->client, &finished, reterr);
}
