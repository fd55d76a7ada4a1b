/* Gemma 3's config.json, read and written. Called by rank/checkpoint through the family's table. */
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "model/config_read.h"
#include "model/gemma3/parts.h"

static const char FULL[] = "full_attention";
static const char SLIDING[] = "sliding_attention";

/* What transformers has where a file says nothing. */
enum {
    KV_HEADS = 4,
    HEAD_WIDTH = 256,
    WINDOW = 4096,
    PATTERN = 6,
    QUERY_SCALAR = 256,
};
static const double EPSILON = 1e-6;
static const double THETA = 1e6;
static const double LOCAL_THETA = 1e4;

static const char *const dtypes[GEMMA3_DTYPES] = {
    [GEMMA3_FLOAT32] = "float32", [GEMMA3_BFLOAT16] = "bfloat16", [GEMMA3_FLOAT16] = "float16"};

/* A whole one as an integer, which transformers asks for. */
static json_t *describe_number(double number)
{
    return number == floor(number) ? json_integer((json_int_t)number) : json_real(number);
}

json_t *gemma3_describe(const rank_model_config *config)
{
    const double *of = config->settings;
    json_t *types = json_array();
    for (int layer = 0; types != NULL && layer < config->layers; layer++) {
        const int every = (int)of[GEMMA3_FULL_EVERY];
        const bool full = every > 0 && (layer + 1) % every == 0;
        if (json_array_append_new(types, json_string(full ? FULL : SLIDING)) != 0) {
            json_decref(types);
            types = NULL;
        }
    }
    return json_pack(
        "{s:[s], s:s, s:s, s:s, s:b, s:o, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:o, "
        "s:f, s:f, s:{s:s, s:f}, s:f}",
        "architectures", "Gemma3ForCausalLM", "model_type", "gemma3_text", "dtype",
        dtypes[(gemma3_dtype)of[GEMMA3_DTYPE]], "hidden_activation", "gelu_pytorch_tanh",
        "tie_word_embeddings", 1, "layer_types", types, "hidden_size", config->width,
        "intermediate_size", (int)of[LLAMA_HIDDEN], "num_hidden_layers", config->layers,
        "num_attention_heads", config->heads, "num_key_value_heads", (int)of[LLAMA_KV_HEADS],
        "head_dim", (int)of[LLAMA_HEAD_WIDTH], "max_position_embeddings", config->context,
        "vocab_size", config->vocab_size, "sliding_window", (int)of[GEMMA3_WINDOW], "rms_norm_eps",
        of[LLAMA_EPSILON], "query_pre_attn_scalar", describe_number(of[GEMMA3_QUERY_SCALAR]),
        "rope_theta", of[LLAMA_THETA], "rope_local_base_freq", of[GEMMA3_LOCAL_THETA],
        "rope_scaling", "rope_type", "linear", "factor", of[LLAMA_FACTOR], "initializer_range",
        0.02);
}

/* Members whose default in transformers is what our model is, and that must not say otherwise. */
static base_status check_fixed(const json_t *object, base_error *reterr)
{
    static const char *const off[] = {"attention_bias", "use_bidirectional_attention"};
    static const char *const caps[] = {"attn_logit_softcapping", "final_logit_softcapping"};
    const json_t *tied = json_object_get(object, "tie_word_embeddings");
    base_status status = rank_config_want(object, "hidden_activation", "gelu_pytorch_tanh", reterr);
    for (size_t i = 0; status == BASE_OK && i < sizeof off / sizeof *off; i++) {
        if (json_is_true(json_object_get(object, off[i]))) {
            status = base_fail(reterr, BASE_ERR_UNSUPPORTED, "%s must be false", off[i]);
        }
    }
    for (size_t i = 0; status == BASE_OK && i < sizeof caps / sizeof *caps; i++) {
        if (rank_config_given(json_object_get(object, caps[i]))) {
            status = base_fail(reterr, BASE_ERR_UNSUPPORTED, "%s must be null", caps[i]);
        }
    }
    if (status == BASE_OK && tied != NULL && !json_is_true(tied)) {
        status = base_fail(reterr, BASE_ERR_UNSUPPORTED, "tie_word_embeddings must be true");
    }
    if (status == BASE_OK && json_is_object(json_object_get(object, "quantization_config"))) {
        status =
            base_fail(reterr, BASE_ERR_UNSUPPORTED, "quantization_config: the model is quantised");
    }
    return status;
}

static base_status read_shape(const json_t *object, rank_model_config *read, base_error *reterr)
{
    double *of = read->settings;
    int hidden = 0;
    const struct {
        const char *key;
        int *value;
    } needed[] = {
        {"vocab_size", &read->vocab_size},     {"hidden_size", &read->width},
        {"intermediate_size", &hidden},        {"num_hidden_layers", &read->layers},
        {"num_attention_heads", &read->heads}, {"max_position_embeddings", &read->context},
    };
    const struct {
        const char *key;
        int otherwise;
        double *value;
    } others[] = {
        {"num_key_value_heads", KV_HEADS, &of[LLAMA_KV_HEADS]},
        {"head_dim", HEAD_WIDTH, &of[LLAMA_HEAD_WIDTH]},
        {"sliding_window", WINDOW, &of[GEMMA3_WINDOW]},
    };
    base_status status = BASE_OK;
    for (size_t i = 0; status == BASE_OK && i < sizeof needed / sizeof *needed; i++) {
        status = rank_config_int(object, needed[i].key, needed[i].value, reterr);
    }
    for (size_t i = 0; status == BASE_OK && i < sizeof others / sizeof *others; i++) {
        status = rank_config_optional(object, others[i].key, others[i].otherwise, others[i].value,
                                      reterr);
    }
    of[LLAMA_HIDDEN] = hidden;
    return status;
}

/* Which layers see all tokens: each N-th, by a list of all layers, or by N. */
static base_status read_layers(const json_t *object, rank_model_config *read, base_error *reterr)
{
    const json_t *types = json_object_get(object, "layer_types");
    int every = 0;
    if (!rank_config_given(types)) {
        const char *key = json_object_get(object, "sliding_window_pattern") != NULL
                              ? "sliding_window_pattern"
                              : "_sliding_window_pattern";
        double *to = &read->settings[GEMMA3_FULL_EVERY];
        const base_status status = rank_config_optional(object, key, PATTERN, to, reterr);
        *to = *to > read->layers ? 0.0 : *to;
        return status;
    }
    if (json_array_size(types) != (size_t)read->layers) {
        return base_fail(reterr, BASE_ERR_INVALID, "layer_types is no list of %d layers",
                         read->layers);
    }
    for (int i = 0; i < read->layers; i++) {
        const char *type = json_string_value(json_array_get(types, (size_t)i));
        const bool full = type != NULL && strcmp(type, FULL) == 0;
        if (!full && (type == NULL || strcmp(type, SLIDING) != 0)) {
            return base_fail(reterr, BASE_ERR_UNSUPPORTED,
                             "layer_types: layer %d has neither full_attention nor "
                             "sliding_attention",
                             i);
        }
        every = every == 0 && full ? i + 1 : every;
        if (full != (every > 0 && (i + 1) % every == 0)) {
            return base_fail(reterr, BASE_ERR_UNSUPPORTED,
                             "layer_types: the layers with full_attention are not every N-th one");
        }
    }
    read->settings[GEMMA3_FULL_EVERY] = every;
    return BASE_OK;
}

/* What scales the frequencies of a rope: nothing, or a factor. */
static base_status read_factor(const json_t *rope, double *factor, base_error *reterr)
{
    const json_t *type = json_object_get(rope, "rope_type");
    const char *name = json_string_value(type != NULL ? type : json_object_get(rope, "type"));
    *factor = 1.0;
    if (name == NULL || strcmp(name, "default") == 0) {
        return name != NULL || json_object_get(rope, "factor") == NULL
                   ? BASE_OK
                   : base_fail(reterr, BASE_ERR_INVALID, "a factor of rope without a rope_type");
    }
    if (strcmp(name, "linear") != 0) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED,
                         "rope_type \"%s\" is none of default and linear", name);
    }
    *factor = 0.0; /* it must be there */
    return rank_config_number(rope, "factor", factor, reterr);
}

/* rope_parameters of each type of layers, as newer files have them; or rope_theta, rope_scaling and
 * rope_local_base_freq. If a file has both, rope_scaling counts, as in transformers. */
static base_status read_rope(const json_t *object, rank_model_config *read, base_error *reterr)
{
    static const char KEY[] = "rope_theta";
    const json_t *parameters = json_object_get(object, "rope_parameters");
    const json_t *full = json_object_get(parameters, FULL);
    const json_t *sliding = json_object_get(parameters, SLIDING);
    const json_t *scaling = json_object_get(object, "rope_scaling");
    const bool own = json_object_get(sliding, KEY) != NULL;
    double *of = read->settings;
    double local_factor = 1.0;
    of[LLAMA_THETA] = THETA;
    of[GEMMA3_LOCAL_THETA] = LOCAL_THETA;
    base_status status = rank_config_number(json_object_get(full, KEY) != NULL ? full : object, KEY,
                                            &of[LLAMA_THETA], reterr);
    if (status == BASE_OK) {
        status = rank_config_number(own ? sliding : object, own ? KEY : "rope_local_base_freq",
                                    &of[GEMMA3_LOCAL_THETA], reterr);
    }
    if (status == BASE_OK) {
        status =
            read_factor(json_object_size(scaling) > 0 ? scaling : full, &of[LLAMA_FACTOR], reterr);
    }
    if (status == BASE_OK) {
        status = read_factor(sliding, &local_factor, reterr);
    }
    return status != BASE_OK || local_factor == 1.0
               ? status
               : base_fail(reterr, BASE_ERR_UNSUPPORTED,
                           "rope_parameters of sliding_attention must have no factor");
}

/* Older files call it torch_dtype. Where nothing is said the numbers are float32. */
static base_status read_dtype(const json_t *object, rank_model_config *read, base_error *reterr)
{
    const json_t *newer = json_object_get(object, "dtype");
    const json_t *dtype = rank_config_given(newer) ? newer : json_object_get(object, "torch_dtype");
    const char *name = json_string_value(dtype);
    if (!rank_config_given(dtype)) {
        return BASE_OK;
    }
    for (int i = 0; name != NULL && i < GEMMA3_DTYPES; i++) {
        if (strcmp(name, dtypes[i]) == 0) {
            read->settings[GEMMA3_DTYPE] = i;
            return BASE_OK;
        }
    }
    return base_fail(reterr, BASE_ERR_UNSUPPORTED, "dtype is none of float32, bfloat16, float16");
}

base_status gemma3_configure(const json_t *object, rank_model_config *config, base_error *reterr)
{
    static base_status (*const steps[])(const json_t *, rank_model_config *, base_error *) = {
        read_shape, read_layers, read_rope, read_dtype};
    rank_model_config read = {.family = &rank_gemma3,
                              .settings = {[LLAMA_EPSILON] = EPSILON,
                                           [LLAMA_TIED] = 1,
                                           [LLAMA_HEAD_NORMS] = 1,
                                           [LLAMA_GEMMA3] = 1,
                                           [GEMMA3_QUERY_SCALAR] = QUERY_SCALAR}};
    base_status status = check_fixed(object, reterr);
    for (size_t i = 0; status == BASE_OK && i < sizeof steps / sizeof *steps; i++) {
        status = steps[i](object, &read, reterr);
    }
    if (status == BASE_OK) {
        status = rank_config_number(object, "rms_norm_eps", &read.settings[LLAMA_EPSILON], reterr);
    }
    if (status == BASE_OK) {
        status = rank_config_number(object, "query_pre_attn_scalar",
                                    &read.settings[GEMMA3_QUERY_SCALAR], reterr);
    }
    if (status == BASE_OK) {
        status = gemma3_check(&read, reterr);
    }
    if (status == BASE_OK) {
        *config = read;
    }
    return status;
}
