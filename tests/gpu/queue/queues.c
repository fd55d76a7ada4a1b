/* Queues for the tests here, and what is in their memory. */
#include "queues.h"

#include "backend/cuda/cuda.h"
#include "emulate/emulate.h"
#include "support.h"

rank_device queue_open(void)
{
    base_error error;
    rank_device device = {.backend = &rank_cuda_backend};
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
