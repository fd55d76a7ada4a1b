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

/* Heads of keys that no leaves of a power of two divide: their norm has one weight, whose gradient is of all of them. */
static void norms_of_any_heads_have_gradients(void **state)
{
    (void)state;
    check_model("{\"model_type\":\"qwen3\",\"vocab_size\":37,\"hidden_size\":20,"
                "\"intermediate_size\":64,\"num_hidden_layers\":2,\"num_attention_heads\":12,"
                "\"num_key_value_heads\":3,\"head_dim\":4,\"max_position_embeddings\":24,"
                "\"hidden_act\":\"silu\"}");
    check_model("{\"model_type\":\"qwen3\",\"vocab_size\":37,\"hidden_size\":20,"
                "\"intermediate_size\":64,\"num_hidden_layers\":2,\"num_attention_heads\":12,"
                "\"num_key_value_heads\":6,\"head_dim\":4,\"max_position_embeddings\":24,"
                "\"hidden_act\":\"silu\"}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(gradients_are_differences),
                                       cmocka_unit_test(norms_of_any_heads_have_gradients)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
