/* Reads a checkpoint's shape for a plan; rank/model/<family>/config_json.c reads the same keys. Called
 * by plan_options.c. */
#include "cli/plan_checkpoint.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "cli/complete.h"

/* An integer that is `otherwise` if it is missing or null. */
static base_status read_optional(const json_t *config, const char *key, int64_t otherwise,
                                 int64_t *value, base_error *reterr)
{
    const json_t *entry = json_object_get(config, key);
    *value = json_is_integer(entry) ? json_integer_value(entry) : otherwise;
    return entry == NULL || json_is_null(entry) || json_is_integer(entry)
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_INVALID, "\"%s\" is no integer", key);
}

/* What a Llama's shape has beside the common numbers. `model->heads` is not 0. `biased`: it is a
 * Qwen2. */
static base_status read_llama(const json_t *config, bool biased, launch_model *model,
                              base_error *reterr)
{
    static const char *const off[] = {"attention_bias", "mlp_bias", "use_sliding_window"};
    for (size_t i = 0; i < sizeof off / sizeof *off; i++) {
        if (json_is_true(json_object_get(config, off[i]))) {
            return base_fail(reterr, BASE_ERR_UNSUPPORTED, "%s must be false", off[i]);
        }
    }
    if (!json_is_integer(json_object_get(config, "intermediate_size"))) {
        return base_fail(reterr, BASE_ERR_INVALID,
                         "\"intermediate_size\" is not there, or no number");
    }
    model->hidden = json_integer_value(json_object_get(config, "intermediate_size"));
    model->gated = true;
    model->rms = true;
    model->biased = biased;
    model->rotated = true;
    model->tied = json_is_true(json_object_get(config, "tie_word_embeddings"));
    if (model->context > LAUNCH_MODEL_CONTEXT) {
        model->context = LAUNCH_MODEL_CONTEXT;
    }
    const base_status status =
        read_optional(config, "num_key_value_heads", model->heads, &model->kv_heads, reterr);
    return status == BASE_OK ? read_optional(config, "head_dim", model->width / model->heads,
                                             &model->head_width, reterr)
                             : status;
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
    const bool biased = strcmp(type, "qwen2") == 0;
    return biased || strcmp(type, "llama") == 0 || strcmp(type, "mistral") == 0
               ? read_llama(config, biased, model, reterr)
               : base_fail(reterr, BASE_ERR_UNSUPPORTED,
                           "the family is %s, and plans are made of gpt2, llama, mistral and qwen2",
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
