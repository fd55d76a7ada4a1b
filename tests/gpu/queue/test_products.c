/* Products of the CUDA backend on the emulator: whose kernel computes which. */
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/cuda.h"
#include "backend/cuda/plugin.h"
#include "emulate/emulate.h"
#include "queues.h"
#include "support.h"

/* cublasLt has products of two plain matrices, and no others. The exact backend has none of it. */
static void products_go_where_the_rule_says(void **state)
{
    (void)state;
    static const rank_backend *const backends[] = {&rank_cuda_backend, &rank_cuda_exact_backend};
    for (int i = 0; i < 2; i++) {
        base_error error;
        rank_device device = {.backend = backends[i]};
        assert_ok(device.backend->open(&device.queue, &error), &error);
        float *a = queue_get(&device, RANK_MEMORY_WORK, COUNT * sizeof(float));
        float *c = queue_get(&device, RANK_MEMORY_WORK, COUNT * sizeof(float));
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
        queue_put(&device, a, 1.0f);
        device.backend->product(device.queue, &args);
        assert_int_equal(emulate_count().products - before, i == 0 ? 1 : 0);
        assert_true(queue_look(&device, c) == 8.0f);
        args.leaves = 2;
        device.backend->product(device.queue, &args);
        args.leaves = 1;
        args.b_row = 0;
        device.backend->product(device.queue, &args);
        assert_true(queue_look(&device, c) == 8.0f);
        assert_int_equal(emulate_count().products - before, i == 0 ? 2 : 0);
        device.backend->release(device.queue, a);
        device.backend->release(device.queue, c);
        queue_close(&device);
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
        float *a = queue_get(&device, RANK_MEMORY_WORK, COUNT * sizeof(float));
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
        queue_put(&device, a, value);
        device.backend->product(device.queue, &args);
        assert_true(queue_look(&device, a + 256) == (i == 2 ? 1.0f : value * value));
        assert_true((device.backend->cast != NULL) == (i == 0));
        args.a_type = RANK_BFLOAT16;
        args.b_type = RANK_BFLOAT16;
        device.backend->product(device.queue, &args);
        assert_status(device.backend->sync(device.queue, &error),
                      i == 0 ? BASE_OK : BASE_ERR_UNSUPPORTED);
        device.backend->release(device.queue, a);
        queue_close(&device);
    }
}

/* The heuristic is asked once for a shape and an alignment, and what it said is noted. */
static void an_algorithm_is_kept_and_noted(void **state)
{
    (void)state;
    rank_backend_info info;
    rank_device device = queue_open();
    float *a = queue_get(&device, RANK_MEMORY_WORK, COUNT * sizeof(float));
    rank_product args = {.rows = 14, /* its line ends as that of 4 rows */
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
    device.backend->product(device.queue, &args);
    args.rows = 4;
    for (int i = 0; i < 3; i++) {
        device.backend->product(device.queue, &args);
    }
    assert_int_equal(emulate_count().choices - before, 2);
    args.a = a + 1;
    args.accumulate = true;
    device.backend->product(device.queue, &args);
    assert_int_equal(emulate_count().choices - before, 3);
    device.backend->info(device.queue, &info);
    assert_string_equal(
        info.products,
        "14 x 8 x 16 nn, aligned to 256: algorithm 1, tile 0, stages -1, split 0\n"
        "4 x 8 x 16 nn, aligned to 256: algorithm 1, tile 0, stages -1, split 0\n"
        "4 x 8 x 16 nn added, aligned to 4: algorithm 1, tile 0, stages -1, split 0\n");
    device.backend->release(device.queue, a);
    queue_close(&device);
}

/* A product of cublasLt is an operation like others: with thousands of them and nobody who waits, the
 * driver's queue is never full. */
static void products_keep_the_hosts_pace(void **state)
{
    enum { FAR = 3000 };
    base_error error;
    (void)state;
    rank_device device = queue_open();
    float *a = queue_get(&device, RANK_MEMORY_WORK, COUNT * sizeof(float));
    const rank_product args = {.rows = 4,
                               .columns = 4,
                               .depth = 4,
                               .a = a,
                               .a_row = 4,
                               .a_depth = 1,
                               .b = a,
                               .b_row = 4,
                               .c = a + 512,
                               .c_row = 4,
                               .leaves = 1};
    const emulate_counts before = emulate_count();
    queue_put(&device, a, 1.0f);
    for (int i = 0; i < FAR; i++) {
        device.backend->product(device.queue, &args);
    }
    assert_ok(device.backend->sync(device.queue, &error), &error);
    assert_int_equal(emulate_count().products - before.products, FAR);
    assert_int_equal(emulate_count().full, before.full);
    device.backend->release(device.queue, a);
    queue_close(&device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_go_where_the_rule_says),
        cmocka_unit_test(precision_is_the_backends),
        cmocka_unit_test(an_algorithm_is_kept_and_noted),
        cmocka_unit_test(products_keep_the_hosts_pace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
