/* A checkpoint's model on a device. Called by logits.c and answers.c. */
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"

static base_status alloc_floats(const measured_model *m, rank_memory kind, size_t count,
                                float **floats, base_error *reterr)
{
    void *memory = NULL;
    const base_status status =
        m->device.backend->alloc(m->device.queue, kind, count * sizeof(float), &memory, reterr);
    *floats = memory;
    return status;
}

static base_status read_params(const measured_model *m, const char *checkpoint, base_error *reterr)
{
    char path[BASE_PATH_BYTES + 32];
    void *host = NULL;
    const size_t size_bytes = rank_model_param_count(&m->config) * sizeof(float);
    base_status status =
        m->device.backend->map(m->device.queue, m->params, size_bytes, true, &host, reterr);
    if (status != BASE_OK) {
        return status;
    }
    (void)snprintf(path, sizeof path, "%s/model.safetensors", checkpoint);
    status = rank_safetensors_read(path, &m->config, host, reterr);
    m->device.backend->unmap(m->device.queue, host);
    return status;
}

base_status measured_model_open(measured_model *m, const rank_device *device,
                                const char *checkpoint, int token_count_max, int rows_max,
                                base_error *reterr)
{
    *m = (measured_model){.device = *device};
    base_status status = rank_checkpoint_config(checkpoint, &m->config, reterr);
    if (status == BASE_OK) {
        status = alloc_floats(m, RANK_MEMORY_WEIGHTS, rank_model_param_count(&m->config),
                              &m->params, reterr);
    }
    if (status == BASE_OK) {
        status = alloc_floats(m, RANK_MEMORY_WORK, (size_t)rows_max * (size_t)m->config.vocab_size,
                              &m->logits, reterr);
    }
    if (status == BASE_OK) {
        status = read_params(m, checkpoint, reterr);
    }
    return status == BASE_OK
               ? rank_model_create(&(rank_model_options){.config = &m->config,
                                                         .device = &m->device,
                                                         .token_count_max = token_count_max},
                                   &m->model, reterr)
               : status;
}

void measured_model_close(measured_model *m)
{
    rank_model_destroy(m->model);
    m->device.backend->release(m->device.queue, m->logits);
    m->device.backend->release(m->device.queue, m->params);
}

base_status measured_model_run(measured_model *m, const int32_t *ids, int count, int rows,
                               float **logits, base_error *reterr)
{
    const int32_t segments[] = {0, count};
    const size_t size_bytes = (size_t)rows * (size_t)m->config.vocab_size * sizeof **logits;
    int32_t *wanted = malloc((size_t)rows * sizeof *wanted);
    void *host = NULL;
    *logits = malloc(size_bytes);
    if (wanted == NULL || *logits == NULL) {
        free(wanted);
        free(*logits);
        return base_fail(reterr, BASE_ERR_MEMORY, "no memory for logits");
    }
    for (int i = 0; i < rows; i++) {
        wanted[i] = count - rows + i;
    }
    const rank_hooks hooks = rank_hooks_flat(m->params);
    const rank_batch batch = {
        .token_count = count, .ids = ids, .segment_count = 1, .segment_start = segments};
    base_status status = rank_model_forward(
        m->model, &hooks, &batch, &(rank_logits){.rows = wanted, .count = rows, .at = m->logits},
        NULL, reterr);
    free(wanted);
    if (status == BASE_OK) {
        status =
            m->device.backend->map(m->device.queue, m->logits, size_bytes, false, &host, reterr);
    }
    if (status != BASE_OK) {
        free(*logits);
        return status;
    }
    memcpy(*logits, host, size_bytes);
    m->device.backend->unmap(m->device.queue, host);
    return BASE_OK;
}
