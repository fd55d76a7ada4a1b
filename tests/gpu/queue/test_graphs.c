/* Queues of the CUDA backend on the emulator: marks, graphs, signals, and how far the host is ahead. */
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/cuda.h"
#include "backend/cuda/plugin.h"
#include "emulate/emulate.h"
#include "queues.h"
#include "support.h"

/* The second queue reads what the first one writes, though it is waited for first. */
static void a_mark_orders_two_queues(void **state)
{
    base_error error;
    (void)state;
    rank_device first = queue_open();
    rank_device second = queue_open();
    float *values = queue_get(&first, RANK_MEMORY_WORK, COUNT * sizeof(float));
    double *result = queue_get(&second, RANK_MEMORY_HOST, sizeof *result);
    queue_put(&first, values, 1.0f);
    for (int i = 0; i < 100; i++) { /* more than there are events */
        first.backend->add(first.queue, &(rank_add){COUNT, values, values});
        second.backend->after(second.queue, first.backend->mark(first.queue));
        first.backend->zero(first.queue, values, COUNT * sizeof(float));
        first.backend->add(first.queue, &(rank_add){COUNT, values, values});
    }
    queue_put(&first, values, 3.0f);
    second.backend->after(second.queue, first.backend->mark(first.queue));
    queue_sum(&second, values, result);
    assert_ok(second.backend->sync(second.queue, &error), &error);
    assert_true(*result == 9.0 * COUNT);
    first.backend->release(first.queue, values);
    second.backend->release(second.queue, result);
    rank_device_close(&second);
    queue_close(&first);
}

/* A graph reads what changes from step to step at its addresses, each time anew. */
static void a_graph_is_replayed(void **state)
{
    base_error error;
    rank_graph *graph = NULL;
    (void)state;
    rank_device device = queue_open();
    float *values = queue_get(&device, RANK_MEMORY_WORK, COUNT * sizeof(float));
    float *more = queue_get(&device, RANK_MEMORY_WORK, COUNT * sizeof(float));
    double *result = queue_get(&device, RANK_MEMORY_HOST, sizeof *result);
    queue_put(&device, values, 1.0f);
    queue_put(&device, more, 1.0f);
    assert_ok(device.backend->capture(device.queue, &graph, &error), &error);
    device.backend->add(device.queue, &(rank_add){COUNT, more, values});
    queue_sum(&device, values, result);
    assert_ok(device.backend->capture_end(device.queue, &error), &error);
    assert_true(queue_look(&device, values) == 1.0f); /* captured, not run */
    for (int i = 2; i < 5; i++) {
        device.backend->replay(device.queue, graph);
        assert_ok(device.backend->sync(device.queue, &error), &error);
        assert_true(*result == (double)(i * i) * COUNT);
    }
    device.backend->graph_destroy(device.queue, graph);
    device.backend->release(device.queue, values);
    device.backend->release(device.queue, more);
    device.backend->release(device.queue, result);
    queue_close(&device);
}

/* Another queue's work is captured too where it comes after this one's, and this one after it. The
 * emulator runs the two adds in both orders. */
static void a_capture_goes_to_another_queue_and_back(void **state)
{
    base_error error;
    rank_graph *graph = NULL;
    (void)state;
    rank_device first = queue_open();
    rank_device second = queue_open();
    float *here = queue_get(&first, RANK_MEMORY_WORK, COUNT * sizeof(float));
    float *there = queue_get(&second, RANK_MEMORY_WORK, COUNT * sizeof(float));
    double *result = queue_get(&first, RANK_MEMORY_HOST, sizeof *result);
    queue_put(&first, here, 1.0f);
    queue_put(&second, there, 1.0f);
    assert_ok(first.backend->capture(first.queue, &graph, &error), &error);
    first.backend->add(first.queue, &(rank_add){COUNT, here, here});
    second.backend->after(second.queue, first.backend->mark(first.queue));
    second.backend->add(second.queue, &(rank_add){COUNT, here, there}); /* 1 + 2 */
    first.backend->after(first.queue, second.backend->mark(second.queue));
    first.backend->add(first.queue, &(rank_add){COUNT, there, here}); /* 2 + 3 */
    queue_sum(&first, here, result);
    assert_ok(first.backend->capture_end(first.queue, &error), &error);
    assert_true(queue_look(&second, there) ==
                1.0f); /* not captured any more, and nothing has run */
    first.backend->replay(first.queue, graph);
    assert_ok(first.backend->sync(first.queue, &error), &error);
    assert_true(*result == 25.0 * COUNT);
    first.backend->replay(first.queue, graph); /* 10; 13; 23 */
    assert_ok(first.backend->sync(first.queue, &error), &error);
    assert_true(*result == 529.0 * COUNT);
    first.backend->graph_destroy(first.queue, graph);

    assert_ok(first.backend->capture(first.queue, &graph, &error), &error);
    first.backend->add(first.queue, &(rank_add){COUNT, here, here});
    second.backend->after(second.queue, first.backend->mark(first.queue));
    second.backend->add(second.queue, &(rank_add){COUNT, here, there});
    assert_status(first.backend->capture_end(first.queue, &error), BASE_ERR_IO);
    assert_non_null(strstr(error.message, "unjoined"));
    first.backend->graph_destroy(first.queue, graph);
    first.backend->release(first.queue, here);
    first.backend->release(first.queue, result);
    second.backend->release(second.queue, there);
    rank_device_close(&second);
    queue_close(&first);
}

/* A graph sets a signal that another queue's graph waits for, though that is waited for first. */
static void a_signal_orders_two_graphs(void **state)
{
    base_error error;
    rank_graph *sets = NULL;
    rank_graph *awaits = NULL;
    rank_signal *signal = NULL;
    (void)state;
    rank_device first = queue_open();
    rank_device second = queue_open();
    float *values = queue_get(&first, RANK_MEMORY_WORK, COUNT * sizeof(float));
    double *result = queue_get(&second, RANK_MEMORY_HOST, sizeof *result);
    assert_ok(first.backend->signal_open(first.queue, false, &signal, &error), &error);
    queue_put(&first, values, 1.0f);
    assert_ok(first.backend->capture(first.queue, &sets, &error), &error);
    first.backend->add(first.queue, &(rank_add){COUNT, values, values});
    first.backend->signal_set(first.queue, signal);
    assert_ok(first.backend->capture_end(first.queue, &error), &error);
    assert_ok(second.backend->capture(second.queue, &awaits, &error), &error);
    second.backend->signal_await(second.queue, signal);
    queue_sum(&second, values, result);
    assert_ok(second.backend->capture_end(second.queue, &error), &error);
    for (int i = 2; i < 16; i *= 2) {
        first.backend->replay(first.queue, sets);
        second.backend->replay(second.queue, awaits);
        assert_ok(second.backend->sync(second.queue, &error), &error);
        assert_true(*result == (double)(i * i) * COUNT);
    }
    first.backend->add(first.queue, &(rank_add){COUNT, values, values}); /* without graphs */
    first.backend->signal_set(first.queue, signal);
    second.backend->signal_await(second.queue, signal);
    queue_sum(&second, values, result);
    assert_ok(second.backend->sync(second.queue, &error), &error);
    assert_true(*result == 256.0 * COUNT);
    first.backend->graph_destroy(first.queue, sets);
    second.backend->graph_destroy(second.queue, awaits);
    first.backend->signal_close(signal);
    first.backend->release(first.queue, values);
    second.backend->release(second.queue, result);
    rank_device_close(&second);
    queue_close(&first);
}

static void what_waits_cannot_be_captured(void **state)
{
    base_error error;
    rank_graph *graph = NULL;
    uint8_t digest[RANK_DIGEST_BYTES];
    (void)state;
    rank_device device = queue_open();
    float *values = queue_get(&device, RANK_MEMORY_WORK, COUNT * sizeof(float));
    assert_ok(device.backend->capture(device.queue, &graph, &error), &error);
    device.backend->digest(device.queue, &(rank_digest){values, COUNT, digest});
    assert_status(device.backend->capture_end(device.queue, &error), BASE_ERR_STATE);
    assert_non_null(strstr(error.message, "digest"));
    device.backend->replay(device.queue, graph); /* there is none */
    assert_status(device.backend->sync(device.queue, &error), BASE_ERR_STATE);
    device.backend->graph_destroy(device.queue, graph);
    device.backend->release(device.queue, values);
    queue_close(&device);
}

/* Far more operations than the driver's queue holds, with nobody who waits for them: each launch
 * returns at once, none inside the driver. In a capture and in a queue that joins it as well. */
static void the_host_does_not_go_far_ahead(void **state)
{
    enum { FAR = 3000, NODES = 200 };
    base_error error;
    rank_graph *graph = NULL;
    (void)state;
    rank_device device = queue_open();
    rank_device other = queue_open();
    float *values = queue_get(&device, RANK_MEMORY_WORK, COUNT * sizeof(float));
    double *result = queue_get(&device, RANK_MEMORY_HOST, sizeof *result);
    queue_put(&device, values, 1.0f);
    const uint64_t full = emulate_count().full;
    for (int i = 0; i < FAR; i++) {
        queue_sum(&device, values, result);
    }
    assert_int_equal(emulate_count().full, full);
    assert_ok(device.backend->sync(device.queue, &error), &error);
    assert_ok(device.backend->capture(device.queue, &graph, &error), &error);
    other.backend->after(other.queue, device.backend->mark(device.queue));
    for (int i = 0; i < NODES; i++) {
        queue_sum(&other, values, result);
        queue_sum(&device, values, result);
    }
    device.backend->after(device.queue, other.backend->mark(other.queue));
    assert_ok(device.backend->capture_end(device.queue, &error), &error);
    device.backend->replay(device.queue, graph);
    assert_ok(device.backend->sync(device.queue, &error), &error);
    assert_ok(other.backend->sync(other.queue, &error), &error);
    assert_true(*result == COUNT);
    device.backend->graph_destroy(device.queue, graph);
    device.backend->release(device.queue, values);
    device.backend->release(device.queue, result);
    rank_device_close(&other);
    queue_close(&device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mark_orders_two_queues),
        cmocka_unit_test(a_graph_is_replayed),
        cmocka_unit_test(a_capture_goes_to_another_queue_and_back),
        cmocka_unit_test(a_signal_orders_two_graphs),
        cmocka_unit_test(what_waits_cannot_be_captured),
        cmocka_unit_test(the_host_does_not_go_far_ahead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
