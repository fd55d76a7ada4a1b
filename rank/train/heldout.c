/* --eval and --eval-every: held-out loss and accuracy of a training. Called by prepare.c, step.c and finish.c. */
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/log.h"
#include "generate/mode.h"
#include "ringfence/coll_error.h"
#include "train/trainer.h"

/* Values that the ranks add up. Doubles hold these counts exactly. */
typedef struct heldout_sums {
    double loss;
    double targets;
    double measured; /* sentences or windows that the loss is of */
    double sentences;
    double correct;
    double stopped; /* ranks that have not come to the end of their share */
    /* The loss of each of this rank's slots: added up as those of a step are, so that its bits do not depend on how the
     * slots are dealt out. */
    double slots[RANK_DDP_MICRO_BATCHES_MAX];
} heldout_sums;

enum { HEAD = offsetof(heldout_sums, slots) / sizeof(double) };

/* Says what --eval-every does not find, where it could be asked for. */
static void warn_of_stages(const trainer *self, const rank_data_info *info)
{
    if (self->pipeline != NULL && self->job->infer.eval_every > 0 && info->pairs > 0 &&
        self->worker->identity.rank == 0) {
        base_log(
            BASE_LOG_WARNING,
            "--eval-every: where ranks share layers only the held-out loss is measured while they "
            "train; how many of the sentences of %s are corrected exactly is found at the end",
            self->job->data.heldout);
    }
}

base_status trainer_heldout_open(trainer *self, base_error *reterr)
{
    const proto_job *job = self->job;
    if (!proto_job_measures_loss(job)) {
        return BASE_OK;
    }
    rank_data_options options = trainer_data_options(self);
    options.path = job->data.heldout;
    options.plain = job->data.heldout_plain;
    options.tokens = job->data.heldout_tokens;
    const base_status status = rank_data_open(&options, &self->heldout, reterr);
    rank_data_info info = {.sentences_long = 0};
    if (status == BASE_OK) {
        rank_data_get_info(self->heldout, &info);
        warn_of_stages(self, &info);
    }
    if (info.sentences_long > 0 && trainer_has_loss(self)) {
        base_log(BASE_LOG_WARNING,
                 "%" PRIu64
                 " held-out %s longer than the context of %d tokens and left out of the loss",
                 info.sentences_long, info.sentences_long == 1 ? "sentence is" : "sentences are",
                 options.context);
    }
    return status;
}

/* Evaluates this rank's share of the held-out sentences with all of the model's parameters: how many there are,
 * and how many are corrected exactly. Both are 0 if the launcher asks for a stop meanwhile. */
static base_status find_accuracy(const trainer *self, const float *params, bool may_stop,
                                 uint64_t *total, uint64_t *correct, base_error *reterr)
{
    const rank_generate_options options = {
        .device = &self->device,
        .config = &self->config,
        .params = params,
        .tokenizer = self->tokenizer,
        .sequences = (int)self->job->infer.max_num_seqs,
        .new_tokens_max = (int)self->job->infer.max_new_tokens,
        .prompt_suffix = RANK_DATA_ARROW,
        .should_stop = may_stop ? rank_worker_should_stop : NULL,
        .stop_user = self->worker,
    };
    return rank_worker_evaluate(self->worker, &options, total, correct, reterr);
}

double trainer_heldout_measured(const trainer *self)
{
    rank_data_info info;
    if (self->heldout == NULL) {
        return 0.0;
    }
    rank_data_get_info(self->heldout, &info);
    return trainer_place(self).block == 0 && trainer_has_loss(self)
               ? (double)(info.sentences_shard - info.sentences_long)
               : 0.0;
}

base_status trainer_heldout_begin(trainer *self, base_error *reterr)
{
    static const uint32_t begin[RANK_DDP_MICRO_BATCHES_MAX] = {0};
    return rank_data_seek(self->heldout, 0, begin, reterr);
}

/* What ranks that share out the experts tell each other before each batch. */
typedef struct heldout_round {
    int32_t left; /* ranks whose slot has a batch left */
    int32_t stopped;
} heldout_round;

/* Whether there is another batch of a slot. Ranks that share out the experts compute for each other, so all of a group go
 * on until the last one has none, with empty batches, and end together if one of them is asked to stop. */
static base_status find_round(const trainer *self, const rank_batch *batch,
                              const heldout_sums *sums, bool *more, base_error *reterr)
{
    heldout_round round = {.left = batch->token_count > 0 ? 1 : 0,
                           .stopped = sums->stopped > 0.0 ? 1 : 0};
    base_status status = BASE_OK;
    if (self->ep != NULL) {
        status = (base_status)coll_all_reduce(rank_ep_group_members(self->ep), &round, &round,
                                              sizeof round / sizeof(int32_t), COLL_INT32, COLL_SUM,
                                              coll_error_of(reterr));
    }
    *more = status == BASE_OK && round.left > 0 && round.stopped == 0;
    return status;
}

/* Computes the loss over what a slot has of the held-out sentences. */
static base_status sum_slot(trainer *self, const rank_hooks *hooks, int slot, bool may_stop,
                            heldout_sums *sums, base_error *reterr)
{
    rank_batch batch;
    bool more = false;
    base_status status = rank_data_next_batch(self->heldout, slot, &batch, reterr);
    status = status == BASE_OK ? find_round(self, &batch, sums, &more, reterr) : status;
    while (status == BASE_OK && more) {
        rank_result result = {.target_count = 0};
        status = rank_model_forward(self->model, hooks, &batch, NULL, &result, reterr);
        if (status == BASE_OK && self->ep != NULL) {
            status = rank_ep_group_check(self->ep, reterr);
        }
        sums->slots[slot] += result.loss_sum;
        sums->targets += (double)result.target_count;
        sums->stopped = may_stop && rank_worker_should_stop(self->worker) ? 1.0 : 0.0;
        status =
            status == BASE_OK ? rank_data_next_batch(self->heldout, slot, &batch, reterr) : status;
        status = status == BASE_OK ? find_round(self, &batch, sums, &more, reterr) : status;
    }
    return status;
}

/* The same of all slots. */
static base_status sum_slots(trainer *self, const float *params, bool may_stop, heldout_sums *sums,
                             base_error *reterr)
{
    const int slots = (int)self->job->train.micro_batches;
    const bool alone = self->cp == NULL; /* those that share batches would wait for this one */
    rank_hooks hooks = rank_hooks_flat(params);
    hooks.rounded = self->rounded;
    base_status status = trainer_heldout_begin(self, reterr);
    for (int slot = 0; status == BASE_OK && slot < slots; slot++) {
        status = sum_slot(self, &hooks, slot, may_stop && alone, sums, reterr);
    }
    return status == BASE_OK && self->cp != NULL ? rank_cp_group_check(self->cp, reterr) : status;
}

/* The loss over this rank's share, or its pipeline's. */
static base_status sum_loss(trainer *self, const float *params, bool may_stop, heldout_sums *sums,
                            base_error *reterr)
{
    const int slots = (int)self->job->train.micro_batches;
    const base_status status =
        self->pipeline != NULL ? trainer_stage_heldout(self, sums->slots, &sums->targets, reterr)
                               : sum_slots(self, params, may_stop, sums, reterr);
    sums->measured = trainer_heldout_measured(self);
    sums->loss = trainer_sum_losses(sums->slots, slots);
    return status;
}

/* Adds up what all ranks have found. */
static base_status sum_ranks(const trainer *self, heldout_sums *sums, base_error *reterr)
{
    const int slots = (int)self->job->train.micro_batches;
    const bool each = slots > 1 && proto_job_sums_replicas_first(self->job);
    base_status status = self->pipeline != NULL
                             ? rank_pipeline_sum_loss(self->pipeline, &sums->loss, reterr)
                             : BASE_OK;
    if (status == BASE_OK) {
        status = trainer_sum(self, (double *)sums, HEAD + (each ? (size_t)slots : 0), reterr);
    }
    sums->loss = each ? trainer_sum_losses(sums->slots, slots) : sums->loss;
    return status;
}

/* Whether sentences are corrected: there are some, and in a pipeline that trains no rank has the whole model. */
static bool corrects(const trainer *self, bool at_end)
{
    return proto_job_heldout_has_lines(self->job) && (self->pipeline == NULL || at_end);
}

/* Whether the loss is computed where the parts of the model are. */
static bool has_loss_of_parts(const trainer *self)
{
    return self->pipeline != NULL || trainer_shares_experts(self);
}

base_status trainer_heldout(trainer *self, bool at_end, trainer_heldout_result *result,
                            base_error *reterr)
{
    heldout_sums sums = {0};
    float *whole = NULL;
    const bool in_parts = has_loss_of_parts(self);
    *result = (trainer_heldout_result){.loss = NAN};
    base_status status = BASE_OK;
    if (trainer_lacks_whole(self) && (corrects(self, at_end) || !in_parts)) {
        status = trainer_give_whole(self, &whole, reterr);
    }
    const float *params = whole != NULL ? whole : self->params;
    if (status == BASE_OK && self->heldout != NULL) {
        status = sum_loss(self, in_parts ? self->params : params, at_end, &sums, reterr);
    }
    if (status == BASE_OK && corrects(self, at_end)) {
        status = find_accuracy(self, params, at_end, &result->sentences_here, &result->correct_here,
                               reterr);
    }
    free(whole);
    sums.sentences = (double)result->sentences_here;
    sums.correct = (double)result->correct_here;
    if (status == BASE_OK) {
        status = sum_ranks(self, &sums, reterr);
    }
    if (sums.targets > 0.0 && sums.stopped == 0.0) {
        result->loss = sums.loss / sums.targets;
        result->measured = (uint64_t)sums.measured;
    }
    result->sentences = (uint64_t)sums.sentences;
    result->correct = (uint64_t)sums.correct;
    return status;
}

base_status trainer_evaluate(trainer *self, int64_t step, bool *evaluated,
                             trainer_heldout_result *result, base_error *reterr)
{
    const int64_t every = self->job->infer.eval_every;
    *evaluated = every > 0 && step % every == 0;
    if (!*evaluated) {
        return BASE_OK;
    }
    const base_status status = trainer_heldout(self, false, result, reterr);
    if (status == BASE_OK) {
        trainer_note_best(self, step, result);
    }
    return status;
}
