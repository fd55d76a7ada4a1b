/* Whether a request can run at all. Called by requests.c when it comes, and by schedule.c on every rank when
 * it joins. */
#include "generate/schedule.h"

int32_t rank_schedule_tokens_max(const rank_schedule_options *options, const rank_request *request)
{
    const int32_t room = options->context - request->prompt_count;
    return request->prompt_count +
           (request->max_new_tokens < room ? request->max_new_tokens : room);
}

base_status rank_schedule_check(const rank_schedule_options *options, const rank_request *request,
                                const int32_t *prompt, base_error *reterr)
{
    if (request->prompt_count < 1 || request->prompt_count >= options->context) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "a prompt must have 1 to %d tokens, this one has %d", options->context - 1,
                         request->prompt_count);
    }
    if (request->max_new_tokens < 1) {
        return base_fail(reterr, BASE_ERR_INVALID, "%d new tokens cannot be made",
                         request->max_new_tokens);
    }
    if (request->stop_count < 0 || request->stop_count > RANK_STOP_TOKENS_MAX) {
        return base_fail(reterr, BASE_ERR_INVALID, "there can be 0 to %d stop tokens, not %d",
                         RANK_STOP_TOKENS_MAX, request->stop_count);
    }
    if (request->logprob_count < 0 || request->logprob_count > RANK_LOGPROBS_MAX) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "a token can have 0 to %d log-probabilities, not %d", RANK_LOGPROBS_MAX,
                         request->logprob_count);
    }
    if (request->grammar_count < 0 || request->grammar_count > options->grammar_max) {
        return base_fail(reterr, BASE_ERR_INVALID, "a grammar can have 0 to %d steps, not %lld",
                         options->grammar_max, (long long)request->grammar_count);
    }
    for (int32_t i = 0; i < request->prompt_count; i++) {
        if (prompt[i] < 0 || prompt[i] >= options->vocab_size) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "token %d of the prompt is %d, the vocabulary has %d", i, prompt[i],
                             options->vocab_size);
        }
    }
    const int64_t tokens = rank_schedule_tokens_max(options, request);
    if (tokens > (int64_t)options->block_count * options->block_tokens) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "prompt and new tokens need a cache of %lld tokens, this one has %lld",
                         (long long)tokens,
                         (long long)options->block_count * options->block_tokens);
    }
    const rank_adjustment adjustment = rank_request_adjustment(request);
    const base_status status = rank_adjust_check(&adjustment, options->vocab_size, reterr);
    return status == BASE_OK ? rank_sample_check(&request->sample, reterr) : status;
}
