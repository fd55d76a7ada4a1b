/* AdamW against PyTorch's over ten steps. Both compute in float32, in the same order but for fused
 * multiply-add: 2e-6 of the largest parameter is 17 roundings. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu_device.h"
#include "difference.h"
#include "fixture.h"
#include "support.h"

enum { STEPS = 10 };

static const double TOLERANCE = 2e-6;

static void adamw(rank_adamw args)
{
    test_device.backend->adamw(test_device.queue, &args);
}

static void check_record(const fixture *file, const char *decay, const char *what, const float *got)
{
    size_t count;
    float *expected = fixture_get(file, &count, "decay%s.%s", decay, what);
    test_check_close(what, got, expected, count, TOLERANCE);
    free(expected);
}

/* With decay "0.0" twice: once by the configuration, once by the range's flag. */
static void check_steps(const char *decay, double weight_decay, bool decays)
{
    const rank_adamw_config config = {
        .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = weight_decay};
    fixture file;
    size_t count;
    size_t grad_count;
    fixture_open(&file, "adamw.fixture");
    float *params = fixture_get(&file, &count, "start");
    float *grads = fixture_get(&file, &grad_count, "grads");
    assert_int_equal(grad_count, STEPS * count);
    float *first = calloc(count, sizeof *first);
    float *second = calloc(count, sizeof *second);
    assert_non_null(first);
    assert_non_null(second);
    for (int step = 1; step <= STEPS; step++) {
        char name[16];
        const size_t half = count / 2 + 1; /* in two ranges: the cut must not show */
        const float *grad = grads + (size_t)(step - 1) * count;
        const rank_adamw_step now = {.step = step, .learning_rate = 3e-3, .grad_scale = 0.5f};
        adamw(
            (rank_adamw){&config, &now, decays, half, params, grad, first, second, NULL, NULL, 0});
        adamw((rank_adamw){&config, &now, decays, count - half, params + half, grad + half,
                           first + half, second + half, NULL, NULL, 0});
        (void)snprintf(name, sizeof name, "params%d", step);
        check_record(&file, decay, name, params);
    }
    check_record(&file, decay, "first", first);
    check_record(&file, decay, "second", second);
    free(params);
    free(grads);
    free(first);
    free(second);
    fixture_close(&file);
}

static void ten_steps_are_pytorchs(void **state)
{
    (void)state;
    check_steps("0.0", 0.0, true);
}

static void decay_is_pytorchs(void **state)
{
    (void)state;
    check_steps("0.1", 0.1, true);
}

static void a_range_without_decay_has_none(void **state)
{
    (void)state;
    check_steps("0.0", 0.1, false);
}

/* Any cut gives the same bits. */
static void ranges_change_nothing(void **state)
{
    (void)state;
    enum { COUNT = 100 };
    const rank_adamw_config config = {0.9, 0.999, 1e-8, 0.01};
    const rank_adamw_step now = {.step = 1, .learning_rate = 1e-3, .grad_scale = 1.0f};
    float whole[3][COUNT];
    float grads[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        whole[0][i] = (float)i * 0.37f - 11.0f;
        grads[i] = (float)(i * i % 17) - 8.0f;
        whole[1][i] = whole[2][i] = 0.0f;
    }
    float cut[3][COUNT];
    memcpy(cut, whole, sizeof cut);
    adamw((rank_adamw){&config, &now, true, COUNT, whole[0], grads, whole[1], whole[2], NULL, NULL,
                       0});
    for (size_t i = 0, part = 1; i < COUNT; i += part, part = part % 23 + 1) {
        part = part < COUNT - i ? part : COUNT - i;
        adamw((rank_adamw){&config, &now, true, part, cut[0] + i, grads + i, cut[1] + i, cut[2] + i,
                           NULL, NULL, 0});
    }
    assert_memory_equal(whole, cut, sizeof cut);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_steps_are_pytorchs),
        cmocka_unit_test(decay_is_pytorchs),
        cmocka_unit_test(a_range_without_decay_has_none),
        cmocka_unit_test(ranges_change_nothing),
    };
    return cmocka_run_group_tests(tests, test_device_open, test_device_close);
}
