/* Reads a checkpoint's shape for a plan; rank/model/<family>/config_json.c reads the same keys. Called
 * by plan_options.c. */
#include "cli/plan_checkpoint.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/checkpoint_shape.h"

/* Positive, as rank/model/config_read.c has it; `otherwise` if it is missing or null, where that is not 0. */
static base_status read_integer(const json_t *config, const char *key, int64_t otherwise,
                                int64_t *value, base_error *reterr)
{
    const json_t *entry = json_object_get(config, key);
    const bool missing = entry == NULL || json_is_null(entry);
    *value = missing ? otherwise : json_integer_value(entry);
    return *value > 0 ? BASE_OK
                      : base_fail(reterr, BASE_ERR_INVALID,
                                  "\"%s\" is missing or no positive integer", key);
}

/* If the file does not say. */
enum {
    QWEN3_HEAD_WIDTH = 128,
    GEMMA3_KV_HEADS = 4,
    GEMMA3_HEAD_WIDTH = 256,
    GEMMA3_WINDOW = 4096,
    GEMMA3_PATTERN = 6,
};

/* Every block has them. Newer files call those of a Qwen3 as those of a Mixtral. */
static base_status read_experts(const json_t *config, bool mixtral, launch_model *model,
                                base_error *reterr)
{
    static const char local[] = "num_local_experts";
    int64_t step = 1;
    base_status status = read_integer(config, "decoder_sparse_step", 1, &step, reterr);
    if (status == BASE_OK && step != 1) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED, "decoder_sparse_step must be 1");
    }
    const json_t *dense = json_object_get(config, "mlp_only_layers");
    if (dense != NULL && !json_is_null(dense) &&
        (!json_is_array(dense) || json_array_size(dense) > 0)) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED, "mlp_only_layers must be empty");
    }
    if (status == BASE_OK) {
        const bool is_local = mixtral || json_object_get(config, local) != NULL;
        status = read_integer(config, is_local ? local : "num_experts", 0, &model->experts, reterr);
    }
    return status == BASE_OK
               ? read_integer(config, "num_experts_per_tok", 0, &model->chosen, reterr)
               : status;
}

/* What a Llama's shape has beside the common numbers. `model->heads` is not 0. */
static base_status read_llama(const json_t *config, const char *type, launch_model *model,
                              base_error *reterr)
{
    static const char *const off[] = {"attention_bias", "mlp_bias", "use_sliding_window"};
    for (size_t i = 0; i < sizeof off / sizeof *off; i++) {
        if (json_is_true(json_object_get(config, off[i]))) {
            return base_fail(reterr, BASE_ERR_UNSUPPORTED, "%s must be false", off[i]);
        }
    }
    const bool mixtral = strcmp(type, "mixtral") == 0;
    const bool sparse_qwen3 = strcmp(type, "qwen3_moe") == 0;
    const bool qwen3 = strcmp(type, "qwen3") == 0;
    base_status status =
        read_integer(config, sparse_qwen3 ? "moe_intermediate_size" : "intermediate_size", 0,
                     &model->hidden, reterr);
    if (status == BASE_OK && (mixtral || sparse_qwen3)) {
        status = read_experts(config, mixtral, model, reterr);
    }
    model->gated = true;
    model->rms = true;
    model->biased = strcmp(type, "qwen2") == 0;
    model->head_norms = qwen3 || sparse_qwen3;
    model->rotated = true;
    const json_t *tied = json_object_get(config, "tie_word_embeddings");
    model->tied = tied != NULL ? json_is_true(tied) : strcmp(type, "smollm3") == 0;
    if (model->context > LAUNCH_MODEL_CONTEXT) {
        model->context = LAUNCH_MODEL_CONTEXT;
    }
    if (status == BASE_OK) {
        status =
            read_integer(config, "num_key_value_heads", model->heads, &model->kv_heads, reterr);
    }
    const int64_t head_width = qwen3 ? QWEN3_HEAD_WIDTH : model->width / model->heads;
    return status == BASE_OK
               ? read_integer(config, "head_dim", head_width, &model->head_width, reterr)
               : status;
}

/* Of layer_types, or by a number, as rank/model/gemma3/config_json.c has it. */
static base_status read_full_every(const json_t *config, launch_model *model, base_error *reterr)
{
    const json_t *types = json_object_get(config, "layer_types");
    const char *key = json_object_get(config, "sliding_window_pattern") != NULL
                          ? "sliding_window_pattern"
                          : "_sliding_window_pattern";
    if (!json_is_array(types)) {
        return read_integer(config, key, GEMMA3_PATTERN, &model->full_every, reterr);
    }
    model->full_every = 0;
    for (size_t i = json_array_size(types); i-- > 0;) {
        const char *type = json_string_value(json_array_get(types, i));
        if (type != NULL && strcmp(type, "full_attention") == 0) {
            model->full_every = (int64_t)i + 1;
        }
    }
    return BASE_OK;
}

/* The same of a Gemma 3. */
static base_status read_gemma3(const json_t *config, launch_model *model, base_error *reterr)
{
    model->gated = true;
    model->rms = true;
    model->head_norms = true;
    model->after_norms = true;
    model->rotated = true;
    model->tied = true;
    if (model->context > LAUNCH_MODEL_CONTEXT) {
        model->context = LAUNCH_MODEL_CONTEXT;
    }
    base_status status = read_integer(config, "intermediate_size", 0, &model->hidden, reterr);
    if (status == BASE_OK) {
        status =
            read_integer(config, "num_key_value_heads", GEMMA3_KV_HEADS, &model->kv_heads, reterr);
    }
    if (status == BASE_OK) {
        status = read_integer(config, "head_dim", GEMMA3_HEAD_WIDTH, &model->head_width, reterr);
    }
    if (status == BASE_OK) {
        status = read_integer(config, "sliding_window", GEMMA3_WINDOW, &model->window, reterr);
    }
    return status == BASE_OK ? read_full_every(config, model, reterr) : status;
}

/* What the common numbers do not say. */
static base_status read_family(const json_t *config, launch_model *model, base_error *reterr)
{
    const char *type = json_string_value(json_object_get(config, "model_type"));
    if (model->heads < 1) {
        return base_fail(reterr, BASE_ERR_INVALID, "%" JSON_INTEGER_FORMAT " heads",
                         (json_int_t)model->heads);
    }
    if (type == NULL) {
        return base_fail(reterr, BASE_ERR_INVALID, "model_type is missing or no string");
    }
    if (strcmp(type, "gpt2") == 0) {
        *model = launch_model_gpt2(model->layers, model->width, model->heads, model->vocab_size,
                                   model->context);
        return BASE_OK;
    }
    if (strcmp(type, "gemma3_text") == 0) {
        return read_gemma3(config, model, reterr);
    }
    static const char *const llamas[] = {"llama",   "mistral",   "qwen2",   "qwen3",
                                         "mixtral", "qwen3_moe", "smollm3", "phi3"};
    for (size_t i = 0; i < sizeof llamas / sizeof *llamas; i++) {
        if (strcmp(type, llamas[i]) == 0) {
            return read_llama(config, type, model, reterr);
        }
    }
    return base_fail(reterr, BASE_ERR_UNSUPPORTED,
                     "the family is %s, and plans are made of gpt2, llama, mistral, qwen2, qwen3, "
                     "mixtral, qwen3_moe, smollm3, phi3 and gemma3_text",
                     type);
}

base_status launch_plan_checkpoint(const char *directory, launch_model *model, base_error *reterr)
{
    proto_job_model shape = {.layers = 0};
    json_t *config = NULL;
    (void)snprintf(shape.checkpoint, sizeof shape.checkpoint, "%s", directory);
    base_status status = launch_checkpoint_shape(&shape, reterr);
    if (status == BASE_OK) {
        status = launch_checkpoint_config(directory, &config, reterr);
    }
    if (status == BASE_OK) {
        *model = (launch_model){.layers = shape.layers,
                                .width = shape.width,
                                .heads = shape.heads,
                                .vocab_size = shape.vocab_size,
                                .context = shape.context,
                                .context_max = shape.context};
        status = read_family(config, model, reterr);
        status = status == BASE_OK ? BASE_OK
                                   : base_error_prepend(reterr, status,
                                                        "--checkpoint: %s/config.json", directory);
    }
    json_decref(config);
    return status;
}
