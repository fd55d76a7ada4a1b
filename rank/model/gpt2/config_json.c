/* GPT-2's config.json, read and written. Called by rank/checkpoint through the family's table. */
#include <jansson.h>
#include <math.h>

#include "model/config_read.h"
#include "model/gpt2/parts.h"

static const double NORM_EPSILON = 1e-5;

json_t *gpt2_describe(const rank_model_config *config)
{
    return json_pack(
        "{s:[s], s:s, s:s, s:b, s:i, s:i, s:i, s:i, s:i, s:n, s:i, s:s, s:f, s:f, s:f, s:f, s:f, "
        "s:b, s:b}",
        "architectures", "GPT2LMHeadModel", "model_type", "gpt2", "dtype", "float32",
        "tie_word_embeddings", 1, "n_embd", config->width, "n_layer", config->layers, "n_head",
        config->heads, "n_positions", config->context, "n_ctx", config->context, "n_inner",
        "vocab_size", config->vocab_size, "activation_function", "gelu_new", "layer_norm_epsilon",
        NORM_EPSILON, "initializer_range", 0.02, "attn_pdrop", 0.0, "embd_pdrop", config->dropout,
        "resid_pdrop", config->dropout, "scale_attn_weights", 1, "use_cache", 1);
}

/* Checks settings that our model has no switch for. They must be as our model is. */
static base_status check_fixed(const json_t *object, int width, base_error *reterr)
{
    const json_t *inner = json_object_get(object, "n_inner");
    const json_t *epsilon = json_object_get(object, "layer_norm_epsilon");
    const base_status status =
        rank_config_either(object, "activation_function", "gelu_new", "gelu_pytorch_tanh", reterr);
    if (status != BASE_OK) {
        return status;
    }
    if (rank_config_given(inner) && json_integer_value(inner) != 4 * (json_int_t)width) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED, "n_inner must be null or 4 x n_embd");
    }
    if (epsilon != NULL && !(fabs(json_number_value(epsilon) - NORM_EPSILON) < 1e-12)) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED, "layer_norm_epsilon must be 1e-5");
    }
    if (json_is_false(json_object_get(object, "tie_word_embeddings"))) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED, "tie_word_embeddings must be true");
    }
    if (json_is_false(json_object_get(object, "scale_attn_weights")) ||
        json_is_true(json_object_get(object, "scale_attn_by_inverse_layer_idx"))) {
        return base_fail(
            reterr, BASE_ERR_UNSUPPORTED,
            "scale_attn_weights must be true, and scale_attn_by_inverse_layer_idx false");
    }
    return BASE_OK;
}

base_status gpt2_configure(const json_t *object, rank_model_config *config, base_error *reterr)
{
    rank_model_config read = {.family = &rank_gpt2};
    const struct {
        const char *key;
        int *value;
    } fields[] = {
        {"vocab_size", &read.vocab_size}, {"n_embd", &read.width},        {"n_layer", &read.layers},
        {"n_head", &read.heads},          {"n_positions", &read.context},
    };
    base_status status = BASE_OK;
    for (size_t i = 0; status == BASE_OK && i < sizeof fields / sizeof fields[0]; i++) {
        status = rank_config_int(object, fields[i].key, fields[i].value, reterr);
    }
    if (status == BASE_OK) {
        status = check_fixed(object, read.width, reterr);
    }
    if (status == BASE_OK) {
        status = gpt2_check(&read, reterr);
    }
    if (status == BASE_OK) {
        *config = read;
    }
    return status;
}
