#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "control.pb-c.h"
#include "modes.h"
#include "proto/digest.h"
#include "rank/checkpoint.h"
#include "rank/ddp.h"
#include "rank/optim.h"
#include "worker.h"

enum { WARM_UP_TOKENS = 128 };

/* The training of one rank. */
typedef struct trainer {
    rank_worker *worker;
    const proto_job *job;
    rank_model_config config;
    size_t param_count;
    rank_tensor *tensors;
    int tensor_count;
    rank_tokenizer *tokenizer;
    rank_data *data;
    rank_model *model;
    rank_ddp *ddp;
    float *params;
    float *first;  /* AdamW's first moments */
    float *second; /* and its second moments */
    uint64_t epoch;
    uint64_t steps_done;
    bool epoch_ended; /* on all ranks */
    bool stopping;    /* on all ranks: the launcher asked to */
    int64_t matrix_first_use_ns;
} trainer;

/* What the ranks add up each step, next to the gradients. Doubles hold these counts exactly. */
typedef struct step_sums {
    double loss;      /* sum over target tokens */
    double targets;   /* target tokens */
    double remaining; /* sentences not handed out yet in this epoch */
    double stop;      /* ranks that heard the launcher's stop */
} step_sums;

/* Zeros that take no memory before they are written. NULL: no memory. */
static float *new_floats(size_t count)
{
    void *zeros = mmap(NULL, count * sizeof(float), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return zeros == MAP_FAILED ? NULL : zeros;
}

static void free_floats(float *floats, size_t count)
{
    if (floats != NULL) {
        (void)munmap(floats, count * sizeof(float));
    }
}

static base_status make_model(trainer *self, base_error *reterr)
{
    const proto_job *job = self->job;
    self->config = (rank_model_config){
        .vocab_size = (int)job->vocab_size,
        .width = (int)job->width,
        .layers = (int)job->layers,
        .heads = (int)job->heads,
        .context = (int)job->context,
    };
    base_status status = rank_model_config_check(&self->config, reterr);
    if (status != BASE_OK) {
        return status;
    }
    self->param_count = rank_model_param_count(&self->config);
    self->tensor_count = rank_model_tensor_count(&self->config);
    self->tensors = calloc((size_t)self->tensor_count, sizeof *self->tensors);
    self->params = new_floats(self->param_count);
    self->first = new_floats(self->param_count);
    self->second = new_floats(self->param_count);
    if (self->tensors == NULL || self->params == NULL || self->first == NULL ||
        self->second == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for %zu parameters",
                         self->param_count);
    }
    for (int i = 0; i < self->tensor_count; i++) {
        rank_model_tensor(&self->config, i, &self->tensors[i]);
    }
    return rank_model_create(&self->config, (int)(job->batch * job->context), 1, &self->model,
                             reterr);
}

static base_status make_params(trainer *self, base_error *reterr)
{
    const proto_job *job = self->job;
    if (self->worker->identity.rank != 0) {
        return BASE_OK; /* they come from rank 0 */
    }
    if (job->checkpoint[0] == '\0') {
        rank_model_init(&self->config, (uint64_t)job->seed, self->params);
        return BASE_OK;
    }
    char path[BASE_PATH_BYTES + 32];
    (void)snprintf(path, sizeof path, "%s/model.safetensors", job->checkpoint);
    return rank_safetensors_read(path, &self->config, self->params, reterr);
}

static base_status open_data(trainer *self, base_error *reterr)
{
    const proto_job *job = self->job;
    const proto_identity *identity = &self->worker->identity;
    base_status status = rank_tokenizer_load(job->tokenizer, &self->tokenizer, reterr);
    if (status != BASE_OK) {
        return status;
    }
    if (rank_tokenizer_vocab_size(self->tokenizer) > self->config.vocab_size) {
        return base_fail(reterr, BASE_ERR_INVALID, "%s has %d tokens, the model only %d",
                         job->tokenizer, rank_tokenizer_vocab_size(self->tokenizer),
                         self->config.vocab_size);
    }
    const rank_data_options options = {
        .path = job->data,
        .tokenizer = self->tokenizer,
        .slot_count = (int)(identity->world_size * job->micro_batches),
        .slot_first = (int)(identity->rank * job->micro_batches),
        .slots_here = (int)job->micro_batches,
        .batch = (int)job->batch,
        .context = (int)job->context,
        .seed = (uint64_t)job->seed,
        .loss_on_correction = strcmp(job->loss_on, "correction") == 0,
    };
    return rank_data_open(&options, &self->data, reterr);
}

static base_status wrap(trainer *self, base_error *reterr)
{
    const proto_job *job = self->job;
    rank_ddp_options options = {
        .param_count = self->param_count,
        .bucket_bytes = (size_t)job->bucket_bytes,
        .micro_batches = (int)job->micro_batches,
        .bracketed = strcmp(job->timing, "bracketed") == 0,
    };
    const base_status status = coll_algorithm_parse(job->algorithm, &options.algorithm, reterr);
    if (status != BASE_OK) {
        return status;
    }
    return rank_ddp_wrap(coll_context_world(self->worker->context), &options, self->params,
                         &self->ddp, reterr);
}

/* A small batch forward and backward: the matrix library makes its kernels now, not inside the
 * first step. The gradients go where AdamW's second moments will be. */
static base_status warm_up(trainer *self, base_error *reterr)
{
    static const int32_t ids[WARM_UP_TOKENS];
    const int32_t tokens =
        self->config.context < WARM_UP_TOKENS ? self->config.context : WARM_UP_TOKENS;
    const int32_t segment_start[] = {0, tokens};
    const rank_batch batch = {.token_count = tokens,
                              .ids = ids,
                              .targets = ids,
                              .segment_count = 1,
                              .segment_start = segment_start};
    double loss = 0.0;
    int64_t targets = 0;
    const int64_t before_ns = base_now_ns();
    const base_status status = rank_model_train(self->model, self->params, &batch, self->second,
                                                NULL, NULL, &loss, &targets, reterr);
    self->matrix_first_use_ns = base_now_ns() - before_ns;
    memset(self->second, 0, self->param_count * sizeof *self->second);
    return status;
}

static void report_ready(const trainer *self)
{
    const rank_worker *worker = self->worker;
    rank_data_facts facts;
    char first_sentence[256];
    char shown[BASE_TEXT_SHOWN_BYTES];
    rank_data_get_facts(self->data, &facts);
    (void)snprintf(first_sentence, sizeof first_sentence, "%s", facts.first_sentence);

    Ringfence__Control__Ready ready = RINGFENCE__CONTROL__READY__INIT;
    ready.model_params = self->param_count;
    ready.params_blake2b256 = (ProtobufCBinaryData){
        .len = PROTO_DIGEST_BYTES, .data = (uint8_t *)rank_ddp_initial_digest(self->ddp)};
    ready.sentences_total = facts.sentences_total;
    ready.sentences_shard = facts.sentences_shard;
    ready.sentences_long = facts.sentences_long;
    ready.first_sentence = first_sentence;
    ready.transport = (char *)coll_transport_name(coll_context_transport(worker->context));
    ready.algorithm = (char *)coll_algorithm_name(coll_context_algorithm(worker->context));
    ready.instruction_set = (char *)rank_model_instruction_set();
    ready.matrix_library = (char *)rank_model_matrix_library();
    proto_client_ready(worker->client, &ready);
    base_text_shorten(facts.first_sentence, shown);
    (void)printf("%" PRIu64 " of %" PRIu64 " sentences, the first: %s\n", facts.sentences_shard,
                 facts.sentences_total, shown);
    (void)fflush(stdout);
    if (facts.sentences_long > 0) {
        base_log(BASE_LOG_WARNING,
                 "%" PRIu64 " sentences are longer than the context of %d tokens and are left out",
                 facts.sentences_long, self->config.context);
    }
}

/* Until the launcher has heard that every rank is ready: it makes way in OUT then, and no rank may
 * have saved anything there before. */
static base_status wait_for_all(const trainer *self, base_error *reterr)
{
    const rank_worker *worker = self->worker;
    const uint8_t mine = 1;
    uint8_t all[BASE_RANKS_MAX];
    return proto_client_exchange(worker->client, &mine, all, sizeof mine,
                                 base_deadline_after_ns(self->job->timeout_ms * BASE_NS_PER_MS),
                                 reterr);
}

/* Forward and backward of all of this rank's slots. */
static base_status run_slots(trainer *self, step_sums *sums, uint64_t *tokens, base_error *reterr)
{
    const int slots = (int)self->job->micro_batches;
    double losses[RANK_DDP_LEVELS_MAX] = {0.0}; /* added up in the order of the gradients */
    for (int slot = 0; slot < slots; slot++) {
        const rank_leaf_plan plan = rank_leaf_plan_make(slots, slot);
        double *loss = &losses[plan.level];
        rank_batch batch;
        int64_t targets = 0;
        base_status status = rank_data_next_batch(self->data, slot, &batch, reterr);
        if (status == BASE_OK) {
            status =
                rank_model_train(self->model, self->params, &batch, rank_ddp_grads(self->ddp, slot),
                                 rank_ddp_ready, self->ddp, loss, &targets, reterr);
        }
        if (status != BASE_OK) {
            return status;
        }
        for (int merge = 0; merge < plan.merges; merge++, loss--) {
            loss[-1] += loss[0];
        }
        sums->targets += (double)targets;
        *tokens += (uint64_t)batch.token_count;
    }
    sums->loss = losses[0];
    sums->remaining = (double)rank_data_remaining(self->data);
    sums->stop = proto_client_stop_requested(self->worker->client) ? 1.0 : 0.0;
    return BASE_OK;
}

/* Scales, clips and applies the summed gradients. Returns the norm of the mean gradient. */
static double apply_gradients(trainer *self, double targets, double learning_rate)
{
    const proto_job *job = self->job;
    const float *grads = rank_ddp_sums(self->ddp);
    const double norm = sqrt(rank_sum_of_squares(grads, self->param_count)) / targets;
    const double clip = job->clip_norm / (norm + 1e-6);
    const double scale = job->clip_norm > 0.0 && clip < 1.0 ? clip / targets : 1.0 / targets;
    const rank_adamw_config config = {
        .learning_rate = (float)learning_rate,
        .beta1 = (float)job->beta1,
        .beta2 = (float)job->beta2,
        .epsilon = (float)job->epsilon,
        .weight_decay = (float)job->weight_decay,
    };
    for (int i = 0; i < self->tensor_count; i++) {
        const rank_tensor *tensor = &self->tensors[i];
        rank_adamw_step(&config, (int64_t)self->steps_done + 1, tensor->decay, (float)scale,
                        self->params + tensor->offset, grads + tensor->offset,
                        self->first + tensor->offset, self->second + tensor->offset, tensor->count);
    }
    return norm;
}

static base_status check_sums(const trainer *self, const step_sums *global, base_error *reterr)
{
    if (global->targets == 0.0 && global->remaining == 0.0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "%s has no sentence that fits into a context of %d tokens",
                         self->job->data, self->config.context);
    }
    if (!isfinite(global->loss)) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "the loss is not finite any more; a smaller --lr may help");
    }
    return BASE_OK;
}

static base_status train_step(trainer *self, base_error *reterr)
{
    const proto_job *job = self->job;
    const double learning_rate = rank_learning_rate(
        strcmp(job->schedule, "cosine") == 0 ? RANK_SCHEDULE_COSINE : RANK_SCHEDULE_CONSTANT,
        job->learning_rate, job->learning_rate_min, job->warmup_steps, job->steps,
        (int64_t)self->steps_done);
    const uint64_t bytes_before = coll_context_bytes_sent(self->worker->context);
    const int64_t start_ns = base_now_ns();
    step_sums mine = {0};
    uint64_t tokens = 0;
    rank_ddp_times times;
    if (self->epoch_ended) {
        rank_data_next_epoch(self->data);
        self->epoch++;
    }
    rank_ddp_begin(self->ddp);
    base_status status = run_slots(self, &mine, &tokens, reterr);
    const int64_t backward_ns = base_now_ns();
    if (status == BASE_OK) {
        status = rank_ddp_finish(self->ddp, &times, reterr);
    }
    step_sums global = mine;
    const int64_t sum_ns = base_now_ns();
    if (status == BASE_OK) {
        status = rank_ddp_sum(self->ddp, (double *)&global, sizeof global / sizeof(double), reterr);
    }
    if (status == BASE_OK) {
        status = check_sums(self, &global, reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    const int64_t reduced_ns = base_now_ns();
    times.allreduce_ns += reduced_ns - sum_ns;
    times.allreduce_exposed_ns += reduced_ns - sum_ns;
    const double norm =
        global.targets > 0.0 ? apply_gradients(self, global.targets, learning_rate) : 0.0;
    const int64_t end_ns = base_now_ns();

    Ringfence__Control__Step step = RINGFENCE__CONTROL__STEP__INIT;
    step.step = self->steps_done;
    step.loss = mine.targets > 0.0 ? mine.loss / mine.targets : 0.0;
    step.loss_global = global.targets > 0.0 ? global.loss / global.targets : 0.0;
    step.tokens = tokens;
    step.target_tokens = (uint64_t)mine.targets;
    step.compute_ns = backward_ns - start_ns - (times.allreduce_ns - times.allreduce_exposed_ns);
    step.allreduce_ns = times.allreduce_ns;
    step.allreduce_exposed_ns = times.allreduce_exposed_ns;
    step.optimizer_ns = end_ns - reduced_ns;
    step.step_ns = end_ns - start_ns;
    step.bytes_sent = coll_context_bytes_sent(self->worker->context) - bytes_before;
    step.epoch = self->epoch;
    step.learning_rate = learning_rate;
    step.grad_norm = norm;
    proto_client_step(self->worker->client, &step);

    self->epoch_ended = global.remaining == 0.0;
    self->stopping = global.stop > 0.0;
    self->steps_done++;
    self->worker->step = self->steps_done;
    return BASE_OK;
}

static base_status save(const trainer *self, base_error *reterr)
{
    const proto_job *job = self->job;
    char path[BASE_PATH_BYTES + 64];
    if (job->out[0] == '\0') {
        return BASE_OK;
    }
    (void)snprintf(path, sizeof path, "%s/state-rank-%d.safetensors", job->out,
                   self->worker->identity.rank);
    base_status status = rank_safetensors_write(path, &self->config, self->params, "", reterr);
    if (status == BASE_OK && rank_ddp_is_main(self->ddp)) {
        status =
            rank_checkpoint_write(job->out, &self->config, self->params, job->tokenizer, reterr);
    }
    return status == BASE_OK ? BASE_OK : base_error_prepend(reterr, status, "saving the model");
}

/* The last update has no step after it whose loss would tell. */
static void warn_of_infinity(const trainer *self)
{
    size_t finite = 0;
    while (finite < self->param_count && isfinite(self->params[finite])) {
        finite++;
    }
    if (finite < self->param_count && rank_ddp_is_main(self->ddp)) {
        base_log(BASE_LOG_WARNING, "parameters are not finite any more; a smaller --lr may help");
    }
}

static base_status finish(trainer *self, int64_t startup_ns, base_error *reterr)
{
    const rank_worker *worker = self->worker;
    uint8_t digest[PROTO_DIGEST_BYTES];
    bool byte_equal = false;
    double max_abs_difference = 0.0;
    uint64_t eval_total = 0;
    uint64_t eval_correct = 0;
    warn_of_infinity(self);
    base_status status =
        rank_ddp_compare(self->ddp, self->params, &byte_equal, &max_abs_difference, reterr);
    if (status == BASE_OK) {
        status = save(self, reterr);
    }
    if (status == BASE_OK && self->job->eval) {
        const rank_generate_options options = {
            .model = self->model,
            .config = &self->config,
            .params = self->params,
            .tokenizer = self->tokenizer,
            .token_count_max = (int)(self->job->batch * self->job->context),
            .new_tokens_max = (int)self->job->new_tokens_max,
            .correction = true,
            .should_stop = rank_worker_should_stop,
            .stop_user = self->worker,
        };
        status = rank_worker_evaluate(worker, &options, &eval_total, &eval_correct, reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    proto_sha256(self->params, self->param_count * sizeof *self->params, digest);
    Ringfence__Control__Finished finished = RINGFENCE__CONTROL__FINISHED__INIT;
    finished.params_sha256 = (ProtobufCBinaryData){.len = sizeof digest, .data = digest};
    finished.steps_done = self->steps_done;
    finished.max_rss_bytes = rank_worker_max_rss_bytes();
    finished.max_abs_difference = max_abs_difference;
    finished.byte_equal = byte_equal;
    finished.startup_ns = startup_ns;
    finished.matrix_first_use_ns = self->matrix_first_use_ns;
    finished.eval_total = eval_total;
    finished.eval_correct = eval_correct;
    return proto_client_finish(worker->client, &finished, reterr);
}

static void trainer_fini(trainer *self)
{
    rank_ddp_destroy(self->ddp);
    rank_model_destroy(self->model);
    rank_data_close(self->data);
    rank_tokenizer_destroy(self->tokenizer);
    free(self->tensors);
    free_floats(self->params, self->param_count);
    free_floats(self->first, self->param_count);
    free_floats(self->second, self->param_count);
}

static base_status prepare(trainer *self, base_error *reterr)
{
    base_status status = make_model(self, reterr);
    if (status == BASE_OK) {
        status = open_data(self, reterr);
    }
    if (status == BASE_OK) {
        status = make_params(self, reterr);
    }
    if (status == BASE_OK) {
        status = warm_up(self, reterr);
    }
    if (status == BASE_OK) {
        status = wrap(self, reterr);
    }
    return status;
}

base_status rank_mode_train(rank_worker *worker, base_error *reterr)
{
    trainer self = {.worker = worker, .job = &worker->identity.job};
    base_status status = prepare(&self, reterr);
    const int64_t startup_ns = base_now_ns() - worker->started_ns;
    if (status == BASE_OK) {
        report_ready(&self);
        status = wait_for_all(&self, reterr);
    }
    while (status == BASE_OK && (int64_t)self.steps_done < self.job->steps && !self.stopping) {
        status = train_step(&self, reterr);
    }
    if (status == BASE_OK) {
        status = finish(&self, startup_ns, reterr);
    }
    trainer_fini(&self);
    return status;
}
