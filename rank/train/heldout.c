/* --eval-every: held-out loss and accuracy during a training. Called by prepare.c and step.c. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/log.h"
#include "generate/mode.h"
#include "train/trainer.h"

/* Values that the ranks add up. Doubles hold these counts exactly. */
typedef struct heldout_sums {
    double loss;
    double targets;
    double sentences;
    double correct;
} heldout_sums;

base_status trainer_heldout_open(trainer *self, base_error *reterr)
{
    const proto_job *job = self->job;
    if (job->infer.eval_every == 0) {
        return BASE_OK;
    }
    const rank_data_options options = {
        .path = job->data.heldout,
        .tokenizer = self->tokenizer,
        .chat = job->model.checkpoint[0] != '\0' ? &self->chat : NULL,
        .slot_count = (int)proto_job_replicas(job), /* whose ranks pass over a batch together */
        .slot_first = trainer_place(self).replica,
        .slots_here = 1,
        .batch = (int)job->train.batch,
        .context = (int)job->model.context,
        .seed = (uint64_t)job->job.seed,
        .loss_on_correction = job->data.loss_on == PROTO_LOSS_ON_CORRECTION,
        .windows = job->data.windows,
        .plain = job->data.heldout_plain,
    };
    const base_status status = rank_data_open(&options, &self->heldout, reterr);
    rank_data_info info = {.sentences_long = 0};
    if (status == BASE_OK) {
        rank_data_get_info(self->heldout, &info);
    }
    if (info.sentences_long > 0) {
        base_log(BASE_LOG_WARNING,
                 "%" PRIu64
                 " held-out %s longer than the context of %d tokens and left out of the loss",
                 info.sentences_long, info.sentences_long == 1 ? "sentence is" : "sentences are",
                 options.context);
    }
    return status;
}

base_status trainer_accuracy(const trainer *self, const float *params, bool may_stop,
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
    if (self->job->data.heldout_plain) { /* there is nothing to correct */
        *total = 0;
        *correct = 0;
        return BASE_OK;
    }
    return rank_worker_evaluate(self->worker, &options, total, correct, reterr);
}

/* Computes the loss over this rank's share of the held-out sentences. */
static base_status sum_loss(trainer *self, const float *params, heldout_sums *sums,
                            base_error *reterr)
{
    rank_hooks hooks = rank_hooks_flat(params);
    hooks.rounded = self->rounded;
    base_status status = BASE_OK;
    while (status == BASE_OK && rank_data_remaining(self->heldout) > 0) {
        rank_batch batch;
        rank_result result = {.target_count = 0};
        rank_data_next_batch(self->heldout, 0, &batch);
        status = rank_model_forward(self->model, &hooks, &batch, NULL, &result, reterr);
        sums->loss += result.loss_sum;
        sums->targets += (double)result.target_count;
    }
    rank_data_next_epoch(self->heldout);
    return status == BASE_OK && self->cp != NULL ? rank_cp_group_check(self->cp, reterr) : status;
}

base_status trainer_heldout(trainer *self, trainer_heldout_result *result, base_error *reterr)
{
    heldout_sums sums = {0};
    uint64_t total = 0;
    uint64_t correct = 0;
    float *whole = NULL;
    base_status status =
        trainer_lacks_whole(self) ? trainer_give_whole(self, &whole, reterr) : BASE_OK;
    const float *params = whole != NULL ? whole : self->params;
    if (status == BASE_OK) {
        status = sum_loss(self, params, &sums, reterr);
    }
    if (status == BASE_OK) {
        status = trainer_accuracy(self, params, false, &total, &correct, reterr);
    }
    free(whole);
    sums.sentences = (double)total;
    sums.correct = (double)correct;
    if (status == BASE_OK) {
        status = trainer_sum(self, (double *)&sums, sizeof sums / sizeof(double), reterr);
    }
    result->loss = sums.targets > 0 ? sums.loss / sums.targets : 0;
    result->sentences = (uint64_t)sums.sentences;
    result->correct = (uint64_t)sums.correct;
    return status;
}
