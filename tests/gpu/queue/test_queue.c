/* Queues of the CUDA backend on the emulator: when operations run, marks, graphs, memory, and every
 * error. */
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/cuda.h"
#include "backend/cuda/plugin.h"
#include "emulate/emulate.h"
#include "support.h"

enum { COUNT = 1000 };

static rank_device open_device(void)
{
    base_error error;
    rank_device device = {.backend = &rank_cuda_backend};
    emulate_set_order(EMULATE_FORWARD, 0);
    emulate_set_eager(false);
    assert_ok(device.backend->open(&device.queue, &error), &error);
    return device;
}

/* Nothing is held any more. */
static void close_device(rank_device *device)
{
    rank_device_close(device);
    assert_int_equal(emulate_count().blocks, 0);
    assert_int_equal(emulate_count().objects, 0);
}

static void *get(const rank_device *device, rank_memory kind, size_t size_bytes)
{
    base_error error;
    void *memory = NULL;
    assert_ok(device->backend->alloc(device->queue, kind, size_bytes, &memory, &error), &error);
    return memory;
}

static void put(const rank_device *device, float *at, float value)
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

static float look(const rank_device *device, float *at)
{
    base_error error;
    void *host = NULL;
    assert_ok(device->backend->map(device->queue, at, sizeof(float), false, &host, &error), &error);
    const float value = *(float *)host;
    device->backend->unmap(device->queue, host);
    return value;
}

static void sum(const rank_device *device, const float *values, double *to)
{
    device->backend->sum_squares(device->queue, &(rank_sum_squares){values, COUNT, to});
}

static void results_come_with_sync(void **state)
{
    base_error error;
    (void)state;
    rank_device device = open_device();
    float *values = get(&device, RANK_MEMORY_WORK, COUNT * sizeof(float));
    double *result = get(&device, RANK_MEMORY_HOST, sizeof *result);
    put(&device, values, 2.0f);
    *result = -1.0;
    sum(&device, values, result);
    assert_true(*result == -1.0); /* the emulator runs nothing before */
    assert_ok(device.backend->sync(device.queue, &error), &error);
    assert_true(*result == 4.0 * COUNT);
    device.backend->release(device.queue, values);
    device.backend->release(device.queue, result);
    close_device(&device);
}

/* The first error stays, nothing runs after it, and sync reports it once. */
static void the_first_error_stays(void **state)
{
    base_error error;
    (void)state;
    rank_device device = open_device();
    double *result = get(&device, RANK_MEMORY_HOST, sizeof *result);
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
    close_device(&device);
}

/* A kernel fails long after its launch. CUDA's own error stays until the process ends. */
static void a_kernel_that_fails_is_reported_by_sync(void **state)
{
    base_error error;
    (void)state;
    rank_device device = open_device();
    float *values = get(&device, RANK_MEMORY_WORK, COUNT * sizeof(float));
    double *result = get(&device, RANK_MEMORY_HOST, sizeof *result);
    put(&device, values, 1.0f);
    emulate_fail_kernel(1); /* of two */
    sum(&device, values, result);
    assert_status(device.backend->sync(device.queue, &error), BASE_ERR_IO);
    assert_non_null(strstr(error.message, "illegal memory access"));
    assert_non_null(strstr(error.message, "700"));
    sum(&device, values, result);
    assert_status(device.backend->sync(device.queue, &error), BASE_ERR_IO);
    void *host = NULL;
    assert_status(device.backend->map(device.queue, values, 4, false, &host, &error), BASE_ERR_IO);
    assert_null(host);
    emulate_recover();
    device.backend->release(device.queue, values);
    device.backend->release(device.queue, result);
    close_device(&device);
}

static void no_memory_is_explained(void **state)
{
    base_error error;
    void *memory = NULL;
    (void)state;
    rank_device device = open_device();
    void *weights = get(&device, RANK_MEMORY_WEIGHTS, 12345);
    assert_status(
        device.backend->alloc(device.queue, RANK_MEMORY_CACHE, (size_t)1 << 40, &memory, &error),
        BASE_ERR_MEMORY);
    assert_null(memory);
    assert_non_null(strstr(error.message, "of cache"));
    assert_non_null(strstr(error.message, "weights 12345"));
    assert_ok(device.backend->sync(device.queue, &error), &error); /* the queue goes on */
    device.backend->release(device.queue, weights);
    close_device(&device);
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

/* The second queue reads what the first one writes, though it is waited for first. */
static void a_mark_orders_two_queues(void **state)
{
    base_error error;
    (void)state;
    rank_device first = open_device();
    rank_device second = open_device();
    float *values = get(&first, RANK_MEMORY_WORK, COUNT * sizeof(float));
    double *result = get(&second, RANK_MEMORY_HOST, sizeof *result);
    put(&first, values, 1.0f);
    for (int i = 0; i < 100; i++) { /* more than there are events */
        first.backend->add(first.queue, &(rank_add){COUNT, values, values});
        second.backend->after(second.queue, first.backend->mark(first.queue));
        first.backend->zero(first.queue, values, COUNT * sizeof(float));
        first.backend->add(first.queue, &(rank_add){COUNT, values, values});
    }
    put(&first, values, 3.0f);
    second.backend->after(second.queue, first.backend->mark(first.queue));
    sum(&second, values, result);
    assert_ok(second.backend->sync(second.queue, &error), &error);
    assert_true(*result == 9.0 * COUNT);
    first.backend->release(first.queue, values);
    second.backend->release(second.queue, result);
    rank_device_close(&second);
    close_device(&first);
}

/* A graph reads what changes from step to step at its addresses, each time anew. */
static void a_graph_is_replayed(void **state)
{
    base_error error;
    rank_graph *graph = NULL;
    (void)state;
    rank_device device = open_device();
    float *values = get(&device, RANK_MEMORY_WORK, COUNT * sizeof(float));
    float *more = get(&device, RANK_MEMORY_WORK, COUNT * sizeof(float));
    double *result = get(&device, RANK_MEMORY_HOST, sizeof *result);
    put(&device, values, 1.0f);
    put(&device, more, 1.0f);
    assert_ok(device.backend->capture(device.queue, &graph, &error), &error);
    device.backend->add(device.queue, &(rank_add){COUNT, more, values});
    sum(&device, values, result);
    assert_ok(device.backend->capture_end(device.queue, &error), &error);
    assert_true(look(&device, values) == 1.0f); /* captured, not run */
    for (int i = 2; i < 5; i++) {
        device.backend->replay(device.queue, graph);
        assert_ok(device.backend->sync(device.queue, &error), &error);
        assert_true(*result == (double)(i * i) * COUNT);
    }
    device.backend->graph_destroy(device.queue, graph);
    device.backend->release(device.queue, values);
    device.backend->release(device.queue, more);
    device.backend->release(device.queue, result);
    close_device(&device);
}

/* Another queue's work is captured too where it comes after this one's, and this one after it. The
 * emulator runs the two adds in both orders. */
static void a_capture_goes_to_another_queue_and_back(void **state)
{
    base_error error;
    rank_graph *graph = NULL;
    (void)state;
    rank_device first = open_device();
    rank_device second = open_device();
    float *here = get(&first, RANK_MEMORY_WORK, COUNT * sizeof(float));
    float *there = get(&second, RANK_MEMORY_WORK, COUNT * sizeof(float));
    double *result = get(&first, RANK_MEMORY_HOST, sizeof *result);
    put(&first, here, 1.0f);
    put(&second, there, 1.0f);
    assert_ok(first.backend->capture(first.queue, &graph, &error), &error);
    first.backend->add(first.queue, &(rank_add){COUNT, here, here});
    second.backend->after(second.queue, first.backend->mark(first.queue));
    second.backend->add(second.queue, &(rank_add){COUNT, here, there}); /* 1 + 2 */
    first.backend->after(first.queue, second.backend->mark(second.queue));
    first.backend->add(first.queue, &(rank_add){COUNT, there, here}); /* 2 + 3 */
    sum(&first, here, result);
    assert_ok(first.backend->capture_end(first.queue, &error), &error);
    assert_true(look(&second, there) == 1.0f); /* not captured any more, and nothing has run */
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
    close_device(&first);
}

/* A graph sets a signal that another queue's graph waits for, though that is waited for first. */
static void a_signal_orders_two_graphs(void **state)
{
    base_error error;
    rank_graph *sets = NULL;
    rank_graph *awaits = NULL;
    rank_signal *signal = NULL;
    (void)state;
    rank_device first = open_device();
    rank_device second = open_device();
    float *values = get(&first, RANK_MEMORY_WORK, COUNT * sizeof(float));
    double *result = get(&second, RANK_MEMORY_HOST, sizeof *result);
    assert_ok(first.backend->signal_open(first.queue, &signal, &error), &error);
    put(&first, values, 1.0f);
    assert_ok(first.backend->capture(first.queue, &sets, &error), &error);
    first.backend->add(first.queue, &(rank_add){COUNT, values, values});
    first.backend->signal_set(first.queue, signal);
    assert_ok(first.backend->capture_end(first.queue, &error), &error);
    assert_ok(second.backend->capture(second.queue, &awaits, &error), &error);
    second.backend->signal_await(second.queue, signal);
    sum(&second, values, result);
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
    sum(&second, values, result);
    assert_ok(second.backend->sync(second.queue, &error), &error);
    assert_true(*result == 256.0 * COUNT);
    first.backend->graph_destroy(first.queue, sets);
    second.backend->graph_destroy(second.queue, awaits);
    first.backend->signal_close(signal);
    first.backend->release(first.queue, values);
    second.backend->release(second.queue, result);
    rank_device_close(&second);
    close_device(&first);
}

static void what_waits_cannot_be_captured(void **state)
{
    base_error error;
    rank_graph *graph = NULL;
    uint8_t digest[RANK_DIGEST_BYTES];
    (void)state;
    rank_device device = open_device();
    float *values = get(&device, RANK_MEMORY_WORK, COUNT * sizeof(float));
    assert_ok(device.backend->capture(device.queue, &graph, &error), &error);
    device.backend->digest(device.queue, &(rank_digest){values, COUNT, digest});
    assert_status(device.backend->capture_end(device.queue, &error), BASE_ERR_STATE);
    assert_non_null(strstr(error.message, "digest"));
    device.backend->replay(device.queue, graph); /* there is none */
    assert_status(device.backend->sync(device.queue, &error), BASE_ERR_STATE);
    device.backend->graph_destroy(device.queue, graph);
    device.backend->release(device.queue, values);
    close_device(&device);
}

/* A collective arena is the host's: it is pinned, and mapping it gives the address itself. */
static void foreign_memory_is_adopted(void **state)
{
    base_error error;
    void *host = NULL;
    (void)state;
    rank_device device = open_device();
    float *arena = calloc(COUNT, sizeof *arena);
    float *values = get(&device, RANK_MEMORY_WORK, COUNT * sizeof(float));
    assert_non_null(arena);
    put(&device, values, 5.0f);
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
    close_device(&device);
}

static void an_address_inside_is_mapped_alone(void **state)
{
    (void)state;
    rank_device device = open_device();
    float *values = get(&device, RANK_MEMORY_WORK, 2 * COUNT * sizeof(float));
    put(&device, values, 1.0f);
    put(&device, values + COUNT, 2.0f);
    assert_true(look(&device, values + COUNT - 1) == 1.0f);
    assert_true(look(&device, values + COUNT) == 2.0f);
    device.backend->release(device.queue, values);
    close_device(&device);
}

/* cublasLt has products of two plain matrices, and no others. The exact backend has none of it. */
static void products_go_where_the_rule_says(void **state)
{
    (void)state;
    static const rank_backend *const backends[] = {&rank_cuda_backend, &rank_cuda_exact_backend};
    for (int i = 0; i < 2; i++) {
        base_error error;
        rank_device device = {.backend = backends[i]};
        assert_ok(device.backend->open(&device.queue, &error), &error);
        float *a = get(&device, RANK_MEMORY_WORK, COUNT * sizeof(float));
        float *c = get(&device, RANK_MEMORY_WORK, COUNT * sizeof(float));
        rank_product args = {.rows = 8,
                             .columns = 8,
                             .depth = 8,
                             .a = a,
                             .a_row = 8,
                             .a_depth = 1,
                             .b = a,
                             .b_row = 8,
                             .c = c,
                             .c_row = 8,
                             .leaves = 1};
        const uint64_t before = emulate_count().products;
        put(&device, a, 1.0f);
        device.backend->product(device.queue, &args);
        assert_int_equal(emulate_count().products - before, i == 0 ? 1 : 0);
        assert_true(look(&device, c) == 8.0f);
        args.leaves = 2;
        device.backend->product(device.queue, &args);
        args.leaves = 1;
        args.b_row = 0;
        device.backend->product(device.queue, &args);
        assert_true(look(&device, c) == 8.0f);
        assert_int_equal(emulate_count().products - before, i == 0 ? 2 : 0);
        device.backend->release(device.queue, a);
        device.backend->release(device.queue, c);
        close_device(&device);
    }
}

/* The last of these bits is lost to TF32, and there are no other types than where `cast` is. */
static void precision_is_the_backends(void **state)
{
    (void)state;
    static const rank_backend *const backends[] = {&rank_cuda_backend, &rank_cuda_exact_backend,
                                                   &rank_cuda_tf32_backend};
    const float value = 0x1.001p0f;
    for (int i = 0; i < 3; i++) {
        base_error error;
        rank_device device = {.backend = backends[i]};
        assert_ok(device.backend->open(&device.queue, &error), &error);
        float *a = get(&device, RANK_MEMORY_WORK, COUNT * sizeof(float));
        rank_product args = {.rows = 1,
                             .columns = 1,
                             .depth = 1,
                             .a = a,
                             .a_row = 1,
                             .a_depth = 1,
                             .b = a,
                             .b_row = 1,
                             .c = a + 256,
                             .c_row = 1,
                             .leaves = 1};
        put(&device, a, value);
        device.backend->product(device.queue, &args);
        assert_true(look(&device, a + 256) == (i == 2 ? 1.0f : value * value));
        assert_true((device.backend->cast != NULL) == (i == 0));
        args.a_type = RANK_BFLOAT16;
        args.b_type = RANK_BFLOAT16;
        device.backend->product(device.queue, &args);
        assert_status(device.backend->sync(device.queue, &error),
                      i == 0 ? BASE_OK : BASE_ERR_UNSUPPORTED);
        device.backend->release(device.queue, a);
        close_device(&device);
    }
}

/* The heuristic is asked once for a shape and an alignment, and what it said is noted. */
static void an_algorithm_is_kept_and_noted(void **state)
{
    (void)state;
    rank_backend_info info;
    rank_device device = open_device();
    float *a = get(&device, RANK_MEMORY_WORK, COUNT * sizeof(float));
    rank_product args = {.rows = 4,
                         .columns = 8,
                         .depth = 16,
                         .a = a,
                         .a_row = 16,
                         .a_depth = 1,
                         .b = a,
                         .b_row = 8,
                         .c = a + 512,
                         .c_row = 8,
                         .leaves = 1};
    const uint64_t before = emulate_count().choices;
    device.backend->info(device.queue, &info);
    assert_string_equal(info.products, "");
    for (int i = 0; i < 3; i++) {
        device.backend->product(device.queue, &args);
    }
    assert_int_equal(emulate_count().choices - before, 1);
    args.a = a + 1;
    args.accumulate = true;
    device.backend->product(device.queue, &args);
    assert_int_equal(emulate_count().choices - before, 2);
    device.backend->info(device.queue, &info);
    assert_string_equal(
        info.products,
        "4 x 8 x 16 nn, aligned to 256: algorithm 1, tile 0, stages -1, split 0\n"
        "4 x 8 x 16 nn added, aligned to 4: algorithm 1, tile 0, stages -1, split 0\n");
    device.backend->release(device.queue, a);
    close_device(&device);
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
        cmocka_unit_test(a_mark_orders_two_queues),
        cmocka_unit_test(a_graph_is_replayed),
        cmocka_unit_test(a_capture_goes_to_another_queue_and_back),
        cmocka_unit_test(a_signal_orders_two_graphs),
        cmocka_unit_test(what_waits_cannot_be_captured),
        cmocka_unit_test(foreign_memory_is_adopted),
        cmocka_unit_test(an_address_inside_is_mapped_alone),
        cmocka_unit_test(products_go_where_the_rule_says),
        cmocka_unit_test(precision_is_the_backends),
        cmocka_unit_test(an_algorithm_is_kept_and_noted),
        cmocka_unit_test(the_plugin_has_its_backends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
