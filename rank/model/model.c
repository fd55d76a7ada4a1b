/* A whole model on one device: memory for one micro-batch, and the passes of its family. Called by
 * train/, generate/ and bench/. */
#include <stdlib.h>

#include "model/family.h"

struct rank_model {
    rank_model_config config;
    rank_run run;
    rank_saved saved;
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
    return (rank_shape){.config = options->config,
                        .backend = options->device->backend,
                        .end_layer = options->config->layers,
                        .token_count_max = (size_t)options->token_count_max,
                        .training = options->training};
}

void rank_model_plan(const rank_model_options *options, rank_memory_use *use)
{
    const rank_shape shape = make_shape(options);
    const rank_family *family = options->config->family;
    use->bytes[RANK_MEMORY_ACTIVATIONS] += family->saved_floats(&shape) * sizeof(float);
    use->bytes[RANK_MEMORY_WORK] += family->work_floats(&shape) * sizeof(float);
}

static base_status fill(rank_model *made, base_error *reterr)
{
    rank_run *run = &made->run;
    void *work = NULL;
    const size_t work_bytes = made->config.family->work_floats(&run->shape) * sizeof(float);
    base_status status = rank_saved_create(&run->shape, &run->device, &made->saved, reterr);
    if (status == BASE_OK) {
        status = run->device.backend->alloc(run->device.queue, RANK_MEMORY_WORK, work_bytes, &work,
                                            reterr);
    }
    run->work = work;
    return status;
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
    if (options->training && options->config->family->backward == NULL) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED, "model: the family %s does not train",
                         options->config->family->model_types[0]);
    }
    rank_model *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "model: no memory");
    }
    made->config = *options->config;
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
    model->run.device.backend->release(model->run.device.queue, model->run.work);
    free(model);
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

base_status rank_model_train(rank_model *model, const rank_hooks *hooks, const rank_batch *batch,
                             float *grads, rank_result *result, base_error *reterr)
{
    rank_run *run = &model->run;
    rank_saved *saved = &model->saved;
    *result = (rank_result){.target_count = 0};
    if (!run->shape.training) {
        return base_fail(reterr, BASE_ERR_STATE, "model: made for forward only");
    }
    const base_status status = rank_rows_place(saved, batch, NULL, reterr);
    if (status != BASE_OK) {
        return status;
    }
    run->hooks = hooks;
    model->config.family->forward(run, &(rank_forward_args){.saved = saved});
    model->config.family->backward(run, &(rank_backward_args){.saved = saved, .grads = grads});
    return finish(model, result, reterr);
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
    run->hooks = hooks;
    model->config.family->forward(
        run, &(rank_forward_args){.saved = saved, .logits = logits, .want_loss = true});
    return finish(model, result, reterr);
}
