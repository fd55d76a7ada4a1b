/* Reads and writes adapters in the form of Hugging Face's PEFT: adapter_config.json and
 * adapter_model.safetensors. Called by train/ and generate/. */
#include <float.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/path.h"
#include "checkpoint/hf_json.h"
#include "model/family.h"
#include "rank/adapters.h"
#include "rank/checkpoint.h"

static const char CONFIG[] = "adapter_config.json";
static const char WEIGHTS[] = "adapter_model.safetensors";

/* ---- writing ---- */

static json_t *target_list(const rank_model_config *model)
{
    char names[RANK_ADAPTERS_NAMES_BYTES];
    json_t *list = json_array();
    rank_adapters_names(model, names);
    for (char *rest = names, *name; (name = strtok_r(rest, ",", &rest)) != NULL;) {
        (void)json_array_append_new(list, json_string(name));
    }
    return list;
}

/* PEFT's name for matrices that stand as (in, out): GPT-2's. */
static bool stands_turned(const rank_model_config *model)
{
    bool turned = false;
    for (int i = 0; i < rank_model_tensor_count(model); i++) {
        rank_tensor tensor;
        rank_model_tensor(model, i, &tensor);
        turned = turned || tensor.pack == RANK_TENSOR_PACKED;
    }
    return turned;
}

static json_t *describe(const rank_adapter_about *about)
{
    const rank_model_config *model = about->checkpoint.config;
    const bool whole = about->alpha == floor(about->alpha);
    return json_pack("{s:s, s:s, s:s?, s:i, s:o, s:o, s:f, s:s, s:b, s:b, s:b, s:b}", "peft_type",
                     "LORA", "task_type", "CAUSAL_LM", "base_model_name_or_path",
                     about->checkpoint.source, "r", model->adapters.rank, "lora_alpha",
                     whole ? json_integer((json_int_t)about->alpha) : json_real(about->alpha),
                     "target_modules", target_list(model), "lora_dropout", 0.0, "bias", "none",
                     "fan_in_fan_out", (int)stands_turned(model), "init_lora_weights", 1,
                     "inference_mode", 1, "use_rslora", 0);
}

base_status rank_adapter_write(const char *directory, const rank_adapter_about *about,
                               const float *adapters, base_error *reterr)
{
    const rank_model_config config = rank_adapters_config(about->checkpoint.config);
    char path[BASE_PATH_BYTES];
    base_status status = rank_hf_json_write(directory, CONFIG, describe(about), reterr);
    if (status == BASE_OK) {
        status = rank_checkpoint_write_generation(directory, &about->checkpoint, reterr);
    }
    if (status == BASE_OK) {
        status = base_path_join(directory, WEIGHTS, path, reterr);
    }
    return status == BASE_OK
               ? rank_safetensors_write(path, &config, adapters, config.family->file_prefix,
                                        RANK_FLOAT32, reterr)
               : status;
}

/* ---- reading ---- */

/* What a value must be, if it is there: false, null, empty, or this text. */
static base_status check_absent(const json_t *object, const char *key, const char *allowed,
                                base_error *reterr)
{
    const json_t *value = json_object_get(object, key);
    const bool nothing = value == NULL || json_is_null(value) || json_is_false(value) ||
                         (json_is_object(value) && json_object_size(value) == 0) ||
                         (json_is_array(value) && json_array_size(value) == 0);
    const char *text = json_string_value(value);
    return nothing || (allowed != NULL && text != NULL && strcmp(text, allowed) == 0)
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_UNSUPPORTED, "%s is not supported", key);
}

/* How A and B began. Other ways ("pissa", "olora", "loftq") have changed the model's own weights, too: the adapters
 * do not go with the model as its directory has it. */
static base_status check_beginning(const json_t *object, base_error *reterr)
{
    static const char *const kept[] = {"gaussian", "eva", "orthogonal"};
    const char *name = json_string_value(json_object_get(object, "init_lora_weights"));
    bool known = name == NULL; /* true or false */
    for (size_t i = 0; !known && i < sizeof kept / sizeof *kept; i++) {
        known = strcasecmp(name, kept[i]) == 0;
    }
    return known
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_UNSUPPORTED,
                           "init_lora_weights \"%s\" is not supported: it changes the model", name);
}

/* Adapters that are not of a plain sum of products. */
static base_status check_kind(const json_t *object, base_error *reterr)
{
    static const struct {
        const char *key;
        const char *allowed;
    } absent[] = {
        {"bias", "none"},
        {"use_dora", NULL},
        {"lora_bias", NULL},
        {"rank_pattern", NULL},
        {"alpha_pattern", NULL},
        {"modules_to_save", NULL},
        {"layer_replication", NULL},
        {"target_parameters", NULL},
        {"trainable_token_indices", NULL},
        {"alora_invocation_tokens", NULL},
        {"arrow_config", NULL},
        {"kasa_config", NULL},
        {"monteclora_config", NULL},
        {"use_bdlora", NULL},
        {"use_qalora", NULL},
    };
    const char *type = json_string_value(json_object_get(object, "peft_type"));
    base_status status =
        type != NULL && strcmp(type, "LORA") == 0
            ? BASE_OK
            : base_fail(reterr, BASE_ERR_UNSUPPORTED, "peft_type must be \"LORA\"");
    for (size_t i = 0; status == BASE_OK && i < sizeof absent / sizeof *absent; i++) {
        status = check_absent(object, absent[i].key, absent[i].allowed, reterr);
    }
    return status == BASE_OK ? check_beginning(object, reterr) : status;
}

/* A list of all layers is taken: their tensors show whether it is one. */
static base_status check_layers(const json_t *object, int layers, base_error *reterr)
{
    static const char key[] = "layers_to_transform";
    const json_t *value = json_object_get(object, key);
    const size_t count = json_is_array(value) ? json_array_size(value) : 1;
    return value == NULL || json_is_null(value) || count >= (size_t)layers
               ? BASE_OK
               : base_fail(reterr, BASE_ERR_UNSUPPORTED,
                           "%s is not supported: adapters must be of all %d layers", key, layers);
}

static base_status read_numbers(const json_t *object, rank_adapters *adapters, base_error *reterr)
{
    const json_t *rank = json_object_get(object, "r");
    const json_t *alpha = json_object_get(object, "lora_alpha");
    const json_int_t r = json_integer_value(rank);
    if (!json_is_integer(rank) || r < 1 || r > RANK_ADAPTERS_RANK_MAX) {
        return base_fail(reterr, BASE_ERR_INVALID, "r must be 1 to %d", RANK_ADAPTERS_RANK_MAX);
    }
    const bool root = json_is_true(json_object_get(object, "use_rslora"));
    const double scale = json_number_value(alpha) / (root ? sqrt((double)r) : (double)r);
    if (!json_is_number(alpha) || fabs(scale) > (double)FLT_MAX) {
        return base_fail(reterr, BASE_ERR_INVALID, "lora_alpha must be a number of float32");
    }
    adapters->rank = (int)r;
    adapters->scale = (float)scale;
    return BASE_OK;
}

/* The part of a name that is the same in all layers: "mlp.up_proj" of "model.layers.0.mlp.up_proj", which PEFT
 * writes for all-linear. Whether all layers are there, their tensors say. */
static const char *without_layer(const char *name)
{
    const char *rest = name;
    for (const char *dot = strchr(name, '.'); dot != NULL; dot = strchr(dot + 1, '.')) {
        const size_t digits = strspn(dot + 1, "0123456789");
        rest = digits > 0 && dot[1 + digits] == '.' ? dot + digits + 2 : rest;
    }
    return rest;
}

static base_status read_targets(const json_t *object, rank_model_config *model, base_error *reterr)
{
    const json_t *list = json_object_get(object, "target_modules");
    const json_t *value = NULL;
    uint32_t all = 0;
    size_t i = 0;
    if (!json_is_array(list) || json_array_size(list) == 0) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED, "target_modules must be a list of names");
    }
    json_array_foreach(list, i, value)
    {
        const char *name = json_string_value(value);
        uint32_t found = 0;
        if (name == NULL || without_layer(name)[0] == '\0') {
            return base_fail(reterr, BASE_ERR_INVALID, "target_modules: a name is none");
        }
        const base_status status = rank_adapters_choose(model, without_layer(name), &found, reterr);
        if (status != BASE_OK) {
            return base_error_prepend(reterr, status, "target_modules");
        }
        all |= found;
    }
    model->adapters.targets = all;
    return BASE_OK;
}

base_status rank_adapter_config(const char *directory, rank_model_config *model, base_error *reterr)
{
    json_t *object = NULL;
    rank_model_config read = *model;
    read.adapters = (rank_adapters){.rank = 0};
    base_status status = rank_hf_json_read(directory, CONFIG, &object, reterr);
    if (status != BASE_OK) {
        return status;
    }
    status = check_kind(object, reterr);
    if (status == BASE_OK) {
        status = check_layers(object, model->layers, reterr);
    }
    if (status == BASE_OK) {
        status = read_numbers(object, &read.adapters, reterr);
    }
    if (status == BASE_OK) {
        status = read_targets(object, &read, reterr);
    }
    json_decref(object);
    if (status != BASE_OK) {
        return base_error_prepend(reterr, status, "%s/%s", directory, CONFIG);
    }
    *model = read;
    return BASE_OK;
}

base_status rank_adapter_load(const char *directory, rank_model_config *model, float **adapters,
                              base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    *adapters = NULL;
    base_status status = rank_adapter_config(directory, model, reterr);
    if (status == BASE_OK) {
        status = base_path_join(directory, WEIGHTS, path, reterr);
    }
    if (status != BASE_OK) {
        return status;
    }
    const rank_model_config config = rank_adapters_config(model);
    const size_t count = rank_model_param_count(&config);
    float *made = malloc(count * sizeof *made);
    status = made != NULL
                 ? rank_safetensors_read(path, &config, made, reterr)
                 : base_fail(reterr, BASE_ERR_MEMORY, "no memory for %zu parameters", count);
    if (status != BASE_OK) {
        free(made);
        return status;
    }
    *adapters = made;
    return BASE_OK;
}
