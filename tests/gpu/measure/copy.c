/* The bandwidth of a copy inside the device's memory. Called by main.c. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/percentile.h"
#include "base/splitmix.h"
#include "measure.h"

enum { ROUNDS = 11, COPIES = 8, SEED_BYTES = 1 << 20 };

/* Random bytes: a few from the host, then copies of them. */
static base_status fill(const rank_device *device, char *to, size_t size_bytes, base_error *reterr)
{
    void *host = NULL;
    uint64_t state = 17;
    const size_t begun = size_bytes < SEED_BYTES ? size_bytes : SEED_BYTES;
    const base_status status = device->backend->map(device->queue, to, begun, true, &host, reterr);
    if (status != BASE_OK) {
        return status;
    }
    for (size_t at = 0; at + sizeof state <= begun; at += sizeof state) {
        const uint64_t drawn = base_splitmix_next(&state);
        memcpy((char *)host + at, &drawn, sizeof drawn);
    }
    device->backend->unmap(device->queue, host);
    for (size_t have = begun; have < size_bytes; have *= 2) {
        device->backend->copy(device->queue, to + have, to,
                              have < size_bytes - have ? have : size_bytes - have);
    }
    return device->backend->sync(device->queue, reterr);
}

static base_status time_copies(const rank_device *device, void *to, const void *from,
                               size_t size_bytes, base_error *reterr)
{
    double rates[ROUNDS];
    base_status status = BASE_OK;
    for (int round = -1; status == BASE_OK && round < ROUNDS; round++) {
        const int64_t before_ns = base_now_ns();
        for (int i = 0; i < COPIES; i++) {
            device->backend->copy(device->queue, to, from, size_bytes);
        }
        status = device->backend->sync(device->queue, reterr);
        if (round >= 0) { /* the one before is not counted */
            rates[round] = 2e9 * (double)size_bytes * COPIES / (double)(base_now_ns() - before_ns);
        }
    }
    if (status == BASE_OK) {
        base_sort(rates, ROUNDS);
        (void)printf("copy_bytes_per_s %.4g\n", base_percentile(rates, ROUNDS, 0.5));
    }
    return status;
}

base_status measure_copy(const char *plugin, size_t size_bytes, base_error *reterr)
{
    gpu_plugin opened;
    rank_device device;
    void *at[2] = {NULL, NULL};
    base_status status = measure_open(plugin, "cuda", &opened, &device, reterr);
    for (int i = 0; status == BASE_OK && i < 2; i++) {
        status = device.backend->alloc(device.queue, RANK_MEMORY_WORK, size_bytes, &at[i], reterr);
        if (status == BASE_OK) {
            status = fill(&device, at[i], size_bytes, reterr);
        }
    }
    if (status == BASE_OK) {
        status = time_copies(&device, at[1], at[0], size_bytes, reterr);
    }
    for (int i = 0; device.backend != NULL && i < 2; i++) {
        device.backend->release(device.queue, at[i]);
    }
    rank_device_close(&device);
    return status;
}
