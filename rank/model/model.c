/* A whole model on one device: memory for one micro-batch, and the passes of its family. Called by
 * train/, generate/ and bench/. */
#include <stdlib.h>

#include "base/assert.h"
#include "model/decoder.h"
#include "model/padded.h"

struct rank_model {
    rank_model_config config;
    rank_run run;
    rank_saved saved;
    rank_graphs *graphs;
    rank_padded padded; /* with graphs */
    /* batches that were enqueued, and whose results were not asked for */
    int enqueued;
    int batches_max;
    double *losses; /* in RANK_MEMORY_HOST: each batch's loss, and behind these its router's */
    int64_t *target_counts;
    float *grads;  /* of the batch that is being enqueued */
    double *loads; /* of the options */
};

static const float *need_flat(void *weights, size_t offset, size_t count)
{
    const float *params = weights;
    (void)count;
    return params + offset;
}

rank_hooks rank_hooks_flat(const float *params)
{
    return (rank_hooks){.need = need_flat, .weights = (void *)params};
}

static rank_shape make_shape(const rank_model_options *options)
{
    const bool padded = options->training && options->graphs != NULL;
    const size_t whole = (size_t)options->token_count_max;
    const size_t tokens = options->cp != NULL ? rank_cp_block(whole, options->cp->ranks) : whole;
    return (rank_shape){.config = options->config,
                        .backend = options->device->backend,
                        .end_layer = options->config->layers,
                        .token_count_max = padded ? rank_model_padded(tokens, tokens) : tokens,
                        .training = options->training,
                        .recompute = options->training && options->recompute,
                        .padded = padded,
                        .type = options->type,
                        .cp = options->cp,
                        .ep = options->ep};
}

void rank_model_plan(const rank_model_options *options, rank_memory_use *use)
{
    const rank_shape shape = make_shape(options);
    const rank_family *family = options->config->family;
    use->bytes[RANK_MEMORY_ACTIVATIONS] += family->saved_floats(&shape) * sizeof(float);
    use->bytes[RANK_MEMORY_WORK] += family->work_floats(&shape) * sizeof(float);
    if (shape.padded) {
        rank_padded_plan(&shape, use);
    }
}

static base_status fill(rank_model *made, base_error *reterr)
{
    rank_run *run = &made->run;
    void *work = NULL;
    void *losses = NULL;
    const size_t work_bytes = made->config.family->work_floats(&run->shape) * sizeof(float);
    base_status status = rank_saved_create(&run->shape, &run->device, &made->saved, reterr);
    if (status == BASE_OK) {
        status = run->device.backend->alloc(run->device.queue, RANK_MEMORY_WORK, work_bytes, &work,
                                            reterr);
    }
    run->work = work;
    if (status == BASE_OK) {
        status = run->device.backend->alloc(run->device.queue, RANK_MEMORY_HOST,
                                            2 * (size_t)made->batches_max * sizeof *made->losses,
                                            &losses, reterr);
    }
    made->losses = losses;
    if (status == BASE_OK && run->shape.padded) {
        status =
            rank_padded_create(&made->padded, &run->shape, &run->device, made->batches_max, reterr);
    }
    made->target_counts = calloc((size_t)made->batches_max, sizeof *made->target_counts);
    return status == BASE_OK && made->target_counts == NULL
               ? base_fail(reterr, BASE_ERR_MEMORY, "model: no memory")
               : status;
}

base_status rank_model_check_type(const rank_model_config *config, rank_type type,
                                  base_error *reterr)
{
    if (type != RANK_FLOAT32 && !config->family->bfloat16) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED,
                         "model: the family %s trains in float32 only: leave out --precision "
                         "bfloat16",
                         config->family->model_types[0]);
    }
    if (type != RANK_FLOAT32 && config->width % 2 != 0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "model: width %d: bfloat16 (--precision) needs an even one",
                         config->width);
    }
    return BASE_OK;
}

rank_experts rank_model_experts(const rank_model_config *config)
{
    const rank_decoder of = rank_decoder_describe(config, 1);
    return (rank_experts){.count = (int)of.experts, .chosen = (int)of.chosen};
}

base_status rank_model_check_device(const rank_model_config *config, const rank_device *device,
                                    base_error *reterr)
{
    if (config->family->cpus_only && device->backend->scale == NULL) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED,
                         "model: the backend %s has no operations for %s: run it on CPUs",
                         device->backend->name, config->family->model_types[0]);
    }
    return rank_model_experts(config).count == 0 || device->backend->route != NULL
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_UNSUPPORTED,
                           "model: the backend %s has no experts: run it on CPUs",
                           device->backend->name);
}

base_status rank_model_check_context_ranks(const rank_model_config *config, int ranks,
                                           base_error *reterr)
{
    if (rank_model_experts(config).count > 0) {
        return base_fail(
            reterr, BASE_ERR_UNSUPPORTED,
            "--context-ranks: ranks cannot share the tokens of a batch of a model with experts");
    }
    const int heads = config->heads / rank_tensor_ranks(config);
    if (heads % ranks != 0) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "model: %d ranks share the tokens of a batch, and in attention its heads, "
                         "of which there are %d: not a multiple",
                         ranks, heads);
    }
    return BASE_OK;
}

base_status rank_model_check_expert_ranks(const rank_model_config *config, int ranks,
                                          base_error *reterr)
{
    const int experts = rank_model_experts(config).count;
    if (experts == 0) {
        return base_fail(reterr, BASE_ERR_INVALID, "--expert-ranks %d: the model has no experts",
                         ranks);
    }
    return experts % ranks == 0
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID,
                           "--expert-ranks %d does not divide the model's experts, %d", ranks,
                           experts);
}

base_status rank_model_create(const rank_model_options *options, rank_model **model,
                              base_error *reterr)
{
    *model = NULL;
    base_status status = rank_model_config_check(options->config, reterr);
    if (status != BASE_OK) {
        return status;
    }
    if (options->token_count_max < 1 || options->token_count_max > RANK_MODEL_TOKENS_MAX) {
        return base_fail(reterr, BASE_ERR_INVALID, "model: %d tokens in a batch, it must be 1 … %d",
                         options->token_count_max, RANK_MODEL_TOKENS_MAX);
    }
    if (options->type != RANK_FLOAT32 && options->device->backend->cast == NULL) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED, "model: the backend %s has float32 only",
                         options->device->backend->name);
    }
    if (options->config->adapters.rank > 0 && options->device->backend->scale == NULL) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED, "model: the backend %s has no adapters",
                         options->device->backend->name);
    }
    if (options->config->dropout > 0.0 && options->device->backend->dropout == NULL) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED, "model: the backend %s has no dropout",
                         options->device->backend->name);
    }
    status = rank_model_check_device(options->config, options->device, reterr);
    if (status == BASE_OK) {
        status = rank_model_check_type(options->config, options->type, reterr);
    }
    if (status == BASE_OK && options->cp != NULL) {
        status = rank_model_check_context_ranks(options->config, options->cp->ranks, reterr);
    }
    if (status == BASE_OK && options->ep != NULL) {
        status = rank_model_check_expert_ranks(options->config, options->ep->cut.ranks, reterr);
        BASE_ASSERT(options->ep->cut.ranks == rank_expert_ranks(options->config));
        BASE_ASSERT(options->ep->cut.rows_max == (size_t)options->token_count_max);
    }
    if (status != BASE_OK) {
        return status;
    }
    rank_model *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "model: no memory");
    }
    made->config = *options->config;
    made->graphs = options->graphs;
    made->loads = options->loads;
    made->batches_max = options->batches_max > 0 ? options->batches_max : 1;
    made->run.device = *options->device;
    made->run.shape = make_shape(options);
    made->run.shape.config = &made->config;
    status = fill(made, reterr);
    if (status != BASE_OK) {
        rank_model_destroy(made);
        return status;
    }
    *model = made;
    return BASE_OK;
}

void rank_model_destroy(rank_model *model)
{
    if (model == NULL) {
        return;
    }
    rank_saved_destroy(&model->saved);
    rank_padded_destroy(&model->padded);
    model->run.device.backend->release(model->run.device.queue, model->run.work);
    model->run.device.backend->release(model->run.device.queue, model->losses);
    free(model->target_counts);
    free(model);
}

/* Targets of the batch just placed, which padding hides. */
static int64_t count_targets(const rank_model *model, const rank_batch *batch)
{
    if (!model->run.shape.padded) {
        return (int64_t)model->saved.rows.target_count;
    }
    int64_t count = 0;
    for (int t = 0; batch->targets != NULL && t < batch->token_count; t++) {
        count += batch->targets[t] >= 0;
    }
    return count;
}

static base_status place(rank_model *model, const rank_batch *batch, base_error *reterr)
{
    const rank_device *device = &model->run.device;
    if (model->run.shape.padded) {
        return rank_padded_place(&model->padded, &model->saved, batch, reterr);
    }
    /* the batch before may still be read */
    const base_status status =
        model->enqueued > 0 ? device->backend->sync(device->queue, reterr) : BASE_OK;
    return status == BASE_OK ? rank_rows_place(&model->saved, batch, NULL, reterr) : status;
}

static void trace_pass(rank_trace *trace, rank_trace_kind kind, int64_t begun_ns)
{
    if (trace != NULL) {
        rank_trace_add(trace, (rank_trace_span){
                                  .kind = kind, .begin_ns = begun_ns, .index = trace->micro_batch});
    }
}

/* The passes over the batch in model->saved: a rank_graph_work's. */
static void pass(void *user)
{
    rank_model *model = user;
    const rank_run *run = &model->run;
    const rank_hooks *hooks = run->hooks;
    int64_t begun_ns = rank_trace_begin(hooks->trace);
    model->config.family->forward(run, &(rank_forward_args){.saved = &model->saved});
    trace_pass(hooks->trace, RANK_TRACE_FORWARD, begun_ns);
    if (hooks->begin != NULL) {
        hooks->begin(hooks->ready_user, false);
    }
    begun_ns = rank_trace_begin(hooks->trace);
    model->config.family->backward(
        run, &(rank_backward_args){.saved = &model->saved, .grads = model->grads});
    trace_pass(hooks->trace, RANK_TRACE_BACKWARD, begun_ns);
}

base_status rank_model_enqueue(rank_model *model, const rank_hooks *hooks, const rank_batch *batch,
                               float *grads, base_error *reterr)
{
    rank_run *run = &model->run;
    if (!run->shape.training) {
        return base_fail(reterr, BASE_ERR_STATE, "model: made for forward only");
    }
    if (model->enqueued == model->batches_max) {
        return base_fail(reterr, BASE_ERR_STATE, "model: %d batches without results",
                         model->enqueued);
    }
    const base_status status = place(model, batch, reterr);
    if (status != BASE_OK) {
        return status;
    }
    run->hooks = hooks;
    model->grads = grads;
    const rank_graph_work work = {
        .key = {{RANK_GRAPH_BATCH, model->saved.rows.count, (uintptr_t)grads, hooks->ready_key}},
        .queue = run->device.queue,
        .enqueue = pass,
        .user = model,
    };
    if (rank_graphs_do(model->graphs, &work) == RANK_GRAPH_REPLAYED && hooks->begin != NULL) {
        hooks->begin(hooks->ready_user, true);
    }
    model->target_counts[model->enqueued] = count_targets(model, batch);
    run->device.backend->copy(run->device.queue, &model->losses[model->enqueued], model->saved.loss,
                              sizeof *model->losses);
    rank_saved_add_loads(&model->saved, model->loads);
    if (model->saved.loads != NULL) {
        run->device.backend->copy(run->device.queue,
                                  &model->losses[model->batches_max + model->enqueued],
                                  model->saved.router_loss, sizeof *model->losses);
    }
    model->enqueued++;
    return BASE_OK;
}

int64_t rank_model_target_count(const rank_model *model)
{
    int64_t count = 0;
    for (int i = 0; i < model->enqueued; i++) {
        count += model->target_counts[i];
    }
    return count;
}

base_status rank_model_results(rank_model *model, rank_result *results, int count,
                               base_error *reterr)
{
    const rank_device *device = &model->run.device;
    if (count != model->enqueued) {
        return base_fail(reterr, BASE_ERR_STATE, "model: %d results asked for, of %d batches",
                         count, model->enqueued);
    }
    model->enqueued = 0;
    const base_status status = device->backend->sync(device->queue, reterr);
    rank_padded_waited(&model->padded);
    for (int i = 0; i < count; i++) {
        results[i] = (rank_result){
            .loss_sum = model->losses[i],
            .target_count = model->target_counts[i],
            .router_loss_sum =
                model->saved.loads != NULL ? model->losses[model->batches_max + i] : 0.0,
        };
    }
    return status;
}

base_status rank_model_train(rank_model *model, const rank_hooks *hooks, const rank_batch *batch,
                             float *grads, rank_result *result, base_error *reterr)
{
    *result = (rank_result){.target_count = 0};
    const base_status status = rank_model_enqueue(model, hooks, batch, grads, reterr);
    return status == BASE_OK ? rank_model_results(model, result, 1, reterr) : status;
}

/* Waits for the device and reads its results. */
static base_status finish(rank_model *model, rank_result *result, base_error *reterr)
{
    const rank_device *device = &model->run.device;
    const base_status status = device->backend->sync(device->queue, reterr);
    if (result != NULL) {
        *result = (rank_result){.loss_sum = *model->saved.loss,
                                .target_count = (int64_t)model->saved.rows.target_count};
    }
    return status;
}

base_status rank_model_forward(rank_model *model, const rank_hooks *hooks, const rank_batch *batch,
                               const rank_logits *logits, rank_result *result, base_error *reterr)
{
    rank_run *run = &model->run;
    rank_saved *saved = &model->saved;
    if (result != NULL) {
        *result = (rank_result){.target_count = 0};
    }
    const base_status status = rank_rows_place(saved, batch, logits, reterr);
    if (status != BASE_OK) {
        return status;
    }
    saved->rows.draw.on = false;
    run->hooks = hooks;
    model->config.family->forward(
        run, &(rank_forward_args){.saved = saved, .logits = logits, .want_loss = true});
    return finish(model, result, reterr);
}
