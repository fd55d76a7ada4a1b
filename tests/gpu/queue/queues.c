/* Queues for the tests here, and what is in their memory. */
#include "queues.h"

#include "backend/cuda/cuda.h"
#include "emulate/emulate.h"
#include "support.h"

const rank_model_config queue_shapes[SHAPES] = {
    {.vocab_size = 515, .width = 32, .layers = 2, .heads = 2, .context = 24},
    {.vocab_size = 100, .width = 64, .layers = 1, .heads = 4, .context = 100},
};
const rank_backend *const queue_backends[BACKENDS] = {&rank_cuda_backend, &rank_cuda_exact_backend};

rank_device queue_open(void)
{
    return queue_open_as(&rank_cuda_backend);
}

rank_device queue_open_as(const rank_backend *backend)
{
    base_error error;
    rank_device device = {.backend = backend};
    emulate_set_order(EMULATE_FORWARD, 0);
    emulate_set_eager(false);
    assert_ok(device.backend->open(&device.queue, &error), &error);
    return device;
}

/* Nothing is held any more. */
void queue_close(rank_device *device)
{
    rank_device_close(device);
    assert_int_equal(emulate_count().blocks, 0);
    assert_int_equal(emulate_count().objects, 0);
}

void *queue_get(const rank_device *device, rank_memory kind, size_t size_bytes)
{
    base_error error;
    void *memory = NULL;
    assert_ok(device->backend->alloc(device->queue, kind, size_bytes, &memory, &error), &error);
    return memory;
}

void queue_put(const rank_device *device, float *at, float value)
{
    base_error error;
    void *host = NULL;
    assert_ok(device->backend->map(device->queue, at, COUNT * sizeof(float), true, &host, &error),
              &error);
    for (size_t i = 0; i < COUNT; i++) {
        ((float *)host)[i] = value;
    }
    device->backend->unmap(device->queue, host);
}

float queue_look(const rank_device *device, float *at)
{
    base_error error;
    void *host = NULL;
    assert_ok(device->backend->map(device->queue, at, sizeof(float), false, &host, &error), &error);
    const float value = *(float *)host;
    device->backend->unmap(device->queue, host);
    return value;
}

void queue_sum(const rank_device *device, const float *values, double *to)
{
    device->backend->sum_squares(device->queue, &(rank_sum_squares){values, COUNT, to});
}
