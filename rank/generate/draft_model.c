/* Finds the model that drafts in its checkpoint (--draft). Called by mode.c, and by check.c before a
 * job. */
#include "generate/draft_model.h"

#include "base/path.h"
#include "checkpoint/shards.h"
#include "generate/mode.h"
#include "rank/checkpoint.h"

base_status rank_mode_read_draft(const proto_job *job, const rank_tokenizer *tokenizer,
                                 rank_job_draft *draft, base_error *reterr)
{
    rank_model_config *config = &draft->model.config;
    draft->model = (rank_draft_model){.weights = draft->weights, .type = RANK_FLOAT32};
    base_status status = rank_checkpoint_config(job->model.draft, config, reterr);
    const int tokens = rank_tokenizer_vocab_size(tokenizer);
    if (status == BASE_OK && config->vocab_size < tokens) {
        status = base_fail(reterr, BASE_ERR_INVALID,
                           "the model in %s has a vocabulary of %d tokens, and the tokenizer has "
                           "%d",
                           job->model.draft, config->vocab_size, tokens);
    }
    if (status == BASE_OK) {
        config->tokens_max = rank_mode_context(job, config);
        status = base_path_join(job->model.draft, "model.safetensors", draft->weights, reterr);
    }
    if (status == BASE_OK) {
        status = rank_shards_check(config, draft->weights, reterr);
    }
    return status == BASE_OK ? BASE_OK : base_error_prepend(reterr, status, "--draft");
}
