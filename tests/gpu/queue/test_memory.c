/* What a model takes of the device's memory: the plan, and what the plugin asked the driver for. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/cuda/cuda.h"
#include "backend/memory_use.h"
#include "queues.h"
#include "rank/model.h"
#include "rank/optim.h"
#include "support.h"

static void a_queue_takes_what_it_says(void **state)
{
    base_error error;
    (void)state;
    for (int i = 0; i < BACKENDS; i++) {
        rank_device device = queue_open_as(queue_backends[i]);
        rank_queue *second = NULL;
        const uint64_t before = device.backend->free_bytes(device.queue);
        assert_ok(queue_backends[i]->open(&second, &error), &error);
        assert_int_equal(before - device.backend->free_bytes(device.queue),
                         device.backend->queue_bytes);
        queue_backends[i]->close(second);
        assert_int_equal(device.backend->free_bytes(device.queue), before);
        queue_close(&device);
    }
}

static void training_takes_what_was_planned(void **state)
{
    base_error error;
    (void)state;
    for (int i = 0; i < SHAPES * BACKENDS; i++) {
        rank_model_config config = queue_shapes[i / BACKENDS];
        config.family = rank_family_default();
        rank_device device = queue_open_as(queue_backends[i % BACKENDS]);
        const rank_model_options options = {
            .config = &config, .device = &device, .token_count_max = 77, .training = true};
        const rank_optimizer_options how = {.norm_max = 1.0};
        rank_model *model = NULL;
        rank_optimizer *optimizer = NULL;
        rank_memory_use planned = {{0}};
        rank_optimizer_plan(rank_model_param_count(&config), &planned);
        rank_model_plan(&options, &planned);
        assert_true(planned.bytes[RANK_MEMORY_OPTIMIZER] ==
                    2 * rank_model_param_count(&config) * sizeof(float));
        const uint64_t before = device.backend->free_bytes(device.queue);
        assert_ok(rank_optimizer_create(&device, &config, &how, &optimizer, &error), &error);
        assert_ok(rank_model_create(&options, &model, &error), &error);
        assert_int_equal(before - device.backend->free_bytes(device.queue),
                         rank_memory_total(&planned));
        rank_model_destroy(model);
        rank_optimizer_destroy(optimizer);
        assert_int_equal(device.backend->free_bytes(device.queue), before);
        queue_close(&device);
    }
}

static void each_use_has_its_peak(void **state)
{
    base_error error;
    rank_memory_use first = {{0}};
    rank_memory_use then = {{0}};
    void *memory = NULL;
    (void)state;
    rank_device device = queue_open_as(&rank_cuda_exact_backend);
    device.backend->memory_peak(device.queue, &first);
    for (int kind = 0; kind < RANK_MEMORY_KINDS; kind++) {
        const size_t bytes = first.bytes[kind] + 1000;
        if (kind != RANK_MEMORY_QUEUES) {
            assert_ok(
                device.backend->alloc(device.queue, (rank_memory)kind, bytes, &memory, &error),
                &error);
            device.backend->release(device.queue, memory);
        }
    }
    device.backend->memory_peak(device.queue, &then);
    for (int kind = 0; kind < RANK_MEMORY_HOST; kind++) {
        assert_int_equal(then.bytes[kind] - first.bytes[kind],
                         kind == RANK_MEMORY_QUEUES ? 0 : 1000);
    }
    assert_int_equal(then.bytes[RANK_MEMORY_HOST], 0); /* not the device's */
    queue_close(&device);
}

static void what_has_no_room_is_refused_with_its_parts(void **state)
{
    base_error error;
    (void)state;
    rank_device device = queue_open_as(&rank_cuda_backend);
    rank_memory_use needed = {{0}};
    needed.bytes[RANK_MEMORY_WEIGHTS] = 1000;
    needed.bytes[RANK_MEMORY_HOST] = (uint64_t)1 << 50; /* not the device's */
    needed.bytes[RANK_MEMORY_CACHE] = device.backend->free_bytes(device.queue) - 1000;
    assert_ok(rank_memory_check(&device, "a test", &needed, 0, &error), &error);
    assert_status(rank_memory_check(&device, "a test", &needed, 1, &error), BASE_ERR_MEMORY);
    assert_non_null(strstr(error.message, ", collectives 1"));
    needed.bytes[RANK_MEMORY_CACHE]++;
    assert_status(rank_memory_check(&device, "a test", &needed, 0, &error), BASE_ERR_MEMORY);
    assert_null(strstr(error.message, "collectives"));
    assert_non_null(strstr(error.message, "a test needs "));
    assert_non_null(strstr(error.message, " are free: weights 1000, optimizer 0, activations 0, "
                                          "work 0, cache "));
    assert_null(strstr(error.message, "host"));
    queue_close(&device);
}

/* The emulator ends who gives a kernel an address that a GPU may not reach. */
static void a_kernel_gets_no_address_of_the_host(void **state)
{
    static float values[8];
    int ended = 0;
    (void)state;
    const pid_t child = fork();
    if (child == 0) {
        rank_device device = queue_open_as(&rank_cuda_backend);
        (void)close(STDERR_FILENO);
        device.backend->add(device.queue, &(rank_add){8, values, values});
        _exit(0);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFSIGNALED(ended));
    assert_int_equal(WTERMSIG(ended), SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_queue_takes_what_it_says),
        cmocka_unit_test(training_takes_what_was_planned),
        cmocka_unit_test(each_use_has_its_peak),
        cmocka_unit_test(what_has_no_room_is_refused_with_its_parts),
        cmocka_unit_test(a_kernel_gets_no_address_of_the_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
