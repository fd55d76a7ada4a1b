/* What an engine that decodes takes of the device's memory: the plan, and what the plugin asked the
 * driver for. */
#include <stdlib.h>

#include "backend/cuda/cuda.h"
#include "backend/memory_use.h"
#include "emulate/emulate.h"
#include "generate/engine.h"
#include "support.h"

static const rank_model_config shapes[] = {
    {.vocab_size = 515, .width = 32, .layers = 2, .heads = 2, .context = 24},
    {.vocab_size = 100, .width = 64, .layers = 1, .heads = 4, .context = 100},
};
static const rank_backend *const backends[] = {&rank_cuda_backend, &rank_cuda_exact_backend};
enum { SHAPES = sizeof shapes / sizeof *shapes, BACKENDS = sizeof backends / sizeof *backends };

static rank_device open_device(const rank_backend *backend)
{
    base_error error;
    rank_device device = {.backend = backend};
    assert_ok(backend->open(&device.queue, &error), &error);
    return device;
}

static void nothing_is_held(rank_device *device)
{
    rank_device_close(device);
    assert_int_equal(emulate_count().blocks, 0);
}

/* The plan of an engine has the device's own queue, which is open before. */
static void decoding_takes_what_was_planned(void **state)
{
    base_error error;
    (void)state;
    for (int i = 0; i < SHAPES * BACKENDS; i++) {
        rank_model_config config = shapes[i / BACKENDS];
        config.family = rank_family_default();
        float *host = calloc(rank_model_param_count(&config), sizeof *host);
        rank_flat_params flat = {&config, host};
        const rank_tensor_source source = rank_flat_source(&flat);
        rank_device device = open_device(backends[i % BACKENDS]);
        rank_engine *engine = NULL;
        assert_non_null(host);
        const uint64_t before = device.backend->free_bytes(device.queue);
        assert_ok(rank_engine_create(&(rank_engine_options){.config = &config,
                                                            .device = &device,
                                                            .source = &source,
                                                            .sequences = 3,
                                                            .chunk_tokens = 8,
                                                            .block_tokens = 16,
                                                            .waiting_max = 4},
                                     &engine, &error),
                  &error);
        const rank_memory_use planned = rank_engine_get_memory(engine).planned;
        assert_int_equal(before - device.backend->free_bytes(device.queue),
                         rank_memory_total(&planned) - device.backend->queue_bytes);
        assert_true(planned.bytes[RANK_MEMORY_CACHE] > 0);
        rank_engine_destroy(engine);
        nothing_is_held(&device);
        free(host);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(decoding_takes_what_was_planned)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
