/* Gradients against differences of the loss, without any other implementation. */
#include "support.h"
#include "tiny.h"

static void check_model(const char *config)
{
    tiny t;
    tiny_open_as(&t, config);
    tiny_fill(&t, (const int[]){24, 3, 11, 1, 0}, 5);
    for (int i = 0; i < t.batch.token_count; i += 3) {
        t.targets[i] = -1;
    }
    (void)tiny_train(&t);
    tiny_check_gradients(&t, &t.config, t.params, 7, tiny_loss);
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
