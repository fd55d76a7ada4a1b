/* The kernels themselves: the exponential's error, and that instruction sets agree. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/kernels.h"
#include "backend/turn.h"
#include "difference.h"
#include "random.h"
#include "support.h"

/* The exponential must be within 1.5 units in the last place. */
static void the_exponential_is_close(void **state)
{
    (void)state;
    enum { COUNT = 250007 };
    float *values = malloc(COUNT * sizeof *values);
    assert_non_null(values);
    const rank_kernels *kernels = NULL;
    for (int isa = 0; (kernels = rank_kernels_at(isa)) != NULL; isa++) {
        for (int i = 0; i < COUNT; i++) {
            values[i] = -87.0f + 175.0f * (float)i / (float)(COUNT - 1);
        }
        kernels->exp(values, COUNT);
        double worst = 0.0;
        for (int i = 0; i < COUNT; i++) {
            const double x = (double)(-87.0f + 175.0f * (float)i / (float)(COUNT - 1));
            const double expected = exp(x);
            const double unit = (double)ldexpf(1.0f, ilogb(expected) - 23);
            worst = test_worse(worst, fabs((double)values[i] - expected) / unit);
        }
        if (!(worst <= 1.5)) {
            fail_msg("%s: off by %g units", kernels->name, worst);
        }
    }
    free(values);
}

static void the_exponential_ends_well(void **state)
{
    (void)state;
    const rank_kernels *kernels = NULL;
    for (int isa = 0; (kernels = rank_kernels_at(isa)) != NULL; isa++) {
        float values[] = {0.0f, -1e30f, -88.0f, 89.0f, 1e30f};
        kernels->exp(values, 5);
        assert_true(values[0] == 1.0f);
        assert_true(values[1] > 0.0f && values[1] < 1e-37f && values[1] == values[2]);
        assert_true(values[3] > 1e38f && isfinite(values[3]) && values[3] == values[4]);
    }
}

static double gelu_at(double x)
{
    return 0.5 * x * (1.0 + tanh(sqrt(2.0 / acos(-1.0)) * (x + 0.044715 * x * x * x)));
}

/* The derivative, from differences of the function in double: good to 1e-9. */
static double gelu_slope_at(double x)
{
    const double step = 1e-5;
    return (gelu_at(x + step) - gelu_at(x - step)) / (2.0 * step);
}

/* One row of COUNT inputs from -12 to 12, in two parts: x before the bias, and the bias. */
static void gelu_and_its_gradient_are_close(void **state)
{
    (void)state;
    enum { COUNT = 2411 };
    static float bias[COUNT];
    static float x[COUNT];
    static float out[COUNT];
    static float grad[COUNT];
    static float sums[COUNT];
    static float gated[COUNT];
    const rank_kernels *kernels = NULL;
    for (int isa = 0; (kernels = rank_kernels_at(isa)) != NULL; isa++) {
        for (int i = 0; i < COUNT; i++) {
            bias[i] = 0.25f;
            x[i] = -12.25f + 24.0f * (float)i / (float)(COUNT - 1);
            grad[i] = 2.0f;
            sums[i] = 1.0f;
        }
        kernels->gelu(&(rank_gelu){1, COUNT, bias, x, out, RANK_FLOAT32});
        for (int i = 0; i < COUNT; i++) {
            const double at = -12.0 + 24.0 * i / (COUNT - 1);
            assert_true(fabs((double)x[i] - at) < 2e-6);
            assert_true(fabs((double)out[i] - gelu_at(at)) < 4e-6);
        }
        kernels->swiglu(&(rank_swiglu){1, COUNT, x, bias, COUNT, gated, true});
        for (size_t i = 0; i < COUNT; i++) {
            assert_true(gated[i] == out[i] * bias[i]);
        }
        kernels->gelu_grad(&(rank_gelu_grad){1, COUNT, x, grad, sums, RANK_FLOAT32});
        for (int i = 0; i < COUNT; i++) {
            const double at = -12.0 + 24.0 * i / (COUNT - 1);
            assert_true(fabs((double)x[i] - gelu_at(at)) < 4e-6);
            assert_true(fabs((double)grad[i] - 2.0 * gelu_slope_at(at)) < 4e-6);
            assert_true(sums[i] == 1.0f + grad[i]);
        }
    }
}

enum { ROWS = 9, WIDTH = 83, ELEMENTS = ROWS * WIDTH };

/* Sines and cosines up to the largest angle, against the C library's. */
static void turns_are_close(void **state)
{
    (void)state;
    enum { COUNT = 200000 };
    for (int i = 0; i <= COUNT; i++) {
        const double x = i < COUNT / 2 ? i * (100.0 / COUNT) : i * (0x1p20 / COUNT);
        const rank_turn turn = rank_turn_by(x);
        assert_true(fabs(turn.cosine - cos(x)) < 1e-15);
        assert_true(fabs(turn.sine - sin(x)) < 1e-15);
    }
}

typedef struct arrays {
    float a[ELEMENTS], b[ELEMENTS], c[ELEMENTS], d[ELEMENTS];
    float weight[WIDTH], bias[WIDTH], sum1[WIDTH], sum2[WIDTH], sum3[WIDTH];
    float mean[ROWS], rstd[ROWS];
    double loss;
} arrays;

static void fill_arrays(arrays *x)
{
    memset(x, 0, sizeof *x);
    test_random_floats(x->a, ELEMENTS, 2, 1);
    test_random_floats(x->b, ELEMENTS, 2, 2);
    test_random_floats(x->c, ELEMENTS, 2, 3);
    test_random_floats(x->d, ELEMENTS, 2, 4);
    test_random_floats(x->weight, WIDTH, 2, 5);
    test_random_floats(x->bias, WIDTH, 2, 6);
}

static void run_gelu(const rank_kernels *k, arrays *x)
{
    k->gelu(&(rank_gelu){ROWS, WIDTH, x->bias, x->a, x->b, RANK_FLOAT32});
    k->gelu_grad(&(rank_gelu_grad){ROWS, WIDTH, x->a, x->c, x->sum1, RANK_FLOAT32});
}

static void run_llama(const rank_kernels *k, arrays *x)
{
    k->rmsnorm(&(rank_rmsnorm){.rows = ROWS,
                               .width = WIDTH,
                               .epsilon = 1e-5f,
                               .x = x->a,
                               .residual = x->b,
                               .weight = x->bias,
                               .out = x->c,
                               .rstd = x->rstd});
    k->rmsnorm_grad(&(rank_rmsnorm_grad){.rows = ROWS,
                                         .width = WIDTH,
                                         .keep = true,
                                         .x = x->a,
                                         .rstd = x->rstd,
                                         .weight = x->bias,
                                         .dout = x->b,
                                         .dx = x->d,
                                         .dweight = x->sum1});
    k->swiglu(&(rank_swiglu){ROWS, WIDTH, x->c, x->b, WIDTH, x->c, false});
    k->swiglu_grad(&(rank_swiglu_grad){ROWS, WIDTH, x->b, x->c, WIDTH, x->d, false});
}

static void run_gemma(const rank_kernels *k, arrays *x)
{
    k->rmsnorm(&(rank_rmsnorm){.rows = ROWS,
                               .width = WIDTH,
                               .epsilon = 1e-5f,
                               .x = x->a,
                               .weight = x->bias,
                               .one_more = true,
                               .out = x->c,
                               .rstd = x->rstd});
    k->rmsnorm_grad(&(rank_rmsnorm_grad){.rows = ROWS,
                                         .width = WIDTH,
                                         .x = x->a,
                                         .rstd = x->rstd,
                                         .weight = x->bias,
                                         .one_more = true,
                                         .dout = x->d,
                                         .dx = x->d,
                                         .dweight = x->sum1});
    k->swiglu(&(rank_swiglu){ROWS, WIDTH, x->c, x->b, WIDTH, x->a, true});
    k->swiglu_grad(&(rank_swiglu_grad){ROWS, WIDTH, x->b, x->c, WIDTH, x->d, true});
}

static void run_adamw(const rank_kernels *k, arrays *x)
{
    const rank_adamw_config config = {0.9, 0.999, 1e-8, 0.01};
    for (int64_t step = 1; step < 4; step++) {
        const rank_adamw_step now = {.step = step, .learning_rate = 1e-3, .grad_scale = 0.7f};
        for (size_t i = 0; i < ELEMENTS; i++) {
            x->d[i] = fabsf(x->d[i]);
        }
        k->adamw(
            &(rank_adamw){&config, &now, true, ELEMENTS, x->a, x->b, x->c, x->d, NULL, NULL, 0});
    }
    int32_t largest = 0;
    rank_squares sum = {0};
    k->largest(&(rank_largest){x->a, ELEMENTS, &largest});
    k->add_squares(&(rank_add_squares){x->a, ELEMENTS, &largest, &sum});
    x->loss = rank_squares_value(&sum, largest);
}

static void run_embed(const rank_kernels *k, arrays *x)
{
    static const int32_t ids[] = {3, 0, 3, 2};
    static const int32_t positions[] = {0, 1, 0, 1};
    k->embed(&(rank_embed){4, WIDTH, ids, positions, x->a, x->b, x->c, 0, 0});
    k->embed_grad(&(rank_embed_grad){4, WIDTH, ids, positions, x->c, x->a, x->b, 0, 0});
}

static void run_layernorm(const rank_kernels *k, arrays *x)
{
    static const int32_t rows[ROWS] = {0, 2, 3, 4, 5, 6, 7, 8, 8};
    k->layernorm(&(rank_layernorm){ROWS, WIDTH, x->a, x->b, x->bias, rows, x->weight, x->bias, x->c,
                                   x->mean, x->rstd, RANK_FLOAT32});
    k->layernorm_grad(&(rank_layernorm_grad){ROWS, WIDTH, 1, x->a, x->mean, x->rstd, x->weight,
                                             x->d, x->b, x->sum1, x->sum2, x->sum3, NULL});
}

static void run_cross_entropy(const rank_kernels *k, arrays *x)
{
    static const int32_t targets[ROWS] = {0, 5, 82, 7, 80, 1, 2, 3, 16};
    k->cross_entropy(&(rank_cross_entropy){.rows = ROWS,
                                           .vocab_size = WIDTH,
                                           .targets = targets,
                                           .logits = x->a,
                                           .want_gradient = true,
                                           .loss = &x->loss});
}

typedef void (*runner)(const rank_kernels *kernels, arrays *x);

static int same_bits(const float *a, const float *b, size_t count)
{
    uint32_t differing = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits_a;
        uint32_t bits_b;
        memcpy(&bits_a, &a[i], sizeof bits_a);
        memcpy(&bits_b, &b[i], sizeof bits_b);
        differing |= bits_a ^ bits_b;
    }
    return differing == 0;
}

/* Runs on each instruction set, twice; whether all have the baseline's bits. */
static int equal_everywhere(runner run)
{
    static arrays expected;
    static arrays got;
    static arrays again;
    const size_t floats = offsetof(arrays, loss) / sizeof(float);
    int equal = 1;
    fill_arrays(&expected);
    run(rank_kernels_at(0), &expected);
    const rank_kernels *kernels = NULL;
    for (int isa = 0; (kernels = rank_kernels_at(isa)) != NULL; isa++) {
        fill_arrays(&got);
        run(kernels, &got);
        fill_arrays(&again);
        run(kernels, &again);
        assert_memory_equal(&got, &again, sizeof got);
        equal &= same_bits((const float *)&got, (const float *)&expected, floats) &&
                 got.loss == expected.loss;
    }
    return equal;
}

/* Sums along a row have sixteen lanes on every instruction set, and the baseline does without fused
 * multiply-add in all of these. */
static void every_instruction_set_gives_equal_bits(void **state)
{
    (void)state;
    static const runner runners[] = {run_gelu,  run_llama,     run_gemma,        run_adamw,
                                     run_embed, run_layernorm, run_cross_entropy};
    for (size_t i = 0; i < sizeof runners / sizeof *runners; i++) {
        assert_true(equal_everywhere(runners[i]));
    }
}

static void unknown_sets_are_refused(void **state)
{
    (void)state;
    base_error error;
    const char *kept = getenv("RINGFENCE_ISA");
    char copy[32];
    (void)snprintf(copy, sizeof copy, "%s", kept != NULL ? kept : "");
    assert_null(rank_kernels_named("AVX2"));
    assert_int_equal(setenv("RINGFENCE_ISA", "sse9", 1), 0);
    assert_status(rank_kernels_check(&error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.message, "sse9"));
    assert_int_equal(setenv("RINGFENCE_ISA", "baseline", 1), 0);
    assert_ok(rank_kernels_check(&error), &error);
    assert_int_equal(setenv("RINGFENCE_ISA", copy, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_exponential_is_close),
        cmocka_unit_test(the_exponential_ends_well),
        cmocka_unit_test(gelu_and_its_gradient_are_close),
        cmocka_unit_test(turns_are_close),
        cmocka_unit_test(every_instruction_set_gives_equal_bits),
        cmocka_unit_test(unknown_sets_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
