/* Gemma 3's config.json: what is read of it, and what is refused. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "model/gemma3/parts.h"
#include "support.h"

/* The shape of the published model of 270M parameters, with some members in place of its own. */
static base_status configure(const char *changes, rank_model_config *config, base_error *reterr)
{
    json_t *object =
        json_loads("{\"model_type\":\"gemma3_text\",\"vocab_size\":262144,\"hidden_size\":640,"
                   "\"intermediate_size\":2048,\"num_hidden_layers\":18,\"num_attention_heads\":4,"
                   "\"num_key_value_heads\":1,\"head_dim\":256,\"max_position_embeddings\":32768,"
                   "\"hidden_activation\":\"gelu_pytorch_tanh\",\"sliding_window\":512,"
                   "\"query_pre_attn_scalar\":256,\"rms_norm_eps\":1e-6,\"rope_theta\":1000000,"
                   "\"rope_local_base_freq\":10000,\"rope_scaling\":null,\"attention_bias\":false,"
                   "\"attn_logit_softcapping\":null,\"final_logit_softcapping\":null,"
                   "\"use_bidirectional_attention\":false,\"torch_dtype\":\"bfloat16\"}",
                   0, NULL);
    json_t *others = json_loads(changes, 0, NULL);
    assert_non_null(object);
    assert_non_null(others);
    assert_int_equal(json_object_update(object, others), 0);
    const base_status status = gemma3_configure(object, config, reterr);
    json_decref(object);
    json_decref(others);
    return status;
}

static void the_smallest_one_is_read(void **state)
{
    base_error error;
    rank_model_config config;
    (void)state;
    assert_ok(configure("{}", &config, &error), &error);
    assert_int_equal(rank_model_param_count(&config), 268098176);
    assert_int_equal(config.context, 32768);
    assert_true(config.settings[GEMMA3_WINDOW] == 512.0);
    assert_true(config.settings[GEMMA3_FULL_EVERY] == 6.0);
    assert_true(config.settings[LLAMA_THETA] == 1e6);
    assert_true(config.settings[GEMMA3_LOCAL_THETA] == 1e4);
    assert_true(config.settings[LLAMA_FACTOR] == 1.0);
    size_t end = 0;
    for (int i = 0; i < llama_tensor_count(&config); i++) {
        rank_tensor tensor;
        llama_tensor(&config, i, &tensor);
        assert_int_equal(tensor.offset, end);
        end += tensor.count;
    }
    assert_int_equal(end, 268098176);
    rank_tensor norm;
    llama_tensor(&config, llama_block_begin(&config, 18) - 1, &norm);
    assert_string_equal(norm.name, "model.layers.17.post_feedforward_layernorm.weight");
    assert_int_equal(norm.cut.kind, RANK_CUT_NONE);
}

/* sqrt(640) is 25.298…, and sqrt(1152) 33.94…: bfloat16 has steps of an eighth and of a quarter there. */
static void the_embeddings_factor_is_rounded_to_the_type(void **state)
{
    static const struct {
        const char *changes;
        float scale;
    } cases[] = {
        {"{}", 25.25f},
        {"{\"hidden_size\":1152}", 34.0f},
        {"{\"dtype\":\"float32\"}", 25.298221f},
        {"{\"torch_dtype\":null}", 25.298221f},
        {"{\"dtype\":\"float16\"}", 25.296875f},
        {"{\"dtype\":\"bfloat16\",\"torch_dtype\":\"float32\"}", 25.25f},
    };
    base_error error;
    rank_model_config config;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_ok(configure(cases[i].changes, &config, &error), &error);
        assert_true(gemma3_embed_scale(&config) == cases[i].scale);
    }
    assert_status(configure("{\"dtype\":\"float64\"}", &config, &error), BASE_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "dtype is none of float32, bfloat16, float16"));
}

/* Newer files name each layer's type, and the ropes by it. */
static void layers_and_ropes_have_older_and_newer_names(void **state)
{
    static const struct {
        const char *changes;
        double full_every;
        double theta;
        double factor;
        double local_theta;
    } cases[] = {
        {"{\"sliding_window_pattern\":3}", 3, 1e6, 1, 1e4},
        {"{\"_sliding_window_pattern\":19}", 0, 1e6, 1, 1e4},
        {"{\"num_hidden_layers\":3,\"layer_types\":[\"sliding_attention\",\"full_attention\","
         "\"sliding_attention\"]}",
         2, 1e6, 1, 1e4},
        {"{\"num_hidden_layers\":2,\"layer_types\":[\"sliding_attention\",\"sliding_attention\"]}",
         0, 1e6, 1, 1e4},
        {"{\"num_hidden_layers\":2,\"layer_types\":[\"full_attention\",\"full_attention\"]}", 1,
         1e6, 1, 1e4},
        {"{\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":8},\"rope_local_base_freq\":500}",
         6, 1e6, 8, 500},
        {"{\"rope_theta\":7,\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"linear\","
         "\"factor\":4,\"rope_theta\":900},\"sliding_attention\":{\"rope_type\":\"default\","
         "\"rope_theta\":300}}}",
         6, 900, 4, 300},
        {"{\"rope_theta\":7,\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"default\"}}}",
         6, 7, 1, 1e4},
    };
    base_error error;
    rank_model_config config;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_ok(configure(cases[i].changes, &config, &error), &error);
        assert_true(config.settings[GEMMA3_FULL_EVERY] == cases[i].full_every);
        assert_true(config.settings[LLAMA_THETA] == cases[i].theta);
        assert_true(config.settings[LLAMA_FACTOR] == cases[i].factor);
        assert_true(config.settings[GEMMA3_LOCAL_THETA] == cases[i].local_theta);
    }
}

static void what_it_cannot_be_is_refused(void **state)
{
    static const char *const refused[][2] = {
        {"{\"attn_logit_softcapping\":50.0}", "attn_logit_softcapping must be null"},
        {"{\"final_logit_softcapping\":30.0}", "final_logit_softcapping must be null"},
        {"{\"use_bidirectional_attention\":true}", "use_bidirectional_attention must be false"},
        {"{\"attention_bias\":true}", "attention_bias must be false"},
        {"{\"tie_word_embeddings\":false}", "tie_word_embeddings must be true"},
        {"{\"hidden_activation\":\"silu\"}", "hidden_activation must be \"gelu_pytorch_tanh\""},
        {"{\"hidden_activation\":5}", "hidden_activation must be \"gelu_pytorch_tanh\""},
        {"{\"quantization_config\":{}}", "the model is quantised"},
        {"{\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":8}}", "rope_type \"yarn\" is none"},
        {"{\"rope_scaling\":{\"rope_type\":\"linear\"}}", "factor is missing"},
        {"{\"rope_scaling\":{\"factor\":8}}", "a factor of rope without a rope_type"},
        {"{\"rope_parameters\":{\"sliding_attention\":{\"rope_type\":\"linear\",\"factor\":2}}}",
         "rope_parameters of sliding_attention must have no factor"},
        {"{\"layer_types\":[\"full_attention\"]}", "layer_types is no list of 18 layers"},
        {"{\"num_hidden_layers\":1,\"layer_types\":[\"chunked_attention\"]}",
         "layer 0 has neither full_attention nor sliding_attention"},
        {"{\"num_hidden_layers\":3,\"layer_types\":[\"sliding_attention\",\"full_attention\","
         "\"full_attention\"]}",
         "the layers with full_attention are not every N-th one"},
        {"{\"num_attention_heads\":4,\"num_key_value_heads\":3}",
         "4 heads are not a multiple of 3"},
        {"{\"head_dim\":514}", "heads of 514 elements"},
        {"{\"sliding_window\":0}", "sliding_window is missing or no positive integer"},
        {"{\"rope_theta\":0.5}", "rope_theta is 0.5"},
        {"{\"rope_local_base_freq\":0.5}", "rope_local_base_freq is 0.5"},
        {"{\"query_pre_attn_scalar\":1e9}", "query_pre_attn_scalar is 1e+09"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        base_error error = {.message = ""};
        rank_model_config config = {.width = 0};
        assert_int_not_equal(configure(refused[i][0], &config, &error), BASE_OK);
        assert_int_equal(config.width, 0);
        if (strstr(error.message, refused[i][1]) == NULL) {
            fail_msg("not refused with \"%s\", but: %s", refused[i][1], error.message);
        }
        assert_null(strstr(error.message, "\" or \"")); /* each key has one value */
    }
}

static void what_is_written_is_read_again(void **state)
{
    base_error error;
    rank_model_config config;
    rank_model_config again;
    (void)state;
    assert_ok(
        configure("{\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":8}}", &config, &error),
        &error);
    json_t *written = gemma3_describe(&config);
    assert_non_null(written);
    /* transformers takes no other number */
    assert_true(json_is_integer(json_object_get(written, "query_pre_attn_scalar")));
    assert_ok(gemma3_configure(written, &again, &error), &error);
    assert_memory_equal(config.settings, again.settings, sizeof config.settings);
    assert_int_equal(config.heads, again.heads);
    assert_true(json_is_integer(json_object_get(written, "query_pre_attn_scalar")));
    json_decref(written);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_smallest_one_is_read),
        cmocka_unit_test(the_embeddings_factor_is_rounded_to_the_type),
        cmocka_unit_test(layers_and_ropes_have_older_and_newer_names),
        cmocka_unit_test(what_it_cannot_be_is_refused),
        cmocka_unit_test(what_is_written_is_read_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
