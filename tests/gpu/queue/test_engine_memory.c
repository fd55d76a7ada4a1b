/* What an engine that decodes takes of the device's memory: the plan, and what the plugin asked the
 * driver for. */
#include <stdlib.h>

#include "backend/cuda/cuda.h"
#include "backend/memory_use.h"
#include "generate/engine.h"
#include "queues.h"
#include "support.h"

/* The plan of an engine has the device's own queue, which is open before. */
static void decoding_takes_what_was_planned(void **state)
{
    base_error error;
    (void)state;
    for (int i = 0; i < SHAPES * BACKENDS; i++) {
        rank_model_config config = queue_shapes[i / BACKENDS];
        config.family = rank_family_default();
        float *host = calloc(rank_model_param_count(&config), sizeof *host);
        rank_flat_params flat = {&config, host};
        const rank_tensor_source source = rank_flat_source(&flat);
        rank_device device = queue_open_as(queue_backends[i % BACKENDS]);
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
        queue_close(&device);
        free(host);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(decoding_takes_what_was_planned)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
