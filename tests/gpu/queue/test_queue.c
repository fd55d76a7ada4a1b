/* Queues of the CUDA backend on the emulator: when operations run, memory, and every error. */
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/cuda.h"
#include "backend/cuda/plugin.h"
#include "emulate/emulate.h"
#include "queues.h"
#include "support.h"

static void results_come_with_sync(void **state)
{
    base_error error;
    (void)state;
    rank_device device = queue_open();
    float *values = queue_get(&device, RANK_MEMORY_WORK, COUNT * sizeof(float));
    double *result = queue_get(&device, RANK_MEMORY_HOST, sizeof *result);
    queue_put(&device, values, 2.0f);
    *result = -1.0;
    queue_sum(&device, values, result);
    assert_true(*result == -1.0); /* the emulator runs nothing before */
    assert_ok(device.backend->sync(device.queue, &error), &error);
    assert_true(*result == 4.0 * COUNT);
    device.backend->release(device.queue, values);
    device.backend->release(device.queue, result);
    queue_close(&device);
}

/* The first error stays, nothing runs after it, and sync reports it once. */
static void the_first_error_stays(void **state)
{
    base_error error;
    (void)state;
    rank_device device = queue_open();
    double *result = queue_get(&device, RANK_MEMORY_HOST, sizeof *result);
    const float wide[4] = {0};
    rank_attention_cached args = {
        .heads = 1, .kv_heads = 1, .head_width = 513, .sequence_count = 1, .qkv = wide};
    *result = -1.0;
    device.backend->attention_cached(device.queue, &args);
    device.backend->zero(device.queue, result, sizeof *result);
    assert_status(device.backend->sync(device.queue, &error), BASE_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "heads wider than 512"));
    assert_true(*result == -1.0);
    device.backend->zero(device.queue, result, sizeof *result);
    assert_ok(device.backend->sync(device.queue, &error), &error);
    assert_true(*result == 0.0);
    device.backend->release(device.queue, result);
    queue_close(&device);
}

/* A kernel fails long after its launch. CUDA's own error stays until the process ends. */
static void a_kernel_that_fails_is_reported_by_sync(void **state)
{
    base_error error;
    (void)state;
    rank_device device = queue_open();
    float *values = queue_get(&device, RANK_MEMORY_WORK, COUNT * sizeof(float));
    double *result = queue_get(&device, RANK_MEMORY_HOST, sizeof *result);
    queue_put(&device, values, 1.0f);
    emulate_fail_kernel(1); /* of two */
    queue_sum(&device, values, result);
    assert_status(device.backend->sync(device.queue, &error), BASE_ERR_IO);
    assert_non_null(strstr(error.message, "illegal memory access"));
    assert_non_null(strstr(error.message, "700"));
    queue_sum(&device, values, result);
    assert_status(device.backend->sync(device.queue, &error), BASE_ERR_IO);
    void *host = NULL;
    assert_status(device.backend->map(device.queue, values, 4, false, &host, &error), BASE_ERR_IO);
    assert_null(host);
    emulate_recover();
    device.backend->release(device.queue, values);
    device.backend->release(device.queue, result);
    queue_close(&device);
}

static void no_memory_is_explained(void **state)
{
    base_error error;
    void *memory = NULL;
    (void)state;
    rank_device device = queue_open();
    void *weights = queue_get(&device, RANK_MEMORY_WEIGHTS, 12345);
    assert_status(
        device.backend->alloc(device.queue, RANK_MEMORY_CACHE, (size_t)1 << 40, &memory, &error),
        BASE_ERR_MEMORY);
    assert_null(memory);
    assert_non_null(strstr(error.message, "of cache"));
    assert_non_null(strstr(error.message, "weights 12345"));
    assert_ok(device.backend->sync(device.queue, &error), &error); /* the queue goes on */
    device.backend->release(device.queue, weights);
    queue_close(&device);
}

/* Whichever allocation fails while a queue is opened, nothing stays behind. */
static void a_queue_that_cannot_be_opened_leaves_nothing(void **state)
{
    base_error error;
    int failures = 0;
    (void)state;
    for (;; failures++) {
        rank_queue *queue = NULL;
        emulate_fail_allocation(failures);
        const base_status status = rank_cuda_backend.open(&queue, &error);
        emulate_fail_allocation(-1);
        if (status == BASE_OK) {
            rank_cuda_backend.close(queue);
            break;
        }
        assert_int_equal(status, BASE_ERR_MEMORY);
        assert_null(queue);
        assert_int_equal(emulate_count().blocks, 0);
        assert_int_equal(emulate_count().objects, 0);
    }
    assert_int_equal(failures, 3); /* staging, partial results, cublasLt's workspace */
}

static void without_a_driver_there_is_no_queue(void **state)
{
    enum { INSUFFICIENT_DRIVER = 35 };
    base_error error;
    rank_queue *queue = NULL;
    (void)state;
    emulate_set_driver(INSUFFICIENT_DRIVER);
    assert_status(rank_cuda_backend.open(&queue, &error), BASE_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "driver version is insufficient"));
    emulate_set_driver(0);
    assert_null(queue);
}

/* A collective arena is the host's: it is pinned, and mapping it gives the address itself. */
static void foreign_memory_is_adopted(void **state)
{
    base_error error;
    void *host = NULL;
    (void)state;
    rank_device device = queue_open();
    float *arena = calloc(COUNT, sizeof *arena);
    float *values = queue_get(&device, RANK_MEMORY_WORK, COUNT * sizeof(float));
    assert_non_null(arena);
    queue_put(&device, values, 5.0f);
    assert_ok(device.backend->adopt(device.queue, arena, COUNT * sizeof *arena, &error), &error);
    device.backend->add(device.queue, &(rank_add){COUNT, values, arena});
    assert_ok(device.backend->map(device.queue, arena + 7, sizeof *arena, false, &host, &error),
              &error);
    assert_ptr_equal(host, arena + 7);
    assert_true(arena[7] == 5.0f);
    device.backend->unmap(device.queue, host);
    device.backend->disown(device.queue, arena);
    device.backend->release(device.queue, values);
    free(arena);
    queue_close(&device);
}

static void an_address_inside_is_mapped_alone(void **state)
{
    (void)state;
    rank_device device = queue_open();
    float *values = queue_get(&device, RANK_MEMORY_WORK, 2 * COUNT * sizeof(float));
    queue_put(&device, values, 1.0f);
    queue_put(&device, values + COUNT, 2.0f);
    assert_true(queue_look(&device, values + COUNT - 1) == 1.0f);
    assert_true(queue_look(&device, values + COUNT) == 2.0f);
    device.backend->release(device.queue, values);
    queue_close(&device);
}

static void the_plugin_has_its_backends(void **state)
{
    (void)state;
    const rank_cuda_plugin *plugin = rank_cuda_plugin_get();
    assert_int_equal(plugin->abi, RANK_CUDA_PLUGIN_ABI);
    assert_int_equal(plugin->backend_abi, RANK_BACKEND_ABI);
    assert_string_equal(plugin->backends[0]->name, "cuda");
    assert_string_equal(plugin->backends[1]->name, "cuda-exact");
    assert_string_equal(plugin->backends[2]->name, "cuda-tf32");
    assert_null(plugin->backends[3]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_come_with_sync),
        cmocka_unit_test(the_first_error_stays),
        cmocka_unit_test(a_kernel_that_fails_is_reported_by_sync),
        cmocka_unit_test(no_memory_is_explained),
        cmocka_unit_test(a_queue_that_cannot_be_opened_leaves_nothing),
        cmocka_unit_test(without_a_driver_there_is_no_queue),
        cmocka_unit_test(foreign_memory_is_adopted),
        cmocka_unit_test(an_address_inside_is_mapped_alone),
        cmocka_unit_test(the_plugin_has_its_backends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
