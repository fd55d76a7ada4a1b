/* Llama's config.json, read and written. Called by rank/checkpoint through the family's table. */
#include <jansson.h>
#include <string.h>

#include "model/config_read.h"
#include "model/llama/parts.h"

static const char QWEN2[] = "qwen2";
static const char QWEN3[] = "qwen3";
static const char QWEN3_MOE[] = "qwen3_moe";
static const char MIXTRAL[] = "mixtral";
static const char SMOLLM3[] = "smollm3";
static const char PHI3[] = "phi3";

enum {
    MISTRAL_WINDOW = 4096,
    QWEN3_HEAD_WIDTH = 128, /* of a configuration that says nothing, as in transformers */
    SMOLLM3_UNROTATED = 4,  /* the same */
};
static const double ROUTER_LOSS = 0.001; /* the same */

/* The kinds of Llama that are written. */
typedef struct kind {
    const char *model_type;
    const char *architecture;
} kind;

static kind kind_of(const rank_model_config *config)
{
    const bool experts = config->settings[LLAMA_EXPERTS] != 0.0;
    if (config->settings[LLAMA_HEAD_NORMS] != 0.0) {
        return experts ? (kind){QWEN3_MOE, "Qwen3MoeForCausalLM"}
                       : (kind){QWEN3, "Qwen3ForCausalLM"};
    }
    if (experts) {
        return (kind){MIXTRAL, "MixtralForCausalLM"};
    }
    if (config->settings[LLAMA_UNROTATED] != 0.0) {
        return (kind){SMOLLM3, "SmolLM3ForCausalLM"};
    }
    if (config->settings[LLAMA_PHI3] != 0.0) {
        return (kind){PHI3, "Phi3ForCausalLM"};
    }
    return config->settings[LLAMA_BIASED] != 0.0 ? (kind){QWEN2, "Qwen2ForCausalLM"}
                                                 : (kind){"llama", "LlamaForCausalLM"};
}

/* Switches of the kind that are off in our model. */
static json_t *describe_off(const char *model_type)
{
    if (model_type == QWEN2) {
        return json_pack("{s:b}", "use_sliding_window", 0);
    }
    if (model_type == MIXTRAL || model_type == PHI3) {
        return json_object();
    }
    const bool qwen3 = model_type == QWEN3 || model_type == QWEN3_MOE;
    const char *other = qwen3 ? "use_sliding_window" : "mlp_bias";
    return json_pack("{s:b, s:b}", "attention_bias", 0, other, 0);
}

/* What a model with experts has beside what others have. */
static json_t *describe_experts(const rank_model_config *config, const char *model_type)
{
    const double *of = config->settings;
    const int experts = (int)of[LLAMA_EXPERTS];
    const int chosen = (int)of[LLAMA_CHOSEN];
    if (experts == 0) {
        return json_object();
    }
    if (model_type == MIXTRAL) {
        return json_pack("{s:i, s:i, s:f, s:f}", "num_local_experts", experts,
                         "num_experts_per_tok", chosen, "router_aux_loss_coef", config->router_loss,
                         "router_jitter_noise", 0.0);
    }
    return json_pack("{s:i, s:i, s:f, s:i, s:b, s:i, s:[]}", "num_experts", experts,
                     "num_experts_per_tok", chosen, "router_aux_loss_coef", config->router_loss,
                     "moe_intermediate_size", (int)of[LLAMA_HIDDEN], "norm_topk_prob",
                     of[LLAMA_NORMED] != 0.0, "decoder_sparse_step", 1, "mlp_only_layers");
}

/* Of a model some of whose layers have no rope, and of a Phi-3. Without pad_token_id it would be one of SmolLM3's, or
 * Phi-3's, own. */
static json_t *describe_unrotated(const rank_model_config *config)
{
    const int interval = (int)config->settings[LLAMA_UNROTATED];
    if (interval > 0) {
        return json_pack("{s:i, s:n}", "no_rope_layer_interval", interval, "pad_token_id");
    }
    return config->settings[LLAMA_PHI3] != 0.0 ? json_pack("{s:n}", "pad_token_id") : json_object();
}

static json_t *describe_shape(const rank_model_config *config)
{
    const double *of = config->settings;
    return json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:f}", "hidden_size", config->width,
                     "intermediate_size", (int)of[LLAMA_HIDDEN], "num_hidden_layers",
                     config->layers, "num_attention_heads", config->heads, "num_key_value_heads",
                     (int)of[LLAMA_KV_HEADS], "head_dim", (int)of[LLAMA_HEAD_WIDTH],
                     "max_position_embeddings", config->context, "vocab_size", config->vocab_size,
                     "rms_norm_eps", of[LLAMA_EPSILON]);
}

json_t *llama_describe(const rank_model_config *config)
{
    const kind is = kind_of(config);
    json_t *object = json_pack("{s:[s], s:s, s:s, s:s, s:b}", "architectures", is.architecture,
                               "model_type", is.model_type, "dtype", "float32", "hidden_act",
                               "silu", "tie_word_embeddings", config->settings[LLAMA_TIED] != 0.0);
    json_t *parts[] = {
        describe_off(is.model_type), describe_experts(config, is.model_type),
        describe_unrotated(config),  describe_shape(config),
        llama_describe_rope(config), json_pack("{s:f}", "initializer_range", 0.02),
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (object != NULL && json_object_update(object, parts[i]) != 0) {
            json_decref(object);
            object = NULL;
        }
        json_decref(parts[i]);
    }
    return object;
}

static bool is_type(const json_t *object, const char *wanted)
{
    const char *type = json_string_value(json_object_get(object, "model_type"));
    return type != NULL && strcmp(type, wanted) == 0;
}

/* The files of Qwen2, Qwen3 and SmolLM3 have a switch for the window, and newer ones say of each layer
 * which attention it has. */
static bool has_window_switch(const json_t *object)
{
    return is_type(object, QWEN2) || is_type(object, QWEN3) || is_type(object, QWEN3_MOE) ||
           is_type(object, SMOLLM3);
}

/* Tokens that attention looks back at; `context`: at all. A configuration of Mistral that says
 * nothing has transformers' default. Without its switch, where a model has one, a window is not used. */
static json_int_t read_window(const json_t *object, int context)
{
    const json_t *window = json_object_get(object, "sliding_window");
    if (window == NULL && is_type(object, "mistral")) {
        return MISTRAL_WINDOW;
    }
    if (has_window_switch(object)) {
        return context;
    }
    return json_is_integer(window) ? json_integer_value(window) : context;
}

/* A text no longer than the window is one without a window. So the model's context is the shorter of
 * the two. */
static base_status cut_context(const json_t *object, rank_model_config *read, base_error *reterr)
{
    const json_int_t window = read_window(object, read->context);
    if (window < 1) {
        return base_fail(reterr, BASE_ERR_INVALID, "sliding_window is not positive");
    }
    read->context = window < read->context ? (int)window : read->context;
    return BASE_OK;
}

static bool is_full(const json_t *object)
{
    size_t layer = 0;
    json_t *type = NULL;
    json_array_foreach(json_object_get(object, "layer_types"), layer, type)
    {
        if (!json_is_string(type) || strcmp(json_string_value(type), "full_attention") != 0) {
            return false;
        }
    }
    return true;
}

/* Checks settings that our model has no switch for. They must be as our model is. */
static base_status check_fixed(const json_t *object, base_error *reterr)
{
    static const char *const off[] = {"attention_bias", "mlp_bias", "use_sliding_window", NULL};
    base_status status = rank_config_either(object, "hidden_act", "silu", "swish", reterr);
    for (const char *const *key = off; status == BASE_OK && *key != NULL; key++) {
        if (json_is_true(json_object_get(object, *key))) {
            status = base_fail(reterr, BASE_ERR_UNSUPPORTED, "%s must be false", *key);
        }
    }
    if (status == BASE_OK && has_window_switch(object) && !is_full(object)) {
        status = base_fail(reterr, BASE_ERR_UNSUPPORTED,
                           "layer_types has another one than full_attention");
    }
    if (status == BASE_OK && json_is_object(json_object_get(object, "quantization_config"))) {
        status =
            base_fail(reterr, BASE_ERR_UNSUPPORTED, "quantization_config: the model is quantised");
    }
    return status;
}

static base_status read_shape(const json_t *object, rank_model_config *read, base_error *reterr)
{
    int hidden = 0;
    const char *hidden_key =
        is_type(object, QWEN3_MOE) ? "moe_intermediate_size" : "intermediate_size";
    const struct {
        const char *key;
        int *value;
    } fields[] = {
        {"vocab_size", &read->vocab_size},
        {"hidden_size", &read->width},
        {hidden_key, &hidden},
        {"num_hidden_layers", &read->layers},
        {"num_attention_heads", &read->heads},
        {"max_position_embeddings", &read->context},
    };
    base_status status = BASE_OK;
    for (size_t i = 0; status == BASE_OK && i < sizeof fields / sizeof fields[0]; i++) {
        status = rank_config_int(object, fields[i].key, fields[i].value, reterr);
    }
    if (status == BASE_OK) {
        read->settings[LLAMA_HIDDEN] = hidden;
        status = rank_config_optional(object, "num_key_value_heads", read->heads,
                                      &read->settings[LLAMA_KV_HEADS], reterr);
    }
    if (status == BASE_OK) {
        const int otherwise = is_type(object, QWEN3) ? QWEN3_HEAD_WIDTH : read->width / read->heads;
        status = rank_config_optional(object, "head_dim", otherwise,
                                      &read->settings[LLAMA_HEAD_WIDTH], reterr);
    }
    return status;
}

/* N, if layers N-1, 2N-1 … are those of which `layers` says 0; 0, if it says that of none. */
static base_status find_interval(const json_t *layers, int count, int *interval, base_error *reterr)
{
    *interval = 0;
    if (json_array_size(layers) != (size_t)count) {
        return base_fail(reterr, BASE_ERR_INVALID, "no_rope_layers is no list of %d layers", count);
    }
    for (int i = 0; i < count; i++) {
        const json_t *layer = json_array_get(layers, (size_t)i);
        const bool rotated = json_is_true(layer) || json_integer_value(layer) == 1;
        const bool says = json_is_boolean(layer) || json_is_integer(layer);
        if (!says || (!rotated && json_integer_value(layer) != 0)) {
            return base_fail(reterr, BASE_ERR_INVALID,
                             "no_rope_layers: layer %d is neither 0 nor 1", i);
        }
        *interval = *interval == 0 && !rotated ? i + 1 : *interval;
        if (rotated == (*interval > 0 && (i + 1) % *interval == 0)) {
            return base_fail(reterr, BASE_ERR_UNSUPPORTED,
                             "no_rope_layers: the layers without rope are not every N-th one");
        }
    }
    return BASE_OK;
}

/* SmolLM3's layers without rope. */
static base_status read_unrotated(const json_t *object, rank_model_config *read, base_error *reterr)
{
    const json_t *layers = json_object_get(object, "no_rope_layers");
    double *of = &read->settings[LLAMA_UNROTATED];
    if (rank_config_given(layers)) {
        int interval = 0;
        const base_status status = find_interval(layers, read->layers, &interval, reterr);
        *of = interval;
        return status;
    }
    const base_status status =
        rank_config_optional(object, "no_rope_layer_interval", SMOLLM3_UNROTATED, of, reterr);
    *of = *of > read->layers ? 0.0 : *of;
    return status;
}

/* Every block has experts, and nothing disturbs the router. */
static base_status check_sparse(const json_t *object, base_error *reterr)
{
    const json_t *step = json_object_get(object, "decoder_sparse_step");
    const json_t *layers = json_object_get(object, "mlp_only_layers");
    const json_t *noise = json_object_get(object, "router_jitter_noise");
    if (step != NULL && json_integer_value(step) != 1) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED, "decoder_sparse_step must be 1");
    }
    if (rank_config_given(layers) && (!json_is_array(layers) || json_array_size(layers) > 0)) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED, "mlp_only_layers must be empty");
    }
    if (rank_config_given(noise) && (!json_is_number(noise) || json_number_value(noise) != 0.0)) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED, "router_jitter_noise must be 0");
    }
    return BASE_OK;
}

/* Newer files call the experts of a Qwen3 as those of Mixtral. */
static base_status read_experts(const json_t *object, rank_model_config *read, base_error *reterr)
{
    static const char LOSS[] = "router_aux_loss_coef";
    static const char LOCAL[] = "num_local_experts";
    const json_t *loss = json_object_get(object, LOSS);
    int experts = 0;
    int chosen = 0;
    base_status status = check_sparse(object, reterr);
    if (status == BASE_OK) {
        const bool local = is_type(object, MIXTRAL) || json_object_get(object, LOCAL) != NULL;
        status = rank_config_int(object, local ? LOCAL : "num_experts", &experts, reterr);
    }
    if (status == BASE_OK) {
        status = rank_config_int(object, "num_experts_per_tok", &chosen, reterr);
    }
    if (status == BASE_OK && loss != NULL && !json_is_number(loss)) {
        status = base_fail(reterr, BASE_ERR_INVALID, "%s is no number", LOSS);
    }
    double *of = read->settings;
    of[LLAMA_EXPERTS] = experts;
    of[LLAMA_CHOSEN] = chosen;
    of[LLAMA_NORMED] =
        is_type(object, MIXTRAL) || json_is_true(json_object_get(object, "norm_topk_prob"));
    read->router_loss = loss != NULL ? json_number_value(loss) : ROUTER_LOSS;
    return status;
}

base_status llama_configure(const json_t *object, rank_model_config *config, base_error *reterr)
{
    rank_model_config read = {.family = &rank_llama};
    base_status status = read_shape(object, &read, reterr);
    if (status == BASE_OK) {
        status = cut_context(object, &read, reterr);
    }
    if (status == BASE_OK) {
        status = check_fixed(object, reterr);
    }
    if (status == BASE_OK) {
        read.settings[LLAMA_BIASED] = is_type(object, QWEN2);
        read.settings[LLAMA_PHI3] = is_type(object, PHI3);
        read.settings[LLAMA_HEAD_NORMS] = is_type(object, QWEN3) || is_type(object, QWEN3_MOE);
        const json_t *tied = json_object_get(object, "tie_word_embeddings");
        read.settings[LLAMA_TIED] = tied != NULL ? json_is_true(tied) : is_type(object, SMOLLM3);
        read.settings[LLAMA_EPSILON] =
            is_type(object, MIXTRAL) || is_type(object, PHI3) ? 1e-5 : 1e-6;
        status = rank_config_number(object, "rms_norm_eps", &read.settings[LLAMA_EPSILON], reterr);
    }
    if (status == BASE_OK) {
        read.settings[LLAMA_THETA] = is_type(object, MIXTRAL)   ? 1e6
                                     : is_type(object, SMOLLM3) ? 2e6
                                                                : 1e4;
        status = llama_read_rope(object, &read, reterr);
    }
    if (status == BASE_OK && is_type(object, SMOLLM3)) {
        status = read_unrotated(object, &read, reterr);
    }
    if (status == BASE_OK && (is_type(object, MIXTRAL) || is_type(object, QWEN3_MOE))) {
        status = read_experts(object, &read, reterr);
    }
    if (status == BASE_OK) {
        status = llama_check(&read, reterr);
    }
    if (status == BASE_OK) {
        *config = read;
    }
    return status;
}
