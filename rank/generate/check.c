/* The checks of modes generate and tp-cpu that need no loaded model. `rank --check` calls them for
 * the launcher, before any rank is started. */

#include <stdlib.h>

#include "base/path.h"
#include "checkpoint/shards.h"
#include "generate/draft_model.h"
#include "generate/mode.h"
#include "model/family.h"
#include "proto/mode.h"
#include "proto/prompts.h"
#include "rank/checkpoint.h"
#include "rank/data.h"
#include "rank/tokenizer.h"

static base_status check_prompts(const proto_job *job, const rank_generate_options *options,
                                 base_error *reterr)
{
    proto_prompts prompts;
    if (job->infer.prompts[0] == '\0') {
        return BASE_OK;
    }
    base_status status = proto_prompts_read(job->infer.prompts, &prompts, reterr);
    if (status != BASE_OK) {
        return base_error_prepend(reterr, status, "--prompts");
    }
    /* its message quotes the prompt, which may be that of --prompt */
    status =
        rank_generate_check(options, (const char *const *)prompts.texts, prompts.count, reterr);
    proto_prompts_fini(&prompts);
    return status;
}

base_status rank_mode_check_gpus(const proto_job *job, const rank_model_config *config,
                                 base_error *reterr)
{
    const char *mode = proto_mode_name((int)job->job.mode);
    if (!proto_mode_get(job->job.mode)->on_gpus) {
        return BASE_OK;
    }
    if (config->family->cpus_only) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED, "mode %s: %s runs on CPUs only", mode,
                         config->family->model_types[0]);
    }
    return rank_model_experts(config).count == 0
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_UNSUPPORTED,
                           "mode %s: models with experts run on CPUs only", mode);
}

base_status rank_mode_check_tokens(const proto_job *job, const char *path, base_error *reterr)
{
    uint8_t digest[PROTO_DIGEST_BYTES];
    char hex[PROTO_DIGEST_HEX_BYTES];
    const base_status status = proto_sha256_file(job->data.tokenizer, digest, reterr);
    if (status != BASE_OK) {
        return status;
    }
    proto_digest_hex(digest, hex);
    return rank_data_check_tokens(&(rank_data_options){.path = path, .tokenizer_sha256 = hex},
                                  reterr);
}

/* That a file of a plain text or of tokens is one, and its loss is measured. */
static base_status check_windows(const proto_job *job, base_error *reterr)
{
    if (!proto_job_measures_loss(job)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "--heldout %s: %s has no sentences to correct, and no held-out loss is "
                         "measured here",
                         job->data.heldout,
                         job->data.heldout_tokens ? "a file of tokens" : "a plain text");
    }
    const base_status status =
        job->data.heldout_tokens ? rank_mode_check_tokens(job, job->data.heldout, reterr) : BASE_OK;
    return status == BASE_OK ? BASE_OK : base_error_prepend(reterr, status, "--heldout");
}

base_status rank_mode_check_heldout(const proto_job *job, base_error *reterr)
{
    rank_pairs *pairs = NULL;
    const bool measures_loss = proto_job_measures_loss(job);
    if (!job->infer.eval && job->infer.eval_every == 0) {
        return BASE_OK;
    }
    if (!proto_job_heldout_has_lines(job)) {
        return check_windows(job, reterr);
    }
    base_status status = rank_pairs_open(job->data.heldout, 0, 1, &pairs, reterr);
    if (status == BASE_OK && rank_pairs_count(pairs) == 0 && !measures_loss) {
        status = base_fail(reterr, BASE_ERR_INVALID, "%s:1: no \"wrong\" and \"right\"",
                           job->data.heldout);
    }
    rank_pairs_close(pairs);
    return status == BASE_OK ? BASE_OK : base_error_prepend(reterr, status, "--heldout");
}

static base_status check_model(const proto_job *job, rank_model_config *config,
                               rank_generation_config *generation, base_error *reterr)
{
    const proto_mode_row *mode = proto_mode_get(job->job.mode);
    char weights[BASE_PATH_BYTES];
    float *adapters = NULL;
    base_status status = rank_mode_read_checkpoint(job, config, generation, &adapters, reterr);
    free(adapters);
    if (status == BASE_OK) {
        status = rank_mode_check_gpus(job, config, reterr);
    }
    if (status == BASE_OK && mode->tensor_parallel) {
        status = rank_model_check_world(config, (int)job->job.world_size, reterr);
    }
    if (status == BASE_OK) {
        status = base_path_join(job->model.checkpoint, "model.safetensors", weights, reterr);
    }
    return status == BASE_OK ? rank_shards_check(config, weights, reterr) : status;
}

base_status rank_mode_generate_check(const proto_job *job, base_error *reterr)
{
    rank_model_config config = {.family = NULL};
    rank_generation_config generation = {.stop_count = 0};
    rank_chat chat = {.program = NULL};
    rank_tokenizer *tokenizer = NULL;
    base_status status = check_model(job, &config, &generation, reterr);
    if (status == BASE_OK) {
        status = rank_mode_load_tokenizer(job, false, &tokenizer, &chat, reterr);
    }
    if (status == BASE_OK && job->model.draft[0] != '\0') {
        rank_job_draft draft;
        status = rank_mode_read_draft(job, tokenizer, &draft, reterr);
    }
    if (status == BASE_OK) {
        const rank_generate_options options = {
            .config = &config,
            .tokenizer = tokenizer,
            .context = rank_mode_context(job, &config),
            .cache_tokens = (int)job->infer.cache_tokens,
            .new_tokens_max = (int)job->infer.max_new_tokens,
            .prompt_suffix = rank_mode_prompt_suffix(&generation, job),
            .chat = &chat,
            .prompts_are_messages = job->infer.chat,
            .no_thinking = job->infer.no_thinking,
        };
        status = check_prompts(job, &options, reterr);
    }
    status = status == BASE_OK ? rank_mode_check_heldout(job, reterr) : status;
    rank_chat_fini(&chat);
    rank_tokenizer_destroy(tokenizer);
    return status;
}
