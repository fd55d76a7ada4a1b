/* The optimizer: computes the norm of the gradients and their scale, then runs AdamW on each
 * tensor. Called by train/step.c. */
#include <stdlib.h>

#include "rank/optim.h"

/* Values that change at each step, at an address that the device reads and writes. */
typedef struct step_values {
    double tokens;
    double sum_squares;
    double norm;
    rank_adamw_step adamw;
} step_values;

struct rank_optimizer {
    rank_device device;
    rank_optimizer_options options;
    rank_tensor *tensors;
    int tensor_count;
    size_t param_count;
    float *first; /* AdamW's moments */
    float *second;
    step_values *now;
    float *params; /* of the update that is being enqueued */
    const float *grads;
};

static base_status new_moments(const rank_optimizer *optimizer, float **moments, base_error *reterr)
{
    const rank_device *device = &optimizer->device;
    const size_t size_bytes = optimizer->param_count * sizeof(float);
    void *memory = NULL;
    const base_status status =
        device->backend->alloc(device->queue, RANK_MEMORY_OPTIMIZER, size_bytes, &memory, reterr);
    if (status == BASE_OK) {
        device->backend->zero(device->queue, memory, size_bytes);
    }
    *moments = memory;
    return status;
}

static base_status fill(rank_optimizer *made, const rank_model_config *model, base_error *reterr)
{
    void *now = NULL;
    made->param_count = rank_model_param_count(model);
    made->tensor_count = rank_model_tensor_count(model);
    made->tensors = calloc((size_t)made->tensor_count, sizeof *made->tensors);
    if (made->tensors == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the optimizer");
    }
    for (int i = 0; i < made->tensor_count; i++) {
        rank_model_tensor(model, i, &made->tensors[i]);
    }
    base_status status = new_moments(made, &made->first, reterr);
    if (status == BASE_OK) {
        status = new_moments(made, &made->second, reterr);
    }
    if (status == BASE_OK) {
        status = made->device.backend->alloc(made->device.queue, RANK_MEMORY_HOST,
                                             sizeof *made->now, &now, reterr);
    }
    made->now = now;
    if (status == BASE_OK) {
        *made->now = (step_values){.tokens = 0.0};
    }
    return status;
}

void rank_optimizer_plan(const rank_model_config *model, rank_memory_use *use)
{
    use->bytes[RANK_MEMORY_OPTIMIZER] += 2 * rank_model_param_count(model) * sizeof(float);
}

base_status rank_optimizer_create(const rank_device *device, const rank_model_config *model,
                                  const rank_optimizer_options *options, rank_optimizer **optimizer,
                                  base_error *reterr)
{
    *optimizer = NULL;
    rank_optimizer *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for the optimizer");
    }
    made->device = *device;
    made->options = *options;
    const base_status status = fill(made, model, reterr);
    if (status != BASE_OK) {
        rank_optimizer_destroy(made);
        return status;
    }
    *optimizer = made;
    return BASE_OK;
}

void rank_optimizer_destroy(rank_optimizer *optimizer)
{
    if (optimizer == NULL) {
        return;
    }
    const rank_device *device = &optimizer->device;
    device->backend->release(device->queue, optimizer->first);
    device->backend->release(device->queue, optimizer->second);
    device->backend->release(device->queue, optimizer->now);
    free(optimizer->tensors);
    free(optimizer);
}

/* Enqueues an update, which reads and writes *now: a rank_graph_work's. */
static void update(void *user)
{
    const rank_optimizer *optimizer = user;
    float *params = optimizer->params;
    const float *grads = optimizer->grads;
    rank_bfloat16 *rounded = optimizer->options.rounded;
    const rank_backend *backend = optimizer->device.backend;
    rank_queue *queue = optimizer->device.queue;
    step_values *now = optimizer->now;
    backend->sum_squares(queue, &(rank_sum_squares){.values = grads,
                                                    .count = optimizer->param_count,
                                                    .sum = &now->sum_squares});
    backend->grad_scale(queue, &(rank_grad_scale){.sum_squares = &now->sum_squares,
                                                  .tokens = &now->tokens,
                                                  .norm_max = optimizer->options.norm_max,
                                                  .norm = &now->norm,
                                                  .scale = &now->adamw.grad_scale});
    for (int i = 0; i < optimizer->tensor_count; i++) {
        const rank_tensor *tensor = &optimizer->tensors[i];
        backend->adamw(queue,
                       &(rank_adamw){.config = &optimizer->options.adamw,
                                     .step = &now->adamw,
                                     .decay = tensor->decay,
                                     .count = tensor->count,
                                     .params = params + tensor->offset,
                                     .grads = grads + tensor->offset,
                                     .first = optimizer->first + tensor->offset,
                                     .second = optimizer->second + tensor->offset,
                                     .rounded = rounded != NULL ? rounded + tensor->offset : NULL});
    }
}

void rank_optimizer_step(rank_optimizer *optimizer, const rank_optimizer_values *values,
                         float *params, const float *grads)
{
    step_values *now = optimizer->now;
    now->tokens = values->tokens;
    now->adamw.step = values->step;
    now->adamw.learning_rate = values->learning_rate;
    optimizer->params = params;
    optimizer->grads = grads;
    (void)rank_graphs_do(optimizer->options.graphs,
                         &(rank_graph_work){
                             .key = {{RANK_GRAPH_UPDATE, (uintptr_t)params, (uintptr_t)grads}},
                             .queue = optimizer->device.queue,
                             .enqueue = update,
                             .user = optimizer,
                         });
}

double rank_optimizer_norm(const rank_optimizer *optimizer)
{
    return optimizer->now->norm;
}
