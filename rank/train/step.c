/* One training step: compute, reduce, update, report. Called by train.c in its loop. */
#include <math.h>
#include <stddef.h>

#include "base/assert.h"
#include "base/clock.h"
#include "control.pb-c.h"
#include "ringfence/coll_error.h"
#include "train/trainer.h"

/* Values that the ranks add up each step, besides the gradients. Doubles hold these counts
 * exactly. */
typedef struct step_sums {
    double router_loss; /* sum over target tokens; only a model with experts exchanges it */
    double loss;        /* the same of the loss */
    double
        stop; /* how many ranks have received the launcher's Stop, and PAUSE if rank 0 pauses here */
    double targets;   /* target tokens; from here on the host knows them when all is enqueued */
    double remaining; /* sentences that no batch has had yet in this epoch */
} step_sums;

/* Less than one Stop, which comes before it. */
static const double PAUSE = 0.5;

enum { STEP_SUMS = 5, STEP_SUMS_LATE = 3 };
_Static_assert(sizeof(step_sums) == STEP_SUMS * sizeof(double), "summed as an array");

typedef struct training_step {
    step_sums mine;
    step_sums global;
    /* Of this rank's micro-batches, and of a model with experts behind them the router's; summed with
     * `global`. */
    double losses[2 * RANK_DDP_MICRO_BATCHES_MAX];
    uint64_t tokens;
    double learning_rate;
    double grad_norm;
    uint64_t bytes_before; /* sent by this rank's collectives */
    rank_ep_costs experts_before;
    uint64_t bytes_sent; /* by those of this step, without the evaluation's */
    int64_t start_ns;
    int64_t start_cpu_ns; /* of this thread */
    int64_t computed_cpu_ns;
    int64_t reduced_ns;
    int64_t updated_ns;
    int64_t ended_ns;
    /* By the device's clock where there is one, else by the host's. */
    int64_t compute_ns;
    int64_t optimizer_ns;
    int64_t context_ns;   /* exchanges with the ranks that share micro-batches; in compute_ns */
    int64_t expert_ns;    /* the same with the ranks that share out the experts */
    uint64_t expert_rows; /* that have come to the experts here */
    rank_pipeline_times stage; /* in a pipeline; else zeros */
    double sum_squares;        /* of all gradients, where a rank has a part of them */
    rank_ddp_times times;
    bool counted;  /* global has targets and remaining sentences */
    bool updating; /* the update is enqueued */
    bool evaluated;
    trainer_heldout_result heldout;
} training_step;

_Static_assert(offsetof(training_step, losses) ==
                   offsetof(training_step, global) + sizeof(step_sums),
               "both are summed as one array");

/* What exchanges with the ranks that share micro-batches have taken so far. */
static int64_t context_ns(const trainer *self)
{
    return self->cp != NULL ? rank_cp_group_costs(self->cp).ns : 0;
}

/* And those with the ranks that share out the experts. */
static rank_ep_costs expert_costs(const trainer *self)
{
    return self->ep != NULL ? rank_ep_group_costs(self->ep) : (rank_ep_costs){.count = 0};
}

static void begin(trainer *self, training_step *step)
{
    static const rank_learning_schedule schedules[] = {
        [PROTO_SCHEDULE_CONSTANT] = RANK_SCHEDULE_CONSTANT,
        [PROTO_SCHEDULE_COSINE] = RANK_SCHEDULE_COSINE,
        [PROTO_SCHEDULE_LINEAR] = RANK_SCHEDULE_LINEAR,
    };
    const proto_job *job = self->job;
    step->learning_rate = rank_learning_rate(
        schedules[job->train.schedule], job->train.learning_rate, job->train.learning_rate_min,
        job->train.warmup_steps, job->train.steps, (int64_t)self->steps_done);
    step->bytes_before = coll_context_bytes_sent(self->worker->context);
    step->context_ns = -context_ns(self);
    step->experts_before = expert_costs(self);
    step->start_ns = base_now_ns();
    rank_trace_step_begin(self->traced.trace, step->start_ns);
    step->start_cpu_ns = base_thread_cpu_ns();
    if (self->epoch_ended) {
        rank_data_next_epoch(self->data);
        self->epoch++;
    }
    if (self->ddp != NULL) {
        rank_ddp_begin(self->ddp);
    }
    trainer_loads_begin(self);
}

uint64_t trainer_tokens_here(const trainer *self, const rank_batch *batch)
{
    const size_t tokens = (size_t)batch->token_count;
    if (self->cp == NULL) {
        return tokens;
    }
    const rank_cp *cp = rank_cp_group_cp(self->cp);
    return rank_cp_tokens_of(tokens, cp->ranks, cp->rank).count;
}

/* Enqueues forward and backward of a slot. Reduces buckets as they become full. */
static base_status enqueue_slot(trainer *self, training_step *step, int slot, base_error *reterr)
{
    rank_hooks hooks = trainer_shards_params(self)
                           ? (rank_hooks){.need = rank_ddp_need, .weights = self->ddp}
                           : rank_hooks_flat(trainer_adapts(self) ? self->frozen : self->params);
    rank_batch batch;
    const int64_t begun_ns = rank_trace_begin(self->traced.trace);
    const base_status found = trainer_next_batch(self, slot, &batch, reterr);
    trainer_trace_part(self, RANK_TRACE_BATCH, begun_ns, slot);
    if (found != BASE_OK) {
        return found;
    }
    float *grads = rank_ddp_grads(self->ddp, slot);
    hooks.adapters = trainer_adapts(self) ? self->params : NULL;
    hooks.rounded = self->rounded;
    hooks.ready = rank_ddp_ready;
    hooks.ready_user = self->ddp;
    hooks.begin = rank_ddp_pass;
    hooks.ready_key = rank_ddp_key(self->ddp);
    hooks.trace = self->traced.trace;
    step->tokens += trainer_tokens_here(self, &batch);
    base_status enqueued = rank_model_enqueue(self->model, &hooks, &batch, grads, reterr);
    if (enqueued == BASE_OK && self->ep != NULL) {
        enqueued = rank_ep_group_check(self->ep, reterr);
    }
    return enqueued == BASE_OK && self->cp != NULL ? rank_cp_group_check(self->cp, reterr)
                                                   : enqueued;
}

static void take_losses(const trainer *self, training_step *step, const rank_result *results)
{
    const int slots = (int)self->job->train.micro_batches;
    double *router_losses = step->losses + slots;
    for (int slot = 0; slot < slots; slot++) {
        step->losses[slot] = results[slot].loss_sum;
        router_losses[slot] = results[slot].router_loss_sum;
        step->mine.targets += (double)results[slot].target_count;
    }
    step->mine.loss = trainer_sum_losses(step->losses, slots);
    step->mine.router_loss = trainer_sum_losses(router_losses, slots);
}

/* Forward and backward of all slots, through this stage of the pipeline. */
static base_status compute_stage(trainer *self, training_step *step, rank_result *results,
                                 base_error *reterr)
{
    const base_status status = trainer_stage_compute(self, &step->tokens, results, reterr);
    rank_pipeline_get_times(self->pipeline, &step->stage);
    return status;
}

static base_status check_sums(const trainer *self, const step_sums *global, base_error *reterr)
{
    const char *adapter = self->job->model.adapter;
    if (global->targets == 0.0 && global->remaining == 0.0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "%s has no sentence that fits into a context of %d tokens",
                         self->job->data.train, self->config.context);
    }
    if (isfinite(global->loss)) {
        return BASE_OK;
    }
    if (self->steps_done == 0 && self->job->model.checkpoint[0] != '\0') {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "the loss of the first step is not finite: weights in %s%s%s are too "
                         "large",
                         self->job->model.checkpoint, adapter[0] != '\0' ? " or in " : "", adapter);
    }
    if (self->steps_done > 0 && self->steps_done == self->first_step) {
        char older[TRAINER_OLDER_BYTES];
        trainer_name_older(self, self->first_step, older);
        return base_fail(reterr, BASE_ERR_INVALID,
                         "the loss of the first step after the checkpoint is not finite: its "
                         "parameters have diverged%s",
                         older);
    }
    return base_fail(reterr, BASE_ERR_INVALID,
                     "the loss is not finite any more; a smaller --lr may help");
}

/* Target tokens of the gradients that an update is with: all ranks', or with local steps this rank's. */
static double update_targets(const trainer *self, const training_step *step)
{
    return trainer_is_local(self) ? step->mine.targets : step->global.targets;
}

/* Enqueues clipping and the optimizer. */
static void enqueue_update(const trainer *self, const training_step *step)
{
    const bool stage = self->pipeline != NULL;
    const bool has_part = stage || trainer_is_sharded(self) || trainer_shares_experts(self);
    rank_optimizer_step(
        self->optimizer,
        &(rank_optimizer_values){.step = (int64_t)self->steps_done + 1,
                                 .learning_rate = step->learning_rate,
                                 .tokens = update_targets(self, step),
                                 .sum_squares = has_part ? &step->sum_squares : NULL},
        self->params, stage ? rank_pipeline_sums(self->pipeline) : rank_ddp_sums(self->ddp));
}

/* While a device computes: what the step needs of the host. Of the sums over ranks the update needs
 * the count of targets alone. So it is enqueued behind the all-reduces, and the host waits once a
 * step. */
static base_status go_ahead(trainer *self, training_step *step, base_error *reterr)
{
    step->global = (step_sums){.targets = (double)rank_model_target_count(self->model),
                               .remaining = (double)rank_data_remaining(self->data)};
    base_status status = trainer_sum(self, (double *)&step->global + STEP_SUMS_LATE,
                                     STEP_SUMS - STEP_SUMS_LATE, reterr);
    if (status == BASE_OK) {
        status = check_sums(self, &step->global, reterr);
        /* it fails on all ranks: what is enqueued ends */
        if (status != BASE_OK && rank_ddp_finish(self->ddp, &step->times, NULL) != BASE_OK) {
            return status;
        }
    }
    if (status != BASE_OK) {
        return status;
    }
    step->counted = true;
    if (step->global.targets > 0.0 && rank_ddp_follow(self->ddp)) {
        enqueue_update(self, step);
        step->updating = true;
    }
    return BASE_OK;
}

/* Forward and backward of all of this rank's slots. The host waits for a device only in the end. */
static base_status compute_slots(trainer *self, training_step *step, rank_result *results,
                                 base_error *reterr)
{
    const int slots = (int)self->job->train.micro_batches;
    base_status status = BASE_OK;
    for (int slot = 0; status == BASE_OK && slot < slots; slot++) {
        status = enqueue_slot(self, step, slot, reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    rank_ddp_reduce(self->ddp);
    if (self->worker->gpu != NULL && !trainer_is_sharded(self)) {
        status = go_ahead(self, step, reterr);
    }
    return status == BASE_OK ? rank_model_results(self->model, results, slots, reterr) : status;
}

static base_status compute(trainer *self, training_step *step, base_error *reterr)
{
    rank_result results[RANK_DDP_MICRO_BATCHES_MAX];
    const base_status status = self->pipeline != NULL ? compute_stage(self, step, results, reterr)
                                                      : compute_slots(self, step, results, reterr);
    if (status != BASE_OK) {
        return status;
    }
    take_losses(self, step, results);
    step->context_ns += context_ns(self);
    step->expert_ns = expert_costs(self).ns - step->experts_before.ns;
    step->expert_rows = expert_costs(self).rows - step->experts_before.rows;
    step->mine.remaining = (double)rank_data_remaining(self->data);
    step->mine.stop = proto_client_stop_requested(self->worker->client) ? 1.0 : 0.0;
    step->mine.stop += trainer_may_pause(self) ? PAUSE : 0.0;
    step->compute_ns = base_now_ns() - step->start_ns - step->stage.wait_ns;
    step->computed_cpu_ns = base_thread_cpu_ns();
    return BASE_OK;
}

/* Exchanges what stages must know of each other before the update. */
static base_status reduce_stage(trainer *self, training_step *step, base_error *reterr)
{
    rank_pipeline_times times;
    const base_status status = rank_pipeline_reduce(self->pipeline, &step->sum_squares, reterr);
    rank_pipeline_get_times(self->pipeline, &times);
    step->times.allreduce_ns = times.hidden_ns + times.reduce_ns;
    step->times.allreduce_exposed_ns = times.reduce_ns;
    return status;
}

/* Adds up the first `end` of the sums, from which on there are `more` values. */
static base_status sum_up_to(const trainer *self, training_step *step, size_t end, size_t more,
                             base_error *reterr)
{
    double *sums = (double *)&step->global; /* the first one is of a model with experts */
    return self->loads.step != NULL ? trainer_loads_sum(self, sums, end + more, reterr)
                                    : trainer_sum(self, sums + 1, end - 1 + more, reterr);
}

/* Where gradients are summed over the ranks first, and over micro-batches second, so are losses. */
static base_status sum_global(const trainer *self, training_step *step, base_error *reterr)
{
    const int slots = (int)self->job->train.micro_batches;
    const size_t values = self->loads.step != NULL ? 2 * (size_t)slots : (size_t)slots;
    const bool each = slots > 1 && proto_job_sums_replicas_first(self->job);
    const int64_t begun_ns = rank_trace_begin(self->traced.trace);
    const base_status status = sum_up_to(self, step, STEP_SUMS, each ? values : 0, reterr);
    trainer_trace_exchange(self, RANK_TRACE_SUMS, begun_ns);
    if (each) {
        step->global.loss = trainer_sum_losses(step->losses, slots);
    }
    if (each && self->loads.step != NULL) {
        step->global.router_loss = trainer_sum_losses(step->losses + slots, slots);
    }
    return status;
}

/* Sums over all ranks what they do not know yet. */
static base_status sum_counts(const trainer *self, training_step *step, base_error *reterr)
{
    if (step->counted) {
        step->global.loss = step->mine.loss;
        step->global.router_loss = step->mine.router_loss;
        step->global.stop = step->mine.stop;
        return sum_up_to(self, step, STEP_SUMS_LATE, 0, reterr);
    }
    step->global = step->mine;
    const base_status status =
        self->pipeline != NULL ? rank_pipeline_sum_loss(self->pipeline, &step->global.loss, reterr)
                               : BASE_OK;
    return status == BASE_OK ? sum_global(self, step, reterr) : status;
}

/* Waits for the sums of the gradients, and sums the counts over all ranks. */
static base_status reduce(trainer *self, training_step *step, base_error *reterr)
{
    base_status status = self->pipeline != NULL ? reduce_stage(self, step, reterr)
                                                : rank_ddp_finish(self->ddp, &step->times, reterr);
    step->compute_ns -= step->times.waited_ns;
    step->computed_cpu_ns -= step->times.waited_cpu_ns;
    const int64_t sum_ns = base_now_ns();
    if (status == BASE_OK && (trainer_is_sharded(self) || trainer_shares_experts(self))) {
        const int64_t begun_ns = rank_trace_begin(self->traced.trace);
        status = rank_ddp_sum_squares(self->ddp, &step->sum_squares, reterr);
        trainer_trace_exchange(self, RANK_TRACE_NORM, begun_ns);
    }
    if (status == BASE_OK) {
        status = sum_counts(self, step, reterr);
    }
    if (status == BASE_OK) {
        status = check_sums(self, &step->global, reterr);
    }
    step->reduced_ns = base_now_ns();
    if (step->times.by_device) { /* the host's sum is not the device's time */
        step->compute_ns = step->times.compute_ns;
    } else {
        step->times.allreduce_ns += step->reduced_ns - sum_ns;
        step->times.allreduce_exposed_ns += step->reduced_ns - sum_ns;
    }
    return status;
}

/* With --zero 1 and 2 each rank has updated its shard, with Muon some matrices, and all get it. */
static base_status gather(const trainer *self, training_step *step, base_error *reterr)
{
    const bool sharded = trainer_is_sharded(self) && !trainer_shards_params(self);
    if (step->global.targets == 0.0 || (!sharded && self->muon.gather == NULL)) {
        return BASE_OK;
    }
    const base_status status =
        sharded ? rank_ddp_gather(self->ddp, reterr) : trainer_gather_muon(self, reterr);
    step->ended_ns = base_now_ns();
    step->times.allreduce_ns += step->ended_ns - step->updated_ns;
    step->times.allreduce_exposed_ns += step->ended_ns - step->updated_ns;
    return status;
}

/* With local steps, at the end of a round: all ranks get the same parameters. */
static base_status join(trainer *self, training_step *step, base_error *reterr)
{
    rank_ddp_times times;
    int64_t update_ns = 0;
    if (!trainer_is_local(self) || !trainer_ends_round(self, (int64_t)self->steps_done + 1)) {
        return BASE_OK;
    }
    const int64_t begun_ns = rank_trace_begin(self->traced.trace);
    const base_status status = trainer_outer_step(self, &times, &update_ns, reterr);
    trainer_trace_part(self, RANK_TRACE_OUTER, begun_ns, -1);
    step->ended_ns = base_now_ns();
    step->times.allreduce_ns += times.allreduce_ns;
    step->times.allreduce_exposed_ns += times.allreduce_exposed_ns;
    step->times.barrier_ns += times.barrier_ns;
    step->optimizer_ns += update_ns;
    return status;
}

/* Clips and applies the optimizer, equally on every rank but with local steps. */
static base_status update(trainer *self, training_step *step, base_error *reterr)
{
    base_status status = BASE_OK;
    int64_t device_ns = -1;
    int64_t exchange_ns = 0;
    const int64_t begun_ns = rank_trace_begin(self->traced.trace);
    if (update_targets(self, step) > 0.0) {
        if (!step->updating) {
            enqueue_update(self, step);
        }
        status = self->device.backend->sync(self->device.queue, reterr);
        step->grad_norm = rank_optimizer_norm(self->optimizer);
        device_ns = rank_optimizer_device_ns(self->optimizer);
    }
    if (status == BASE_OK && update_targets(self, step) > 0.0) {
        status = trainer_update_parts(self, &exchange_ns, reterr);
    }
    trainer_trace_part(self, RANK_TRACE_OPTIMIZER, begun_ns, -1);
    step->updated_ns = base_now_ns();
    step->ended_ns = step->updated_ns;
    step->optimizer_ns =
        device_ns >= 0 ? device_ns : step->updated_ns - step->reduced_ns - exchange_ns;
    step->times.allreduce_ns += exchange_ns;
    step->times.allreduce_exposed_ns += exchange_ns;
    return status;
}

static void report(const trainer *self, const training_step *step)
{
    const step_sums *mine = &step->mine;
    const step_sums *global = &step->global;
    const rank_ddp_times *times = &step->times;
    Ringfence__Control__Step message = RINGFENCE__CONTROL__STEP__INIT;
    message.step = self->steps_done;
    message.loss = mine->targets > 0.0 ? mine->loss / mine->targets : 0.0;
    message.loss_global = global->targets > 0.0 ? global->loss / global->targets : 0.0;
    message.router_loss = global->targets > 0.0 ? global->router_loss / global->targets : 0.0;
    message.tokens = step->tokens;
    message.compute_ns = step->compute_ns - (times->allreduce_ns - times->allreduce_exposed_ns);
    BASE_ASSERT(message.compute_ns >= 0); /* what is hidden behind backward is a part of compute */
    message.compute_cpu_ns = /* waiting takes CPU time as well, and nobody knows how much */
        self->pipeline != NULL ? 0 : step->computed_cpu_ns - step->start_cpu_ns;
    message.allreduce_ns = times->allreduce_ns;
    message.allreduce_exposed_ns = times->allreduce_exposed_ns;
    message.optimizer_ns = step->optimizer_ns;
    message.step_ns = step->ended_ns - step->start_ns;
    message.bytes_sent = step->bytes_sent;
    message.epoch = self->epoch;
    message.learning_rate = step->learning_rate;
    message.grad_norm = step->grad_norm;
    message.forward_ns = step->stage.forward_ns;
    message.backward_ns = step->stage.backward_ns;
    message.weights_ns = step->stage.weights_ns;
    message.tensor_ns = step->stage.tensor_ns;
    message.context_ns = step->context_ns;
    message.expert_ns = step->expert_ns;
    message.expert_rows = step->expert_rows;
    message.busiest_expert = trainer_loads_busiest(self);
    message.barrier_ns = step->times.barrier_ns;
    message.neighbour_ns = step->stage.wait_ns;
    message.stage_span_ns = step->stage.span_ns;
    message.held = (uint64_t)step->stage.held;
    message.evaluated = step->evaluated;
    message.heldout_loss = step->heldout.loss;
    message.heldout_sentences = step->heldout.sentences;
    message.heldout_correct = step->heldout.correct;
    message.heldout_measured = step->heldout.measured;
    proto_client_report(self->worker->client, &message.base);
}

base_status trainer_step(trainer *self, base_error *reterr)
{
    training_step step = {.tokens = 0};
    trainer_exchanges before;
    trainer_exchanges_begin(self, &before);
    begin(self, &step);
    base_status status = compute(self, &step, reterr);
    status = status == BASE_OK ? reduce(self, &step, reterr) : status;
    status = status == BASE_OK ? update(self, &step, reterr) : status;
    status = status == BASE_OK ? gather(self, &step, reterr) : status;
    status = status == BASE_OK ? join(self, &step, reterr) : status;
    if (status == BASE_OK) {
        rank_trace_step_end(self->traced.trace, (int32_t)self->steps_done, step.ended_ns);
    }
    trainer_exchanges_end(self, &before);
    step.bytes_sent = coll_context_bytes_sent(self->worker->context) - step.bytes_before;
    const int64_t done = (int64_t)self->steps_done + 1;
    if (status == BASE_OK) {
        status = trainer_evaluate(self, done, &step.evaluated, &step.heldout, reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    report(self, &step);
    self->epoch_ended = step.global.remaining == 0.0;
    self->steps_done++;
    self->stopping = step.global.stop >= 1.0 && trainer_ends_round(self, done);
    self->pausing = step.global.stop == PAUSE && !trainer_gives_up(self);
    self->worker->step = self->steps_done;
    return BASE_OK;
}
