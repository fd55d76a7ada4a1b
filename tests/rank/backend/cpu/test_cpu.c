/* The CPU backend as everything above it sees it: its table, and the operations that are no
 * kernels. */
#include <math.h>
#include <string.h>

#include "cpu_device.h"
#include "support.h"

static void the_backend_names_its_kernels(void **state)
{
    (void)state;
    base_error error;
    rank_device none;
    rank_backend_info info;
    test_device.backend->info(test_device.queue, &info);
    assert_non_null(info.kernels);
    assert_status(rank_device_open("abacus", &none, &error), BASE_ERR_NOTFOUND);
    assert_non_null(strstr(error.message, "abacus"));
    rank_device_close(&none);
}

static void rows_move_together_and_apart(void **state)
{
    (void)state;
    static const int32_t rows[] = {1, 2, 4};
    float at[6 * 2];
    for (int i = 0; i < 12; i++) {
        at[i] = (float)i;
    }
    const rank_move_rows moved = {.count = 3, .total = 6, .width = 2, .rows = rows, .at = at};
    test_device.backend->gather_rows(test_device.queue, &moved);
    static const float together[] = {2, 3, 4, 5, 8, 9};
    assert_memory_equal(at, together, sizeof together);
    test_device.backend->spread_rows(test_device.queue, &moved);
    static const float apart[] = {0, 0, 2, 3, 4, 5, 0, 0, 8, 9, 0, 0};
    assert_memory_equal(at, apart, sizeof apart);
}

/* Tokens are counted, and the norm is that of the mean. */
static void gradients_are_scaled_and_clipped(void **state)
{
    (void)state;
    static const double tokens = 4.0;
    static const double sum_squares = 64.0; /* the mean's norm is 2 */
    static const struct {
        double norm_max;
        float scale;
    } cases[] = {{0.0, 0.25f}, {2.5, 0.25f}, {1.0, (float)(1.0 / (2.0 + 1e-6) / 4.0)}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double norm = 0.0;
        float scale = 0.0f;
        test_device.backend->grad_scale(
            test_device.queue,
            &(rank_grad_scale){&sum_squares, &tokens, cases[i].norm_max, &norm, &scale});
        assert_true(norm == 2.0);
        assert_true(scale == cases[i].scale);
    }
}

static void a_difference_is_found(void **state)
{
    (void)state;
    float a[] = {1.0f, 2.0f, 0.0f};
    float b[] = {1.0f, 2.0f, 0.0f};
    bool equal = false;
    double largest = -1.0;
    const rank_difference args = {a, b, 3, &equal, &largest};
    test_device.backend->difference(test_device.queue, &args);
    assert_true(equal && largest == 0.0);
    b[2] = -0.0f; /* equal in value, not in bytes */
    test_device.backend->difference(test_device.queue, &args);
    assert_true(!equal && largest == 0.0);
    b[0] = 1.5f;
    a[1] = NAN;
    test_device.backend->difference(test_device.queue, &args);
    assert_true(!equal && isnan(largest));
}

/* A row without a target has no loss; the losses are added to what is there. */
static void rows_without_a_target_have_no_loss(void **state)
{
    (void)state;
    static const int32_t targets[] = {1, -1, 2};
    float logits[3][4] = {{0, 0, 0, 0}, {9, 9, 9, 9}, {0, 0, 0, 0}};
    double loss = 10.0;
    test_device.backend->cross_entropy(
        test_device.queue,
        &(rank_cross_entropy){
            .rows = 3, .vocab_size = 4, .targets = targets, .logits = logits[0], .loss = &loss});
    assert_true(fabs(loss - 10.0 - 2.0 * log(4.0)) < 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_backend_names_its_kernels),
        cmocka_unit_test(rows_move_together_and_apart),
        cmocka_unit_test(gradients_are_scaled_and_clipped),
        cmocka_unit_test(a_difference_is_found),
        cmocka_unit_test(rows_without_a_target_have_no_loss),
    };
    return cmocka_run_group_tests(tests, test_device_open, test_device_close);
}
