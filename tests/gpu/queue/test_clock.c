/* The device's clock on the emulator: what timed signals measure, on one queue, on two, and in graphs
 * that are replayed. A kernel takes 1000 ns there. */
#include "backend/cuda/cuda.h"
#include "emulate/emulate.h"
#include "support.h"

enum { COUNT = 100, KERNEL_NS = 1000 };

typedef struct bench {
    rank_device device;
    rank_device other;
    float *values;
    rank_signal *from;
    rank_signal *to;
} bench;

static rank_signal *open_signal(const rank_device *device, bool timed)
{
    base_error error;
    rank_signal *signal = NULL;
    assert_ok(device->backend->signal_open(device->queue, timed, &signal, &error), &error);
    return signal;
}

static bench open_bench(void)
{
    base_error error;
    void *values = NULL;
    bench made = {.device.backend = &rank_cuda_backend, .other.backend = &rank_cuda_backend};
    emulate_set_clock(KERNEL_NS, 0);
    assert_ok(rank_cuda_backend.open(&made.device.queue, &error), &error);
    assert_ok(rank_cuda_backend.open(&made.other.queue, &error), &error);
    assert_ok(rank_cuda_backend.alloc(made.device.queue, RANK_MEMORY_WORK, COUNT * sizeof(float),
                                      &values, &error),
              &error);
    made.values = values;
    made.from = open_signal(&made.device, true);
    made.to = open_signal(&made.device, true);
    return made;
}

static void close_bench(bench *made)
{
    rank_cuda_backend.signal_close(made->from);
    rank_cuda_backend.signal_close(made->to);
    rank_cuda_backend.release(made->device.queue, made->values);
    rank_device_close(&made->other);
    rank_device_close(&made->device);
    assert_int_equal(emulate_count().objects, 0);
}

static void set(const rank_device *device, rank_signal *signal)
{
    device->backend->signal_set(device->queue, signal);
}

/* Kernels, one after the other. */
static void work(const bench *b, const rank_device *device, int kernels)
{
    for (int i = 0; i < kernels; i++) {
        device->backend->add(device->queue, &(rank_add){COUNT, b->values, b->values});
    }
}

static void finish(const rank_device *device)
{
    base_error error;
    assert_ok(device->backend->sync(device->queue, &error), &error);
}

static int64_t elapsed(const rank_signal *from, const rank_signal *to)
{
    return rank_cuda_backend.signal_elapsed_ns(from, to);
}

static void what_lies_between_is_measured(void **state)
{
    (void)state;
    bench b = open_bench();
    for (int kernels = 0; kernels < 4; kernels++) {
        work(&b, &b.device, 2);
        set(&b.device, b.from);
        work(&b, &b.device, kernels);
        set(&b.device, b.to);
        work(&b, &b.device, 1);
        finish(&b.device);
        assert_int_equal(elapsed(b.from, b.to), kernels * KERNEL_NS);
        assert_int_equal(elapsed(b.to, b.from), -kernels * KERNEL_NS);
    }
    close_bench(&b);
}

static void a_signal_without_a_time_gives_none(void **state)
{
    (void)state;
    bench b = open_bench();
    rank_signal *untimed = open_signal(&b.device, false);
    set(&b.device, b.from);
    work(&b, &b.device, 1);
    set(&b.device, untimed);
    finish(&b.device);
    assert_int_equal(elapsed(b.from, untimed), -1);
    assert_int_equal(elapsed(b.from, b.to), -1); /* never passed */
    finish(&b.device);                           /* no error stays */
    rank_cuda_backend.signal_close(untimed);
    close_bench(&b);
}

/* Queues run side by side, and what waits for a signal begins behind it. */
static void two_queues_have_one_clock(void **state)
{
    (void)state;
    bench b = open_bench();
    rank_signal *behind = open_signal(&b.device, true);
    work(&b, &b.other, 1);
    work(&b, &b.device, 4);
    set(&b.device, b.from);
    set(&b.other, b.to);
    b.other.backend->signal_await(b.other.queue, b.from);
    work(&b, &b.other, 2);
    set(&b.other, behind);
    work(&b, &b.device, 9);
    finish(&b.other);
    finish(&b.device);
    assert_int_equal(elapsed(b.to, b.from), 3 * KERNEL_NS);
    assert_int_equal(elapsed(b.from, b.to), -3 * KERNEL_NS);
    assert_int_equal(elapsed(b.from, behind), 2 * KERNEL_NS);
    rank_cuda_backend.signal_close(behind);
    close_bench(&b);
}

/* Around a graph, and inside of it. */
static void a_replayed_graph_is_measured(void **state)
{
    base_error error;
    rank_graph *graph = NULL;
    (void)state;
    bench b = open_bench();
    rank_signal *inside = open_signal(&b.device, true);
    assert_ok(b.device.backend->capture(b.device.queue, &graph, &error), &error);
    work(&b, &b.device, 2);
    set(&b.device, inside);
    work(&b, &b.device, 3);
    assert_ok(b.device.backend->capture_end(b.device.queue, &error), &error);
    for (int i = 1; i < 4; i++) {
        work(&b, &b.device, i);
        set(&b.device, b.from);
        b.device.backend->replay(b.device.queue, graph);
        set(&b.device, b.to);
        finish(&b.device);
        assert_int_equal(elapsed(b.from, inside), 2 * KERNEL_NS);
        assert_int_equal(elapsed(inside, b.to), 3 * KERNEL_NS);
    }
    b.device.backend->graph_destroy(b.device.queue, graph);
    rank_cuda_backend.signal_close(inside);
    close_bench(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_lies_between_is_measured),
        cmocka_unit_test(a_signal_without_a_time_gives_none),
        cmocka_unit_test(two_queues_have_one_clock),
        cmocka_unit_test(a_replayed_graph_is_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
