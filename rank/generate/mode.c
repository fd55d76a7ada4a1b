/* Modes generate, tp-cpu and tp-nccl: loads a checkpoint, distributes the prompts, and answers them. Called
 * by src/modes.c, and by train/ to evaluate. */
#include "generate/mode.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/path.h"
#include "checkpoint/shards.h"
#include "control.pb-c.h"
#include "generate/baseline.h"
#include "generate/curve_run.h"
#include "generate/dealt.h"
#include "generate/draft_model.h"
#include "generate/progress.h"
#include "generate/requests_link.h"
#include "generate/results.h"
#include "proto/limits.h"
#include "proto/mode.h"
#include "rank/checkpoint.h"
#include "rank/data.h"
#include "rank/tokenizer.h"
#include "ringfence/coll_error.h"
#include "worker/finished.h"
#include "worker/traced.h"

_Static_assert((int)PROTO_DRAFT_TOKENS_MAX == (int)RANK_DRAFT_TOKENS_MAX, "one limit");
_Static_assert((int)PROTO_LOGPROBS_MAX == (int)RANK_LOGPROBS_MAX, "one limit");
_Static_assert((int)PROTO_LOGIT_BIASES_MAX == (int)RANK_LOGIT_BIASES_MAX, "one limit");

base_status rank_worker_evaluate(const rank_worker *worker, const rank_generate_options *options,
                                 uint64_t *total, uint64_t *correct, base_error *reterr)
{
    const proto_identity *identity = &worker->identity;
    rank_pairs *pairs = NULL;
    rank_evaluation result = {.total = 0};
    /* ranks that hold one model together answer rank 0's prompts */
    const bool together = proto_mode_get(identity->job.job.mode)->tensor_parallel;
    base_status status = rank_pairs_open(identity->job.data.heldout, together ? 0 : identity->rank,
                                         together ? 1 : identity->world_size, &pairs, reterr);
    if (status == BASE_OK) {
        status = rank_evaluate(options, pairs, &result, reterr);
    }
    rank_pairs_close(pairs);
    /* an evaluation while a job trains cannot be stopped, and does not say it each time */
    if (status == BASE_OK && result.left_out > 0 && options->should_stop != NULL) {
        base_log(BASE_LOG_WARNING,
                 "%" PRIu64
                 " held-out %s longer than the context of %d tokens%s and left out of the accuracy",
                 result.left_out, result.left_out == 1 ? "sentence is" : "sentences are",
                 rank_generate_context(options),
                 options->cache_tokens > 0 ? ", or than --cache-tokens," : "");
    }
    *total = result.total;
    *correct = result.correct;
    return status == BASE_OK ? BASE_OK : base_error_prepend(reterr, status, "evaluating");
}

/* Rank 0 gets what the ranks of a tensor-parallel model have to say, and writes all down. */
static base_status write_results(const rank_dealt *all, const rank_results_rank *own,
                                 const rank_worker *worker, coll_comm *comm, base_error *reterr)
{
    const proto_job *job = &worker->identity.job;
    base_status status = BASE_OK;
    rank_results_rank *ranks = calloc((size_t)job->job.world_size, sizeof *ranks);
    if (ranks == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for results");
    }
    ranks[0] = *own;
    if (comm != NULL) {
        status = (base_status)coll_all_gather(comm, own, ranks, sizeof *own, COLL_UINT8,
                                              coll_error_of(reterr));
    }
    if (status == BASE_OK && all->results != NULL) {
        status = rank_results_write(all->results, ranks, job->output.directory, reterr);
    }
    free(ranks);
    return status;
}

/* --baseline: every rank has read the prompts. first: of the phase that has answered them. */
static base_status compare(const rank_generate_options *options, const rank_dealt *all,
                           const rank_generate_report *first, base_error *reterr)
{
    rank_baseline baseline;
    base_status status = rank_baseline_run(options, (const char *const *)all->all.texts,
                                           all->all.count, first, &baseline, reterr);
    if (status == BASE_OK && all->results != NULL) {
        if (rank_generate_should_stop(options)) {
            baseline.rounds = 0;
            (void)snprintf(baseline.reason, sizeof baseline.reason, "the job was stopped");
        }
        rank_results_baseline(all->results, &baseline);
    }
    rank_baseline_fini(&baseline);
    return status;
}

/* --curve */
static base_status measure_curve(const rank_worker *worker, const rank_generate_options *options,
                                 const rank_dealt *all, base_error *reterr)
{
    int widths[PROTO_CURVE_WIDTHS_MAX];
    rank_curve curve;
    const proto_job *job = &worker->identity.job;
    const int count = proto_job_curve(job, widths);
    if (count == 0) {
        return BASE_OK;
    }
    rank_curve_plan(widths, count, (int)job->job.world_size, &curve);
    const base_status status = rank_curve_run(options, &curve, reterr);
    if (status == BASE_OK && all->results != NULL) {
        rank_results_curve(all->results, &curve);
    }
    return status;
}

/* Sends the figures of one line of the start-up report. */
static base_status report_loaded(void *user, const rank_generate_report *report, base_error *reterr)
{
    const rank_worker *worker = user;
    const rank_engine_memory *memory = &report->memory;
    Ringfence__Control__Loaded loaded = RINGFENCE__CONTROL__LOADED__INIT;
    (void)reterr;
    loaded.weight_type = (char *)rank_type_name(report->weight_type);
    loaded.weight_bytes = memory->weight_bytes;
    loaded.weight_elements = memory->weight_elements;
    loaded.uncut_elements = memory->uncut_elements;
    loaded.model_elements = report->model_elements;
    loaded.cache_bytes = memory->cache_bytes;
    loaded.cache_blocks = (uint64_t)memory->cache_blocks;
    loaded.cache_tokens = (uint64_t)memory->cache_tokens;
    loaded.draft_weight_bytes = memory->draft_weight_bytes;
    loaded.draft_cache_bytes = memory->draft_cache_bytes;
    loaded.max_rss_bytes = rank_worker_max_rss_bytes();
    proto_client_report(worker->client, &loaded.base);
    return BASE_OK;
}

static void put_report(rank_generate_report *report, Ringfence__Control__Finished *finished)
{
    finished->tokens_drawn = report->costs.sampled;
    finished->tokens_drafted = report->costs.drafted;
    finished->tokens_accepted = report->costs.accepted;
    finished->graphs = report->graphs;
    finished->replays = report->replays;
    finished->capture_failure = report->capture_failure;
}

/* Answers the prompts, and with --trace writes down the last steps of that. */
static base_status generate_traced(const rank_worker *worker, rank_generate_options *options,
                                   const rank_dealt *all, rank_generate_report *report,
                                   base_error *reterr)
{
    rank_traced traced;
    base_status status = rank_traced_begin(worker, options->device, false, &traced, reterr);
    options->timeline = traced.trace;
    if (status == BASE_OK) {
        status = rank_generate(options, all->mine, all->count, report, reterr);
    }
    if (status == BASE_OK) {
        status = rank_traced_write(worker, &traced, reterr);
    }
    rank_traced_end(&traced, options->device);
    return status;
}

static base_status answer(rank_worker *worker, const rank_generate_options *options,
                          base_error *reterr)
{
    Ringfence__Control__Finished finished = RINGFENCE__CONTROL__FINISHED__INIT;
    const proto_job *job = &worker->identity.job;
    rank_results_rank own = {.max_rss_bytes = 0};
    rank_finished_memory memory;
    rank_dealt all;
    const rank_request_source source = rank_requests_link(worker);
    base_status status = rank_dealt_open(worker, &all, reterr);
    if (status == BASE_OK && worker->identity.rank == 0 && job->output.directory[0] != '\0') {
        status = rank_results_create(job, options->config, &all.results, reterr);
    }
    rank_progress progress = {.client = worker->client,
                              .tokenizer = options->tokenizer,
                              .prompts = all.count,
                              .streams = all.all.count == 1 && !all.prints_lines};
    rank_generate_options answering = *options;
    if (job->infer.requests) {
        answering.source = &source;
        answering.forgets = job->infer.unrecorded;
        answering.exact_texts = job->infer.unrecorded;
    } else {
        answering.on_token = rank_progress_token;
        answering.token_user = &progress;
    }
    if (all.results != NULL) {
        answering.on_steps = rank_results_steps;
        answering.steps_user = all.results;
    }
    answering.on_answer = rank_dealt_take;
    answering.answer_user = &all;
    if (proto_mode_get(job->job.mode)->tensor_parallel) {
        answering.on_warm = report_loaded;
        answering.warm_user = worker;
    }
    if (status == BASE_OK) {
        status = generate_traced(worker, &answering, &all, &own.report, reterr);
        rank_progress_end(&progress);
        own.max_rss_bytes = rank_worker_max_rss_bytes();
    }
    if (status == BASE_OK) {
        status = rank_dealt_check(&all, reterr);
    }
    if (status == BASE_OK && job->infer.baseline) {
        status = compare(options, &all, &own.report, reterr);
    }
    if (status == BASE_OK) {
        status = measure_curve(worker, options, &all, reterr);
    }
    if (status == BASE_OK) {
        status = write_results(&all, &own, worker, options->comm, reterr);
    }
    if (status == BASE_OK && job->infer.eval) {
        status = rank_worker_evaluate(worker, options, &finished.eval_total, &finished.eval_correct,
                                      reterr);
    }
    rank_dealt_fini(&all);
    if (status != BASE_OK) {
        return status;
    }
    rank_finished_put_memory(options->device, &own.report.memory.planned,
                             worker->gpu != NULL ? worker->gpu->info.memory_bytes : 0, &memory,
                             &finished);
    put_report(&own.report, &finished);
    /* --baseline and --curve load other models, whose memory does not count */
    const bool measured = job->infer.baseline || job->infer.curve[0] != '\0';
    finished.max_rss_bytes = measured ? own.max_rss_bytes : rank_worker_max_rss_bytes();
    return proto_client_finish(worker->client, &finished, reterr);
}

const char *rank_mode_prompt_suffix(const rank_generation_config *generation, const proto_job *job)
{
    const bool says_so = generation->suffix == RANK_SUFFIX_GIVEN;
    const char *of_older = job->data.loss_on == PROTO_LOSS_ON_CORRECTION ? RANK_DATA_ARROW : "";
    return says_so ? generation->prompt_suffix : of_older;
}

/* chat->why is what clients read: it names no path. */
base_status rank_mode_find_chat(const proto_job *job, rank_tokenizer *tokenizer, rank_chat *chat,
                                bool *has_one, base_error *unread)
{
    rank_chat_template template;
    struct tm now;
    const bool dated = proto_chat_date_read(job->data.chat_date, &now);
    const base_status status =
        rank_checkpoint_chat_template(job->model.checkpoint, &template, unread);
    *has_one = status != BASE_OK || template.text != NULL;
    rank_chat_init(&(rank_chat_source){template.text, template.begin_token, template.end_token,
                                       dated ? &now : NULL},
                   tokenizer, chat);
    free(template.text);
    if (status != BASE_OK) {
        (void)base_fail(&chat->why, status, "the checkpoint's chat template cannot be read");
    }
    return status;
}

static base_status init_chat(const proto_job *job, rank_tokenizer *tokenizer, bool warns,
                             rank_chat *chat, base_error *reterr)
{
    base_error unread;
    bool has_one = false;
    const base_status status = rank_mode_find_chat(job, tokenizer, chat, &has_one, &unread);
    const char *why = status != BASE_OK ? unread.message : chat->why.message;
    if (chat->program == NULL && job->infer.chat) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED, "--chat: %s", why);
    }
    if (chat->program == NULL && has_one && warns) {
        base_log(BASE_LOG_WARNING, "chats are refused: %s", why);
    }
    return BASE_OK;
}

base_status rank_mode_check_chat_date(const proto_job *job, const rank_chat *chat,
                                      base_error *reterr)
{
    if (job->data.chat_date[0] == '\0' || chat->asks_date) {
        return BASE_OK;
    }
    return base_fail(reterr, BASE_ERR_UNSUPPORTED, "--chat-date: %s",
                     chat->program == NULL ? chat->why.message
                                           : "the checkpoint's chat template does not ask for the "
                                             "day (strftime_now)");
}

base_status rank_mode_load_tokenizer(const proto_job *job, bool warns, rank_tokenizer **tokenizer,
                                     rank_chat *chat, base_error *reterr)
{
    base_status status = rank_tokenizer_load(job->data.tokenizer, tokenizer, reterr);
    if (status != BASE_OK) {
        return status;
    }
    if (job->infer.special_tokens) {
        rank_tokenizer_allow_special(*tokenizer);
    }
    status = init_chat(job, *tokenizer, warns, chat, reterr);
    if (status != BASE_OK) {
        return status;
    }
    status = rank_mode_check_chat_date(job, chat, reterr);
    if (status != BASE_OK) {
        return status;
    }
    return !job->infer.no_thinking || chat->has_switch
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_UNSUPPORTED,
                           "--no-thinking: the checkpoint's chat template has no switch for it "
                           "(enable_thinking)");
}

static base_status read_adapters(const char *directory, rank_model_config *config,
                                 rank_generation_config *generation, float **adapters,
                                 base_error *reterr)
{
    rank_generation_config own;
    base_status status = rank_adapter_load(directory, config, adapters, reterr);
    if (status == BASE_OK) {
        status = rank_checkpoint_generation(directory, config->vocab_size, &own, reterr);
    }
    if (status != BASE_OK) {
        free(*adapters);
        *adapters = NULL;
        return base_error_prepend(reterr, status, "--adapter");
    }
    if (own.stop_count > 0) { /* there is such a file; PEFT writes none */
        *generation = own;
    }
    return BASE_OK;
}

base_status rank_mode_read_checkpoint(const proto_job *job, rank_model_config *config,
                                      rank_generation_config *generation, float **adapters,
                                      base_error *reterr)
{
    *adapters = NULL;
    base_status status = rank_checkpoint_config(job->model.checkpoint, config, reterr);
    if (status == BASE_OK) {
        config->tokens_max = rank_mode_context(job, config);
        status = rank_checkpoint_generation(job->model.checkpoint, config->vocab_size, generation,
                                            reterr);
    }
    return status == BASE_OK && job->model.adapter[0] != '\0'
               ? read_adapters(job->model.adapter, config, generation, adapters, reterr)
               : status;
}

int rank_mode_context(const proto_job *job, const rank_model_config *config)
{
    return job->model.context < config->context ? (int)job->model.context : config->context;
}

/* The ranks that share one model; NULL: this one has it for itself. */
static coll_comm *tp_comm(const rank_worker *worker)
{
    const proto_job *job = &worker->identity.job;
    const bool shares = proto_mode_get(job->job.mode)->tensor_parallel && job->job.world_size > 1;
    return shares && worker->context != NULL ? coll_context_world(worker->context) : NULL;
}

static rank_type asked_type(const proto_job *job)
{
    return job->gpu.precision == PROTO_PRECISION_BFLOAT16 ? RANK_BFLOAT16 : RANK_FLOAT32;
}

/* The type of matrices: as asked for, or that of the file where it gives the same numbers, and bits. */
static base_status find_type(const proto_job *job, const rank_model_config *config,
                             const rank_device *device, const char *weights, rank_type *type,
                             base_error *reterr)
{
    if (job->infer.weights != PROTO_WEIGHTS_CHECKPOINT) {
        *type = job->infer.weights == PROTO_WEIGHTS_INT8 ? RANK_INT8 : RANK_INT4;
        return BASE_OK;
    }
    return *type == RANK_FLOAT32 && device->backend->packs_narrow
               ? rank_shards_type(config, weights, type, reterr)
               : BASE_OK;
}

/* The model that drafts, if the job has one, and its type, which is found as the model's is. */
static base_status find_draft(const proto_job *job, const rank_tokenizer *tokenizer,
                              const rank_device *device, rank_job_draft *draft, base_error *reterr)
{
    if (job->model.draft[0] == '\0') {
        return BASE_OK;
    }
    const base_status status = rank_mode_read_draft(job, tokenizer, draft, reterr);
    return status == BASE_OK ? find_type(job, &draft->model.config, device, draft->weights,
                                         &draft->model.type, reterr)
                             : status;
}

/* How tokens are drafted and drawn, and what is said of each. */
static void set_sampling(const proto_job *job, rank_generate_options *options)
{
    const proto_job_infer *infer = &job->infer;
    options->temperature = infer->temperature;
    options->top_p = infer->top_p;
    options->top_k = (int)infer->top_k;
    options->min_p = infer->min_p;
    options->penalties = (rank_penalties){.presence = infer->presence_penalty,
                                          .frequency = infer->frequency_penalty,
                                          .repetition = infer->repetition_penalty};
    options->seed = (uint64_t)(infer->sampling_seed != 0 ? infer->sampling_seed : job->job.seed);
    options->logprob_count = (int)infer->logprob_count;
    options->draft_max = (int)infer->speculate;
}

base_status rank_mode_generate(rank_worker *worker, base_error *reterr)
{
    const proto_job *job = &worker->identity.job;
    const bool shares = proto_mode_get(job->job.mode)->tensor_parallel;
    rank_model_config config = {.family = NULL};
    rank_tokenizer *tokenizer = NULL;
    rank_generation_config generation = {.stop_count = 0};
    rank_chat chat = {.program = NULL};
    rank_device device = {.backend = NULL};
    const rank_type asked = asked_type(job);
    rank_type type = asked;
    float *adapters = NULL;
    char weights[BASE_PATH_BYTES];
    rank_job_draft draft;
    base_status status = rank_mode_read_checkpoint(job, &config, &generation, &adapters, reterr);
    if (status == BASE_OK) {
        status = base_path_join(job->model.checkpoint, "model.safetensors", weights, reterr);
    }
    if (status == BASE_OK) {
        const bool warns = job->infer.requests && worker->identity.rank == 0;
        status = rank_mode_load_tokenizer(job, warns, &tokenizer, &chat, reterr);
    }
    if (status == BASE_OK) {
        status = rank_worker_open_device(worker, &device, reterr);
    }
    if (status == BASE_OK) {
        status = find_type(job, &config, &device, weights, &type, reterr);
    }
    if (status == BASE_OK) {
        status = find_draft(job, tokenizer, &device, &draft, reterr);
    }
    if (status == BASE_OK) {
        rank_generate_options options = {
            .device = &device,
            .config = &config,
            .comm = tp_comm(worker),
            .timeout_ns = job->parallel.timeout_ms * BASE_NS_PER_MS,
            .weights = weights,
            .adapters = adapters,
            .tokenizer = tokenizer,
            .type = type,
            .cache_type = asked,
            .sequences = (int)job->infer.max_num_seqs,
            .cache_tokens = (int)job->infer.cache_tokens,
            .new_tokens_max = (int)job->infer.max_new_tokens,
            .context = rank_mode_context(job, &config),
            .warm_up = job->infer.baseline,
            .ignore_end = job->infer.ignore_eos,
            .stops = generation.stops,
            .stop_count = generation.stop_count,
            .prompt_suffix = rank_mode_prompt_suffix(&generation, job),
            .chat = &chat,
            .shares = job->infer.requests && !job->infer.no_prefix_cache && worker->gpu == NULL,
            .draft = job->model.draft[0] != '\0' ? &draft.model : NULL,
            .prompts_are_messages = job->infer.chat,
            .no_thinking = job->infer.no_thinking,
            .index_first = shares ? 0 : (size_t)worker->identity.rank,
            .index_stride = shares ? 1 : (size_t)worker->identity.world_size,
            .on_failure = rank_worker_leave_device,
            .failure_user = worker,
            .should_stop = rank_worker_should_stop,
            .stop_user = worker,
        };
        set_sampling(job, &options);
        status = answer(worker, &options, reterr);
    }
    rank_device_close(&device);
    rank_chat_fini(&chat);
    rank_tokenizer_destroy(tokenizer);
    free(adapters);
    return status;
}
