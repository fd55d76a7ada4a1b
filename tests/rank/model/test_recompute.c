/* Blocks whose activations are computed again in backward: the same bits, and less memory. */
#include <stdlib.h>
#include <string.h>

#include "model/family.h"
#include "support.h"
#include "tiny.h"

static void fill(tiny *t, int step)
{
    static const int lengths[] = {24, 1, 17, 24, 9, 0};
    tiny_fill(t, lengths, (uint64_t)step);
    for (int i = 0; i < t->batch.token_count; i += 1 + step) {
        t->targets[i] = -1; /* so that the last layer leaves rows out; in one step all */
    }
}

static void gradients_have_the_same_bits(void **state)
{
    (void)state;
    enum { STEPS = 3 };
    for (int i = 0; i < TINY_CONFIGS; i++) {
        tiny t;
        double losses[STEPS];
        float *grads[STEPS];
        tiny_open_as(&t, tiny_configs[i]);
        const size_t size_bytes = t.param_count * sizeof(float);
        for (int step = 0; step < STEPS; step++) {
            fill(&t, step);
            losses[step] = tiny_train(&t);
            grads[step] = malloc(size_bytes);
            assert_non_null(grads[step]);
            memcpy(grads[step], t.grads, size_bytes);
        }
        tiny_make_model(&t, true);
        for (int step = 0; step < STEPS; step++) {
            fill(&t, step);
            assert_true(tiny_train(&t) == losses[step]);
            assert_memory_equal(t.grads, grads[step], size_bytes);
            free(grads[step]);
        }
        tiny_close(&t);
    }
}

/* Of each block but one only its input: T × C floats; and the routing of one with experts. */
static void memory_is_that_of_one_block_and_inputs(void **state)
{
    (void)state;
    for (int i = 0; i < TINY_DENSE_CONFIGS; i++) {
        rank_device device;
        rank_model_config config;
        base_error error;
        size_t all[2][2];
        tiny_config(&config, tiny_configs[i]);
        config.width = 64; /* rows of whole cache lines: nothing is rounded up */
        assert_ok(rank_device_open("cpu", &device, &error), &error);
        for (int recompute = 0; recompute < 2; recompute++) {
            for (int more = 0; more < 2; more++) {
                rank_memory_use use = {{0}};
                config.layers = 2 + more;
                rank_model_plan(&(rank_model_options){.config = &config,
                                                      .device = &device,
                                                      .token_count_max = 64,
                                                      .training = true,
                                                      .recompute = recompute == 1},
                                &use);
                all[recompute][more] =
                    use.bytes[RANK_MEMORY_ACTIVATIONS] + use.bytes[RANK_MEMORY_WORK];
            }
        }
        const size_t input = 64 * 64 * sizeof(float);
        const size_t block = all[0][1] - all[0][0];
        assert_int_equal(all[1][1] - all[1][0], input);
        assert_int_equal(all[0][0] - all[1][0], block - input); /* of two blocks */
        rank_device_close(&device);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_have_the_same_bits),
        cmocka_unit_test(memory_is_that_of_one_block_and_inputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
