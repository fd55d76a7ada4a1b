/* Gradients against differences of the loss, without any other implementation. The loss is summed
 * in double, but made in float32: its error of about 1e-7 of 100 divided by the step bounds what
 * differences can show, hence 1 % of the tensor's largest gradient. */
#include <math.h>
#include <stdlib.h>

#include "difference.h"
#include "support.h"
#include "tiny.h"

static const float STEP = 0x1p-7f;
static const double TOLERANCE = 1e-2;

enum { SAMPLES_PER_TENSOR = 7 };

static double loss_at(tiny *t, size_t index, float value)
{
    base_error error;
    rank_result result;
    const float kept = t->params[index];
    t->params[index] = value;
    assert_ok(rank_model_forward(t->model, &t->hooks, &t->batch, NULL, &result, &error), &error);
    t->params[index] = kept;
    return result.loss_sum;
}

static void check_tensor(tiny *t, const float *grads, const rank_tensor *tensor)
{
    const double largest = test_largest(grads + tensor->offset, tensor->count);
    const size_t stride = tensor->count / SAMPLES_PER_TENSOR + 1;
    assert_true(largest > 0.0);
    for (size_t i = 0; i < tensor->count; i += stride) {
        const size_t at = tensor->offset + i;
        const float value = t->params[at];
        const double up = loss_at(t, at, value + STEP);
        const double down = loss_at(t, at, value - STEP);
        const double up_half = loss_at(t, at, value + STEP / 2);
        const double down_half = loss_at(t, at, value - STEP / 2);
        /* Richardson: the step's square falls out. */
        const double half = (up_half - down_half) / (double)STEP;
        const double whole = (up - down) / (2.0 * (double)STEP);
        const double difference = (4.0 * half - whole) / 3.0;
        if (!(fabs(difference - (double)grads[at]) <= TOLERANCE * largest)) {
            fail_msg("%s[%zu]: gradient %g, by differences %g", tensor->name, i, (double)grads[at],
                     difference);
        }
    }
}

static void check_model(const char *config)
{
    tiny t;
    tiny_open_as(&t, config);
    tiny_fill(&t, (const int[]){24, 3, 11, 1, 0}, 5);
    for (int i = 0; i < t.batch.token_count; i += 3) {
        t.targets[i] = -1;
    }
    (void)tiny_train(&t);
    for (int i = 0; i < rank_model_tensor_count(&t.config); i++) {
        rank_tensor tensor;
        rank_model_tensor(&t.config, i, &tensor);
        check_tensor(&t, t.grads, &tensor);
    }
    tiny_close(&t);
}

static void gradients_are_differences(void **state)
{
    (void)state;
    /* a small change of what is routed may send a row elsewhere: those models have test_oracle.c */
    for (int i = 0; i < TINY_DENSE_CONFIGS; i++) {
        check_model(tiny_configs[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(gradients_are_differences)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
