/* Reads the shape of a checkpoint's model. Called by complete.c, and by plan_checkpoint.c for plans. */
#include "cli/checkpoint_shape.h"

#include <jansson.h>
#include <string.h>

#include "base/json_file.h"
#include "base/path.h"

enum { CONFIG_BYTES_MAX = 1 << 20 };

base_status launch_checkpoint_config(const char *checkpoint, json_t **config, base_error *reterr)
{
    char path[BASE_PATH_BYTES];
    const base_status status = base_path_join(checkpoint, "config.json", path, reterr);
    return status == BASE_OK ? base_json_read(path, CONFIG_BYTES_MAX, config, reterr) : status;
}

/* Whether a text may be longer than the window: its switch must be off, or some layers alone have it. */
static bool goes_beyond_window(const char *type)
{
    return type != NULL && (strncmp(type, "qwen", 4) == 0 || strcmp(type, "smollm3") == 0 ||
                            strcmp(type, "gemma3_text") == 0);
}

/* What is said of a number that is not there. Models of images and text have those of their text further down. */
static base_status refuse_shape(const json_t *json, const char *directory, const char *key,
                                base_error *reterr)
{
    const char *type = json_string_value(json_object_get(json, "model_type"));
    if (type != NULL && json_is_object(json_object_get(json, "text_config"))) {
        return base_fail(reterr, BASE_ERR_UNSUPPORTED,
                         "%s/config.json: model_type \"%.64s\" is of text and more (text_config), "
                         "and only models of text alone are known",
                         directory, type);
    }
    return base_fail(reterr, BASE_ERR_INVALID, "%s/config.json: \"%s\" is not there, or no number",
                     directory, key);
}

base_status launch_checkpoint_shape(proto_job_model *model, base_error *reterr)
{
    /* GPT-2's names, and those of nearly all later families. */
    static const char *const names[][5] = {
        {"vocab_size", "n_embd", "n_layer", "n_head", "n_positions"},
        {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads",
         "max_position_embeddings"},
    };
    int64_t *const values[] = {&model->vocab_size, &model->width, &model->layers, &model->heads,
                               &model->context};
    json_t *json = NULL;
    base_status status = launch_checkpoint_config(model->checkpoint, &json, reterr);
    const char *const *keys = names[json_object_get(json, "hidden_size") != NULL];
    for (size_t i = 0; i < sizeof values / sizeof *values && status == BASE_OK; i++) {
        const json_t *value = json_object_get(json, keys[i]);
        if (json_is_integer(value)) {
            *values[i] = json_integer_value(value);
        } else {
            status = refuse_shape(json, model->checkpoint, keys[i], reterr);
        }
    }
    const json_t *window = json_object_get(json, "sliding_window");
    const char *type = json_string_value(json_object_get(json, "model_type"));
    if (json_is_integer(window) && json_integer_value(window) > 0 &&
        json_integer_value(window) < model->context && !goes_beyond_window(type)) {
        model->context = json_integer_value(window); /* a longer text would need the window */
    }
    json_decref(json);
    return status;
}
