/* The check of a training job that needs no rank. `rank --check` calls it for the launcher, before
 * any rank is started. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/path.h"
#include "checkpoint/shards.h"
#include "generate/mode.h"
#include "rank/checkpoint.h"
#include "rank/data.h"
#include "rank/tokenizer.h"
#include "train/config.h"
#include "train/mode.h"

/* The router's loss is over all layers, and a stage has some. */
static base_status check_experts(const proto_job *job, base_error *reterr)
{
    return !proto_mode_get(job->job.mode)->pipelined || proto_job_stages(job) == 1
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_UNSUPPORTED,
                           "a model with experts cannot be cut into stages: take --stages 1, or "
                           "mode ddp-cpu");
}

/* --adapter: its tensors are those of its configuration. */
static base_status check_adapter(const proto_job *job, rank_model_config config, base_error *reterr)
{
    float *adapters = NULL;
    if (job->model.adapter[0] == '\0') {
        return BASE_OK;
    }
    const base_status status = rank_adapter_load(job->model.adapter, &config, &adapters, reterr);
    free(adapters);
    return status == BASE_OK ? BASE_OK : base_error_prepend(reterr, status, "--adapter");
}

/* The model that the training begins with: its configuration, whether it can be cut, and the headers of
 * its weights. */
static base_status check_model(const proto_job *job, base_error *reterr)
{
    rank_model_config config;
    int own_context = 0;
    char weights[BASE_PATH_BYTES];
    const bool plain = job->model.checkpoint[0] == '\0' && job->model.experts == 0;
    if (plain && proto_job_tensor(job) == 1) {
        return BASE_OK;
    }
    base_status status = rank_train_config(job, &config, &own_context, reterr);
    if (status == BASE_OK) {
        status = rank_mode_check_gpus(job, &config, reterr);
    }
    if (status == BASE_OK && rank_model_experts(&config).count > 0) {
        status = check_experts(job, reterr);
    }
    if (status == BASE_OK && proto_job_expert_ranks(job) > 1) {
        status = rank_model_check_expert_ranks(&config, (int)proto_job_expert_ranks(job), reterr);
    }
    if (status == BASE_OK) {
        status = rank_model_check_tensor_ranks(&config, (int)proto_job_tensor(job), reterr);
        status = status == BASE_OK ? status : base_error_prepend(reterr, status, "--tensor");
    }
    if (status == BASE_OK && proto_job_context_ranks(job) > 1) {
        rank_model_config part = config; /* the checkpoint has the whole model */
        part.tensor_ranks = (int)proto_job_tensor(job);
        status = rank_model_check_context_ranks(&part, (int)proto_job_context_ranks(job), reterr);
    }
    if (status != BASE_OK || job->model.checkpoint[0] == '\0') {
        return status;
    }
    status = base_path_join(job->model.checkpoint, "model.safetensors", weights, reterr);
    status = status == BASE_OK ? rank_shards_check(&config, weights, reterr) : status;
    return status == BASE_OK ? check_adapter(job, config, reterr) : status;
}

base_status rank_mode_train_check(const proto_job *job, base_error *reterr)
{
    rank_data_options options = {
        .path = job->data.train,
        .context = (int)job->model.context,
        .loss_on_correction = job->data.loss_on == PROTO_LOSS_ON_CORRECTION,
    };
    bool fits = false;
    uint64_t count = 0;
    rank_chat chat = {.program = NULL};
    base_status status = check_model(job, reterr);
    status = status == BASE_OK ? rank_mode_check_heldout(job, reterr) : status;
    if (status != BASE_OK) {
        return status;
    }
    if (job->data.tokens) {
        status = rank_mode_check_tokens(job, job->data.train, reterr);
        return status == BASE_OK ? BASE_OK : base_error_prepend(reterr, status, "--data");
    }
    if (proto_job_cuts_windows(job)) {
        return BASE_OK; /* of any text there are windows */
    }
    status = rank_tokenizer_load(job->data.tokenizer, &options.tokenizer, NULL);
    if (status == BASE_OK) {
        options.chat = rank_train_chat(job, options.tokenizer, &chat);
        status = rank_data_any_fits(&options, &fits, &count, NULL);
    }
    rank_chat_fini(&chat);
    rank_tokenizer_destroy(options.tokenizer);
    if (status != BASE_OK || fits || count == 0) {
        return BASE_OK; /* a file that cannot be read is an error of the ranks, which read all of it */
    }
    return base_fail(reterr, BASE_ERR_INVALID,
                     "--context %" PRId64 ": none of the %" PRIu64
                     " sentences of %s fits into so few tokens",
                     job->model.context, count, job->data.train);
}
