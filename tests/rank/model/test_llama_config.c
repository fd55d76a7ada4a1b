/* Llama's config.json: what is read of it, and what is refused. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "model/llama/parts.h"
#include "support.h"

/* A configuration of 10 heads, 5 of keys and values, with some members in place of its own. */
static base_status configure(const char *changes, rank_model_config *config, base_error *reterr)
{
    json_t *object = json_loads(
        "{\"model_type\":\"llama\",\"vocab_size\":37,\"hidden_size\":44,\"intermediate_size\":48,"
        "\"num_hidden_layers\":2,\"num_attention_heads\":10,\"num_key_value_heads\":5,"
        "\"head_dim\":6,\"max_position_embeddings\":8192,\"hidden_act\":\"silu\"}",
        0, NULL);
    json_t *others = json_loads(changes, 0, NULL);
    assert_non_null(object);
    assert_non_null(others);
    assert_int_equal(json_object_update(object, others), 0);
    const base_status status = llama_configure(object, config, reterr);
    json_decref(object);
    json_decref(others);
    return status;
}

static void settings_are_read(void **state)
{
    base_error error;
    rank_model_config config;
    (void)state;
    assert_ok(configure("{}", &config, &error), &error);
    assert_int_equal(rank_block_setting(&config, LLAMA_KV_HEADS), 5);
    assert_int_equal(rank_block_setting(&config, LLAMA_HEAD_WIDTH), 6);
    assert_true(config.settings[LLAMA_THETA] == 10000.0);
    assert_ok(
        configure("{\"head_dim\":null,\"hidden_size\":40,\"rope_scaling\":null}", &config, &error),
        &error);
    assert_int_equal(rank_block_setting(&config, LLAMA_HEAD_WIDTH), 4);
}

/* Two names of one function, which is also meant where there is none. */
static void the_activation_is_silu(void **state)
{
    base_error error;
    rank_model_config config;
    (void)state;
    assert_ok(configure("{\"hidden_act\":\"swish\"}", &config, &error), &error);
    json_t *object = json_loads(
        "{\"model_type\":\"llama\",\"vocab_size\":37,\"hidden_size\":40,\"intermediate_size\":48,"
        "\"num_hidden_layers\":2,\"num_attention_heads\":10,\"max_position_embeddings\":64}",
        0, NULL);
    assert_ok(llama_configure(object, &config, &error), &error);
    json_decref(object);
    static const char *const wrong[] = {"\"gelu\"", "null", "1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char changes[64];
        (void)snprintf(changes, sizeof changes, "{\"hidden_act\":%s}", wrong[i]);
        assert_status(configure(changes, &config, &error), BASE_ERR_UNSUPPORTED);
        assert_non_null(strstr(error.message, "hidden_act must be \"silu\" or \"swish\""));
    }
}

/* transformers' defaults: Mixtral has others than the rest. */
static void what_is_missing_is_as_in_transformers(void **state)
{
    static const struct {
        const char *changes;
        double epsilon;
        double theta;
    } cases[] = {
        {"{\"model_type\":\"mistral\"}", 1e-6, 1e4},
        {"{\"model_type\":\"qwen3\"}", 1e-6, 1e4},
        {"{\"model_type\":\"mixtral\",\"num_local_experts\":4,\"num_experts_per_tok\":2}", 1e-5,
         1e6},
        {"{\"model_type\":\"mixtral\",\"num_local_experts\":4,\"num_experts_per_tok\":2,"
         "\"rms_norm_eps\":1e-4,\"rope_parameters\":{\"rope_theta\":500}}",
         1e-4, 500.0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        base_error error;
        rank_model_config config;
        assert_ok(configure(cases[i].changes, &config, &error), &error);
        assert_true(config.settings[LLAMA_EPSILON] == cases[i].epsilon);
        assert_true(config.settings[LLAMA_THETA] == cases[i].theta);
    }
}

/* As in transformers 5: a rope_scaling that is not empty takes the place of rope_parameters. */
static void rope_scaling_counts_before_rope_parameters(void **state)
{
    static const char parameters[] =
        "\"rope_parameters\":{\"rope_type\":\"linear\",\"factor\":2,\"rope_theta\":500}";
    static const struct {
        const char *scaling;
        double factor;
        double theta;
    } cases[] = {
        {"null", 2.0, 500.0},
        {"{}", 2.0, 500.0},
        {"{\"type\":\"linear\",\"factor\":4}", 4.0, 1000.0},
        {"{\"type\":\"linear\",\"factor\":4,\"rope_theta\":2000}", 4.0, 2000.0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char changes[256];
        base_error error;
        rank_model_config config;
        (void)snprintf(changes, sizeof changes, "{\"rope_theta\":1000,%s,\"rope_scaling\":%s}",
                       parameters, cases[i].scaling);
        assert_ok(configure(changes, &config, &error), &error);
        assert_true(config.settings[LLAMA_FACTOR] == cases[i].factor);
        assert_true(config.settings[LLAMA_THETA] == cases[i].theta);
    }
}

static void dynamic_is_default_up_to_the_context(void **state)
{
    base_error error;
    rank_model_config config;
    rank_model_config plain;
    (void)state;
    assert_ok(configure("{}", &plain, &error), &error);
    assert_ok(configure("{\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":4}}", &config, &error),
              &error);
    assert_memory_equal(config.settings, plain.settings, sizeof plain.settings);
    assert_int_equal(config.context, plain.context);
}

#define LLAMA3(factor, low, high)                                                                  \
    "{\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":" factor ",\"low_freq_factor\":" low   \
    ",\"high_freq_factor\":" high ",\"original_max_position_embeddings\":64}}"

/* Angles beyond what backend/turn.h takes, infinite ones, and divisions by zero. */
static void numbers_without_sense_are_refused(void **state)
{
    static const struct {
        const char *changes;
        const char *word;
    } wrong[] = {
        {"{\"rope_theta\":1e-300}", "rope_theta is 1e-300"},
        {"{\"rope_theta\":0.99}", "rope_theta is 0.99"},
        {"{\"rope_scaling\":{\"type\":\"linear\",\"factor\":1e-200}}", "factor is 1e-200"},
        {LLAMA3("0.5", "1", "4"), "factor is 0.5"},
        {LLAMA3("8", "4", "4"), "low_freq_factor is not below"},
        {LLAMA3("8", "4", "1"), "low_freq_factor is not below"},
        {"{\"rms_norm_eps\":1e300}", "rms_norm_eps is 1e+300"},
        {"{\"rms_norm_eps\":0}", "rms_norm_eps"},
        {"{\"rms_norm_eps\":1e-60}", "rms_norm_eps is 1e-60, it must be 1e-30 … 1"},
        {"{\"num_key_value_heads\":4}", "10 heads are not a multiple of 4"},
        {"{\"head_dim\":5}", "heads of 5 elements"},
        {"{\"head_dim\":514}", "heads of 514 elements"},
        {"{\"num_attention_heads\":50,\"num_key_value_heads\":1,\"head_dim\":null}", "heads of 0"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        base_error error;
        rank_model_config config;
        assert_status(configure(wrong[i].changes, &config, &error), BASE_ERR_INVALID);
        assert_non_null(strstr(error.message, wrong[i].word));
    }
    base_error error;
    rank_model_config config;
    assert_ok(configure(LLAMA3("8", "1", "4"), &config, &error), &error);
}

/* Mistral's default is a window. */
static void a_context_is_no_longer_than_the_window(void **state)
{
    static const struct {
        const char *changes;
        int context;
    } cases[] = {
        {"{\"sliding_window\":8191}", 8191},
        {"{\"sliding_window\":8192}", 8192},
        {"{\"sliding_window\":8193}", 8192},
        {"{\"sliding_window\":null}", 8192},
        {"{\"model_type\":\"mistral\"}", 4096},
        {"{\"model_type\":\"mistral\",\"sliding_window\":null}", 8192},
        {"{\"model_type\":\"mistral\",\"max_position_embeddings\":2048}", 2048},
    };
    base_error error;
    rank_model_config config;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_ok(configure(cases[i].changes, &config, &error), &error);
        assert_int_equal(config.context, cases[i].context);
    }
    assert_status(configure("{\"sliding_window\":0}", &config, &error), BASE_ERR_INVALID);
    assert_non_null(strstr(error.message, "sliding_window is not positive"));
}

/* What it says of windows counts only with its switch. */
static void qwen2_has_biases_and_no_window(void **state)
{
    static const char *const refused[][2] = {
        {"{\"model_type\":\"qwen2\",\"use_sliding_window\":true}",
         "use_sliding_window must be false"},
        {"{\"model_type\":\"qwen2\",\"layer_types\":[\"full_attention\",\"sliding_attention\"]}",
         "layer_types"},
        {"{\"model_type\":\"qwen2\",\"attention_bias\":true}", "attention_bias must be false"},
        {"{\"attention_bias\":true}", "attention_bias must be false"},
    };
    base_error error;
    rank_model_config config;
    rank_tensor tensor;
    (void)state;
    assert_ok(configure("{\"model_type\":\"qwen2\",\"use_sliding_window\":false,"
                        "\"sliding_window\":64,\"max_window_layers\":1,\"rope_theta\":1e6,"
                        "\"layer_types\":[\"full_attention\",\"full_attention\"]}",
                        &config, &error),
              &error);
    assert_true(config.settings[LLAMA_BIASED] == 1.0);
    assert_int_equal(llama_tensor_count(&config), 2 + 2 * LLAMA_Q_NORM + 1);
    llama_tensor(&config, 1 + LLAMA_Q_NORM + LLAMA_K_BIAS, &tensor);
    assert_string_equal(tensor.name, "model.layers.1.self_attn.k_proj.bias");
    assert_int_equal(tensor.count, 30);
    assert_int_equal(tensor.cut.unit, 6);
    assert_false(tensor.decay);
    assert_ok(configure("{}", &config, &error), &error);
    assert_true(config.settings[LLAMA_BIASED] == 0.0);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_status(configure(refused[i][0], &config, &error), BASE_ERR_UNSUPPORTED);
        assert_non_null(strstr(error.message, refused[i][1]));
    }
}

static void expect_tensor(const rank_model_config *config, int index, const char *name,
                          size_t count, rank_cut_kind cut)
{
    rank_tensor tensor;
    llama_tensor(config, index, &tensor);
    assert_string_equal(tensor.name, name);
    assert_int_equal(tensor.count, count);
    assert_int_equal(tensor.cut.kind, cut);
    assert_false(tensor.decay);
}

/* Heads have a width of their own, which is 128 if nothing is said. */
static void qwen3_has_norms_of_heads(void **state)
{
    static const char *const refused[][2] = {
        {"{\"model_type\":\"qwen3\",\"use_sliding_window\":true}",
         "use_sliding_window must be false"},
        {"{\"model_type\":\"qwen3\",\"layer_types\":[\"full_attention\",\"sliding_attention\"]}",
         "layer_types"},
        {"{\"model_type\":\"qwen3\",\"attention_bias\":true}", "attention_bias must be false"},
    };
    enum { TENSORS = LLAMA_K_NORM + 1 - 3 /* of a block, which has no biases */ };
    base_error error;
    rank_model_config config;
    (void)state;
    assert_ok(configure("{\"model_type\":\"qwen3\",\"use_sliding_window\":false,"
                        "\"attention_bias\":false,\"sliding_window\":64,\"max_window_layers\":1,"
                        "\"rope_theta\":1e6,\"head_dim\":null,"
                        "\"layer_types\":[\"full_attention\",\"full_attention\"]}",
                        &config, &error),
              &error);
    assert_true(config.settings[LLAMA_HEAD_NORMS] == 1.0);
    assert_true(config.settings[LLAMA_BIASED] == 0.0);
    assert_true(config.settings[LLAMA_HEAD_WIDTH] == 128.0);
    assert_int_equal(llama_tensor_count(&config), 2 + 2 * TENSORS + 1);
    expect_tensor(&config, 1, "model.layers.0.input_layernorm.weight", (size_t)config.width,
                  RANK_CUT_NONE);
    expect_tensor(&config, 2 * TENSORS - 1, "model.layers.1.self_attn.q_norm.weight", 128,
                  RANK_CUT_NONE);
    expect_tensor(&config, 2 * TENSORS, "model.layers.1.self_attn.k_norm.weight", 128,
                  RANK_CUT_NONE);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_status(configure(refused[i][0], &config, &error), BASE_ERR_UNSUPPORTED);
        assert_non_null(strstr(error.message, refused[i][1]));
    }
}

/* In each fourth layer if nothing is said, and by its list if there is one. */
static void smollm3_has_layers_without_rope(void **state)
{
    static const struct {
        const char *changes;
        double every;
    } cases[] = {
        {"", 4.0},
        {",\"no_rope_layer_interval\":2", 2.0},
        {",\"no_rope_layer_interval\":9", 0.0},
        {",\"no_rope_layers\":null", 4.0},
        {",\"no_rope_layer_interval\":2,\"no_rope_layers\":[1,1,0,1,1,0,1,1]", 3.0},
        {",\"no_rope_layers\":[1,1,1,1,0,1,1,1]", 5.0},
        {",\"no_rope_layers\":[true,1,1,1,1,1,1,1]", 0.0},
        {",\"no_rope_layers\":[0,0,0,0,0,0,0,0]", 1.0},
    };
    static const char *const refused[][2] = {
        {",\"no_rope_layers\":[1,0,1,1,1,1,1,1]", "no_rope_layers: the layers without rope"},
        {",\"no_rope_layers\":[1,0,0,0,1,0,1,0]", "no_rope_layers: the layers without rope"},
        {",\"no_rope_layers\":[1,1,1,0]", "no_rope_layers is no list of 8 layers"},
        {",\"no_rope_layers\":[1,1,1,2,1,1,1,2]", "no_rope_layers: layer 3 is neither 0 nor 1"},
        {",\"no_rope_layers\":[1,1.0,1,1.0,1,1,1,1]", "no_rope_layers: layer 1 is neither 0 nor 1"},
        {",\"no_rope_layers\":4", "no_rope_layers is no list of 8 layers"},
        {",\"no_rope_layer_interval\":0", "no_rope_layer_interval"},
        {",\"use_sliding_window\":true", "use_sliding_window must be false"},
        {",\"layer_types\":[\"sliding_attention\"]", "layer_types has another one"},
        {",\"mlp_bias\":true", "mlp_bias must be false"},
    };
    char changes[256];
    base_error error;
    rank_model_config config;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        (void)snprintf(changes, sizeof changes,
                       "{\"model_type\":\"smollm3\",\"num_hidden_layers\":8%s}", cases[i].changes);
        assert_ok(configure(changes, &config, &error), &error);
        assert_true(config.settings[LLAMA_UNROTATED] == cases[i].every);
        assert_true(config.settings[LLAMA_THETA] == 2e6);
        assert_true(config.settings[LLAMA_TIED] == 1.0);
    }
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        (void)snprintf(changes, sizeof changes,
                       "{\"model_type\":\"smollm3\",\"num_hidden_layers\":8%s}", refused[i][0]);
        assert_int_not_equal(configure(changes, &config, &error), BASE_OK);
        assert_non_null(strstr(error.message, refused[i][1]));
    }
    assert_ok(configure("{\"model_type\":\"smollm3\",\"sliding_window\":64,"
                        "\"tie_word_embeddings\":false}",
                        &config, &error),
              &error);
    assert_int_equal(config.context, 8192);
    assert_true(config.settings[LLAMA_TIED] == 0.0);
    assert_ok(configure("{\"no_rope_layers\":[0,1]}", &config, &error), &error);
    assert_true(config.settings[LLAMA_UNROTATED] == 0.0);
}

static const char mixtral_members[] =
    "\"model_type\":\"mixtral\",\"num_local_experts\":3,\"num_experts_per_tok\":2";
static const char qwen3_moe_members[] =
    "\"model_type\":\"qwen3_moe\",\"num_experts\":3,\"num_experts_per_tok\":2,"
    "\"moe_intermediate_size\":32";

static base_status configure_with(const char *members, const char *more, rank_model_config *config,
                                  base_error *reterr)
{
    char changes[512];
    (void)snprintf(changes, sizeof changes, "{%s%s}", members, more);
    return configure(changes, config, reterr);
}

/* Gate and up of each expert in turn, then all of down, in the order of the array. */
static void experts_are_tensors_of_their_own(void **state)
{
    static const char *const expected[] = {
        "block_sparse_moe.experts.0.w1", "block_sparse_moe.experts.0.w3",
        "block_sparse_moe.experts.1.w1", "block_sparse_moe.experts.1.w3",
        "block_sparse_moe.experts.2.w1", "block_sparse_moe.experts.2.w3",
        "block_sparse_moe.experts.0.w2", "block_sparse_moe.experts.1.w2",
        "block_sparse_moe.experts.2.w2", "block_sparse_moe.gate"};
    enum { FIRST = 7, TENSORS = 6 + 10 };
    base_error error;
    rank_model_config config;
    (void)state;
    assert_ok(configure_with(mixtral_members, "", &config, &error), &error);
    assert_int_equal(llama_tensor_count(&config), 1 + 2 * TENSORS + 2);
    assert_true(config.settings[LLAMA_NORMED] == 1.0);
    assert_true(config.router_loss == 0.001);
    size_t end = 0;
    for (int i = 0; i < llama_tensor_count(&config); i++) {
        rank_tensor tensor;
        llama_tensor(&config, i, &tensor);
        assert_int_equal(tensor.offset, end);
        end += tensor.count;
        const int in_block = (i - FIRST) % TENSORS;
        if (i >= FIRST && i < 1 + 2 * TENSORS && in_block < 10) {
            assert_non_null(strstr(tensor.name, expected[in_block]));
        }
    }
    assert_int_equal(end, rank_model_param_count(&config));
    assert_ok(configure_with(qwen3_moe_members, "", &config, &error), &error);
    assert_true(config.settings[LLAMA_NORMED] == 0.0);
    assert_true(config.settings[LLAMA_HIDDEN] == 32.0);
    rank_tensor down;
    llama_tensor(&config, FIRST + 8, &down);
    assert_string_equal(down.name, "model.layers.0.mlp.experts.2.down_proj.weight");
    assert_int_equal(down.count, 32 * 44);
    assert_int_equal(down.cut.kind, RANK_CUT_HIDDEN);
}

static void what_experts_cannot_be_is_refused(void **state)
{
    static const struct {
        const char *members;
        const char *more;
        const char *message;
    } cases[] = {
        {qwen3_moe_members, ",\"decoder_sparse_step\":2", "decoder_sparse_step must be 1"},
        {qwen3_moe_members, ",\"mlp_only_layers\":[1]", "mlp_only_layers must be empty"},
        {qwen3_moe_members, ",\"mlp_only_layers\":1", "mlp_only_layers must be empty"},
        {mixtral_members, ",\"router_jitter_noise\":0.1", "router_jitter_noise must be 0"},
        {mixtral_members, ",\"router_jitter_noise\":\"x\"", "router_jitter_noise must be 0"},
        {mixtral_members, ",\"num_experts_per_tok\":4", "the number of experts of a token is 4"},
        {mixtral_members, ",\"num_local_experts\":1000", "the number of experts is 1000"},
        {mixtral_members, ",\"num_local_experts\":512,\"num_hidden_layers\":64",
         "the number of tensors of a model with experts is 98755"},
        {mixtral_members, ",\"router_aux_loss_coef\":-1", "it must be 0"},
        {mixtral_members, ",\"router_aux_loss_coef\":\"x\"", "is no number"},
        {"\"model_type\":\"mixtral\"", "", "num_local_experts"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        base_error error = {.message = ""};
        rank_model_config config;
        assert_int_not_equal(configure_with(cases[i].members, cases[i].more, &config, &error),
                             BASE_OK);
        if (strstr(error.message, cases[i].message) == NULL) {
            fail_msg("not refused with \"%s\", but: %s", cases[i].message, error.message);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_are_read),
        cmocka_unit_test(the_activation_is_silu),
        cmocka_unit_test(what_is_missing_is_as_in_transformers),
        cmocka_unit_test(dynamic_is_default_up_to_the_context),
        cmocka_unit_test(rope_scaling_counts_before_rope_parameters),
        cmocka_unit_test(numbers_without_sense_are_refused),
        cmocka_unit_test(a_context_is_no_longer_than_the_window),
        cmocka_unit_test(qwen2_has_biases_and_no_window),
        cmocka_unit_test(qwen3_has_norms_of_heads),
        cmocka_unit_test(smollm3_has_layers_without_rope),
        cmocka_unit_test(experts_are_tensors_of_their_own),
        cmocka_unit_test(what_experts_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
