#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control.pb-c.h"
#include "modes.h"
#include "rank/checkpoint.h"
#include "worker.h"

enum { PROMPTS_MAX = 1024 };

/* The prompts of a job: one per line, dealt out to the ranks in turn. */
typedef struct prompts {
    char text[PROTO_JOB_PROMPT_BYTES];
    const char *mine[PROMPTS_MAX];
    size_t count;
    uint64_t first;
    uint64_t stride;
    proto_client *client;
} prompts;

static void deal_prompts(prompts *all, const proto_identity *identity)
{
    uint64_t index = 0;
    all->first = (uint64_t)identity->rank;
    all->stride = (uint64_t)identity->world_size;
    memcpy(all->text, identity->job.prompt, sizeof all->text);
    char *rest = all->text;
    for (char *line = strsep(&rest, "\n"); line != NULL; line = strsep(&rest, "\n")) {
        if (line[0] == '\0') {
            continue;
        }
        if (index % all->stride == all->first && all->count < PROMPTS_MAX) {
            all->mine[all->count++] = line;
        }
        index++;
    }
}

static void send_answer(void *user, size_t index, const char *prompt, const char *text)
{
    const prompts *all = user;
    Ringfence__Control__Output output = RINGFENCE__CONTROL__OUTPUT__INIT;
    output.index = all->first + index * all->stride;
    output.prompt = (char *)prompt;
    output.text = (char *)text;
    proto_client_output(all->client, &output);
}

static base_status answer(rank_worker *worker, const rank_generate_options *options,
                          base_error *reterr)
{
    Ringfence__Control__Finished finished = RINGFENCE__CONTROL__FINISHED__INIT;
    const proto_job *job = &worker->identity.job;
    prompts *all = calloc(1, sizeof *all);
    if (all == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for prompts");
    }
    all->client = worker->client;
    deal_prompts(all, &worker->identity);
    base_status status = rank_generate(options, all->mine, all->count, send_answer, all, reterr);
    if (status == BASE_OK && job->eval) {
        status = rank_worker_evaluate(worker, options, &finished.eval_total, &finished.eval_correct,
                                      reterr);
    }
    free(all);
    if (status != BASE_OK) {
        return status;
    }
    finished.max_rss_bytes = rank_worker_max_rss_bytes();
    return proto_client_finish(worker->client, &finished, reterr);
}

base_status rank_mode_generate(rank_worker *worker, base_error *reterr)
{
    const proto_job *job = &worker->identity.job;
    rank_model_config config;
    rank_tokenizer *tokenizer = NULL;
    rank_model *model = NULL;
    float *params = NULL;
    char path[BASE_PATH_BYTES + 32];
    base_status status = rank_checkpoint_config(job->checkpoint, &config, reterr);
    if (status == BASE_OK) {
        status = rank_tokenizer_load(job->tokenizer, &tokenizer, reterr);
    }
    if (status != BASE_OK) {
        goto out;
    }
    params = calloc(rank_model_param_count(&config), sizeof *params);
    if (params == NULL) {
        status = base_fail(reterr, BASE_ERR_MEMORY, "no memory for the parameters");
        goto out;
    }
    (void)snprintf(path, sizeof path, "%s/model.safetensors", job->checkpoint);
    status = rank_safetensors_read(path, &config, params, reterr);
    const int token_count_max = (int)(job->batch * config.context);
    if (status == BASE_OK) {
        status = rank_model_create(&config, token_count_max, 0, &model, reterr);
    }
    if (status == BASE_OK) {
        const rank_generate_options options = {
            .model = model,
            .config = &config,
            .params = params,
            .tokenizer = tokenizer,
            .token_count_max = token_count_max,
            .new_tokens_max = (int)job->new_tokens_max,
            .correction = strcmp(job->loss_on, "correction") == 0,
            .should_stop = rank_worker_should_stop,
            .stop_user = worker,
        };
        status = answer(worker, &options, reterr);
    }
out:
    rank_model_destroy(model);
    free(params);
    rank_tokenizer_destroy(tokenizer);
    return status;
}
